"""The versions of the index in a store: how one is found, checked and committed."""

import re

from rayrag.corpus.registry import manifest_path as documents_path
from rayrag.corpus.registry import newest_version
from rayrag.errors import InputError, IntegrityError
from rayrag.fingerprint import GROUP_BITS, combine_groups, fingerprint
from rayrag.schema.index import IndexConfiguration, IndexManifest, ShardManifest
from rayrag.storage import Storage

VERSIONS = "index/versions"
SHARDS = "index/shards"
RUNS = "index/runs"
STATISTICS = "index/statistics"


def index_fingerprint(
    document_fingerprint: str, configuration: IndexConfiguration, chunk_count: int, entry_groups: dict[int, str]
) -> str:
    """SHA-256 over all deterministic inputs and all entries; independent of time, layout, order and place of work."""
    return fingerprint(
        {
            "schema_version": "1.0",
            "document_fingerprint": document_fingerprint,
            "configuration": configuration.content(),
            "chunk_count": chunk_count,
            "entries": combine_groups(entry_groups),
        }
    )


def entry_groups(shards: list[ShardManifest]) -> dict[int, str]:
    """The group digests of all shards together."""
    return {int(number, 16): digest for shard in shards for number, digest in shard.entry_groups.items()}


def manifest_path(version: int) -> str:
    """Where a version's `index.json` is."""
    return f"{VERSIONS}/{version:08d}/index.json"


def statistics_path(sha256: str) -> str:
    """Where statistics with that digest are."""
    return f"{STATISTICS}/{sha256}.arrow"


def shard_folder(key: str) -> str:
    """Where the shard with that key is."""
    return f"{SHARDS}/{key}"


def run_folder(key: str) -> str:
    """Where the result of the work unit with that key is."""
    return f"{RUNS}/{key}"


def version_numbers(storage: Storage) -> list[int]:
    """The versions there are, newest first."""
    names = [name for name in storage.list(VERSIONS) if re.fullmatch(r"\d{8}", name)]
    return [int(name) for name in reversed(names) if storage.exists(manifest_path(int(name)))]


def read_index_manifest(storage: Storage, version: int) -> IndexManifest:
    """A version's manifest; IntegrityError naming it when it is missing, damaged or in itself contradictory."""
    path = manifest_path(version)
    where = storage.where(path)
    manifest = IndexManifest.from_json(storage.read(path), where)
    bounds = [0, *(shard.end_group for shard in manifest.shards)]
    if manifest.version != version:
        raise IntegrityError(f"{where}: says it is version {manifest.version}; restore the file from a copy")
    if [shard.first_group for shard in manifest.shards] != bounds[:-1] or bounds[-1] != 1 << GROUP_BITS:
        raise IntegrityError(f"{where}: the shards do not cover the documents in order; restore the file from a copy")
    for count in ("document_count", "chunk_count"):
        if sum(getattr(shard, count) for shard in manifest.shards) != getattr(manifest, count):
            raise IntegrityError(f"{where}: {count} is not the sum over the shards; restore the file from a copy")
    return manifest


def newest(storage: Storage) -> IndexManifest | None:
    """The index that retrieval uses: the newest of those built from the newest registry version; None without any.

    Raises IntegrityError naming the file when a manifest is damaged, or the registry version that it names is missing.
    """
    registered = newest_version(storage)
    best: IndexManifest | None = None
    for version in version_numbers(storage):
        manifest = read_index_manifest(storage, version)
        if best is None or manifest.registry_version > best.registry_version:
            best = manifest
        if best.registry_version >= registered:
            break  # none can be newer
    if best is not None and not storage.exists(documents_path(best.registry_version)):
        raise IntegrityError(
            f"{storage.where(documents_path(best.registry_version))}: the file is missing, and version {best.version} "
            "of the index was built from it; restore it from a copy"
        )
    return best


def check_versions(storage: Storage) -> None:
    """IntegrityError when there are versions but no manifest of any: such a store is damaged, not without an index."""
    folders = [name for name in storage.list(VERSIONS) if re.fullmatch(r"\d{8}", name)]
    if folders and not version_numbers(storage):
        raise IntegrityError(
            f"{storage.where(manifest_path(int(folders[-1])))}: the file is missing; restore it from a copy, or run "
            f"`rayrag build-index --store {storage.root}`"
        )


def require_newest(storage: Storage) -> IndexManifest:
    """`newest`, or InputError that says how to build one."""
    manifest = newest(storage)
    if manifest is None:
        check_versions(storage)
        raise InputError(
            f"{storage.root}: no index has been built; run `rayrag build-index --store {storage.root}` first"
        )
    return manifest


def commit(storage: Storage, manifest: IndexManifest) -> IndexManifest:
    """Store the manifest as the next free version, whatever other builds do at the same time."""
    version = max(version_numbers(storage), default=0) + 1
    while not storage.create(manifest_path(version), manifest.model_copy(update={"version": version}).to_json()):
        version += 1
    return read_index_manifest(storage, version)
