"""The table of document records: its columns, its files, its digests."""

import hashlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rayrag.digests import Digests, digests_of, group_digests, is_ascending, rows_of_bytes, sortable
from rayrag.errors import IntegrityError
from rayrag.fingerprint import combine_groups
from rayrag.ipc import from_ipc, to_ipc
from rayrag.schema.documents import Partition, record_digest
from rayrag.storage import Storage

RECORDS_FOLDER = "registry/records"

RECORDS = pa.schema(
    [
        pa.field("document_id", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("logical_name", pa.string(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("metadata", pa.large_string(), nullable=False),
        pa.field("ingested_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("pack", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("record_digest", pa.binary(32), nullable=False),
    ]
)
"""One row per document, by ascending document id. `metadata` is canonical JSON; the document is the `size` bytes from
`offset` of the pack; `record_digest` is SHA-256 over the record less time and place (see `DocumentRecord.digest`)."""

_ID_LENGTH = 68  # `doc-` and 64 hexadecimal digits
_NIBBLES = np.full(256, 255, np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


def write_records(storage: Storage, table: pa.Table) -> Partition:
    """Store a table of records as one uncompressed Arrow IPC file, named by its SHA-256."""
    data = to_ipc(table)
    sha256 = hashlib.sha256(data).hexdigest()
    path = f"{RECORDS_FOLDER}/{sha256}.arrow"
    storage.put(path, data)
    return Partition(path=path, sha256=sha256, document_count=len(table))


def read_records(storage: Storage, partition: Partition) -> pa.Table:
    """The records of a partition; IntegrityError naming the file unless it is what the manifest says it is."""
    where = storage.where(partition.path)
    table = from_ipc(storage.buffer(partition.path, sha256=partition.sha256), RECORDS, where)
    if len(table) != partition.document_count:
        raise IntegrityError(
            f"{where}: holds {len(table)} records, the manifest says {partition.document_count}; restore it from a copy"
        )
    if not is_ascending(document_digests(table, where)):
        raise IntegrityError(f"{where}: the records are not sorted by document id; restore it from a copy")
    return table


def document_digests(table: pa.Table, where: str) -> Digests:
    """The digests in the document ids of a table; IntegrityError naming `where` when one is no document id."""
    column = table["document_id"].combine_chunks()
    try:
        fixed = column.cast(pa.large_binary()).cast(pa.binary(_ID_LENGTH))
    except pa.ArrowInvalid as error:
        raise IntegrityError(f"{where}: a document id has not {_ID_LENGTH} characters") from error
    characters = rows_of_bytes(fixed, _ID_LENGTH)
    digits = _NIBBLES[characters[:, 4:]]
    if (characters[:, :4] != np.frombuffer(b"doc-", np.uint8)).any() or (digits == 255).any():
        raise IntegrityError(f"{where}: a document id is not doc- and 64 hexadecimal digits")
    digests: Digests = np.bitwise_or(digits[:, 0::2] << 4, digits[:, 1::2], dtype=np.uint8)
    return digests


def stored_record_digests(table: pa.Table) -> Digests:
    """The column `record_digest`."""
    return digests_of(table["record_digest"])


def derived_record_digests(table: pa.Table) -> Iterator[bytes]:
    """The digest of each record, computed from its other columns."""
    columns = ("document_id", "size", "logical_name", "content_type", "metadata")
    for batch in table.select(columns).to_batches(max_chunksize=1 << 14):
        for document_id, *rest in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield record_digest(document_id[4:], *rest)


def document_fingerprint(documents: Digests, record_digests: Digests) -> str:
    """The identity of an ordered set of documents, given in any order: see `rayrag.fingerprint.combine_groups`.

    A group's members are the record digests of its documents, by ascending document id.
    """
    order = np.argsort(sortable(documents))
    return combine_groups(group_digests(documents[order], record_digests[order]))
