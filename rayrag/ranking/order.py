"""The one order of every ranking: score descending, then id ascending."""

import numpy as np
from numpy.typing import NDArray


def top(scores: NDArray[np.float64], ids: NDArray[np.bytes_], count: int) -> NDArray[np.int64]:
    """Positions of the `count` first of (-score, id), in that order; fewer when there are fewer. Ids are distinct.

    Only what ties with the last place is sorted besides the result: linear in the length of `scores`.
    """
    if len(scores) > count:
        last = np.partition(scores, len(scores) - count)[len(scores) - count]
        positions = np.flatnonzero(scores >= last)
    else:
        positions = np.arange(len(scores))
    order = np.lexsort((ids[positions], -scores[positions]))[:count]
    return np.asarray(positions[order], np.int64)
