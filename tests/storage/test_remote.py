"""Object stores: one object per file, written whole; a service that does not answer; a plain file system."""

import os
from pathlib import Path
from typing import Any

import pytest

from rayrag.errors import InputError, IntegrityError
from rayrag.storage import Storage
from rayrag.storage.base import told


def _query() -> str:
    """How the service of the environment is spelled in a URI."""
    return f"endpoint_override={os.environ['AWS_ENDPOINT_URL'].removeprefix('http://')}&scheme=http&region=us-east-1"


def test_the_keys_are_the_paths_below_the_prefix(s3_root: str) -> None:
    from pyarrow import fs

    storage = Storage.open(s3_root)
    storage.put("a b/put", b"1")
    storage.create("a b/created", b"2")
    filesystem, base = fs.FileSystem.from_uri(f"{s3_root}?{_query()}")
    found = filesystem.get_file_info(fs.FileSelector(base, recursive=True))
    keys = sorted(each.path.removeprefix(base) for each in found if each.is_file)
    assert base.startswith("bucket/a prefix/store-")
    assert keys == ["/a b/created", "/a b/put"]


def test_the_endpoint_may_be_in_the_uri(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"{s3_root}?{_query()}"
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.delenv("AWS_REGION")
    storage = Storage.open(uri)
    assert storage.create("a", b"1") is True
    assert storage.create("a", b"2") is False
    storage.put("b", b"3")
    assert (storage.list(""), storage.read("a"), storage.read("b")) == (["a", "b"], b"1", b"3")
    assert storage.where("a") == f"{s3_root}/a?{uri.partition('?')[2]}"


def test_a_trailing_slash_changes_nothing(s3_root: str) -> None:
    assert Storage.open(f"{s3_root}//") == Storage.open(s3_root)


def test_a_bucket_that_is_not_there_is_named(s3_root: str) -> None:
    storage = Storage.open("s3://no-such-bucket/store")
    assert (storage.list(""), storage.kind("")) == ([], None)
    for call in (storage.create, storage.put):
        with pytest.raises(IntegrityError) as caught:
            call("a", b"")
        assert str(caught.value).startswith("s3://no-such-bucket/store/a: cannot ")
        assert "\n" not in str(caught.value)


def test_a_service_that_does_not_answer_is_named(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # the discard port; nobody listens
    with pytest.raises(IntegrityError, match="storage service") as caught:
        Storage.open("s3://bucket/store").create("a", b"")
    assert str(caught.value).startswith("s3://bucket/store/a: cannot create: ")
    assert "\n" not in str(caught.value)


def test_an_upload_that_breaks_off_leaves_nothing(s3_root: str) -> None:
    """The parts that were sent are not an object."""
    storage = Storage.open(s3_root)

    class Breaking:
        """A file whose disk fails after 12 MiB: beyond two parts."""

        def __init__(self) -> None:
            self.given = 0

        def read(self, size: int = -1) -> bytes:
            if self.given >= 12 << 20:
                raise OSError(5, "Input/output error")
            piece = bytes(min(size, 1 << 20) if size > 0 else 1 << 20)
            self.given += len(piece)
            return piece

        def seek(self, offset: int, whence: int = 0) -> int:
            return 24 << 20 if whence == 2 else 0

        def tell(self) -> int:
            return 0

    file: Any = Breaking()
    with pytest.raises(IntegrityError, match="cannot write"), told(storage.where("big"), "write"):
        storage._files.finish("big", file)
    assert storage.list("") == []


def test_a_plain_file_system_warns_that_it_is_for_one_writer(
    plain_storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    assert plain_storage.create("v", b"1") is True
    assert "one writer at a time" in caplog.text
    assert [path.name for path in Path(plain_storage.root).iterdir()] == ["v"]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "give a folder or a URI"),
        ("a\0b", "give a folder or a URI"),
        ("http://host/x", "not a folder or a URI that rayrag can open"),
        ("ftp://host/x", "not a folder or a URI"),
        ("s3://", "not a folder or a URI"),
        ("s3:/bucket", "not a folder or a URI"),
        ("S3://bucket", "not a folder or a URI"),
        ("s3://bucket/../other", "'..' is not allowed"),
        ("s3://bucket/a b", "Cannot parse URI"),
        ("file://host/x", "file:///absolute/path"),
        ("file:///x?y=1", "file:///absolute/path"),
    ],
)
def test_what_is_neither_a_folder_nor_a_uri_is_refused(uri: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Storage.open(uri)
    assert "\n" not in str(caught.value)


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(InputError, match="AWS_ACCESS_KEY_ID") as caught:
        Storage.open("s3://AKIA123:very-secret@bucket/x")
    assert "very-secret" not in str(caught.value)
    assert "AKIA123" not in str(caught.value)


@pytest.mark.parametrize("text", ["store", "./store", "~/store", "a:b/c", "c:/data", "12:30", "dir/s3:/x"])
def test_anything_else_is_a_local_path(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = Storage.open(text)
    storage.put("file", b"abc")
    assert (tmp_path / text / "file").read_bytes() == b"abc"
    assert storage.root == str(tmp_path / text.removeprefix("./"))
    assert storage.where("file") == f"{storage.root}/file"


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    storage = Storage.open(f"file://{tmp_path}/a%20b/")
    assert storage == Storage.open(tmp_path / "a b")
