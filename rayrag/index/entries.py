"""Entries in memory: documents, their chunks, vectors and term frequencies, sorted; and how sets of them merge."""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rayrag.digests import digests_of, group_digests, runs
from rayrag.errors import IntegrityError
from rayrag.index.postings import Postings
from rayrag.index.tables import CHUNKS, DIGEST, DOCUMENTS
from rayrag.schema.chunks import Chunk

UNFINISHED_CHUNKS = CHUNKS.remove(CHUNKS.get_field_index("entry_digest"))

Documents: TypeAlias = pa.Table
"""A table with the columns of `DOCUMENTS` that the registry decides: all but `chunk_count` and `chunks_digest`."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The entries of some documents, ordered by (document id, chunk index, chunk id).

    Row i of `chunks`, `vectors` (float32 [n, dimension]) and `postings` belong together; `documents` holds one row
    per document. All arrays may be memory-mapped and are not to be written to.
    """

    documents: pa.Table
    chunks: pa.Table
    vectors: NDArray[np.float32]
    postings: Postings

    @classmethod
    def assemble(
        cls, documents: Documents, chunks: pa.Table, vectors: NDArray[np.float32], postings: Postings
    ) -> "Entries":
        """The entries of documents sorted by id, from `chunk_table` of their chunks in entry order."""
        digests = pa.array(entry_digests(chunks["fingerprint"].to_pylist(), vectors, postings), DIGEST)
        table = pa.table([*chunks.columns, digests], schema=CHUNKS)
        return cls(_with_chunks(documents, table), table, vectors, postings)

    def with_counts(self, counts: Sequence[Mapping[str, int]]) -> "Entries":
        """The same chunks and vectors under another analyser, given each chunk's term frequencies."""
        postings = Postings.of_counts(counts)
        digests = entry_digests(self.chunks["fingerprint"].to_pylist(), self.vectors, postings)
        column = CHUNKS.get_field_index("entry_digest")
        chunks = self.chunks.set_column(column, CHUNKS.field(column), pa.array(digests, DIGEST))
        return replace(self, chunks=chunks, postings=postings)

    @property
    def entry_groups(self) -> dict[int, str]:
        """The group digests over the entry digests, in entry order."""
        return group_digests(digests_of(self.chunks["document_id"]), digests_of(self.chunks["entry_digest"]))


def chunk_table(chunks: Sequence[Chunk]) -> pa.Table:
    """Chunks as a table with the columns of `CHUNKS` that need no vector: all but the last."""
    columns = [
        pa.array([bytes.fromhex(chunk.document_id[4:]) for chunk in chunks], DIGEST),
        pa.array([chunk.index for chunk in chunks], pa.int32()),
        pa.array([bytes.fromhex(chunk.chunk_id[6:]) for chunk in chunks], DIGEST),
        pa.array([bytes.fromhex(chunk.fingerprint) for chunk in chunks], DIGEST),
        pa.array([chunk.start for chunk in chunks], pa.int64()),
        pa.array([chunk.end for chunk in chunks], pa.int64()),
        pa.array([chunk.text for chunk in chunks], pa.large_string()),
    ]
    return pa.table(columns, schema=UNFINISHED_CHUNKS)


def merge(documents: Documents, parts: Sequence[Entries], dimension: int) -> Entries:
    """The entries of exactly these documents (sorted by id, each whole in exactly one of the parts).

    Raises IntegrityError when a document has no chunk, a missing one or one twice.
    """
    ids = documents["document_id"].combine_chunks()
    positions = [
        pc.fill_null(pc.index_in(part.chunks["document_id"], value_set=ids), -1).to_numpy().astype(np.int64)
        for part in parts
    ]
    kept = [np.flatnonzero(position >= 0) for position in positions]
    position = np.concatenate([np.zeros(0, np.int64), *(p[k] for p, k in zip(positions, kept, strict=True))])
    index = np.concatenate(
        [
            np.zeros(0, np.int32),
            *(part.chunks["chunk_index"].to_numpy()[k] for part, k in zip(parts, kept, strict=True)),
        ]
    )
    order = np.lexsort((index, position))
    counts = np.bincount(position, minlength=len(ids))
    starts = np.cumsum(counts) - counts
    if (counts == 0).any() or (index[order] != np.arange(len(order)) - np.repeat(starts, counts)).any():
        raise IntegrityError(
            "the runs and shards to merge do not hold each chunk of each document exactly once; "
            "delete the folder index/runs of the store and build again"
        )
    row_of = np.empty(len(order), np.int64)
    row_of[order] = np.arange(len(order))
    vectors = np.empty((len(order), dimension), np.float32)
    moves: list[tuple[Postings, NDArray[np.int64]]] = []
    done = 0
    for part, rows in zip(parts, kept, strict=True):
        new_rows = np.full(len(part.chunks), -1, np.int64)
        new_rows[rows] = row_of[done : done + len(rows)]
        vectors[new_rows[rows]] = part.vectors[rows]
        moves.append((part.postings, new_rows))
        done += len(rows)
    tables = [part.chunks.take(pa.array(rows)) for part, rows in zip(parts, kept, strict=True)]
    chunks = pa.concat_tables([CHUNKS.empty_table(), *tables]).take(pa.array(order)).combine_chunks()
    return Entries(_with_chunks(documents, chunks), chunks, vectors, Postings.gather(moves, len(order)))


def entry_digests(fingerprints: Sequence[bytes], vectors: NDArray[np.float32], postings: Postings) -> list[bytes]:
    """For each entry SHA-256 over chunk fingerprint (32 bytes), vector (little-endian float32), and its terms.

    A term is its UTF-8 bytes, a zero byte and its frequency (little-endian uint32); terms ascend by code point.
    """
    terms = [term.encode() + b"\0" for term in postings.terms.to_pylist()]
    offsets, numbers, frequencies = postings.by_row()
    packed = [struct.pack("<I", frequency) for frequency in range(256)]
    little_endian = np.ascontiguousarray(vectors, dtype="<f4")
    digests = []
    for row, fingerprint in enumerate(fingerprints):
        start, end = offsets[row], offsets[row + 1]
        digest = hashlib.sha256(fingerprint)
        digest.update(little_endian[row])
        digest.update(
            b"".join(
                terms[number] + (packed[frequency] if frequency < 256 else struct.pack("<I", frequency))
                for number, frequency in zip(numbers[start:end].tolist(), frequencies[start:end].tolist(), strict=True)
            )
        )
        digests.append(digest.digest())
    return digests


def _with_chunks(documents: Documents, chunks: pa.Table) -> pa.Table:
    """The documents with the columns that their chunks decide."""
    position = pc.index_in(chunks["document_id"], value_set=documents["document_id"].combine_chunks()).to_numpy()
    digests = {
        number: hashlib.sha256(part.tobytes()).digest()
        for number, part in runs(position.astype(np.int64), digests_of(chunks["fingerprint"]))
    }
    counts = np.bincount(position, minlength=len(documents)).astype(np.int32)
    empty = hashlib.sha256().digest()
    columns = {name: documents[name] for name in DOCUMENTS.names[:6]} | {
        "chunk_count": pa.array(counts, pa.int32()),
        "chunks_digest": pa.array([digests.get(row, empty) for row in range(len(documents))], DIGEST),
    }
    return pa.table(columns).cast(DOCUMENTS)
