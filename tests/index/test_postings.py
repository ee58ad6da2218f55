import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayrag.index.postings import Postings

COUNTS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "ß", "z", "\U0001f600", "\uffff"]), st.integers(1, 300)), max_size=8
)


def counts_of(postings: Postings) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = [{} for _ in range(postings.row_count)]
    for term in postings.terms.to_pylist():
        for row, frequency in zip(*postings.find(term), strict=True):
            rows[row][term] = int(frequency)
    return rows


@given(COUNTS)
def test_postings_hold_the_counts_by_term_and_by_row(counts: list[dict[str, int]]) -> None:
    postings = Postings.of_counts(counts)
    terms = postings.terms.to_pylist()
    assert terms == sorted(set().union(*counts))
    assert counts_of(postings) == counts
    assert postings.lengths.tolist() == [sum(row.values()) for row in counts]
    offsets, numbers, frequencies = postings.by_row()
    for row, count in enumerate(counts):
        span = slice(offsets[row], offsets[row + 1])
        assert [terms[number] for number in numbers[span]] == sorted(count)
        assert frequencies[span].tolist() == [count[term] for term in sorted(count)]
    assert counts_of(Postings.from_table(postings.to_table(), len(counts))) == counts


@given(COUNTS, st.data())
def test_gathering_parts_gives_the_postings_of_the_new_rows(counts: list[dict[str, int]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(counts)))
    kept = data.draw(st.permutations([row for row in range(len(counts)) if data.draw(st.booleans())]))
    new_rows = np.full(len(counts), -1, np.int64)
    new_rows[kept] = np.arange(len(kept))
    parts = [(Postings.of_counts(counts[:cut]), new_rows[:cut]), (Postings.of_counts(counts[cut:]), new_rows[cut:])]
    gathered = Postings.gather(parts, len(kept))
    expected = Postings.of_counts([counts[row] for row in kept])
    assert gathered.to_table().equals(expected.to_table())


def test_an_unknown_term_has_no_rows() -> None:
    rows, frequencies = Postings.of_counts([{"b": 1}]).find("a")
    assert len(rows) == len(frequencies) == 0
