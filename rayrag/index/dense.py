"""Exact nearest neighbours by cosine in one shard: FAISS finds candidates, the exact score decides their order.

FAISS promises no order among equal scores, drops tied rows arbitrarily at the boundary, and its scores change in the
last bits with threads, batch and instruction set. Its float32 scores lie within a known bound of the exact ones,
though: enough is fetched that no row outside could belong to the result.
"""

import numpy as np
from numpy.typing import NDArray

from rayrag.errors import InputError
from rayrag.ranking.order import top

_GPU_LIMIT = 2048  # the largest k of FAISS on a GPU


class DenseIndex:
    """The vectors (float32 [n, dimension], L2-normalised or zero) of one shard; on the GPU where FAISS sees one."""

    def __init__(self, vectors: NDArray[np.float32], ids: NDArray[np.bytes_]) -> None:
        try:
            import faiss
        except ImportError as error:
            raise InputError("FAISS is not installed: `pip install rayrag[cpu]`, or `rayrag[gpu]` on a GPU") from error
        self._vectors = vectors
        self._ids = ids
        self._faiss = faiss
        self._gpu = None
        if getattr(faiss, "get_num_gpus", int)() > 0:
            self._gpu = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), vectors.shape[1])
            self._gpu.add(vectors)

    def search(self, query: NDArray[np.float32], count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The rows of the `count` highest exact scores, ordered by (-score, chunk id), and the scores."""
        total, dimension = self._vectors.shape
        # |float32 sum - exact sum| <= d u / (1 - d u) * sum |x_i y_i| with u = 2^-24, and sum |x_i y_i| <= |x| |y| ~ 1.
        bound = 1.01 * (dimension + 2) * 2.0**-24
        fetch = min(total, 2 * count)
        while True:
            if fetch >= total:
                rows = np.arange(total)
                scores = exact_scores(self._vectors, query)
                chosen = top(scores, self._ids, count)
                return rows[chosen], scores[chosen]
            approximate, rows = self._fetch(query, fetch)
            scores = exact_scores(self._vectors[rows], query)
            chosen = top(scores, self._ids[rows], count)
            if approximate.min() + bound < scores[chosen[-1]]:
                return rows[chosen], scores[chosen]
            fetch = min(total, 4 * fetch)

    def _fetch(self, query: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        queries = query.reshape(1, -1)
        if self._gpu is not None and count <= _GPU_LIMIT:
            scores, rows = self._gpu.search(queries, count)
        else:
            scores, rows = self._faiss.knn(queries, self._vectors, count, metric=self._faiss.METRIC_INNER_PRODUCT)
        return scores[0], rows[0]


def exact_scores(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """The inner product of each row with the query (float64 [n]), a pure function of the two vectors.

    A product of two float32 is exact in float64; the products are added in the order of the dimensions.
    """
    scores = np.empty(len(vectors))
    for start in range(0, len(vectors), 4096):  # bounds the products to 4096 rows
        block = vectors[start : start + 4096]
        padded = block if len(block) > 1 else np.repeat(block, 2, axis=0)  # one row alone is added up another way
        products = np.ascontiguousarray(padded.T, np.float64) * query.astype(np.float64)[:, None]
        scores[start : start + len(block)] = np.add.reduce(products, axis=0)[: len(block)]
    return scores
