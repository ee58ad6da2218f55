"""Documents, what became of each one offered, and the registry manifest."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from rayrag.fingerprint import fingerprint
from rayrag.schema.base import Manifest, Record

Scalar = str | int | float | bool | None
Metadata = dict[str, Scalar | list[Scalar]]
ContentType = Literal["text/plain", "text/markdown", "text/x-rst", "application/json"]
State = Literal["added", "duplicate", "empty", "unsupported", "too_large", "invalid", "unreadable"]

DOCUMENT_ID = r"^doc-[0-9a-f]{64}$"
MAX_NAME_LENGTH = 1024


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
        return fingerprint(
            {
                "schema_version": self.schema_version,
                "sha256": self.sha256,
                "logical_name": self.logical_name,
                "size": self.size,
                "content_type": self.content_type,
                "metadata": self.metadata,
            }
        )


class IngestOutcome(Record):
    """What became of one offered document. `document_id` names the document that is there (added or duplicate)."""

    source: str
    state: State
    document_id: str | None
    reason: str | None


class Partition(Record):
    """One file of document records, sorted by document id; several may belong to one registry version."""

    path: str
    sha256: str
    document_count: int


class DocumentsManifest(Manifest):
    """`documents.json`: one version of the registry. Partitions are sorted by path and disjoint in document ids."""

    schema_version: Literal["1.0"] = "1.0"
    version: int = Field(ge=1)
    document_count: int = Field(ge=0)
    total_bytes: int = Field(ge=0)
    document_fingerprint: str
    partitions: list[Partition]
