"""Documents, what became of each one offered, and the registry manifest."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from rayrag.fingerprint import canonical_json
from rayrag.schema.base import Manifest, Record

Scalar = str | int | float | bool | None
Metadata = dict[str, Scalar | list[Scalar]]
ContentType = Literal["text/plain", "text/markdown", "text/x-rst", "application/json"]
State = Literal["added", "duplicate", "empty", "unsupported", "too_large", "invalid", "unreadable"]

DOCUMENT_ID = r"^doc-[0-9a-f]{64}$"
MAX_NAME_LENGTH = 1024

_AS_JSON = json.JSONEncoder(ensure_ascii=False)


class CorpusSettings(Record):
    """Limits and work sizes of ingest, in bytes. Only `max_document_bytes` decides what is registered.

    A `.jsonl` line may be as long as a document. A pack holds at most `pack_bytes` of documents and metadata (or one
    document), which also bounds the memory of the task that writes it; one task reads about `slice_bytes` of files.
    """

    max_document_bytes: int = Field(default=16 << 20, ge=1)
    pack_bytes: int = Field(default=64 << 20, ge=1)
    slice_bytes: int = Field(default=64 << 20, ge=1)


class DocumentRecord(Record):
    """One registered document: immutable bytes, named by their content.

    `digest` covers every field but `ingested_at` and where the bytes lie (`pack`, `offset`).
    """

    schema_version: Literal["1.0"] = "1.0"
    document_id: str = Field(pattern=DOCUMENT_ID)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0, description="bytes")
    logical_name: str = Field(min_length=1, max_length=MAX_NAME_LENGTH)
    content_type: ContentType
    metadata: Metadata = Field(default_factory=dict)
    ingested_at: datetime
    pack: str
    offset: int = Field(ge=0)

    def digest(self) -> str:
        """SHA-256 over schema version, sha256, name, size, content type and metadata; never the time or the place."""
        metadata = canonical_json(self.metadata).decode()
        return record_digest(self.sha256, self.size, self.logical_name, self.content_type, metadata).hex()


def record_digest(sha256: str, size: int, logical_name: str, content_type: str, metadata: str) -> bytes:
    """The 32 bytes of a record's digest; `metadata` is canonical JSON.

    SHA-256 of the canonical JSON of the record's fields, written out here since it is needed a million times.
    """
    name = _AS_JSON.encode(logical_name)
    record = (
        f'{{"content_type":"{content_type}","logical_name":{name},"metadata":{metadata},'
        f'"schema_version":"1.0","sha256":"{sha256}","size":{size}}}'
    )
    return hashlib.sha256(record.encode()).digest()


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """What became of one offered document. `document_id` names the document that is there (added or duplicate).

    `source` is the path as it was given, joined with the path below it; `#line` is added for a line of `.jsonl`. What
    cannot be printed (control characters, bytes that are not UTF-8) is escaped. `reason` is None for `added` only.
    """

    source: str
    state: State
    document_id: str | None
    reason: str | None


class IngestReport(Record):
    """What an ingest did. `counts` has all seven states and adds up to `documents`, sorted by source and line.

    Fingerprint, version and document count are those of the registry afterwards. `rejected` says why the ingest as a
    whole was rejected: nothing was written then, and `added` is what would have been.
    """

    schema_version: Literal["1.0"] = "1.0"
    counts: dict[State, int]
    documents: list[IngestOutcome]
    document_fingerprint: str
    registry_version: int = Field(ge=0)
    document_count: int = Field(ge=0)
    changed: bool
    rejected: str | None


class Partition(Record):
    """One file of document records, sorted by document id; several may belong to one registry version."""

    path: str
    sha256: str
    document_count: int = Field(ge=1)


class DocumentsManifest(Manifest):
    """`documents.json`: one version of the registry. Partitions are sorted by path and disjoint in document ids.

    Version 0, without documents, stands for a store in which nothing is registered yet; it is never written.
    """

    schema_version: Literal["1.0"] = "1.0"
    version: int = Field(ge=0)
    document_count: int = Field(ge=0)
    total_bytes: int = Field(ge=0)
    document_fingerprint: str
    partitions: list[Partition]
