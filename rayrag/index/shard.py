"""A shard on disk: four immutable files and `shard.json`, which is written last and names them with their digests.

Runs, the results of work units, have the same form; they are shards that no index names.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rayrag.digests import digests_of, group_numbers, is_ascending
from rayrag.errors import IntegrityError
from rayrag.index.entries import Entries
from rayrag.index.postings import Postings
from rayrag.index.tables import CHUNKS, DOCUMENTS, POSTINGS
from rayrag.ipc import from_ipc, to_ipc
from rayrag.schema.index import ShardManifest, StoredFile
from rayrag.storage import Storage

MANIFEST = "shard.json"
FILES = ("chunks.arrow", "documents.arrow", "postings.arrow", "vectors.npy")


def write_shard(storage: Storage, folder: str, entries: Entries) -> tuple[ShardManifest, str]:
    """Write the entries into `folder`; returns the manifest and the SHA-256 of `shard.json`."""
    postings = entries.postings
    sink = io.BytesIO()
    np.lib.format.write_array_header_1_0(sink, np.lib.format.header_data_from_array_1_0(entries.vectors))
    header = sink.getvalue()
    pieces: dict[str, list[Any]] = {
        "chunks.arrow": [to_ipc(entries.chunks)],
        "documents.arrow": [to_ipc(entries.documents)],
        "postings.arrow": [to_ipc(postings.to_table())],
        "vectors.npy": [header, np.ascontiguousarray(entries.vectors)],
    }
    files = {}
    for name in FILES:
        with storage.writer(f"{folder}/{name}") as writer:
            for piece in pieces.pop(name):
                writer.write(piece)
        files[name] = StoredFile(sha256=writer.sha256, size=writer.size)
    manifest = ShardManifest(
        document_count=len(entries.documents),
        chunk_count=len(entries.chunks),
        dimension=entries.vectors.shape[1],
        term_total=int(postings.frequencies.sum(dtype=np.int64)),
        entry_groups={f"{number:03x}": digest for number, digest in entries.entry_groups.items()},
        files=files,
    )
    return manifest, storage.put(f"{folder}/{MANIFEST}", manifest.to_json())


@contextmanager
def _mendable(storage: Storage, folder: str) -> Iterator[None]:
    """Adds to an error what mends it besides a copy."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(
            f"{error}; or delete the folder {storage.where(folder)} and run `rayrag build-index`, which makes it again"
        ) from error


def intact(storage: Storage, folder: str, *, sha256: str | None = None) -> ShardManifest | None:
    """The shard's manifest where that is whole and all its files are there in the sizes it states, else None.

    A build uses such a shard again, and makes any other anew. Digests are compared when a file is read.
    """
    if not storage.exists(f"{folder}/{MANIFEST}"):
        return None
    try:
        manifest = read_manifest(storage, folder, sha256=sha256)
    except IntegrityError:
        return None
    paths = {f"{folder}/{name}": file.size for name, file in manifest.files.items()}
    return manifest if all(storage.exists(p) and storage.size(p) == size for p, size in paths.items()) else None


def read_manifest(storage: Storage, folder: str, *, sha256: str | None = None) -> ShardManifest:
    """The shard's manifest; IntegrityError naming it when it is missing, damaged or another one than `sha256`."""
    path = f"{folder}/{MANIFEST}"
    with _mendable(storage, folder):
        manifest = ShardManifest.from_json(storage.read(path, sha256=sha256), storage.where(path))
    if tuple(sorted(manifest.files)) != FILES:
        raise IntegrityError(f"{storage.where(path)}: names other files than {', '.join(FILES)}")
    return manifest


def read_shard(storage: Storage, folder: str, manifest: ShardManifest) -> Entries:
    """The entries of a shard, memory-mapped where the store is local.

    Every file's digest, the order of entries and all counts are checked; IntegrityError names the file at fault.
    """

    def where(name: str) -> str:
        return storage.where(f"{folder}/{name}")

    documents = read_documents(storage, folder, manifest)
    chunks = from_ipc(_data(storage, folder, "chunks.arrow", manifest), CHUNKS, where("chunks.arrow"))
    vectors = _vectors(_data(storage, folder, "vectors.npy", manifest), where("vectors.npy"))
    postings = read_postings(storage, folder, manifest)
    entries = Entries(documents, chunks, vectors, postings)
    _check(entries, manifest, where)
    return entries


def read_postings(storage: Storage, folder: str, manifest: ShardManifest) -> Postings:
    """The shard's postings alone, checked like `read_shard`."""
    path = f"{folder}/postings.arrow"
    data = _data(storage, folder, "postings.arrow", manifest)
    try:
        return Postings.from_table(from_ipc(data, POSTINGS, storage.where(path)), manifest.chunk_count)
    except ValueError as error:
        raise IntegrityError(f"{storage.where(path)}: {error}") from error


def read_documents(storage: Storage, folder: str, manifest: ShardManifest) -> pa.Table:
    """The shard's documents alone; the digest of the file is checked."""
    data = _data(storage, folder, "documents.arrow", manifest)
    return from_ipc(data, DOCUMENTS, storage.where(f"{folder}/documents.arrow"))


def _data(storage: Storage, folder: str, name: str, manifest: ShardManifest) -> pa.Buffer:
    with _mendable(storage, folder):
        return storage.buffer(f"{folder}/{name}", sha256=manifest.files[name].sha256)


def _check(entries: Entries, manifest: ShardManifest, where: Any) -> None:
    documents, chunks = entries.documents, entries.chunks
    if len(documents) != manifest.document_count or len(chunks) != manifest.chunk_count:
        raise IntegrityError(
            f"{where(MANIFEST)}: {manifest.document_count} documents and {manifest.chunk_count} chunks are stated, "
            f"the files hold {len(documents)} and {len(chunks)}"
        )
    ids = digests_of(documents["document_id"])
    if not is_ascending(ids):
        raise IntegrityError(f"{where('documents.arrow')}: documents are not in ascending order of their ids")
    counts = documents["chunk_count"].to_numpy()
    starts = np.cumsum(counts) - counts
    if (
        counts.sum() != len(chunks)
        or (digests_of(chunks["document_id"]) != np.repeat(ids, counts, axis=0)).any()
        or (chunks["chunk_index"].to_numpy() != np.arange(len(chunks)) - np.repeat(starts, counts)).any()
    ):
        raise IntegrityError(f"{where('chunks.arrow')}: entries are not in the order of documents and chunk indexes")
    if entries.vectors.shape != (len(chunks), manifest.dimension):
        raise IntegrityError(
            f"{where('vectors.npy')}: shape is {entries.vectors.shape}, expected {(len(chunks), manifest.dimension)}"
        )
    if {f"{number:03x}": digest for number, digest in entries.entry_groups.items()} != manifest.entry_groups:
        raise IntegrityError(f"{where('chunks.arrow')}: the entry digests do not add up to those of {MANIFEST}")
    if int(entries.postings.frequencies.sum(dtype=np.int64)) != manifest.term_total:
        raise IntegrityError(f"{where('postings.arrow')}: the frequencies do not add up to {manifest.term_total} terms")


def check_range(storage: Storage, folder: str, entries: Entries, first_group: int, end_group: int) -> None:
    """IntegrityError when a document of the shard lies outside groups [first_group, end_group)."""
    groups = group_numbers(digests_of(entries.documents["document_id"]))
    if len(groups) and not (first_group <= groups[0] and groups[-1] < end_group):
        raise IntegrityError(
            f"{storage.where(f'{folder}/documents.arrow')}: holds documents outside the shard's range "
            f"[{first_group:03x}, {end_group:03x})"
        )


def _vectors(data: pa.Buffer, where: str) -> NDArray[np.float32]:
    head = io.BytesIO(data.slice(0, min(data.size, 256)).to_pybytes())
    try:
        if np.lib.format.read_magic(head) != (1, 0):
            raise ValueError("another version of the format")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    except ValueError as error:
        raise IntegrityError(f"{where}: not a NumPy file: {error}") from error
    if dtype != np.dtype("<f4") or fortran or len(shape) != 2 or data.size - head.tell() != 4 * shape[0] * shape[1]:
        raise IntegrityError(f"{where}: not a row-major float32 matrix of {shape}")
    return np.frombuffer(data, "<f4", offset=head.tell()).reshape(shape)
