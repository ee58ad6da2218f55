"""The search of one shard: the candidates of each leg with both exact scores, and the content of chosen rows."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rayrag.digests import digests_of, sortable
from rayrag.index.dense import DenseIndex, exact_scores
from rayrag.index.entries import Entries
from rayrag.index.sparse import OkapiScorer, WeightedTerm
from rayrag.ranking.order import top
from rayrag.schema.documents import Metadata


class LeafQuery(NamedTuple):
    """A query as a shard sees it: the legs to search, each by its own form of the query, and how deep.

    `vector` float32 [dimension] or None where the dense leg is not searched; `terms` ascending, or None likewise.
    """

    vector: NDArray[np.float32] | None
    terms: tuple[WeightedTerm, ...] | None
    depth: int


class Candidate(NamedTuple):
    """A chunk that a leg found. `dense` is its cosine and `bm25` its Okapi score, each where the query has that leg;
    `bm25` is None too where the chunk holds no term of the query. `row` is its row in the shard."""

    chunk_id: bytes
    row: int
    dense: float | None
    bm25: float | None
    by_dense: bool
    by_sparse: bool


class ChunkContent(NamedTuple):
    """What a result shows of a chunk."""

    document_id: str
    logical_name: str
    metadata: Metadata
    chunk_id: str
    chunk_index: int
    start: int
    end: int
    fingerprint: str
    text: str


class Leaf:
    """Searches one shard's entries; safe to share between threads."""

    def __init__(self, entries: Entries, *, average_length: float, k1: float, b: float) -> None:
        self._entries = entries
        self._ids = sortable(digests_of(entries.chunks["chunk_id"]))
        self._chunk_counts = np.cumsum(entries.documents["chunk_count"].to_numpy())
        self._scorer = OkapiScorer(entries.postings, average_length=average_length, k1=k1, b=b)
        self._dense: DenseIndex | None = None

    def search(self, query: LeafQuery) -> list[Candidate]:
        """The first `depth` of each leg that the query has, by ascending row; a chunk found by both comes once."""
        entries = self._entries
        dense_rows = sparse_rows = np.zeros(0, np.int64)
        scores, found = np.zeros(0), np.zeros(0, bool)
        if query.vector is not None and len(entries.chunks):
            if self._dense is None:
                self._dense = DenseIndex(entries.vectors, self._ids)
            dense_rows, _ = self._dense.search(query.vector, query.depth)
        if query.terms is not None:
            scores, found = self._scorer.scores(query.terms)
            rows = np.flatnonzero(found)
            sparse_rows = rows[top(scores[rows], self._ids[rows], query.depth)]
        rows = np.union1d(dense_rows, sparse_rows)
        cosine = None if query.vector is None else exact_scores(entries.vectors[rows], query.vector).tolist()
        by_dense, by_sparse = np.isin(rows, dense_rows).tolist(), np.isin(rows, sparse_rows).tolist()
        ids = entries.chunks["chunk_id"].take(rows).to_pylist()
        return [
            Candidate(
                chunk_id=ids[place],
                row=row,
                dense=None if cosine is None else cosine[place],
                bm25=float(scores[row]) if query.terms is not None and found[row] else None,
                by_dense=by_dense[place],
                by_sparse=by_sparse[place],
            )
            for place, row in enumerate(rows.tolist())
        ]

    def content(self, rows: Sequence[int]) -> list[ChunkContent]:
        """The content of the given rows, in the order given."""
        chunks = self._entries.chunks.take(list(rows)).to_pylist()
        documents = self._entries.documents.take(
            np.searchsorted(self._chunk_counts, list(rows), side="right")
        ).to_pylist()
        return [
            ChunkContent(
                document_id=f"doc-{chunk['document_id'].hex()}",
                logical_name=document["logical_name"],
                metadata=json.loads(document["metadata"]),
                chunk_id=f"chunk-{chunk['chunk_id'].hex()}",
                chunk_index=chunk["chunk_index"],
                start=chunk["start"],
                end=chunk["end"],
                fingerprint=chunk["fingerprint"].hex(),
                text=chunk["text"],
            )
            for chunk, document in zip(chunks, documents, strict=True)
        ]
