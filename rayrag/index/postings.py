"""Term frequencies of entries, held by term: what BM25 adds up."""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rayrag.index.tables import POSTINGS

_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """A sparse matrix [rows, terms] of term frequencies in compressed columns.

    `terms` (large_string) are distinct and ascend by code point; the postings of term t are
    `rows[offsets[t]:offsets[t + 1]]`, ascending, and their `frequencies` (int32, >= 1).
    """

    terms: pa.LargeStringArray
    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    frequencies: NDArray[np.int32]
    row_count: int

    @classmethod
    def of_counts(cls, counts: Sequence[Mapping[str, int]]) -> "Postings":
        """The postings of rows whose term frequencies are given in row order."""
        vocabulary = {term: number for number, term in enumerate(sorted(set().union(*counts)))}
        sizes = [len(row) for row in counts]
        return _by_term(
            pa.array(vocabulary, pa.large_string()),
            np.fromiter((vocabulary[term] for row in counts for term in row), np.int64, sum(sizes)),
            np.repeat(np.arange(len(counts), dtype=np.int32), sizes),
            np.fromiter((number for row in counts for number in row.values()), np.int32, sum(sizes)),
            len(counts),
        )

    @classmethod
    def gather(cls, parts: Sequence[tuple["Postings", NDArray[np.int64]]], row_count: int) -> "Postings":
        """The postings of new rows: each part comes with the new row of each of its rows, -1 for one left out."""
        terms = pa.chunked_array([part.terms for part, _ in parts], pa.large_string()).unique()
        terms = terms.take(pc.sort_indices(terms))
        numbers, rows, frequencies = [np.zeros(0, np.int64)], [_NONE], [_NONE]
        for part, new_rows in parts:
            number_of_term = pc.index_in(part.terms, terms).to_numpy(zero_copy_only=False)
            moved = new_rows[part.rows]
            kept = moved >= 0
            numbers.append(np.repeat(number_of_term, np.diff(part.offsets))[kept].astype(np.int64))
            rows.append(moved[kept].astype(np.int32))
            frequencies.append(part.frequencies[kept])
        number = np.concatenate(numbers)
        used = np.bincount(number, minlength=len(terms)) > 0
        if not used.all():
            number = (np.cumsum(used) - 1)[number]
            terms = terms.filter(pa.array(used))
        return _by_term(terms, number, np.concatenate(rows), np.concatenate(frequencies), row_count)

    @classmethod
    def from_table(cls, table: pa.Table, row_count: int) -> "Postings":
        """The postings held by a table of schema `POSTINGS`; ValueError when its columns do not belong together."""
        if len(table) == 0:
            return cls.of_counts([{}] * row_count)
        terms, rows, frequencies = (column.chunk(0) for column in table.combine_chunks().columns)
        offsets = rows.offsets.to_numpy()
        postings = cls(terms, offsets, rows.values.to_numpy(), frequencies.values.to_numpy(), row_count)
        if (
            (frequencies.offsets.to_numpy() != offsets).any()
            or offsets[0] != 0
            or len(postings.rows) != offsets[-1]
            or (len(postings.rows) and not 0 <= postings.rows.min() <= postings.rows.max() < row_count)
        ):
            raise ValueError("rows and frequencies do not belong together")
        return postings

    def to_table(self) -> pa.Table:
        """The same as a table of schema `POSTINGS`."""
        rows, frequencies = (POSTINGS.field(name).type for name in ("rows", "frequencies"))
        return pa.table(
            [
                self.terms,
                pa.LargeListArray.from_arrays(self.offsets, pa.array(self.rows, pa.int32()), rows),
                pa.LargeListArray.from_arrays(self.offsets, pa.array(self.frequencies, pa.int32()), frequencies),
            ],
            schema=POSTINGS,
        )

    @property
    def document_frequencies(self) -> NDArray[np.int64]:
        """In how many rows each term occurs."""
        return np.diff(self.offsets)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each row in terms, repetitions counted."""
        return np.bincount(self.rows, weights=self.frequencies, minlength=self.row_count).astype(np.int64)

    def find(self, term: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The rows that hold `term`, ascending, and their frequencies; both empty for an unknown term."""
        number = position(self.terms, term)
        if number is None:
            return _NONE, _NONE
        start, end = self.offsets[number], self.offsets[number + 1]
        return self.rows[start:end], self.frequencies[start:end]

    def by_row(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """The same matrix in compressed rows: offsets [rows + 1], term numbers ascending within a row, frequencies."""
        order = np.argsort(self.rows, kind="stable")
        numbers = np.repeat(np.arange(len(self.terms)), self.document_frequencies)[order]
        return _offsets(self.rows, self.row_count), numbers, self.frequencies[order]


def position(terms: pa.LargeStringArray, term: str) -> int | None:
    """Where `term` is in ascending `terms`, or None."""
    number = bisect.bisect_left(range(len(terms)), term, key=lambda at: terms[at].as_py())
    return number if number < len(terms) and terms[number].as_py() == term else None


def _offsets(numbers: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(np.bincount(numbers, minlength=count)))).astype(np.int64)


def _by_term(
    terms: pa.LargeStringArray,
    numbers: NDArray[np.int64],
    rows: NDArray[np.int32],
    frequencies: NDArray[np.int32],
    row_count: int,
) -> Postings:
    order = np.lexsort((rows, numbers))
    return Postings(terms, _offsets(numbers, len(terms)), rows[order], frequencies[order], row_count)
