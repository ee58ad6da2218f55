"""Entries, their merge, and shards on disk, on small documents with made-up vectors."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.chunking.windows import chunk_document
from rayrag.errors import IntegrityError
from rayrag.fingerprint import combine_groups, digest_by_group
from rayrag.index.analyzer import Analyzer
from rayrag.index.entries import Entries, chunk_table, merge
from rayrag.index.plan import PLANNED
from rayrag.index.postings import Postings
from rayrag.index.shard import FILES, read_manifest, read_shard, write_shard
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.sparse import AnalyzerConfiguration
from rayrag.storage import Storage

CHUNKING = ChunkConfiguration(chunk_size=12, overlap=3)
ANALYZER = Analyzer(AnalyzerConfiguration())
DIMENSION = 5


def documents_table(texts: Sequence[str]) -> pa.Table:
    ids = sorted(hashlib.sha256(text.encode()).digest() for text in texts)
    columns = [
        ids, [hashlib.sha256(b"record" + each).digest() for each in ids], [each.hex()[:8] for each in ids],
        ["text/plain"] * len(ids), [1] * len(ids), ["{}"] * len(ids), ["p"] * len(ids), [0] * len(ids),
    ]  # fmt: skip
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, PLANNED, strict=True)], schema=PLANNED
    )


def entries_of(texts: Sequence[str]) -> Entries:
    by_id = {"doc-" + hashlib.sha256(text.encode()).hexdigest(): text for text in texts}
    chunks = [chunk for name in sorted(by_id) for chunk in chunk_document(name, by_id[name], CHUNKING)]
    vectors = np.array(
        [np.frombuffer(hashlib.sha256(chunk.text.encode()).digest()[:DIMENSION], np.uint8) for chunk in chunks],
        np.float32,
    ).reshape(-1, DIMENSION)
    postings = Postings.of_counts([ANALYZER.counts(chunk.text) for chunk in chunks])
    return Entries.assemble(documents_table(texts), chunk_table(chunks), vectors, postings)


def content(entries: Entries) -> tuple[object, ...]:
    return entries.documents, entries.chunks, entries.vectors.tobytes(), entries.postings.to_table()


TEXTS = st.lists(
    st.text("ab cß\n漢", min_size=1, max_size=40).filter(lambda text: not text.isspace()),
    unique=True,
    min_size=1,
    max_size=8,
)


@given(TEXTS, st.data())
def test_merging_any_parts_gives_the_entries_of_the_whole(texts: list[str], data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(texts), max_size=len(texts)))
    parts = [
        entries_of([text for text, owner in zip(texts, owners, strict=True) if owner == number] or ["another document"])
        for number in data.draw(st.permutations(range(3)))
    ]
    merged = merge(documents_table(texts), parts, DIMENSION)
    assert content(merged) == content(entries_of(texts))


@given(TEXTS)
def test_group_digests_add_up_to_the_digest_of_the_ordered_entries(texts: list[str]) -> None:
    entries = entries_of(texts)
    pairs = zip(entries.chunks["document_id"].to_pylist(), entries.chunks["entry_digest"].to_pylist(), strict=True)
    expected = digest_by_group((f"doc-{each.hex()}", member) for each, member in pairs)
    assert combine_groups(entries.entry_groups) == combine_groups(expected)


def test_the_entry_digest_by_hand() -> None:
    entries = entries_of(["b a b"])
    (chunk,) = chunk_document("doc-" + hashlib.sha256(b"b a b").hexdigest(), "b a b", CHUNKING)
    vector = np.frombuffer(hashlib.sha256(b"b a b").digest()[:DIMENSION], np.uint8).astype("<f4")
    expected = bytes.fromhex(chunk.fingerprint) + vector.tobytes() + b"b\0\x02\0\0\0"  # "a" is a stop word
    assert entries.chunks["entry_digest"].to_pylist() == [hashlib.sha256(expected).digest()]


def test_a_document_that_no_part_or_two_parts_hold_is_an_error() -> None:
    for parts in ([entries_of(["one"])], [entries_of(["one"]), entries_of(["one", "two"])]):
        with pytest.raises(IntegrityError, match="exactly once"):
            merge(documents_table(["one", "two"]), parts, DIMENSION)


def test_a_shard_without_documents() -> None:
    empty = merge(documents_table([]), [], DIMENSION)
    assert empty.vectors.shape == (0, DIMENSION)
    assert (len(empty.documents), len(empty.chunks), empty.entry_groups) == (0, 0, {})


TWO = ["the first document, of a few words", "and another one\n\nin two paragraphs"]


def test_a_shard_is_read_back_as_it_was_written_and_written_alike_each_time(tmp_path: Path) -> None:
    for texts in (TWO, []):
        entries = entries_of(texts) if texts else merge(documents_table([]), [], DIMENSION)
        storage = Storage.open(tmp_path / str(len(texts)))
        manifest, digest = write_shard(storage, "a", entries)
        assert write_shard(storage, "b", entries_of(texts) if texts else entries) == (manifest, digest)
        assert read_manifest(storage, "a", sha256=digest) == manifest
        assert content(read_shard(storage, "a", manifest)) == content(entries)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "swap"])
def test_damage_is_an_integrity_error_that_names_the_file(tmp_path: Path, name: str, damage: str) -> None:
    storage = Storage.open(tmp_path)
    manifest, _ = write_shard(storage, "a", entries_of(TWO))
    write_shard(storage, "b", entries_of(TWO[:1]))
    path = tmp_path / "a" / name
    data = bytearray(path.read_bytes())
    match damage:
        case "flip":
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        case "truncate":
            path.write_bytes(data[:-1])
        case "remove":
            path.unlink()
        case "swap":
            path.write_bytes((tmp_path / "b" / name).read_bytes())
    with pytest.raises(IntegrityError, match=f"a/{name}"):
        read_shard(storage, "a", manifest)


def test_entries_out_of_order_are_refused_even_with_the_right_digests(tmp_path: Path) -> None:
    storage = Storage.open(tmp_path)
    entries = entries_of(TWO)
    order = list(range(len(entries.chunks)))[::-1]
    reversed_entries = Entries(entries.documents, entries.chunks.take(order), entries.vectors, entries.postings)
    manifest, _ = write_shard(storage, "a", reversed_entries)
    with pytest.raises(IntegrityError, match=r"a/chunks\.arrow.*order"):
        read_shard(storage, "a", manifest)
