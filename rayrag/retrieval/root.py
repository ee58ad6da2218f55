"""From the candidates of all shards to one ranking: merge, fuse, threshold, top-k. Pure functions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rayrag.ranking.fusion import reciprocal_rank_fusion
from rayrag.retrieval.leaf import Candidate
from rayrag.schema.retrieval import RetrieverConfiguration, Scores


class Ranked(NamedTuple):
    """A chunk of the ranking: which leaf holds it, in which row, and its scores."""

    leaf: int
    row: int
    chunk_id: bytes
    scores: Scores


def rank(found: Sequence[Sequence[Candidate]], configuration: RetrieverConfiguration) -> list[Ranked]:
    """The ranking of what the leaves found, ordered by (-score of the mode, chunk id), at most `top_k` long.

    Each leg's ranking is cut at `candidate_depth` over all shards, so the result does not depend on their number, nor
    on `top_k`: the top k is a prefix of the top k'. `min_score` keeps cosine scores at or above it.
    """
    candidates = {candidate.chunk_id: (leaf, candidate) for leaf, each in enumerate(found) for candidate in each}
    dense = _leg(
        ((c.dense, c.chunk_id) for _, c in candidates.values() if c.by_dense and c.dense is not None), configuration
    )
    sparse = _leg(
        ((c.bm25, c.chunk_id) for _, c in candidates.values() if c.by_sparse and c.bm25 is not None), configuration
    )
    fusion: dict[bytes, float] = {}
    match configuration.mode:
        case "dense":
            order = dense
        case "sparse":
            order = sparse
        case "hybrid":
            weighted = ((dense, configuration.dense_weight), (sparse, configuration.sparse_weight))
            fusion = reciprocal_rank_fusion(weighted, configuration.rrf_k)
            order = sorted(fusion, key=lambda chunk_id: (-fusion[chunk_id], chunk_id))
    ranking = []
    for chunk_id in order:
        leaf, candidate = candidates[chunk_id]
        if configuration.min_score is not None and not (
            candidate.dense is not None and candidate.dense >= configuration.min_score
        ):
            continue
        scores = Scores(dense=candidate.dense, bm25=candidate.bm25, fusion=fusion.get(chunk_id), rerank=None)
        ranking.append(Ranked(leaf, candidate.row, chunk_id, scores))
    return ranking[: configuration.top_k]


def _leg(scored: Iterable[tuple[float, bytes]], configuration: RetrieverConfiguration) -> list[bytes]:
    ordered = sorted((-score, chunk_id) for score, chunk_id in scored)
    return [chunk_id for _, chunk_id in ordered[: configuration.candidate_depth]]
