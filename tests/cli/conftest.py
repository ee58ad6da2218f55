"""The command line in this process and as a process of its own, and a small store that tests copy."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rayrag.cli.main import main


class Ran(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Rayrag = Callable[..., Ran]
Snapshot = Callable[[Path], dict[str, str]]
Process = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings come from the test alone."""
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def rayrag(capsys: pytest.CaptureFixture[str]) -> Rayrag:
    """`rayrag(*words)` runs a command in this process."""

    def run(*words: object) -> Ran:
        capsys.readouterr()
        return Ran(main([str(word) for word in words]), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def process() -> Process:
    """`process(*words, environment={…}, **of_subprocess_run)` runs the installed `rayrag` as a process."""

    def run(*words: object, environment: Mapping[str, str] | None = None, **options: Any) -> Any:
        command = [Path(sys.executable).parent / "rayrag", *map(str, words)]
        options = {"capture_output": True, "encoding": "utf-8", "timeout": 60, "check": False} | options
        return subprocess.run(command, env={**os.environ, **(environment or {})}, **options)

    return run


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five documents: three files, two lines."""
    folder = tmp_path_factory.mktemp("documents")
    (folder / "guide").mkdir()
    (folder / "guide" / "shards.md").write_text(
        "# Shards\n\nA shard holds the entries of one range of documents.\n\nIts size does not change a result.\n"
    )
    (folder / "guide" / "größe.txt").write_text("Die Größe eines Index zählt in Bytes. 👩‍👩‍👧 漢字\n")
    (folder / "notes.rst").write_text("Notes\n=====\n\nAn entry is a chunk with its vector and its terms.\n")
    lines = [
        {"_id": "1", "title": "Tea", "text": "Boiling water, leaves, and patience.", "year": 1900},
        {"_id": "2", "text": "A citation names a document and a range of characters."},
    ]
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="session")
def origin(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the documents and their index of two shards."""
    store = tmp_path_factory.mktemp("origin") / "store"
    assert main(["ingest", str(documents), "--store", str(store)]) == 0
    words = ["--embedder", "hashing", "--dimension", "64", "--chunk-size", "60", "--overlap", "10", "--num-shards", "2"]
    assert main(["build-index", "--store", str(store), *words]) == 0
    return store


@pytest.fixture
def store(origin: Path, tmp_path: Path) -> Path:
    """A copy of the store, to do with as one likes."""
    return Path(shutil.copytree(origin, tmp_path / "store"))


@pytest.fixture(scope="session")
def snapshot() -> Snapshot:
    """Every path in a folder, itself included, with the SHA-256 of its content; empty where there is no folder."""

    def take(root: Path) -> dict[str, str]:
        paths = [root, *sorted(root.rglob("*"))] if root.exists() else []
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "/"
            for path in paths
            if not path.is_file() or path.stat().st_size < 1 << 30
        }

    return take
