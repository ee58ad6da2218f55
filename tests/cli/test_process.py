"""The command as a process: signals, pipes, locales, terminals, what it imports."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Process = Callable[..., subprocess.CompletedProcess[str]]
Rayrag = Callable[..., Any]

BIN = Path(sys.executable).parent
HEAVY = {
    "faiss",
    "numpy",
    "pyarrow",
    "pydantic",
    "ray",
    "rich",
    "sentence_transformers",
    "torch",
    "transformers",
    "yaml",
}


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom rayrag.cli.main import main\nmain(['--help'])\nprint(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Usage: rayrag")
    assert HEAVY & {name.partition(".")[0] for name in ran.stdout.splitlines()[-1].split()} == set()


def test_the_module_is_the_command(store: Path) -> None:
    command = [sys.executable, "-m", "rayrag"]
    ran = subprocess.run([*command, "inspect", "--store", store], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("store ")


def test_debug_adds_the_traceback_and_keeps_the_exit_code(process: Process, tmp_path: Path) -> None:
    ran = process("--debug", "inspect", "--store", tmp_path / "nowhere")
    assert ran.returncode == 2
    assert ran.stderr.startswith("Traceback (most recent call last)")
    assert ran.stderr.splitlines()[-1].startswith("rayrag: no store at ")


def test_text_of_any_script_survives_a_plain_locale(process: Process, store: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    ran = process("retrieve", "Größe", "--store", store, "--top-k", "1", environment=plain)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Die Größe eines Index zählt in Bytes. 👩‍👩‍👧 漢字" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert process("ingest", "größe", "--store", store, environment=plain).stderr.startswith("rayrag: größe: ")


def test_bytes_that_are_not_text_are_one_line(store: Path) -> None:
    for words in (["retrieve", b"caf\xe9", "--store", store], [b"caf\xe9"]):
        ran = subprocess.run([BIN / "rayrag", *words], capture_output=True, check=False)
        assert (ran.returncode, ran.stdout) == (2, b"")
        assert ran.stderr.startswith(b"rayrag: ")
        assert ran.stderr.count(b"\n") == 1
        ran.stderr.decode()


@pytest.mark.parametrize("words", [("retrieve", "shard", "--json"), ("inspect",)])
def test_a_reader_that_leaves_is_no_error(store: Path, words: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [BIN / "rayrag", *words, "--store", store], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_output_that_cannot_be_written_is_one_line(store: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [BIN / "rayrag", "inspect", "--store", store], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 3
    assert ran.stderr.startswith("rayrag: ")
    assert "No space left on device" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_closed_stdout_is_no_error(store: Path) -> None:
    ran = subprocess.run(
        ["sh", "-c", f"'{BIN}/rayrag' inspect --store '{store}' >&-"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def on_a_terminal(*words: object) -> tuple[int, str]:
    """Exit code and everything printed, when stdin, stdout and stderr are a terminal."""
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [BIN / "rayrag", *map(str, words)], stdin=terminal, stdout=terminal, stderr=terminal
    ) as running:
        os.close(terminal)
        printed = b""
        with contextlib.suppress(OSError):  # EIO: the other side has closed
            while data := os.read(controller, 65536):
                printed += data
        os.close(controller)
        return running.wait(60), printed.decode()


def test_a_terminal_gets_bars_and_styles(store: Path) -> None:
    build = ("build-index", "--store", store, "--embedder", "hashing", "--chunk-size", "50", "--overlap", "5")
    code, printed = on_a_terminal(*build)
    assert code == 0
    assert "\x1b[" in printed
    assert "fingerprint" in printed
    code, printed = on_a_terminal("retrieve", "shard", "--store", store, "--top-k", "1")
    assert code == 0
    assert re.search(r"\x1b\[1m1\. \S+\x1b\[0m", printed)


def test_an_interrupted_build_says_so_and_the_next_one_goes_on(
    rayrag: Rayrag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, store = tmp_path / "documents", tmp_path / "store"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:03}.txt").write_text(f"Document {number} has the number {number * number}.")
    build = ("build-index", "--embedder", "hashing", "--dimension", "16", "--store")
    rayrag("ingest", folder / "000.txt", "--store", store)
    old = rayrag(*build, store, "--json").json["index_fingerprint"]
    rayrag("ingest", folder, "--store", store)
    rayrag("ingest", folder, "--store", tmp_path / "whole")
    expected = rayrag(*build, tmp_path / "whole", "--json").json["index_fingerprint"]

    runs = store / "index" / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    with subprocess.Popen(
        [BIN / "rayrag", *build, store],
        env={**os.environ, "RAG_INDEX__UNIT_BYTES": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        while not runs.exists() or len(set(runs.iterdir()) - before) < 3:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(0.005)
                break
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err == "rayrag: interrupted; what was finished is kept, and the next run goes on from there\n"
    assert rayrag("retrieve", "document", "--json", "--store", store).json["index_fingerprint"] == old
    monkeypatch.setenv("RAG_INDEX__UNIT_BYTES", "1")
    assert rayrag(*build, store, "--json").json["index_fingerprint"] == expected
    assert rayrag("verify", "--store", store).code == 0


@pytest.mark.parametrize(
    ("words", "environment", "mend"),
    [
        (("submit", "build-index", "--address", "http://127.0.0.1:1"), {}, "`ray start --head`, or give its --address"),
        (("submit", "build-index"), {"RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1"}, "ray start --head"),
        (("build-index", "--executor", "ray"), {"RAY_ADDRESS": "127.0.0.1:1"}, "RAY_ADDRESS 127.0.0.1:1: start one"),
        (("ingest", ".", "--executor", "ray"), {"RAY_ADDRESS": "127.0.0.1:1"}, "`ray start --head`"),
    ],
)
def test_a_cluster_that_does_not_answer_is_said_soon(
    process: Process, store: Path, tmp_path: Path, words: tuple[str, ...], environment: dict[str, str], mend: str
) -> None:
    # A refused connection takes no time; the limit is there because Ray itself would try for minutes.
    # Without a token Ray asks for one before it connects.
    plain = {"RAY_AUTH_MODE": "disabled", "RAY_ADDRESS": "", "RAY_API_SERVER_ADDRESS": ""}
    ran = process(*words, "--store", store, environment=plain | environment, cwd=tmp_path, timeout=30)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("rayrag: no Ray ")
    assert ran.stderr.count("\n") == 1
    assert mend in ran.stderr
