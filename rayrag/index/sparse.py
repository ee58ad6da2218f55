"""Okapi BM25 over the postings of one shard, with the statistics of the whole index."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rayrag.index.postings import Postings


class WeightedTerm(NamedTuple):
    """A term of a query, how often it occurs there, and its idf in the whole index."""

    term: str
    frequency: int
    idf: float


class OkapiScorer:
    """Scores the rows of one shard. `average_length` is that of the whole index, in terms per chunk.

    score(row) = sum over the query's terms, ascending, of qtf * idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length
    / average_length)), which is `rank_bm25.BM25Okapi.get_scores` with its sum in a fixed order.
    """

    def __init__(self, postings: Postings, *, average_length: float, k1: float, b: float) -> None:
        self._postings = postings
        self._k1 = k1
        relative = postings.lengths / average_length if average_length else np.zeros(postings.row_count)
        self._norms = k1 * (1 - b + b * relative)

    def scores(self, terms: Sequence[WeightedTerm]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The score of every row (float64 [rows]), and whether the row has a posting of any of the terms.

        `terms` are distinct and ascend. A row's score depends on nothing but the row and the terms.
        """
        scores = np.zeros(self._postings.row_count)
        found = np.zeros(self._postings.row_count, bool)
        for term, frequency, idf in terms:
            rows, frequencies = self._postings.find(term)
            scores[rows] += (frequency * idf * (self._k1 + 1)) * frequencies / (frequencies + self._norms[rows])
            found[rows] = True
        return scores, found
