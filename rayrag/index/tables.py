"""The Arrow tables of a shard: their columns, and how they are stored and read back."""

import numpy as np
import pyarrow as pa

from rayrag.errors import IntegrityError

DIGEST = pa.binary(32)

DOCUMENTS = pa.schema(
    [
        pa.field("document_id", DIGEST, nullable=False),
        pa.field("record_digest", DIGEST, nullable=False),
        pa.field("logical_name", pa.string(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("chunk_count", pa.int32(), nullable=False),
        pa.field("chunks_digest", DIGEST, nullable=False),
    ]
)
"""`documents.arrow`, by ascending document id. Ids and digests are the raw 32 bytes; `metadata` is canonical JSON;
`chunks_digest` is the SHA-256 over the document's chunk fingerprints in order."""

CHUNKS = pa.schema(
    [
        pa.field("document_id", DIGEST, nullable=False),
        pa.field("chunk_index", pa.int32(), nullable=False),
        pa.field("chunk_id", DIGEST, nullable=False),
        pa.field("fingerprint", DIGEST, nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("entry_digest", DIGEST, nullable=False),
    ]
)
"""`chunks.arrow`, by ascending document id and chunk index. `[start, end)` are code points of the document."""

POSTINGS = pa.schema(
    [
        pa.field("term", pa.large_string(), nullable=False),
        pa.field("rows", pa.large_list(pa.field("item", pa.int32(), nullable=False)), nullable=False),
        pa.field("frequencies", pa.large_list(pa.field("item", pa.int32(), nullable=False)), nullable=False),
    ]
)
"""`postings.arrow`, by ascending term: the rows of `chunks.arrow` that hold it, ascending, and how often."""

STATISTICS = pa.schema(
    [
        pa.field("term", pa.large_string(), nullable=False),
        pa.field("document_frequency", pa.int64(), nullable=False),
        pa.field("idf", pa.float64(), nullable=False),
    ]
)
"""Statistics of the whole index, by ascending term."""


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
