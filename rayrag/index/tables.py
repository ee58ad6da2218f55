"""The Arrow tables of an index: their columns."""

import pyarrow as pa

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
