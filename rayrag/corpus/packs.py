"""Packs: files of source bytes, one document after the other by ascending id, and how they are written and read."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rayrag.corpus.records import RECORDS, write_records
from rayrag.corpus.scan import Document, Slice, read_documents
from rayrag.corpus.sources import SourceFile, unreadable
from rayrag.digests import Digests
from rayrag.errors import InputError, IntegrityError
from rayrag.schema.documents import Partition
from rayrag.storage import Storage

PACKS_FOLDER = "registry/packs"

_RECORD_BYTES = 512  # what a record counts for, so that a pack of tiny documents is bounded in number too
_WINDOW_BYTES = 32 << 20  # documents that are read ahead
_GAP_BYTES = 16 << 10  # reading so much for nothing is cheaper than another request


@dataclass(frozen=True, slots=True, eq=False)
class WriteTask:
    """The documents of a slice that are to be registered: (file, line, record digest), in order of file and line."""

    storage: Storage
    slice: Slice
    files: NDArray[np.int64]
    lines: NDArray[np.int64]
    record_digests: Digests
    ingested_at: datetime


def pack_path(pack: str) -> str:
    """Where the pack of that name is."""
    return f"{PACKS_FOLDER}/{pack}.pack"


def write_slice(task: WriteTask) -> list[Partition]:
    """Read the documents of a slice again and write them: packs of at most `pack_bytes`, and the records of each pack.

    A pack is named by the SHA-256 over its documents' digests in order, so writing it twice gives the same file.
    Raises InputError naming a file that is no longer what the scan has seen.
    """
    partitions: list[Partition] = []
    batch: list[Document] = []
    filled = 0
    for document in _selected(task):
        weight = len(document.data) + len(document.metadata) + _RECORD_BYTES
        if batch and filled + weight > task.slice.settings.pack_bytes:
            partitions.append(_write_pack(task, batch))
            batch, filled = [], 0
        batch.append(document)
        filled += weight
    if batch:
        partitions.append(_write_pack(task, batch))
    return partitions


def _selected(task: WriteTask) -> Iterator[Document]:
    positions, starts = np.unique(task.files, return_index=True)
    bounds = [*starts.tolist(), len(task.files)]
    for position, start, end in zip(positions.tolist(), bounds, bounds[1:], strict=False):
        file = task.slice.files[position]
        digests = task.record_digests[start:end]
        wanted = dict(zip(task.lines[start:end].tolist(), (row.tobytes() for row in digests), strict=True))
        try:
            for found in read_documents(file, task.slice.content_type, task.slice.settings.max_document_bytes):
                if isinstance(found, Document) and (digest := wanted.pop(found.line, None)) is not None:
                    if found.record_digest != digest:
                        raise _changed(file)
                    yield found
        except OSError as error:
            raise InputError(f"{file.source}: could be read once but not twice: {unreadable(error)}") from error
        if wanted:
            raise _changed(file)


def _changed(file: SourceFile) -> InputError:
    return InputError(f"{file.source}: changed while it was ingested; run again when nothing writes to it any more")


def _write_pack(task: WriteTask, batch: list[Document]) -> Partition:
    batch.sort(key=lambda document: document.sha256)
    pack = hashlib.sha256(b"".join(document.sha256 for document in batch)).hexdigest()
    with task.storage.writer(pack_path(pack)) as writer:
        for document in batch:
            writer.write(document.data)
    sizes = [len(document.data) for document in batch]
    columns = {
        "document_id": [f"doc-{document.sha256.hex()}" for document in batch],
        "size": sizes,
        "logical_name": [document.logical_name for document in batch],
        "content_type": [document.content_type for document in batch],
        "metadata": [document.metadata for document in batch],
        "ingested_at": [task.ingested_at] * len(batch),
        "pack": [pack] * len(batch),
        "offset": np.cumsum([0, *sizes[:-1]]),
        "record_digest": [document.record_digest for document in batch],
    }
    return write_records(task.storage, pa.table(columns, schema=RECORDS))


def read_sources(storage: Storage, documents: pa.Table) -> Iterator[tuple[str, bytes]]:
    """(document id, bytes) of each row of `documents`, in order; every document's SHA-256 is checked.

    The table has the columns `document_id` (text, or the 32 bytes of the digest), `size`, `pack` and `offset`. Reads
    of neighbours in a pack are one read; at most 32 MiB of documents, or one document, are held. Raises
    IntegrityError naming the pack.
    """
    sizes = documents["size"].to_numpy()
    start = 0
    while start < len(sizes):
        held = np.cumsum(sizes[start : start + (1 << 16)])
        end = start + max(1, int(np.searchsorted(held, _WINDOW_BYTES, side="right")))
        yield from _read_window(storage, documents.slice(start, end - start))
        start = end


def _read_window(storage: Storage, documents: pa.Table) -> Iterator[tuple[str, bytes]]:
    ids = documents["document_id"].to_pylist()
    names = [value if isinstance(value, str) else f"doc-{value.hex()}" for value in ids]
    packs, offsets, sizes = (documents[name].to_pylist() for name in ("pack", "offset", "size"))
    order = sorted(range(len(names)), key=lambda row: (packs[row], offsets[row]))
    found: dict[int, bytes] = {}
    first = 0
    while first < len(order):
        pack, begin = packs[order[first]], offsets[order[first]]
        last, end = first, begin + sizes[order[first]]
        while last + 1 < len(order):
            following = order[last + 1]
            reach = max(end, offsets[following] + sizes[following])
            if packs[following] != pack or offsets[following] > end + _GAP_BYTES or reach - begin > _WINDOW_BYTES:
                break
            last, end = last + 1, reach
        piece = memoryview(storage.read_range(pack_path(pack), begin, end - begin))
        for row in order[first : last + 1]:
            data = bytes(piece[offsets[row] - begin : offsets[row] - begin + sizes[row]])
            if hashlib.sha256(data).hexdigest() != names[row][4:]:
                raise IntegrityError(
                    f"{storage.where(pack_path(pack))}: bytes [{offsets[row]}, {offsets[row] + sizes[row]}) are not "
                    f"{names[row]}: the file was changed or damaged; restore it from a copy"
                )
            found[row] = data
        first = last + 1
    for row, name in enumerate(names):
        yield name, found.pop(row)
