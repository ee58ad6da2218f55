"""Fusion of ranked lists into one score per id."""

from collections.abc import Sequence


def reciprocal_rank_fusion(rankings: Sequence[tuple[Sequence[bytes], float]], k: int) -> dict[bytes, float]:
    """The weighted sum of 1 / (k + rank) over the lists that hold an id, ranks from 1.

    Cormack, Clarke, Büttcher: Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods
    (SIGIR 2009), there with k = 60 and weight 1. Each ranking is a list of distinct ids, best first, and its weight;
    a list that lacks an id adds nothing to it. Lists are added in the order given.
    """
    fused: dict[bytes, float] = {}
    for ids, weight in rankings:
        for rank, identity in enumerate(ids, 1):
            fused[identity] = fused.get(identity, 0.0) + weight / (k + rank)
    return fused
