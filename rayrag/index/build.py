"""The build: from a registry snapshot and a configuration to a committed index."""

import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pyarrow as pa

from rayrag.chunking.windows import chunker_version
from rayrag.corpus.registry import Registry
from rayrag.errors import InputError
from rayrag.index.analyzer import Analyzer
from rayrag.index.executor import Executor
from rayrag.index.plan import EarlierIndex, Plan, ShardTask, Unit, make_plan, planned_documents, shard_bounds
from rayrag.index.shard import FILES, MANIFEST, intact, read_documents, read_postings
from rayrag.index.statistics import statistics_table
from rayrag.index.tables import DOCUMENTS
from rayrag.index.versions import (
    commit,
    entry_groups,
    index_fingerprint,
    newest,
    read_index_manifest,
    run_folder,
    shard_folder,
    statistics_path,
    version_numbers,
)
from rayrag.index.work import merge_shard
from rayrag.ipc import to_ipc
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import (
    BuildReport,
    IndexConfiguration,
    IndexManifest,
    IndexSettings,
    ShardManifest,
    ShardReference,
    StoredFile,
)
from rayrag.schema.sparse import SparseConfiguration
from rayrag.storage import Storage, require_store

Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is."""


def build_index(
    storage: Storage,
    *,
    chunking: ChunkConfiguration,
    sparse: SparseConfiguration,
    encoder: EncoderSettings,
    settings: IndexSettings,
    executor: Executor,
    progress: Progress = lambda stage, done, total: None,
) -> BuildReport:
    """Build the index of the newest registry version, or find that it is there.

    Whatever was finished before is used: runs of an interrupted build, shards that have not changed, and chunks and
    vectors of documents that an earlier index holds. Nothing is visible before the last step. Raises InputError when
    the store holds no document, IntegrityError when what it holds is damaged.
    """
    clock = _Clock()
    with clock.stage("plan"):
        require_store(storage)
        current = newest(storage)
        registry = Registry.load(storage)
        if registry.version == 0 or len(registry.table) == 0:
            raise InputError(f"{storage.root}: no documents; run `rayrag ingest PATH --store {storage.root}` first")
        analyzer = Analyzer(sparse.analyzer)
    with clock.stage("encoder"):
        progress("encoder", 0, 1)
        embedding, embedding_metadata = executor.describe_encoder(encoder)
        progress("encoder", 1, 1)
    configuration = IndexConfiguration(
        chunking=chunking,
        chunker_version=chunker_version(chunking.separator_strategy),
        embedding=embedding,
        embedding_metadata=embedding_metadata,
        sparse=sparse,
        analyzer_metadata=analyzer.metadata,
    )
    with clock.stage("plan"):
        if current is not None and _is_current(storage, current, registry, configuration, settings):
            return _report(current, encoded=0, truncated=0, changed=False, seconds=clock.seconds)
        documents = planned_documents(registry)
        plan = make_plan(documents, configuration, settings, _earlier(storage, configuration))
    with clock.stage("encode"):
        encoded, truncated = _run_units(storage, configuration, encoder, plan, executor, progress)
    with clock.stage("merge"):
        references, shards = _merge(storage, configuration, plan, executor, progress)
    with clock.stage("statistics"):
        statistics = _write_statistics(storage, sparse, references, shards)
    with clock.stage("commit"):
        chunk_count = sum(shard.chunk_count for shard in shards)
        manifest = commit(
            storage,
            IndexManifest(
                version=1,  # commit gives it its number
                registry_version=registry.version,
                document_count=len(documents),
                document_fingerprint=registry.manifest.document_fingerprint,
                chunk_count=chunk_count,
                term_total=sum(shard.term_total for shard in shards),
                configuration=configuration,
                statistics=statistics,
                shards=references,
                index_fingerprint=index_fingerprint(
                    registry.manifest.document_fingerprint, configuration, chunk_count, entry_groups(shards)
                ),
                built_at=datetime.now(UTC),
            ),
        )
        _delete_runs(storage, plan.units)
    return _report(manifest, encoded=encoded, truncated=truncated, changed=True, seconds=clock.seconds)


def _is_current(
    storage: Storage,
    manifest: IndexManifest,
    registry: Registry,
    configuration: IndexConfiguration,
    settings: IndexSettings,
) -> bool:
    """Whether the build would give this index again, layout included, and all its files are there."""
    total_bytes = registry.manifest.total_bytes
    return (
        manifest.registry_version == registry.version
        and manifest.document_fingerprint == registry.manifest.document_fingerprint
        and manifest.configuration == configuration
        and [0, *(shard.end_group for shard in manifest.shards)] == shard_bounds(settings, total_bytes)
        and all(intact(storage, shard_folder(shard.key), sha256=shard.sha256) for shard in manifest.shards)
        and storage.exists(statistics_path(manifest.statistics.sha256))
        and storage.size(statistics_path(manifest.statistics.sha256)) == manifest.statistics.size
    )


def _earlier(storage: Storage, configuration: IndexConfiguration) -> EarlierIndex | None:
    """The newest index whose chunks and vectors are those of `configuration`."""
    for version in version_numbers(storage):
        manifest = read_index_manifest(storage, version)
        if configuration.embeds_like(manifest.configuration):
            return EarlierIndex(manifest, [_documents_held(storage, shard) for shard in manifest.shards])
    return None


def _documents_held(storage: Storage, shard: ShardReference) -> pa.Table:
    """The documents of a shard whose files are there; none of one that is damaged, which the build makes anew."""
    manifest = intact(storage, shard_folder(shard.key), sha256=shard.sha256)
    return DOCUMENTS.empty_table() if manifest is None else read_documents(storage, shard_folder(shard.key), manifest)


def _run_units(
    storage: Storage,
    configuration: IndexConfiguration,
    encoder: EncoderSettings,
    plan: Plan,
    executor: Executor,
    progress: Progress,
) -> tuple[int, int]:
    """Encode the units; how many chunks were encoded, and how many of them truncated."""
    if not plan.units:
        return 0, 0
    done = encoded = truncated = 0
    total = sum(len(unit.documents) for unit in plan.units)
    progress("encode", 0, total)
    for report in executor.run_units(storage, configuration, encoder, plan.units):
        done += report.document_count
        encoded += report.encoded
        truncated += report.truncated
        progress("encode", done, total)
    return encoded, truncated


def _merge(
    storage: Storage, configuration: IndexConfiguration, plan: Plan, executor: Executor, progress: Progress
) -> tuple[list[ShardReference], list[ShardManifest]]:
    references, shards = [], []
    progress("merge", 0, len(plan.shards))
    tasks: list[ShardTask] = plan.shards
    for reference, shard in executor.map(functools.partial(merge_shard, storage, configuration), tasks):
        references.append(reference)
        shards.append(shard)
        progress("merge", len(shards), len(tasks))
    return references, shards


def _write_statistics(
    storage: Storage, sparse: SparseConfiguration, references: list[ShardReference], shards: list[ShardManifest]
) -> StoredFile:
    postings = (
        read_postings(storage, shard_folder(reference.key), shard)
        for reference, shard in zip(references, shards, strict=True)
    )
    data = to_ipc(statistics_table(postings, sum(shard.chunk_count for shard in shards), sparse.epsilon))
    sha256 = hashlib.sha256(data).hexdigest()
    storage.put(statistics_path(sha256), data)
    return StoredFile(sha256=sha256, size=data.size)


def _delete_runs(storage: Storage, units: list[Unit]) -> None:
    """Runs have served once an index holds their entries. The manifest goes first: a run without it is not one."""
    for unit in units:
        for name in (MANIFEST, *FILES):
            storage.delete(f"{run_folder(unit.key)}/{name}")
        storage.delete(run_folder(unit.key))


def _report(
    manifest: IndexManifest, *, encoded: int, truncated: int, changed: bool, seconds: dict[str, float]
) -> BuildReport:
    return BuildReport(
        index_fingerprint=manifest.index_fingerprint,
        index_version=manifest.version,
        document_fingerprint=manifest.document_fingerprint,
        document_count=manifest.document_count,
        chunk_count=manifest.chunk_count,
        chunks_encoded=encoded,
        chunks_reused=manifest.chunk_count - encoded,
        chunks_truncated=truncated,
        shard_count=len(manifest.shards),
        changed=changed,
        embedding=manifest.configuration.embedding,
        embedding_metadata=manifest.configuration.embedding_metadata,
        seconds={stage: round(value, 3) for stage, value in seconds.items()},
    )


class _Clock:
    """Seconds of wall time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
