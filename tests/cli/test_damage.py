"""Damage and failing storage: exit 3 and one line that names the file; never another answer."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rayrag = Callable[..., Any]


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "remove"])
def test_damage_to_any_file_is_named_and_never_changes_an_answer(
    rayrag: Rayrag, origin: Path, tmp_path: Path, damage: str
) -> None:
    question = ("retrieve", "shard of documents", "--json", "--store")
    # The store's own path is not part of an answer, so the one of the undamaged store is what all must give.
    expected = rayrag(*question, origin).out
    files = [path.relative_to(origin) for path in sorted(origin.rglob("*")) if path.is_file()]
    names = {path.name for path in files}
    assert {"store.json", "documents.json", "index.json", "shard.json", "chunks.arrow", "postings.arrow"} <= names
    refused = set()
    for file in files:
        store = Path(shutil.copytree(origin, tmp_path / "store"))
        data = bytearray((store / file).read_bytes())
        match damage:
            case "flip":
                data[len(data) // 3] ^= 1
                (store / file).write_bytes(data)
            case "truncate":
                (store / file).write_bytes(data[:-1])
            case "empty":
                (store / file).write_bytes(b"")
            case "remove":
                (store / file).unlink()
        verified, asked = rayrag("verify", "--store", store), rayrag(*question, store)
        for ran in (verified, asked):
            if ran is asked and ran.code == 0:
                assert ran.out == expected, file
                continue
            # Without its marker a folder is no store, which is for the user to say.
            assert ran.code == (2 if (file.name, damage) == ("store.json", "remove") else 3), file
            assert ran.err.startswith("rayrag: ")
            assert len(ran.err.splitlines()) == 1
            assert file.name in ran.err, file
            assert ran.out == ""
            if ran is asked:
                refused.add(file.name)
        shutil.rmtree(store)
    assert {"store.json", "index.json", "shard.json", "chunks.arrow", "postings.arrow"} <= refused


@pytest.mark.parametrize("command", ["inspect", "build-index", "show-document", "show-chunk"])
def test_other_commands_name_a_damaged_manifest(rayrag: Rayrag, store: Path, command: str) -> None:
    (path,) = store.glob("registry/versions/*/documents.json")
    path.write_bytes(path.read_bytes().replace(b'"total_bytes":', b'"total_bytes":1'))
    (chunk,) = rayrag("retrieve", "shard", "--top-k", 1, "--json", "--store", store).json["results"]
    words = {"show-document": [chunk["document_id"]], "show-chunk": [chunk["chunk_id"]]}.get(command, [])
    ran = rayrag(command, *words, "--store", store)
    assert (ran.code, ran.out) == (3, "")
    assert str(path) in ran.err


def test_a_damaged_pack_stops_a_build_and_the_old_index_stays(rayrag: Rayrag, store: Path) -> None:
    for pack in store.glob("registry/packs/*"):
        data = bytearray(pack.read_bytes())
        data[0] ^= 1
        pack.write_bytes(data)
    ran = rayrag("build-index", "--store", store, "--embedder", "hashing", "--overlap", 11)
    assert ran.code == 3
    assert "registry/packs/" in ran.err
    assert rayrag("inspect", "--store", store, "--json").json["index_version"] == 1
    assert rayrag("retrieve", "shard", "--store", store).code == 0


def test_a_store_below_a_file_cannot_be_made(rayrag: Rayrag, documents: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = rayrag("ingest", documents, "--store", tmp_path / "file" / "store")
    assert (ran.code, ran.out) == (3, "")
    assert len(ran.err.splitlines()) == 1
    assert "a part of that path is a file: choose another store" in ran.err


def test_a_missing_index_manifest_is_mended_by_a_build(rayrag: Rayrag, store: Path) -> None:
    (path,) = store.glob("index/versions/*/index.json")
    fingerprint = rayrag("inspect", "--store", store, "--json").json["index_fingerprint"]
    path.unlink()
    for command in ("inspect", "verify"):
        ran = rayrag(command, "--store", store)
        assert ran.code == 3
        assert f"{path}: the file is missing; restore it from a copy, or run `rayrag build-index" in ran.err
    words = ("--embedder", "hashing", "--dimension", "64", "--chunk-size", "60", "--overlap", "10")
    assert rayrag("build-index", "--store", store, *words, "--json").json["index_fingerprint"] == fingerprint
    assert rayrag("verify", "--store", store).code == 0
