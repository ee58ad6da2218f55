"""The registry: the versioned set of documents of a store."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rayrag.corpus.content import decode
from rayrag.corpus.packs import read_sources
from rayrag.corpus.records import (
    RECORDS,
    derived_record_digests,
    document_digests,
    document_fingerprint,
    read_records,
    stored_record_digests,
)
from rayrag.digests import Digests, is_ascending, sortable
from rayrag.errors import InputError, IntegrityError
from rayrag.schema.documents import DOCUMENT_ID, DocumentRecord, DocumentsManifest, Partition
from rayrag.storage import Storage

__all__ = ["VERSIONS", "Registry", "manifest_path", "newest_version", "read_sources", "text_of"]

VERSIONS = "registry/versions"


def manifest_path(version: int) -> str:
    """Where a version's `documents.json` is."""
    return f"{VERSIONS}/{version:08d}/documents.json"


def newest_version(storage: Storage) -> int:
    """The highest version that has a manifest; 0 without any."""
    return next(_versions(storage), 0)


def version_numbers(storage: Storage) -> list[int]:
    """The versions that have a manifest, newest first."""
    return list(_versions(storage))


def _versions(storage: Storage) -> Iterator[int]:
    numbers = (int(name) for name in reversed(storage.list(VERSIONS)) if re.fullmatch(r"\d{8}", name))
    return (number for number in numbers if storage.exists(manifest_path(number)))


def text_of(data: bytes) -> str:
    """The text of a registered document: strict UTF-8, less one leading byte order mark."""
    try:
        return decode(data)
    except UnicodeDecodeError as error:
        raise IntegrityError(
            f"a registered document is not UTF-8 at byte {error.start}; ingest never wrote it"
        ) from error


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """One version of the registry. `table` (schema `RECORDS`) and `digests` ([n, 32]: the documents' SHA-256) have one
    row per document, by ascending document id."""

    storage: Storage
    manifest: DocumentsManifest
    table: pa.Table
    digests: Digests

    @classmethod
    def load(cls, storage: Storage, version: int | None = None) -> "Registry":
        """The newest version, or the given one; version 0, without documents, where nothing is registered.

        The manifest and every partition are checked whole: digests, schema, order, counts, fingerprint. Raises
        IntegrityError naming the file at fault.
        """
        version = newest_version(storage) if version is None else version
        if version == 0:
            manifest = make_manifest(0, [], 0, _NONE, _NONE)
            return cls(storage, manifest, RECORDS.empty_table(), _NONE)
        where = storage.where(manifest_path(version))
        manifest = DocumentsManifest.from_json(storage.read(manifest_path(version)), where)
        if manifest.version != version:
            raise IntegrityError(f"{where}: says it is version {manifest.version}; restore the file from a copy")
        tables = [read_records(storage, partition) for partition in manifest.partitions]
        table = pa.concat_tables(tables) if tables else RECORDS.empty_table()
        digests = document_digests(table, where)
        if len(tables) > 1:
            order = np.argsort(sortable(digests), kind="stable")
            table, digests = table.take(pa.array(order)), digests[order]
        if not is_ascending(digests):
            raise IntegrityError(f"{where}: two partitions hold the same document; restore the file from a copy")
        derived = make_manifest(
            version,
            manifest.partitions,
            int(table["size"].to_numpy().sum()),
            digests,
            stored_record_digests(table),
        )
        for name in ("document_count", "total_bytes", "document_fingerprint", "partitions"):
            if getattr(manifest, name) != getattr(derived, name):
                raise IntegrityError(f"{where}: {name} is not what its partitions give; restore the file from a copy")
        return cls(storage, manifest, table, digests)

    @property
    def version(self) -> int:
        """The number of this version, from 1; 0 where nothing is registered."""
        return self.manifest.version

    @property
    def record_digests(self) -> list[str]:
        """The digest of each record in hexadecimal, by document id: derived again, compared with the stored one."""
        derived = list(derived_record_digests(self.table))
        if derived != self.table["record_digest"].to_pylist():
            raise IntegrityError(
                f"{self.storage.where(manifest_path(self.version))}: names records that do not have the digests stated"
            )
        return [digest.hex() for digest in derived]

    def rows_of(self, digests: Digests) -> NDArray[np.int64]:
        """The row of each document, given their SHA-256 as [n, 32]; -1 for one that is not registered."""
        if len(self.digests) == 0:
            return np.full(len(digests), -1, np.int64)
        known, wanted = sortable(self.digests), sortable(digests)
        rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[rows] == wanted, rows, -1)

    def record(self, document_id: str) -> DocumentRecord:
        """The record of a document, checked against its digest; InputError for an id that is none, or unknown."""
        if not re.fullmatch(DOCUMENT_ID.strip("^$"), document_id):
            raise InputError(f"{document_id!r} is not a document id: expected doc- and 64 hexadecimal digits")
        sha256 = np.frombuffer(bytes.fromhex(document_id[4:]), np.uint8).reshape(1, 32)
        row = int(self.rows_of(sha256)[0])
        if row < 0:
            raise InputError(f"{document_id} is not registered in version {self.version} of {self.storage.root}")
        values = {name: column[0] for name, column in self.table.slice(row, 1).to_pydict().items()}
        digest = values.pop("record_digest")
        values["metadata"] = json.loads(values["metadata"])
        values["ingested_at"] = values["ingested_at"].astimezone(UTC)
        record = DocumentRecord(sha256=document_id[4:], **values)
        if bytes.fromhex(record.digest()) != digest:
            raise IntegrityError(
                f"{self.storage.where(manifest_path(self.version))}: the record of {document_id} has another digest"
            )
        return record

    def read(self, record: DocumentRecord) -> bytes:
        """The bytes of a document; IntegrityError naming the pack when they are not those that were registered."""
        row = {name: [getattr(record, name)] for name in ("document_id", "size", "pack", "offset")}
        return next(read_sources(self.storage, pa.table(row)))[1]


_NONE: Digests = np.zeros((0, 32), np.uint8)


def make_manifest(
    version: int,
    partitions: Sequence[Partition],
    total_bytes: int,
    digests: Digests,
    record_digests: Digests,
) -> DocumentsManifest:
    """The manifest of the documents with these digests, in any order, and this sum of sizes."""
    return DocumentsManifest(
        version=version,
        document_count=len(digests),
        total_bytes=total_bytes,
        document_fingerprint=document_fingerprint(digests, record_digests),
        partitions=sorted(partitions, key=lambda partition: partition.path),
    )
