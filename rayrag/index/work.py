"""The steps that run on workers: prepare a unit, encode it into a run, merge runs into a shard.

They are plain functions over values that pickle. Where they run is an executor's concern.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from rayrag.chunking.windows import chunk_document
from rayrag.corpus.registry import read_sources, text_of
from rayrag.embedding.base import Encoder
from rayrag.errors import IntegrityError
from rayrag.fingerprint import sha256_hex
from rayrag.index.analyzer import Analyzer
from rayrag.index.entries import UNFINISHED_CHUNKS, Documents, Entries, chunk_table, merge
from rayrag.index.plan import PLANNED, ShardTask, Unit
from rayrag.index.postings import Postings
from rayrag.index.shard import intact, read_manifest, read_shard, write_shard
from rayrag.index.tables import POSTINGS
from rayrag.index.versions import run_folder, shard_folder
from rayrag.ipc import from_ipc, to_ipc
from rayrag.schema.index import IndexConfiguration, ShardManifest, ShardReference
from rayrag.storage import Storage


class RunReport(NamedTuple):
    """What became of a unit. `encoded` is 0 where an earlier attempt wrote the run; `seconds` are the encoder's."""

    key: str
    document_count: int
    chunk_count: int
    encoded: int
    truncated: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A unit before encoding: its documents, chunks (all columns but the entry digest) and term frequencies."""

    key: str
    documents: Documents
    chunks: pa.Table
    postings: Postings

    def to_row(self) -> dict[str, Any]:
        """The same as Arrow IPC bytes, for transport."""
        return {
            "key": self.key,
            "documents": to_ipc(self.documents).to_pybytes(),
            "chunks": to_ipc(self.chunks).to_pybytes(),
            "postings": to_ipc(self.postings.to_table()).to_pybytes(),
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "Prepared":
        """The inverse of `to_row`."""
        documents, chunks, postings = (
            from_ipc(pa.py_buffer(row[name]), schema, f"unit {row['key']}")
            for name, schema in (("documents", PLANNED), ("chunks", UNFINISHED_CHUNKS), ("postings", POSTINGS))
        )
        return cls(row["key"], documents, chunks, Postings.from_table(postings, len(chunks)))


def finished_run(storage: Storage, unit: Unit) -> RunReport | None:
    """The report of a run that an earlier attempt has written whole; None when there is none or it is damaged."""
    folder = run_folder(unit.key)
    manifest = intact(storage, folder)
    if manifest is None:
        return None
    try:
        read_shard(storage, folder, manifest)
    except IntegrityError:  # a run is ours to write again
        return None
    return RunReport(unit.key, manifest.document_count, manifest.chunk_count, 0, 0, 0.0)


def prepare(storage: Storage, configuration: IndexConfiguration, unit: Unit) -> Prepared:
    """Read (checking every sha256), decode, chunk and analyse the documents of a unit."""
    analyzer = _analyzer(configuration)
    chunks = [
        chunk
        for document_id, data in read_sources(storage, unit.documents)
        for chunk in chunk_document(document_id, text_of(data), configuration.chunking)
    ]
    postings = Postings.of_counts([analyzer.counts(chunk.text) for chunk in chunks])
    return Prepared(unit.key, unit.documents, chunk_table(chunks), postings)


def check_encoder(encoder: Encoder, configuration: IndexConfiguration) -> None:
    """IntegrityError when a worker's encoder is not the one that the build was planned with."""
    for stated, actual in (
        (configuration.embedding, encoder.configuration),
        (configuration.embedding_metadata, encoder.metadata),
    ):
        if stated != actual:
            raise IntegrityError(
                f"this worker encodes with {actual.to_json().decode().strip()}, the build with "
                f"{stated.to_json().decode().strip()}: a build needs one hardware class and one set of versions"
            )


def encode(storage: Storage, encoder: Encoder, prepared: Prepared) -> RunReport:
    """Encode a prepared unit and write its run."""
    texts = prepared.chunks["text"].to_pylist()
    started = time.perf_counter()
    vectors = encoder.encode(texts, "passage")
    seconds = time.perf_counter() - started
    entries = Entries.assemble(prepared.documents, prepared.chunks, vectors, prepared.postings)
    write_shard(storage, run_folder(prepared.key), entries)
    truncated = encoder.truncated(texts, "passage")
    return RunReport(prepared.key, len(prepared.documents), len(texts), len(texts), truncated, seconds)


def merge_shard(
    storage: Storage, configuration: IndexConfiguration, task: ShardTask
) -> tuple[ShardReference, ShardManifest]:
    """Merge a shard from its sources and write it, unless it is there; the same bytes whatever the sources are."""
    folder = shard_folder(task.key)
    manifest = intact(storage, folder)
    if manifest is not None:
        sha256 = sha256_hex(manifest.to_json())
    else:
        parts = []
        for source in task.sources:
            part = read_shard(storage, source.folder, read_manifest(storage, source.folder, sha256=source.sha256))
            if source.analyze:
                analyzer = _analyzer(configuration)
                part = part.with_counts([analyzer.counts(text) for text in part.chunks["text"].to_pylist()])
            parts.append(part)
        entries = merge(task.documents, parts, configuration.embedding.dimension)
        manifest, sha256 = write_shard(storage, folder, entries)
    reference = ShardReference(
        key=task.key,
        sha256=sha256,
        first_group=task.first_group,
        end_group=task.end_group,
        document_count=manifest.document_count,
        chunk_count=manifest.chunk_count,
    )
    return reference, manifest


def _analyzer(configuration: IndexConfiguration) -> Analyzer:
    """The analyser of a build; IntegrityError when this installation's would give other terms."""
    analyzer = Analyzer(configuration.sparse.analyzer)
    if analyzer.metadata != configuration.analyzer_metadata:
        raise IntegrityError(
            f"this installation analyses texts by {analyzer.metadata.content()}, the index is built by "
            f"{configuration.analyzer_metadata.content()}: install the same versions of Python, regex and PyStemmer"
        )
    return analyzer
