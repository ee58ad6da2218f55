"""The verification of a store: everything is read again, hashed again and derived again from the source bytes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rayrag.corpus.packs import PACKS_FOLDER, pack_path
from rayrag.corpus.records import RECORDS_FOLDER
from rayrag.corpus.registry import Registry, read_sources
from rayrag.corpus.registry import version_numbers as registry_versions
from rayrag.digests import sortable
from rayrag.errors import IntegrityError
from rayrag.index.entries import Entries, entry_digests
from rayrag.index.plan import Unit, planned_documents
from rayrag.index.reader import Index
from rayrag.index.statistics import statistics_table
from rayrag.index.versions import (
    RUNS,
    SHARDS,
    STATISTICS,
    check_versions,
    manifest_path,
    newest,
    read_index_manifest,
    shard_folder,
    statistics_path,
    version_numbers,
)
from rayrag.index.work import prepare
from rayrag.schema.index import IndexManifest, VerifyReport
from rayrag.storage import Storage, require_store

_DERIVED = ("document_id", "chunk_index", "chunk_id", "fingerprint", "start", "end", "text")
_SLICE = 256  # documents that are held as text at a time


def verify(
    storage: Storage, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> VerifyReport:
    """Check every version of the registry and of the index; IntegrityError names the file at fault.

    Of the registry: every digest, and every document's bytes. Of an index: every digest and count; each chunk is cut
    again from its document, each text analysed again, the entry digests, statistics and fingerprints computed again.
    Vectors are checked by digest, not encoded again. Files that no version names are counted: what interrupted writers
    have left, or what belonged to a version that was removed.
    """
    require_store(storage)
    check_versions(storage)
    named: set[str] = set()
    read = np.zeros((0, 32), np.uint8)
    for version in registry_versions(storage):
        registry = Registry.load(storage, version)
        named |= {partition.path for partition in registry.manifest.partitions}
        named |= {pack_path(pack) for pack in pc.unique(registry.table["pack"]).to_pylist()}
        _ = registry.record_digests  # derived and compared
        fresh = registry.table.filter(pa.array(~np.isin(sortable(registry.digests), sortable(read))))
        for done, _ in enumerate(read_sources(storage, fresh), 1):
            progress("documents", done, len(fresh))
        read = np.concatenate([read, registry.digests])
    derived: set[str] = set()
    for version in version_numbers(storage):
        manifest = read_index_manifest(storage, version)
        _verify_index(storage, manifest, derived, progress)
        named.add(statistics_path(manifest.statistics.sha256))
        derived |= {shard.key for shard in manifest.shards}
    registry, index = Registry.load(storage), newest(storage)
    named |= {shard_folder(key) for key in derived}
    folders = (PACKS_FOLDER, RECORDS_FOLDER, STATISTICS, SHARDS, RUNS)
    stored = {f"{folder}/{name}" for folder in folders for name in storage.list(folder)}
    return VerifyReport(
        registry_version=registry.version,
        document_count=len(registry.table),
        document_fingerprint=registry.manifest.document_fingerprint,
        index_version=index.version if index else None,
        index_fingerprint=index.index_fingerprint if index else None,
        chunk_count=index.chunk_count if index else 0,
        stale=index is not None and index.registry_version < registry.version,
        registry_versions=len(registry_versions(storage)),
        index_versions=len(version_numbers(storage)),
        left_over=len(stored - named),
    )


def _verify_index(
    storage: Storage, manifest: IndexManifest, derived: set[str], progress: Callable[[str, int, int], None]
) -> None:
    """Check an index; shards whose keys are in `derived` have been derived again for another version."""
    registry = Registry.load(storage, manifest.registry_version)
    where = storage.where(manifest_path(manifest.version))
    if registry.manifest.document_fingerprint != manifest.document_fingerprint:
        raise IntegrityError(
            f"{where}: built from documents with fingerprint {manifest.document_fingerprint}, but version "
            f"{manifest.registry_version} of the registry has {registry.manifest.document_fingerprint}"
        )
    index = Index.load(storage, manifest)
    documents = planned_documents(registry)
    checked = 0
    for reference, entries in zip(manifest.shards, index.shards, strict=True):
        shard = _Shard(storage, manifest, shard_folder(reference.key), entries)
        members = documents.slice(checked, len(entries.documents))
        shard.check_documents(members)
        if reference.key not in derived:
            shard.check_postings()
        for start in range(0, len(members) if reference.key not in derived else 0, _SLICE):
            shard.check_chunks(members.slice(start, _SLICE))
            progress("entries", checked + min(start + _SLICE, len(members)), len(documents))
        checked += len(members)
    if checked != len(documents):
        raise IntegrityError(f"{where}: holds {checked} of the {len(documents)} documents that it was built from")
    expected = statistics_table(
        (entries.postings for entries in index.shards), manifest.chunk_count, manifest.configuration.sparse.epsilon
    )
    if not expected.equals(index.statistics):
        raise IntegrityError(
            f"{storage.where(statistics_path(manifest.statistics.sha256))}: not the statistics of the index's shards"
        )


@dataclass(frozen=True, slots=True)
class _Shard:
    storage: Storage
    manifest: IndexManifest
    folder: str
    entries: Entries

    def where(self, name: str) -> str:
        return self.storage.where(f"{self.folder}/{name}")

    def check_documents(self, members: pa.Table) -> None:
        """The shard's documents are the next ones of the registry, by all that it says of them."""
        for name in members.column_names[:6]:
            if not members[name].equals(self.entries.documents[name]):
                raise IntegrityError(f"{self.where('documents.arrow')}: {name} is not what the registry has")

    def check_postings(self) -> None:
        """The entry digests follow from the stored chunks, vectors and postings."""
        chunks = self.entries.chunks
        digests = entry_digests(chunks["fingerprint"].to_pylist(), self.entries.vectors, self.entries.postings)
        if digests != chunks["entry_digest"].to_pylist():
            raise IntegrityError(
                f"{self.where('postings.arrow')}: chunks, vectors and postings do not give the entry digests"
            )

    def check_chunks(self, members: pa.Table) -> None:
        """The chunks and terms of some documents follow from their bytes."""
        prepared = prepare(self.storage, self.manifest.configuration, Unit("", members))
        ends = np.cumsum(self.entries.documents["chunk_count"].to_numpy())
        first = self.entries.documents["document_id"].index(members["document_id"][0]).as_py()
        start, end = ends[first] - self.entries.documents["chunk_count"][first].as_py(), ends[first + len(members) - 1]
        stored = self.entries.chunks.slice(start, end - start)
        if not stored.select(_DERIVED).equals(prepared.chunks.select(_DERIVED)):
            raise IntegrityError(f"{self.where('chunks.arrow')}: chunks are not those of the documents")
        vectors = self.entries.vectors[start:end]
        digests = entry_digests(stored["fingerprint"].to_pylist(), vectors, prepared.postings)
        if digests != stored["entry_digest"].to_pylist():
            raise IntegrityError(f"{self.where('postings.arrow')}: terms are not those of the documents")
