import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.corpus import packs
from rayrag.corpus.ingest import ingest
from rayrag.corpus.records import RECORDS, document_digests, document_fingerprint
from rayrag.corpus.registry import Registry, manifest_path, newest_version, read_sources, text_of
from rayrag.digests import sortable
from rayrag.errors import InputError, IntegrityError
from rayrag.fingerprint import canonical_json, combine_groups, digest_by_group, fingerprint, sha256_hex
from rayrag.schema.documents import CorpusSettings, DocumentRecord, DocumentsManifest, record_digest
from rayrag.storage import Storage

Tree = Callable[[dict[str, bytes | str]], Path]


@pytest.fixture
def filled(tree: Tree, storage: Storage) -> Storage:
    """Two versions: two documents, then a third."""
    root = tree({"one/a.md": "A", "one/b.md": "BB", "two/c.md": "CCC"})
    ingest(storage, [str(root / "one")])
    ingest(storage, [str(root / "two")])
    return storage


def check_all(storage: Storage) -> None:
    registry = Registry.load(storage)
    assert len(list(read_sources(storage, registry.table))) == len(registry.table)


def test_a_store_without_documents(storage: Storage) -> None:
    registry = Registry.load(storage)
    assert (registry.version, len(registry.table), registry.table.schema) == (0, 0, RECORDS)
    assert registry.manifest.document_count == registry.manifest.total_bytes == 0
    assert registry.manifest.document_fingerprint == combine_groups({})
    assert registry.record_digests == []
    assert list(read_sources(storage, registry.table)) == []
    with pytest.raises(InputError, match="is not registered in version 0"):
        registry.record("doc-" + "0" * 64)


def test_versions_stay(filled: Storage) -> None:
    assert newest_version(filled) == 2
    assert Registry.load(filled, 1).table["logical_name"].to_pylist() == [
        name for _, name in sorted([(sha256_hex(b"A"), "a.md"), (sha256_hex(b"BB"), "b.md")])
    ]
    newest = Registry.load(filled)
    assert newest.table["document_id"].to_pylist() == sorted(f"doc-{sha256_hex(b)}" for b in (b"A", b"BB", b"CCC"))
    assert newest.record_digests == [newest.record(each).digest() for each in newest.table["document_id"].to_pylist()]
    assert newest.manifest.total_bytes == 6


def test_a_version_folder_without_a_manifest_is_no_version(filled: Storage) -> None:
    (Path(filled.root) / "registry/versions/00000003").mkdir()
    (Path(filled.root) / "registry/versions/notes").mkdir()
    assert newest_version(filled) == 2


@pytest.mark.parametrize(
    "document_id",
    [
        "",
        "a.md",
        "../a.md",
        "doc-",
        "doc-" + "A" * 64,
        "doc-" + "0" * 63,
        "doc-" + "0" * 64 + "\n",
        "chunk-" + "0" * 64,
    ],
)
def test_what_is_no_document_id(filled: Storage, document_id: str) -> None:
    with pytest.raises(InputError, match="is not a document id"):
        Registry.load(filled).record(document_id)


def test_an_unknown_document(filled: Storage) -> None:
    for digit in "0f":
        with pytest.raises(InputError, match="is not registered in version 2"):
            Registry.load(filled).record("doc-" + digit * 64)


def test_the_text_of_a_document() -> None:
    assert text_of(b"\xef\xbb\xbf\xef\xbb\xbfa") == "\ufeffa"
    with pytest.raises(IntegrityError, match="not UTF-8 at byte 1"):
        text_of(b"a\xff")


# --- damage


def stored(storage: Storage, kind: str) -> Path:
    """A file that the newest version needs."""
    root = Path(storage.root)
    match kind:
        case "manifest":
            return root / manifest_path(2)
        case "records":
            return root / Registry.load(storage).manifest.partitions[0].path
        case _:
            return min((root / "registry/packs").iterdir())


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(b"{}" * 50),
    "missing": lambda path: path.unlink(),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("kind", ["manifest", "records", "pack"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_named(filled: Storage, kind: str, damage: str) -> None:
    path = stored(filled, kind)
    DAMAGES[damage](path)
    if kind == "manifest" and damage in ("missing", "folder"):
        assert newest_version(filled) == 1  # as after a crash before the commit
        with pytest.raises(IntegrityError, match=re.escape(str(path))):
            Registry.load(filled, 2)
        return
    with pytest.raises(IntegrityError, match=re.escape(str(path))) as caught:
        check_all(filled)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["manifest", "records", "pack"])
def test_no_flipped_bit_passes(filled: Storage, kind: str) -> None:
    path = stored(filled, kind)
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 200)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(IntegrityError, match=re.escape(str(path))):
            check_all(filled)
    path.write_bytes(whole)
    check_all(filled)


def rewrite(storage: Storage, **changes: object) -> None:
    """Put another manifest, with the right digest of its own, in the place of the newest."""
    manifest = Registry.load(storage).manifest
    Path(storage.where(manifest_path(2))).write_bytes(manifest.model_copy(update=changes).to_json())


def test_a_manifest_must_be_what_its_partitions_give(filled: Storage) -> None:
    registry = Registry.load(filled)
    one, two = registry.manifest.partitions
    for changes, problem in (
        ({"version": 1}, "says it is version 1"),
        ({"document_count": 4}, "document_count is not what"),
        ({"total_bytes": 7}, "total_bytes is not what"),
        ({"document_fingerprint": "0" * 64}, "document_fingerprint is not what"),
        ({"partitions": [two, one]}, "partitions is not what"),
        ({"partitions": [one, one]}, "two partitions hold the same document"),
        ({"partitions": [one]}, "document_count is not what"),
        ({"partitions": [one, two.model_copy(update={"document_count": 9})]}, "holds"),
        ({"partitions": [one, two.model_copy(update={"path": "../outside"})]}, "points outside the store"),
    ):
        rewrite(filled, **changes)
        with pytest.raises(IntegrityError, match=problem):
            Registry.load(filled)
        Path(filled.where(manifest_path(2))).write_bytes(registry.manifest.to_json())
    assert Registry.load(filled).manifest == registry.manifest


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda table: table.take([1, 0]), "not sorted by document id"),
        (lambda table: table.take([0, 0]), "not sorted by document id"),
        (lambda table: table.drop_columns(["size"]), r"other columns than expected \(document_id, size"),
        (lambda table: table.set_column(0, RECORDS.field(0), [["doc-1", "doc-2"]]), "has not 68 characters"),
        (lambda table: table.set_column(0, RECORDS.field(0), [["doc-" + c * 64 for c in "AB"]]), "64 hexadecimal"),
        (lambda table: table.set_column(0, RECORDS.field(0), [["dok-" + c * 64 for c in "ab"]]), "64 hexadecimal"),
        (lambda table: table.set_column(2, RECORDS.field(2), [["x", "y"]]), "do not have the digests stated"),
    ],
)  # fmt: skip
def test_records_that_rayrag_would_not_write(
    filled: Storage, change: Callable[[pa.Table], pa.Table], problem: str
) -> None:
    one = Registry.load(filled, 1)
    table = change(one.table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    partition = one.manifest.partitions[0].model_copy(update={"sha256": sha256_hex(data)})
    filled.put(partition.path, data)
    Path(filled.where(manifest_path(1))).write_bytes(
        one.manifest.model_copy(update={"partitions": [partition]}).to_json()
    )
    with pytest.raises(IntegrityError, match=problem):
        _ = Registry.load(filled, 1).record_digests


def test_a_record_that_does_not_match_its_digest(filled: Storage) -> None:
    registry = Registry.load(filled)
    names = pa.array(["other"] * 3)
    table = registry.table.set_column(2, RECORDS.field(2), names)
    forged = Registry(filled, registry.manifest, table, registry.digests)
    with pytest.raises(IntegrityError, match="has another digest"):
        forged.record(registry.table["document_id"][0].as_py())


# --- reading


def test_neighbours_are_one_read(tree: Tree, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"{number}.txt": f"text {number}" for number in range(40)}
    ingest(storage, [str(tree(texts))])
    calls: list[tuple[int, int]] = []
    read_range = Storage.read_range

    def counted(self: Storage, path: str, offset: int, length: int) -> bytes:
        calls.append((offset, length))
        return read_range(self, path, offset, length)

    monkeypatch.setattr(Storage, "read_range", counted)
    table = Registry.load(storage).table
    assert len(list(read_sources(storage, table))) == 40
    assert calls == [(0, sum(map(len, texts.values())))]
    calls.clear()
    monkeypatch.setattr(packs, "_GAP_BYTES", 0)
    list(read_sources(storage, table.take([0, 1, 5])))
    assert len(calls) == 2


@given(data=st.data(), window=st.integers(1, 60), gap=st.sampled_from([0, 5, 1000]), raw=st.booleans())
def test_any_rows_are_read_in_their_order(
    many: tuple[Storage, dict[str, bytes]], data: st.DataObject, window: int, gap: int, raw: bool
) -> None:
    storage, documents = many
    table = Registry.load(storage).table
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=12))
    chosen = table.take(pa.array(rows, pa.int64()))
    ids = chosen["document_id"].to_pylist()
    if raw:
        digests = pa.array([bytes.fromhex(each[4:]) for each in ids], pa.binary(32))
        chosen = chosen.set_column(0, "document_id", digests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "_WINDOW_BYTES", window)
        patch.setattr(packs, "_GAP_BYTES", gap)
        assert list(read_sources(storage, chosen)) == [(each, documents[each]) for each in ids]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Storage, dict[str, bytes]]:
    """Twelve documents in five packs of two ingests, and their bytes by id."""
    root = tmp_path_factory.mktemp("many")
    storage = Storage.open(root / "store")
    documents = {}
    for part in range(2):
        folder = root / str(part)
        folder.mkdir()
        for number in range(6):
            data = f"{part}/{number}".encode() * (number + 1)
            (folder / f"{number}.txt").write_bytes(data)
            documents[f"doc-{sha256_hex(data)}"] = data
        ingest(storage, [str(folder)], settings=CorpusSettings(pack_bytes=1600 - 500 * part))
    assert len(os.listdir(root / "store/registry/packs")) == 5
    return storage, documents


# --- digests

utf8 = st.text(st.characters(codec="utf-8"))


@given(
    name=utf8.filter(bool),
    size=st.integers(0, 1 << 40),
    metadata=st.dictionaries(utf8, st.none() | st.booleans() | st.integers() | utf8 | st.lists(utf8, max_size=2)),
)
def test_a_record_digest_is_the_fingerprint_of_its_fields(name: str, size: int, metadata: dict[str, object]) -> None:
    fields = {
        "schema_version": "1.0",
        "sha256": "ab" * 32,
        "size": size,
        "logical_name": name,
        "content_type": "text/markdown",
        "metadata": metadata,
    }
    digest = record_digest("ab" * 32, size, name, "text/markdown", canonical_json(metadata).decode())
    assert digest.hex() == fingerprint(fields)


@given(members=st.dictionaries(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), max_size=8))
def test_the_document_fingerprint_by_definition(members: dict[bytes, bytes]) -> None:
    # A few digests that share a group, and some with zero bytes at the end.
    members |= {b"\x12\x3f" + bytes(30): b"x" * 32, b"\x12\x30" + bytes(29) + b"\x01": b"y" * 32, bytes(32): b"z" * 32}
    digests = np.frombuffer(b"".join(members), np.uint8).reshape(-1, 32)
    values = np.frombuffer(b"".join(members.values()), np.uint8).reshape(-1, 32)
    expected = combine_groups(digest_by_group((f"doc-{key.hex()}", members[key]) for key in sorted(members)))
    assert document_fingerprint(digests, values) == expected
    assert [digests[at].tobytes() for at in np.argsort(sortable(digests))] == sorted(members)
    table = pa.table({"document_id": [f"doc-{key.hex()}" for key in members]})
    assert (document_digests(table, "here") == digests).all()


def test_a_manifest_reads_back(filled: Storage) -> None:
    data = filled.read(manifest_path(2))
    manifest = DocumentsManifest.from_json(data, "here")
    assert manifest.to_json() == data
    assert sorted(json.loads(data)) == [
        "document_count",
        "document_fingerprint",
        "manifest_sha256",
        "partitions",
        "schema_version",
        "total_bytes",
        "version",
    ]
    registry = Registry.load(filled)
    record = registry.record(registry.table["document_id"][0].as_py())
    assert DocumentRecord.from_json(record.to_json(), "here") == record
