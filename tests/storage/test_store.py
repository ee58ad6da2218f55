"""`store.json`: what makes a folder a store."""

import json

import pytest

from rayrag.errors import InputError, IntegrityError
from rayrag.storage import MARKER, Storage, ensure_store, require_store


def test_an_empty_place_becomes_a_store_once(storage: Storage) -> None:
    with pytest.raises(InputError, match=r"no store at .*rayrag ingest"):
        require_store(storage)
    ensure_store(storage)
    marker = storage.read(MARKER)
    assert json.loads(marker) == {"kind": "rayrag-store", "schema_version": "1.0"}
    storage.put("documents/1", b"")
    ensure_store(storage)
    require_store(storage)
    assert storage.read(MARKER) == marker


def test_a_folder_of_something_else_is_refused_and_stays_as_it_is(storage: Storage) -> None:
    storage.put("thesis.tex", b"my work")
    for check in (ensure_store, require_store):
        with pytest.raises(InputError, match="not a rayrag store") as caught:
            check(storage)
        assert storage.root in str(caught.value)
    assert storage.list("") == ["thesis.tex"]


def test_a_file_is_refused(shared_storage: Storage) -> None:
    shared_storage.put("file", b"abc")
    inner = Storage.open(shared_storage.where("file"))
    for check in (ensure_store, require_store):
        with pytest.raises(InputError, match="not a rayrag store"):
            check(inner)
    assert shared_storage.read("file") == b"abc"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"kind":"other","schema_version":"1.0"}',
        b'{"kind":"rayrag-store","schema_version":"2.0"}',
        b'{"kind":"rayrag-store","schema_version":"1.0","more":1}',
    ],
)
def test_a_broken_marker_is_named(storage: Storage, content: bytes) -> None:
    storage.put(MARKER, content)
    for check in (ensure_store, require_store):
        with pytest.raises(IntegrityError) as caught:
            check(storage)
        assert str(caught.value).startswith(f"{storage.where(MARKER)}: ")
