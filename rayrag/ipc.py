"""Arrow tables as IPC files: equal tables give equal bytes, and what is read back has the columns expected."""

import numpy as np
import pyarrow as pa

from rayrag.errors import IntegrityError


def to_ipc(table: pa.Table) -> pa.Buffer:
    """The table as one uncompressed Arrow IPC file with one record batch: equal tables give equal bytes.

    Arrow writes buffers as they are, with what slicing and growing left around their content; here they are cut to
    it, and there are no validity bitmaps, since no column has nulls.
    """
    batches = table.combine_chunks().to_batches()
    columns = batches[0].columns if batches else [pa.array([], field.type) for field in table.schema]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([_exact(column) for column in columns], schema=table.schema))
    return sink.getvalue()


def _exact(array: pa.Array) -> pa.Array:
    """The same values in buffers that hold nothing else."""
    kind, length = array.type, len(array)
    if pa.types.is_large_list(kind):
        bounds = array.offsets.to_numpy()
        values = _exact(array.values.slice(bounds[0], bounds[-1] - bounds[0]))
        return pa.LargeListArray.from_arrays(pa.array(bounds - bounds[0]), values, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        width = np.int32 if pa.types.is_string(kind) else np.int64
        _, offsets, data = array.buffers()
        if length == 0:
            return pa.Array.from_buffers(kind, 0, [None, pa.py_buffer(width(0).tobytes()), pa.py_buffer(b"")])
        bounds = np.frombuffer(offsets, width)[array.offset : array.offset + length + 1]
        data = (data or pa.py_buffer(b"")).slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(bounds - bounds[0]), data])
    data = array.buffers()[1] or pa.py_buffer(b"")
    size = kind.bit_width // 8
    return pa.Array.from_buffers(kind, length, [None, data.slice(array.offset * size, length * size)])


def from_ipc(data: pa.Buffer, schema: pa.Schema, where: str) -> pa.Table:
    """The table stored in `data`, without a copy; IntegrityError naming `where` when it is none of that schema."""
    try:
        table = pa.ipc.open_file(data).read_all()
        table.validate()
    except (pa.ArrowInvalid, OSError) as error:
        raise IntegrityError(f"{where}: not an Arrow file: {str(error).partition(chr(10))[0]}") from error
    if table.schema != schema or any(column.null_count for column in table.columns):
        raise IntegrityError(f"{where}: other columns than expected ({', '.join(schema.names)})")
    return table
