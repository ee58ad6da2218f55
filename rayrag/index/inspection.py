"""What a store holds, by its manifests; and one chunk, checked against its document."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from rayrag.corpus.registry import Registry, text_of
from rayrag.errors import InputError, IntegrityError
from rayrag.index.entries import Entries
from rayrag.index.reader import read_reference
from rayrag.index.shard import read_shard
from rayrag.index.tables import DIGEST
from rayrag.index.versions import check_versions, manifest_path, newest, require_newest, shard_folder
from rayrag.schema.index import FoundChunk, Inspection
from rayrag.storage import Storage, require_store


def inspect_store(storage: Storage) -> Inspection:
    """The newest registry version and the index that retrieval uses; the manifests are checked, the files not read."""
    require_store(storage)
    registry = Registry.load(storage)
    check_versions(storage)
    manifest = newest(storage)
    return Inspection(
        store=storage.root,
        registry_version=registry.version,
        document_count=registry.manifest.document_count,
        total_bytes=registry.manifest.total_bytes,
        document_fingerprint=registry.manifest.document_fingerprint,
        index_version=manifest.version if manifest else None,
        indexed_registry_version=manifest.registry_version if manifest else None,
        stale=manifest is not None and manifest.registry_version < registry.version,
        built_at=manifest.built_at if manifest else None,
        chunk_count=manifest.chunk_count if manifest else 0,
        index_fingerprint=manifest.index_fingerprint if manifest else None,
        configuration=manifest.configuration if manifest else None,
        shards=manifest.shards if manifest else [],
    )


def find_chunk(storage: Storage, chunk_id: str) -> FoundChunk:
    """A chunk of the index by its id; its text and identity are compared with the document's own bytes.

    Raises InputError for an id that is none or unknown, IntegrityError when index and document disagree.
    """
    if not re.fullmatch(r"chunk-[0-9a-f]{64}", chunk_id):
        raise InputError(f"{chunk_id!r} is not a chunk id: expected chunk- and 64 hexadecimal digits")
    require_store(storage)
    manifest = require_newest(storage)
    wanted = pa.scalar(bytes.fromhex(chunk_id[6:]), DIGEST)
    for reference in manifest.shards:
        folder = shard_folder(reference.key)
        entries = read_shard(storage, folder, read_reference(storage, reference))
        row = pc.index(entries.chunks["chunk_id"], wanted).as_py()
        if row >= 0:
            found = _found(entries, row)
            registry = Registry.load(storage, manifest.registry_version)
            text = text_of(registry.read(registry.record(found.document_id)))
            if text[found.character_start : found.character_end] != found.text:
                raise IntegrityError(
                    f"{storage.where(f'{folder}/chunks.arrow')}: {chunk_id} is not characters "
                    f"[{found.character_start}, {found.character_end}) of {found.document_id}"
                )
            return found
    raise InputError(f"{chunk_id} is not in the index ({storage.where(manifest_path(manifest.version))})")


def _found(entries: Entries, row: int) -> FoundChunk:
    chunk = {name: column[0] for name, column in entries.chunks.slice(row, 1).to_pydict().items()}
    at = pc.index(entries.documents["document_id"], pa.scalar(chunk["document_id"], DIGEST)).as_py()
    return FoundChunk(
        chunk_id=f"chunk-{chunk['chunk_id'].hex()}",
        document_id=f"doc-{chunk['document_id'].hex()}",
        logical_name=entries.documents["logical_name"][at].as_py(),
        chunk_index=chunk["chunk_index"],
        character_start=chunk["start"],
        character_end=chunk["end"],
        chunk_fingerprint=chunk["fingerprint"].hex(),
        text=chunk["text"],
    )
