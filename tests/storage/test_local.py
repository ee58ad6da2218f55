"""The local disk: its durability, its errors, file systems that lack something."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rayrag.errors import IntegrityError
from rayrag.storage import Storage


@pytest.fixture
def store(tmp_path: Path) -> Storage:
    return Storage.open(tmp_path / "store")


def files_under(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_opening_a_store_and_using_a_local_one_loads_neither_arrow_nor_obstore(tmp_path: Path) -> None:
    code = """
import sys
from rayrag.storage import Storage, ensure_store, require_store
storage = Storage.open(sys.argv[1])
ensure_store(storage)
require_store(storage)
storage.put("a", b"a")
print(sorted({"pyarrow", "numpy", "obstore", "ray", "yaml"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "s"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_file_and_its_folders_are_synced_before_it_is_visible(
    store: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content, then name, then the folder that holds the name; new folders outside in."""
    log: list[str] = []
    root = Path(store.root)
    sync, rename, link, mkdir = os.fsync, os.rename, os.link, os.mkdir

    def name(path: str) -> str:
        return re.sub(r"\.tmp-\w+", "TEMPORARY", os.path.relpath(path, root.parent))

    def logged_sync(descriptor: int) -> None:
        log.append(f"sync {name(os.readlink(f'/proc/self/fd/{descriptor}'))}")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", logged_sync)
    monkeypatch.setattr(os, "rename", lambda a, b: (log.append(f"rename {name(b)}"), rename(a, b)))
    monkeypatch.setattr(os, "link", lambda a, b: (log.append(f"link {name(b)}"), link(a, b)))
    monkeypatch.setattr(os, "mkdir", lambda a: (log.append(f"mkdir {name(a)}"), mkdir(a)))
    store.put("a/file", b"abc")
    assert log == [
        "mkdir store", "sync .", "mkdir store/a", "sync store",
        "sync store/a/TEMPORARY", "rename store/a/file", "sync store/a",
    ]  # fmt: skip
    log.clear()
    store.create("a/manifest", b"abc")
    assert log == ["sync store/a/TEMPORARY", "link store/a/manifest", "sync store/a"]
    assert files_under(root) == ["a/file", "a/manifest"]


@pytest.mark.parametrize("call", ["put", "create"])
@pytest.mark.parametrize(
    ("number", "mend"), [(errno.ENOSPC, "free some space"), (errno.EDQUOT, "quota"), (errno.EIO, "check the disk")]
)
def test_a_disk_that_fails_leaves_nothing_and_is_named(
    store: Storage, monkeypatch: pytest.MonkeyPatch, call: str, number: int, mend: str
) -> None:
    store.put("folder/old", b"old")

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(IntegrityError, match=mend) as caught:
        getattr(store, call)("folder/new", b"new")
    assert str(caught.value).startswith(f"{store.root}/folder/new: cannot ")
    assert os.strerror(number) in str(caught.value)
    assert files_under(Path(store.root)) == ["folder/old"]


def test_a_full_disk_inside_a_write(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the kernel refuse the bytes (EFBIG), as a full disk does."""
    code = """
import resource, signal, sys
from rayrag.errors import IntegrityError
from rayrag.storage import Storage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    with Storage.open(sys.argv[1]).writer("file") as writer:
        for _ in range(8):
            writer.write(bytes(1 << 18))
except IntegrityError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/file: cannot write: File too large")
    assert files_under(tmp_path) == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_without_hard_links_create_works_for_one_writer_and_warns(
    store: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    assert [store.create("v", data) for data in (b"1", b"2")] == [True, False]
    assert store.read("v") == b"1"
    assert "one writer at a time" in caplog.text
    assert files_under(Path(store.root)) == ["v"]


def test_a_link_that_succeeded_and_was_repeated_is_ours(store: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An NFS client that lost the answer asks again, and is told that the name is there."""
    link = os.link

    def twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert store.create("v", b"1") is True
    assert files_under(Path(store.root)) == ["v"]


def test_create_does_not_follow_a_dangling_link(store: Storage, tmp_path: Path) -> None:
    store.put("a", b"")
    (Path(store.root) / "v").symlink_to(tmp_path / "nowhere")
    assert store.create("v", b"1") is False
    assert not (tmp_path / "nowhere").exists()


def test_a_file_in_the_place_of_a_folder_is_named(store: Storage) -> None:
    store.put("a", b"")
    for call in (lambda: store.put("a/b", b""), lambda: store.create("a/b", b""), lambda: store.list("a")):
        with pytest.raises(IntegrityError, match="a part of that path is a file"):
            call()
    assert (store.kind("a/b"), store.exists("a/b")) == (None, False)
    store.delete("a/b")


def test_a_buffer_outlives_its_file(store: Storage) -> None:
    store.put("a", b"abc")
    buffer = store.buffer("a")
    store.delete("a")
    store.put("a", b"xyz")
    assert buffer.to_pybytes() == b"abc"
    assert buffer.is_mutable is False


def test_a_mode_that_others_can_read(store: Storage) -> None:
    """As an ordinary file under the caller's umask, so that a service may run as another user."""
    old = os.umask(0o022)
    try:
        store.put("put", b"")
        store.create("created", b"")
    finally:
        os.umask(old)
    assert [(Path(store.root) / name).stat().st_mode & 0o777 for name in ("put", "created")] == [0o644, 0o644]
