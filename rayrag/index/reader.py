"""An index opened for reading: its manifest, statistics and shards, checked."""

from dataclasses import dataclass

import pyarrow as pa

from rayrag.errors import IntegrityError
from rayrag.index.entries import Entries
from rayrag.index.postings import position
from rayrag.index.shard import check_range, read_manifest, read_shard
from rayrag.index.sparse import WeightedTerm
from rayrag.index.tables import STATISTICS
from rayrag.index.versions import (
    entry_groups,
    index_fingerprint,
    manifest_path,
    shard_folder,
    statistics_path,
)
from rayrag.ipc import from_ipc
from rayrag.schema.index import IndexManifest, ShardManifest, ShardReference
from rayrag.storage import Storage


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """One version of the index. `shards` are in range order; their arrays are memory-mapped on a local store."""

    manifest: IndexManifest
    statistics: pa.Table
    shards: list[Entries]

    @classmethod
    def load(cls, storage: Storage, manifest: IndexManifest) -> "Index":
        """Read and check every file of the index; IntegrityError names the file at fault.

        Checked are all file digests, the order of entries, the shards' ranges, counts, and the fingerprints from the
        entry digests up. What only `verify` does is to compare entries with the documents they come from.
        """
        manifests = [read_reference(storage, reference) for reference in manifest.shards]
        where = storage.where(manifest_path(manifest.version))
        actual = index_fingerprint(
            manifest.document_fingerprint, manifest.configuration, manifest.chunk_count, entry_groups(manifests)
        )
        if actual != manifest.index_fingerprint:
            raise IntegrityError(f"{where}: index_fingerprint is not that of its shards, which have {actual}")
        if sum(shard.term_total for shard in manifests) != manifest.term_total:
            raise IntegrityError(f"{where}: term_total is not the sum over the shards")
        shards = []
        for reference, shard in zip(manifest.shards, manifests, strict=True):
            folder = shard_folder(reference.key)
            entries = read_shard(storage, folder, shard)
            check_range(storage, folder, entries, reference.first_group, reference.end_group)
            shards.append(entries)
        return cls(manifest, read_statistics(storage, manifest), shards)

    @property
    def average_length(self) -> float:
        """Terms per chunk over the whole index."""
        return self.manifest.term_total / self.manifest.chunk_count

    def weigh(self, counts: dict[str, int]) -> tuple[WeightedTerm, ...]:
        """The terms of a query that the index knows, ascending, with their idf."""
        terms = self.statistics["term"].chunk(0) if len(self.statistics) else pa.array([], pa.large_string())
        weighted = []
        for term in sorted(counts):
            number = position(terms, term)
            if number is not None:
                weighted.append(WeightedTerm(term, counts[term], self.statistics["idf"][number].as_py()))
        return tuple(weighted)


def read_reference(storage: Storage, reference: ShardReference) -> ShardManifest:
    """The manifest of a shard that an index names; IntegrityError when it is not the one named."""
    folder = shard_folder(reference.key)
    shard = read_manifest(storage, folder, sha256=reference.sha256)
    if (shard.document_count, shard.chunk_count) != (reference.document_count, reference.chunk_count):
        raise IntegrityError(f"{storage.where(folder)}/shard.json: other counts than the index states for it")
    return shard


def read_statistics(storage: Storage, manifest: IndexManifest) -> pa.Table:
    """The statistics of an index, by ascending term."""
    path = statistics_path(manifest.statistics.sha256)
    return from_ipc(storage.buffer(path, sha256=manifest.statistics.sha256), STATISTICS, storage.where(path))
