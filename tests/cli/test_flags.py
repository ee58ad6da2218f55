"""Flags that would be ignored are refused; output that cannot be written is one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from rayrag.cli.main import main


@pytest.mark.parametrize(
    "flags",
    [
        ("--embedder", "hashing", "--model", "x"),
        ("--embedder", "hashing", "--precision", "bf16"),
        ("--embedder", "hashing", "--allow-download"),
        ("--dimension", "128"),
    ],
)
def test_a_flag_without_meaning_for_the_embedder_is_refused(
    flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build-index", "--store", str(tmp_path), *flags]) == 2
    assert "has no meaning for the embedder" in capsys.readouterr().err


def test_no_room_for_the_output_is_said_in_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "rayrag", "config", "show"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "rayrag: cannot write the output: No space left on device\n"
