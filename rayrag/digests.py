"""SHA-256 digests in bulk: arrays uint8 [n, 32], one digest per row, as columns of Arrow tables hold them."""

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rayrag.fingerprint import GROUP_BITS, group_digest

if TYPE_CHECKING:
    import pyarrow as pa

Digests: TypeAlias = NDArray[np.uint8]
"""[n, 32]: one digest per row."""


def digests_of(column: "pa.ChunkedArray") -> Digests:
    """A column of 32-byte values, without a copy where it is in one piece."""
    pieces = [rows_of_bytes(chunk, 32) for chunk in column.chunks]
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros((0, 32), np.uint8), *pieces])


def rows_of_bytes(array: "pa.FixedSizeBinaryArray", width: int) -> NDArray[np.uint8]:
    """An array of `width`-byte values as uint8 [n, width]."""
    if len(array) == 0:
        return np.zeros((0, width), np.uint8)
    values = np.frombuffer(array.buffers()[1], np.uint8)
    return values[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)


def sortable(digests: Digests) -> NDArray[np.bytes_]:
    """Digests as an array [n] that numpy compares bytewise. Its items lose trailing zero bytes when taken out."""
    return np.ascontiguousarray(digests).view("S32").ravel()


def is_ascending(digests: Digests) -> bool:
    """Whether each digest is greater than the one before it."""
    values = sortable(digests)
    return bool((values[:-1] < values[1:]).all())


def group_numbers(document_ids: Digests) -> NDArray[np.int64]:
    """The group of each document: the leading `GROUP_BITS` bits."""
    leading = document_ids[:, 0].astype(np.int64) << 8 | document_ids[:, 1]
    return leading >> (16 - GROUP_BITS)


def group_digests(document_ids: Digests, members: Digests) -> dict[int, str]:
    """`fingerprint.digest_by_group` of members in document order, each with its document's id."""
    return {number: group_digest([part.tobytes()]) for number, part in runs(group_numbers(document_ids), members)}


def runs(keys: NDArray[np.int64], values: Digests) -> list[tuple[int, Digests]]:
    """The values of each run of equal keys, in order."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return [(int(keys[start]), part) for start, part in zip(starts, np.split(values, starts[1:]), strict=False)]
