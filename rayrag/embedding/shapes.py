"""The fixed shapes of forward passes, which make a vector independent of its neighbours.

The last bits of a matrix product depend on the shape of its operands. So a text's shape is a function of its own
length and its role alone: it is padded to the smallest bucket that holds it, and every pass over a bucket has the
same number of rows, padding rows included.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

BUCKETS = (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Lengths in tokens; beyond the last they double. The longest bucket is always the maximum length itself."""

SHAPES_VERSION = "1"
"""Changes whenever the rules of this module would give another shape to some text."""

FULL_ROWS = 64
"""Up to this length a pass has all `batch` rows; beyond, as many as keep its number of tokens. Larger passes are not
faster (2 cores, MiniLM, 256 tokens: 8 rows 52 ms a row, 16 rows 49, 32 rows 60: buffers beyond malloc's threshold of
32 MiB go back to the system each time), and waste more when a call does not fill them."""


class Pass(NamedTuple):
    """One forward pass of shape (rows, length); `texts` are the positions that fill its first rows."""

    rows: int
    length: int
    texts: list[int]


def buckets(max_length: int) -> tuple[int, ...]:
    """The bucket lengths of a model, ascending; the last is `max_length`."""
    lengths = [length for length in BUCKETS if length < max_length]
    length = 2 * BUCKETS[-1]
    while length < max_length:
        lengths.append(length)
        length *= 2
    return (*lengths, max_length)


def rows_of(batch: int, length: int) -> int:
    """The rows of every pass over the bucket `length`, for a role with `batch` rows."""
    return batch if length <= FULL_ROWS else max(1, batch * FULL_ROWS // length)


def passes(lengths: Sequence[int], max_length: int, batch: int) -> Iterator[Pass]:
    """Passes that cover each text once, by descending bucket; `lengths` are in tokens, at most `max_length` each.

    At least one token of a pass is padding (unless a pass has one row): libraries leave out an attention mask that
    masks nothing and may then take another kernel, and whether a mask is left out must not depend on the neighbours.
    """
    by_bucket: dict[int, list[int]] = {bucket: [] for bucket in buckets(max_length)}
    ascending = list(by_bucket)
    for text, length in enumerate(lengths):
        by_bucket[next(bucket for bucket in ascending if length <= bucket)].append(text)
    for bucket in reversed(ascending):
        rows = rows_of(batch, bucket)
        texts = by_bucket[bucket]
        start = 0
        while start < len(texts):
            chosen = texts[start : start + rows]
            if rows > 1 and len(chosen) == rows and all(lengths[text] == bucket for text in chosen):
                chosen.pop()
            yield Pass(rows, bucket, chosen)
            start += len(chosen)
