"""Reading the offered files: each document of a file, and what a slice of files holds."""

import contextlib
import hashlib
import io
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rayrag.corpus.content import content_type_of, decode, is_empty, name_problem
from rayrag.corpus.json_lines import LineError, parse_line, split_lines
from rayrag.corpus.sources import Rejection, SourceFile, too_large, unreadable
from rayrag.schema.documents import ContentType, CorpusSettings, record_digest

_FILE_BYTES = 4096  # what opening a file counts for, so that a slice of tiny files is not endless


class Document(NamedTuple):
    """A document as read: `line` is 0 where it is the whole file; `metadata` is canonical JSON."""

    line: int
    logical_name: str
    content_type: ContentType
    metadata: str
    data: bytes
    sha256: bytes
    record_digest: bytes


@dataclass(frozen=True, slots=True)
class Slice:
    """Files that one task reads. `content_type` is the stated one, if any."""

    files: tuple[SourceFile, ...]
    content_type: ContentType | None
    settings: CorpusSettings


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """What a slice holds: one element per document in order of (file, line), and the rejections.

    `files` are positions in the slice. Digests are [n, 32] bytes. Nothing else is kept, so that a scan is small.
    """

    files: NDArray[np.int64]
    lines: NDArray[np.int64]
    sizes: NDArray[np.int64]
    sha256: NDArray[np.uint8]
    record_digests: NDArray[np.uint8]
    rejections: tuple[Rejection, ...]


def make_slices(files: Sequence[SourceFile], content_type: ContentType | None, settings: CorpusSettings) -> list[Slice]:
    """The files in slices of about `settings.slice_bytes`, in order; a file is never divided."""
    slices: list[Slice] = []
    members: list[SourceFile] = []
    filled = 0
    for file in files:
        weight = file.size + _FILE_BYTES
        if members and filled + weight > settings.slice_bytes:
            slices.append(Slice(tuple(members), content_type, settings))
            members, filled = [], 0
        members.append(file)
        filled += weight
    if members:
        slices.append(Slice(tuple(members), content_type, settings))
    return slices


def scan_slice(work: Slice) -> Scan:
    """Read every file of a slice once; memory is bounded by the largest document, whatever the size of the files."""
    files, lines, sizes, sha256, digests = array("q"), array("q"), array("q"), bytearray(), bytearray()
    rejections: list[Rejection] = []
    for position, file in enumerate(work.files):
        before = len(lines), len(rejections)
        try:
            for found in read_documents(file, work.content_type, work.settings.max_document_bytes):
                if isinstance(found, Rejection):
                    rejections.append(found)
                    continue
                files.append(position)
                lines.append(found.line)
                sizes.append(len(found.data))
                sha256 += found.sha256
                digests += found.record_digest
        except OSError as error:
            # A file that cannot be read to its end offers nothing: which lines were missed is not known.
            for column, width in ((files, 1), (lines, 1), (sizes, 1), (sha256, 32), (digests, 32)):
                del column[width * before[0] :]
            rejections[before[1] :] = [Rejection(file.source, 0, "unreadable", unreadable(error))]
    return Scan(
        np.array(files, np.int64),
        np.array(lines, np.int64),
        np.array(sizes, np.int64),
        np.frombuffer(bytes(sha256), np.uint8).reshape(-1, 32),
        np.frombuffer(bytes(digests), np.uint8).reshape(-1, 32),
        tuple(rejections),
    )


def read_documents(file: SourceFile, stated: ContentType | None, limit: int) -> Iterator[Document | Rejection]:
    """The documents of a file, and what is rejected, in order; OSError when it cannot be read.

    One of the two for a file; for `.jsonl` one per line that is not blank, or a rejection as empty when all are.
    """
    content_type = content_type_of(file.name, stated)
    assert content_type is not None  # `find_sources` offers no others
    with _opened(file) as stream:
        if file.is_lines:
            yield from _read_lines(file, stream, content_type, limit)
            return
        data = stream.read(limit + 1)
        if len(data) > limit:  # it has grown, or its size was not known
            yield Rejection(file.source, 0, "too_large", too_large(max(len(data), file.size), limit))
            return
        try:
            empty = is_empty(decode(data))
        except UnicodeDecodeError as error:
            yield Rejection(file.source, 0, "invalid", _not_utf8(error.start))
            return
        if empty:
            yield Rejection(file.source, 0, "empty", "no text" if not data else "only white space")
            return
        yield _document(0, file.name, content_type, "{}", data)


def _read_lines(
    file: SourceFile, stream: io.BufferedIOBase, content_type: ContentType, limit: int
) -> Iterator[Document | Rejection]:
    offered = False
    for number, offset, line in split_lines(stream, limit):
        if line is None:
            offered = True
            reason = f"the line is longer than {limit:,} bytes; split it or raise corpus.max_document_bytes"
            yield Rejection(file.source, number, "too_large", reason)
            continue
        try:
            decoded = decode(line) if number == 1 else line.decode()
        except UnicodeDecodeError as error:
            offered = True
            yield Rejection(file.source, number, "invalid", _not_utf8(offset + error.start))
            continue
        if not decoded.strip(" \t\r"):
            continue
        offered = True
        name = f"{file.name}#{number}"
        try:
            text, metadata = parse_line(decoded)
        except LineError as error:
            yield Rejection(file.source, number, "invalid", str(error))
            continue
        if problem := name_problem(name):
            yield Rejection(file.source, number, "invalid", problem)
            continue
        data = text.encode()
        if is_empty(decode(data)):
            yield Rejection(file.source, number, "empty", "no text" if not data else "only white space")
            continue
        yield _document(number, name, content_type, metadata, data)
    if not offered:
        yield Rejection(file.source, 0, "empty", "no lines but blank ones")


def _document(line: int, name: str, content_type: ContentType, metadata: str, data: bytes) -> Document:
    sha256 = hashlib.sha256(data)
    digest = record_digest(sha256.hexdigest(), len(data), name, content_type, metadata)
    return Document(line, name, content_type, metadata, data, sha256.digest(), digest)


def _not_utf8(offset: int) -> str:
    return f"byte {offset} of the file is not UTF-8; convert the file"


@contextlib.contextmanager
def _opened(file: SourceFile) -> Iterator[io.BufferedIOBase]:
    if not file.root.uri:
        with open(file.path, "rb") as stream:
            yield stream
        return
    from rayrag.corpus.remote import open_remote

    try:
        with open_remote(file.root.uri, file.path) as stream:
            yield stream
    except pa.ArrowException as error:
        raise OSError(str(error)) from error
