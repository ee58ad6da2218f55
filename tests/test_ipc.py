import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rayrag.index.tables import CHUNKS, POSTINGS
from rayrag.ipc import from_ipc, to_ipc

ROWS = st.lists(st.tuples(st.text(max_size=5), st.lists(st.integers(0, 9), max_size=4)), max_size=6)


def table(rows: list[tuple[str, list[int]]]) -> pa.Table:
    terms, numbers = [row[0] for row in rows], [row[1] for row in rows]
    columns = [pa.array(values, field.type) for values, field in zip((terms, numbers, numbers), POSTINGS, strict=True)]
    return pa.table(columns, schema=POSTINGS)


@given(ROWS, ROWS, ROWS)
def test_equal_tables_give_equal_bytes_however_they_came_about(
    before: list[tuple[str, list[int]]], rows: list[tuple[str, list[int]]], after: list[tuple[str, list[int]]]
) -> None:
    expected = to_ipc(table(rows)).to_pybytes()
    assert to_ipc(table(before + rows + after).slice(len(before), len(rows))).to_pybytes() == expected
    assert to_ipc(pa.concat_tables([table(rows[:2]), table(rows[2:])])).to_pybytes() == expected
    assert from_ipc(pa.py_buffer(expected), POSTINGS, "").equals(table(rows))


def test_an_empty_table_has_one_empty_batch() -> None:
    data = to_ipc(CHUNKS.empty_table())
    assert pa.ipc.open_file(data).num_record_batches == 1
    assert from_ipc(data, CHUNKS, "") == CHUNKS.empty_table()
