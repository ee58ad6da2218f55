"""Which files the given sources offer: the files themselves, folders, and URIs that pyarrow.fs can open."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rayrag.corpus.content import LINES_SUFFIX, SUFFIXES, content_type_of, name_problem, printable, suffix_of
from rayrag.errors import InputError, IntegrityError
from rayrag.schema.documents import ContentType, State
from rayrag.storage import MARKER, Storage, StoreMarker


class Root(NamedTuple):
    """A folder whose files are offered: its path, how the user named it, the URI of its file system ("" is local)."""

    uri: str
    path: str
    given: str


class SourceFile(NamedTuple):
    """A file that may hold documents; its logical name is its path below the root."""

    root: Root
    name: str
    size: int

    @property
    def path(self) -> str:
        """Where it is in its file system."""
        return os.path.join(self.root.path, self.name)

    @property
    def source(self) -> str:
        """What the user is told it is."""
        return printable(os.path.join(self.root.given, self.name))

    @property
    def is_lines(self) -> bool:
        """Whether every line of it is a document."""
        return suffix_of(self.name) == LINES_SUFFIX


class Rejection(NamedTuple):
    """Something offered that is no document; `line` is 0 for a whole file."""

    source: str
    line: int
    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything offered: files to read, and what is rejected by its name, kind or size, unread.

    Files are sorted by logical name, so that the order in which sources are given does not matter. `single` says that
    one file was named, rather than a folder or many sources.
    """

    files: list[SourceFile]
    rejections: list[Rejection]
    single: bool


def find_sources(
    given: Sequence[str], content_type: ContentType | None, max_document_bytes: int, storage: Storage
) -> Offer:
    """List what `given` offers; no file is opened.

    Folders are walked whole, hidden files included; the store itself is left out. Links to files are followed, links
    to folders below a given one are not. Raises InputError for a source that does not exist, holds no file, or lies
    in the store; IntegrityError when an object store does not answer.
    """
    if not given:
        raise InputError("no sources given; name files, folders or URIs")
    files: list[SourceFile] = []
    rejections: list[Rejection] = []
    listings = [_list(source, storage) for source in given]
    for source, listing in zip(given, listings, strict=True):
        if not listing.found:
            raise InputError(f"{printable(source)}: the folder holds no files; check the path")
        for each in listing.found:
            if isinstance(each, SourceFile):
                each = _reject(each, content_type, max_document_bytes) or each
            if isinstance(each, SourceFile):
                files.append(each)
            else:
                rejections.append(each)
    files.sort(key=lambda file: (file.name, file.root))
    return Offer(files, rejections, single=len(given) == 1 and not listings[0].is_folder)


class _Listing(NamedTuple):
    found: list[SourceFile | Rejection]
    is_folder: bool


def _reject(file: SourceFile, content_type: ContentType | None, limit: int) -> Rejection | None:
    suffix = suffix_of(file.name)
    if problem := name_problem(file.name):
        return Rejection(file.source, 0, "invalid", problem)
    if content_type_of(file.name, content_type) is None:
        kind = f"suffix {printable(suffix)}" if suffix else "no suffix"
        return Rejection(
            file.source, 0, "unsupported", f"{kind}; expected {', '.join(SUFFIXES)}, or state the content type"
        )
    if file.size > limit and not file.is_lines:
        return Rejection(file.source, 0, "too_large", too_large(file.size, limit))
    return None


def too_large(size: int, limit: int) -> str:
    """The reason why a document of `size` bytes is not taken."""
    return f"{size:,} bytes, the limit is {limit:,}; split it or raise corpus.max_document_bytes"


def _list(given: str, storage: Storage) -> _Listing:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", given)
    if scheme is None or os.path.exists(given):
        return _list_local(given, given, storage)
    parts = urlsplit(given)
    if parts.password is not None:
        raise InputError(
            f"{scheme[1]}://…@{parts.hostname}: credentials in a URI end up in logs; "
            "give them by the environment (AWS_ACCESS_KEY_ID, …) or an instance role"
        )
    if scheme[1].lower() == "file":
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise InputError(f"{printable(given)}: a file URI is file:///absolute/path, without host or query")
        return _list_local(given, unquote(parts.path), storage)
    from rayrag.corpus.remote import list_remote

    path, shown, is_folder, names = list_remote(given)
    root = Root(given, path, shown)
    found = [
        Rejection(printable(f"{shown}/{name}"), 0, "unsupported", "not a regular file")
        if size is None
        else SourceFile(root, name, size)
        for name, size in names
    ]
    return _Listing(found, is_folder)


def _list_local(given: str, path: str, storage: Storage) -> _Listing:
    shown = printable(given)
    if not path or "\0" in path:
        raise InputError(f"source {given!r}: not a path; name a file, a folder or a URI")
    path = os.path.abspath(path)
    store = None if "://" in storage.root else os.path.realpath(storage.root)
    if store is not None and os.path.commonpath([store, os.path.realpath(path)]) == store:
        raise InputError(f"{shown}: lies in the store {storage.root}; give a folder outside it")
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{shown}: no such file or folder; check the path") from error
    except OSError as error:
        return _Listing([Rejection(shown, 0, "unreadable", unreadable(error))], is_folder=False)
    if stat.S_ISDIR(status.st_mode):
        if is_store(path):
            raise InputError(f"{shown}: is a rayrag store, not a folder of documents; give the documents")
        return _Listing(list(_walk(Root("", path, given), _identity(store))), is_folder=True)
    if not stat.S_ISREG(status.st_mode):
        return _Listing([Rejection(shown, 0, "unsupported", "not a regular file")], is_folder=False)
    folder, name = os.path.split(path)
    root = Root("", folder, os.path.dirname(given.rstrip("/")))
    return _Listing([SourceFile(root, name, status.st_size)], is_folder=False)


def _walk(root: Root, store: tuple[int, int] | None) -> Iterator[SourceFile | Rejection]:
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root.path, folder)) as scanned:
                entries = list(scanned)
        except OSError as error:
            yield Rejection(printable(os.path.join(root.given, folder)), 0, "unreadable", unreadable(error))
            continue
        for entry in entries:
            name = folder + entry.name
            source = printable(os.path.join(root.given, name))
            try:
                status = entry.stat()
            except FileNotFoundError:
                yield Rejection(source, 0, "unreadable", "a link to a file that does not exist, or just deleted")
            except OSError as error:
                yield Rejection(source, 0, "unreadable", unreadable(error))
            else:
                if stat.S_ISREG(status.st_mode):
                    yield SourceFile(root, name, status.st_size)
                elif not stat.S_ISDIR(status.st_mode):
                    yield Rejection(source, 0, "unsupported", "not a regular file")
                elif entry.is_symlink():
                    yield Rejection(
                        source, 0, "unsupported", "a link to a folder, not followed; give the folder itself"
                    )
                elif (status.st_dev, status.st_ino) == store:
                    continue
                elif is_store(os.path.join(root.path, name)):
                    yield Rejection(source, 0, "unsupported", "a rayrag store, not documents")
                else:
                    folders.append(f"{name}/")


def is_store(folder: str) -> bool:
    """Whether a local folder is the root of a store."""
    try:
        with open(os.path.join(folder, MARKER), "rb") as file:
            StoreMarker.from_json(file.read(1024), folder)
    except (OSError, IntegrityError):
        return False
    return True


def unreadable(error: OSError) -> str:
    """The reason why something cannot be read, in one line."""
    return f"cannot be read: {error.strerror or str(error).partition(chr(10))[0] or type(error).__name__}"


def _identity(path: str | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
