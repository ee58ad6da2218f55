"""What a retrieval was asked for, and what it returned: the JSON of the command line, the job and the service."""

from typing import Literal

from pydantic import Field

from rayrag.schema.base import Record
from rayrag.schema.documents import Metadata

Mode = Literal["dense", "sparse", "hybrid"]


class RetrieverConfiguration(Record):
    """How a query is answered. `candidate_depth` is per leg and does not depend on `top_k`, so that the top k is a
    prefix of the top k'. `min_score` is an inclusive bound on the cosine score."""

    schema_version: Literal["1.0"] = "1.0"
    mode: Mode = "hybrid"
    top_k: int = Field(5, ge=1, le=100)
    min_score: float | None = Field(None, ge=-1, le=1)
    candidate_depth: int = Field(100, ge=100, le=2000)
    fusion: Literal["rrf"] = "rrf"
    rrf_k: int = Field(60, ge=1)
    dense_weight: float = Field(1.0, ge=0)
    sparse_weight: float = Field(1.0, ge=0)


class ContextSettings(Record):
    """How much text a context holds (estimated tokens), and what stands between two chunks."""

    max_tokens: int = Field(3000, ge=1)
    separator: str = "\n\n---\n\n"


class Scores(Record):
    """Each stage's score where that stage saw the chunk: cosine, Okapi BM25, fusion, cross-encoder."""

    dense: float | None
    bm25: float | None
    fusion: float | None
    rerank: float | None


class Result(Record):
    """One retrieved chunk, ranked from 1. `score` is the cosine score, null in sparse mode."""

    rank: int
    chunk_id: str
    document_id: str
    logical_name: str
    score: float | None
    scores: Scores
    character_start: int
    character_end: int
    chunk_index: int
    chunk_fingerprint: str
    text: str
    metadata: Metadata


class Context(Record):
    """The text for a generator: the first results that fit the token budget, in retrieval order.

    `fingerprint` covers the ordered chunk ids, their content, the separator and the estimator.
    """

    text: str
    fingerprint: str
    token_estimate: int
    estimator: str
    separator: str
    chunk_ids: list[str]


class Citation(Record):
    """Where a result comes from: characters `[character_start, character_end)` of a registered document."""

    document_id: str
    chunk_id: str
    character_start: int
    character_end: int
    score: float | None


class Retrieval(Record):
    """One query's answer: ranked results, the context made of them, and one citation per result in rank order."""

    query: str
    index_fingerprint: str
    configuration: RetrieverConfiguration
    results: list[Result]
    context: Context
    citations: list[Citation]
