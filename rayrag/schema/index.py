"""What an index is made of: the configuration that decides its entries, its shards and its manifest."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from rayrag.fingerprint import fingerprint
from rayrag.schema.base import Manifest, Record
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.embedding import EmbeddingConfiguration, EmbeddingMetadata
from rayrag.schema.sparse import AnalyzerMetadata, SparseConfiguration

Sha256 = str


class IndexConfiguration(Record):
    """Everything but the documents that decides the entries of an index and their scores, bit for bit."""

    chunking: ChunkConfiguration
    chunker_version: str
    embedding: EmbeddingConfiguration
    embedding_metadata: EmbeddingMetadata
    sparse: SparseConfiguration
    analyzer_metadata: AnalyzerMetadata

    def entries_digest(self) -> str:
        """A digest of all that decides entries: all but k1, b and epsilon, which decide their scores."""
        content = self.content()
        content["analyzer"] = content.pop("sparse")["analyzer"]
        return fingerprint(content)

    def embeds_like(self, other: "IndexConfiguration") -> bool:
        """Whether chunks and vectors are the same under both, so that one may copy those of the other."""
        return (self.chunking, self.chunker_version, self.embedding, self.embedding_metadata) == (
            other.chunking,
            other.chunker_version,
            other.embedding,
            other.embedding_metadata,
        )

    def analyzes_like(self, other: "IndexConfiguration") -> bool:
        """Whether texts have the same terms under both (k1, b and epsilon do not decide terms)."""
        return (self.sparse.analyzer, self.analyzer_metadata) == (other.sparse.analyzer, other.analyzer_metadata)


class IndexSettings(Record):
    """The layout of an index, which decides nothing that a fingerprint covers.

    `num_shards` None makes shards of about `shard_bytes` of documents; a work unit takes about `unit_bytes`.
    """

    num_shards: int | None = Field(None, ge=1, le=4096)
    shard_bytes: int = Field(64 << 20, ge=1)
    unit_bytes: int = Field(2 << 20, ge=1)


class StoredFile(Record):
    """One immutable file: SHA-256 of its bytes, and their number."""

    sha256: Sha256
    size: int = Field(ge=0)


class ShardManifest(Manifest):
    """`shard.json`: the files, counts and digests of the entries of some documents, sorted.

    `entry_groups` holds the group digests over the entry digests in entry order, keyed by three hexadecimal digits;
    `term_total` is the sum of the entries' lengths in terms.
    """

    schema_version: Literal["1.0"] = "1.0"
    document_count: int = Field(ge=0)
    chunk_count: int = Field(ge=0)
    dimension: int = Field(ge=1)
    term_total: int = Field(ge=0)
    entry_groups: dict[str, Sha256]
    files: dict[str, StoredFile]


class ShardReference(Record):
    """A shard as an index names it: groups [first_group, end_group) of documents, and the SHA-256 of `shard.json`."""

    key: str
    sha256: Sha256
    first_group: int = Field(ge=0)
    end_group: int = Field(ge=1)
    document_count: int = Field(ge=0)
    chunk_count: int = Field(ge=0)


class IndexManifest(Manifest):
    """`index.json`: one version of the index. Shards are in range order and cover all groups.

    `index_fingerprint` covers schema version, document fingerprint, configuration, counts and entries; neither the
    time nor the layout (shards, version numbers, file digests).
    """

    schema_version: Literal["1.0"] = "1.0"
    version: int = Field(ge=1)
    registry_version: int = Field(ge=1)
    document_count: int = Field(ge=1)
    document_fingerprint: Sha256
    chunk_count: int = Field(ge=1)
    term_total: int = Field(ge=0)
    configuration: IndexConfiguration
    statistics: StoredFile
    shards: list[ShardReference]
    index_fingerprint: Sha256
    built_at: datetime


class BuildReport(Record):
    """What a build did: counts, and seconds of wall time by stage."""

    index_fingerprint: Sha256
    index_version: int
    document_fingerprint: Sha256
    document_count: int
    chunk_count: int
    chunks_encoded: int
    chunks_reused: int
    chunks_truncated: int
    shard_count: int
    changed: bool
    embedding: EmbeddingConfiguration
    embedding_metadata: EmbeddingMetadata
    seconds: dict[str, float]


class VerifyReport(Record):
    """What was verified, and the newest versions. `stale` says that the registry has a newer version than the index
    was built from; `left_over` counts packs, record files, statistics, shards and runs that no version names."""

    registry_version: int
    document_count: int
    document_fingerprint: Sha256
    index_version: int | None
    index_fingerprint: Sha256 | None
    chunk_count: int
    stale: bool
    registry_versions: int
    index_versions: int
    left_over: int


class Inspection(Record):
    """What a store holds; the fields of the index are null, 0 or empty before the first build."""

    store: str
    registry_version: int
    document_count: int
    total_bytes: int
    document_fingerprint: Sha256
    index_version: int | None
    indexed_registry_version: int | None
    stale: bool
    built_at: datetime | None
    chunk_count: int
    index_fingerprint: Sha256 | None
    configuration: IndexConfiguration | None
    shards: list[ShardReference]


class FoundChunk(Record):
    """A chunk of the index; `character_start` and `character_end` are code points of its document."""

    chunk_id: str
    document_id: str
    logical_name: str
    chunk_index: int
    character_start: int
    character_end: int
    chunk_fingerprint: str
    text: str
