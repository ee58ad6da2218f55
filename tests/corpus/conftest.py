import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rayrag.storage import Storage

Tree = Callable[[dict[str, bytes | str]], Path]
Snapshot = Callable[[], dict[str, str]]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A store that does not exist yet."""
    return Storage.open(tmp_path / "store")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """`tree({path: content})` writes files into the folder `documents` and returns it."""

    def write(files: dict[str, bytes | str]) -> Path:
        root = tmp_path / "documents"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write


@pytest.fixture
def snapshot(storage: Storage) -> Snapshot:
    """Every name in the store and the SHA-256 of its content."""

    def take() -> dict[str, str]:
        return {
            str(path.relative_to(storage.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else "/"
            for path in sorted(Path(storage.root).rglob("*"))
        } | ({"": "/"} if Path(storage.root).exists() else {})

    return take
