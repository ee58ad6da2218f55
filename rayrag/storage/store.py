"""The files of a store: immutable put, exclusive create, checked read; on a local disk or an object store.

A local disk is written through temporary name, fsync, `rename` (bulk files) or `link` (exclusive create) and fsync of
the folder. S3, GCS and Azure are read through pyarrow.fs and written through obstore, which creates exclusively and
publishes whole objects only; everything else goes through pyarrow.fs. A file system that offers neither hard links nor
a conditional put is single-writer: `create` then checks and writes in two steps, and logs a warning.

Paths are relative POSIX paths inside the store. Failures of the disk or the service are IntegrityError.
"""

import builtins
import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from rayrag.errors import InputError, IntegrityError
from rayrag.schema.base import Record
from rayrag.storage.base import TEMPORARY, Files, Kind, told
from rayrag.storage.local import LocalFiles
from rayrag.storage.remote import REMOTE_SCHEMES, RemoteFiles

if TYPE_CHECKING:
    import pyarrow as pa

MARKER = "store.json"


class StoreMarker(Record):
    """`store.json`: says that a folder is a store, and in which format."""

    kind: Literal["rayrag-store"]
    schema_version: Literal["1.0"]


class Writer:
    """One file being written. `sha256` (hexadecimal) and `size` (bytes) cover everything written so far."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._where = where
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written so far; of the whole file once the writer has ended."""
        return self._hash.hexdigest()

    @property
    def closed(self) -> bool:
        """Always False: the context manager closes. Lets pyarrow.ipc take a Writer as its sink."""
        return False

    def write(self, data: "bytes | bytearray | memoryview | pa.Buffer") -> int:
        """Append contiguous bytes and return their number; IntegrityError when the disk or the service refuses."""
        view = memoryview(data)
        if view.nbytes == 0:
            return 0
        view = view.cast("B")
        with told(self._where, "write"):
            self._file.write(view)
        self._hash.update(view)
        self.size += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        """Nothing: the file is flushed and synced when the writer ends."""


class Storage:
    """The root of a store: a local folder or an object-store URI. It pickles; two of the same root are equal.

    `root` is the absolute local path or the URI, without a trailing slash.
    """

    root: str

    def __init__(self, root: str, files: "Files") -> None:
        """For `open` and tests; use `Storage.open`."""
        self.root = root
        self._files = files

    @classmethod
    def open(cls, root: str | os.PathLike[str]) -> "Storage":
        """The store at a local path (made absolute, `~` as it is) or URI; nothing needs to be there yet.

        Raises InputError for what is neither, IntegrityError when an object store cannot be reached.
        """
        text = os.fspath(root)
        if not text or "\0" in text:
            raise InputError(f"store {text!r}: give a folder or a URI, e.g. rag-data or s3://bucket/prefix")
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)
        name = scheme[1].lower() if scheme else ""
        if not text.startswith(f"{name}://") and name not in ("file", *REMOTE_SCHEMES):
            name = ""  # a local path that holds a colon
        if not name:
            path = os.path.abspath(text)
            return cls(path, LocalFiles(path))
        if not re.match(r"[a-z0-9+.-]+:///?[^/]", text) or name not in ("file", *REMOTE_SCHEMES):
            raise InputError(
                f"store {text}: not a folder or a URI that rayrag can open; "
                f"expected a path or file://, {', '.join(f'{s}://' for s in REMOTE_SCHEMES)}"
            )
        parts = urlsplit(text)
        if parts.password is not None:
            raise InputError(
                f"store {name}://…@{parts.hostname}: credentials in a URI end up in logs; "
                "give them by the environment (AWS_ACCESS_KEY_ID, …) or an instance role"
            )
        if ".." in parts.path.split("/"):
            raise InputError(f"store {text}: '..' is not allowed in a URI; name the folder itself")
        if name == "file":
            if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
                raise InputError(f"store {text}: a file URI is file:///absolute/path, without host or query")
            path = os.path.abspath(unquote(parts.path))
            return cls(path, LocalFiles(path))
        uri = text.rstrip("/")
        return cls(uri, RemoteFiles.open(uri))

    def __repr__(self) -> str:
        return f"Storage({self.root!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and other.root == self.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __reduce__(self) -> tuple[Callable[[str], "Storage"], tuple[str]]:
        return Storage.open, (self.root,)

    def where(self, path: str) -> str:
        """The full name of a file, for messages."""
        base, _, query = self.root.partition("?") if "://" in self.root else (self.root, "", "")
        return (f"{base.rstrip('/')}/{path}" if path else base) + (f"?{query}" if query else "")

    def exists(self, path: str) -> bool:
        """Whether there is a file (not a folder) at `path`."""
        return self.kind(path) == "file"

    def kind(self, path: str) -> Kind | None:
        """What is at `path` ("" for the root itself): a file, a folder, or None."""
        self._check(path, root=True)
        with told(self.where(path), "look at"):
            return self._files.kind(path)

    def size(self, path: str) -> int:
        """Bytes of a file; IntegrityError when it is missing."""
        self._check(path)
        with told(self.where(path), "look at"):
            return self._files.size(path)

    def read(self, path: str, *, sha256: str | None = None) -> bytes:
        """The content of a file; IntegrityError when it is missing or its SHA-256 is not `sha256`."""
        self._check(path)
        with told(self.where(path), "read"):
            data = self._files.read(path)
        self._check_digest(path, data, sha256)
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly the bytes [offset, offset + length); IntegrityError when the file is missing or ends before."""
        self._check(path)
        if offset < 0 or length < 0:
            raise IntegrityError(f"{self.where(path)}: bytes [{offset}, {offset + length}) are not a range of a file")
        with told(self.where(path), "read"):
            data = self._files.read_range(path, offset, length)
        if len(data) != length:
            raise IntegrityError(
                f"{self.where(path)}: ends within bytes [{offset}, {offset + length}) "
                f"({len(data)} of {length} there); restore the file from a copy"
            )
        return data

    def buffer(self, path: str, *, sha256: str | None = None) -> "pa.Buffer":
        """The content of a file as one Arrow buffer: memory-mapped without a copy on a local disk, else in memory.

        Raises IntegrityError when the file is missing or its SHA-256 is not `sha256`.
        """
        self._check(path)
        with told(self.where(path), "read"):
            data = self._files.buffer(path)
        self._check_digest(path, data, sha256)
        return data

    def put(self, path: str, data: "bytes | pa.Buffer") -> str:
        """Write a whole file so that it appears at once, folders created, and return the SHA-256 of `data`.

        For immutable files: a file that is there is replaced at once, so its content must be the same.
        """
        with self.writer(path) as writer:
            writer.write(data)
        return writer.sha256

    @contextmanager
    def writer(self, path: str) -> Iterator[Writer]:
        """Write a file piece by piece; it appears at once when the block ends, and never when the block raises."""
        self._check(path)
        where = self.where(path)
        with contextlib.ExitStack() as cleanup:
            with told(where, "write"):
                file = self._files.begin(path, cleanup)
            yield Writer(file, where)
            with told(where, "write"):
                self._files.finish(path, file)

    def create(self, path: str, data: bytes) -> bool:
        """Write a whole file unless there is one: True when this call made it, False when it was there.

        Of any number of writers at once exactly one gets True, except on a file system with neither hard links nor
        conditional puts, which is single-writer (a warning is logged).
        """
        self._check(path)
        with told(self.where(path), "create"):
            return self._files.create(path, data)

    def delete(self, path: str) -> None:
        """Remove a file or an empty folder; a missing one, and a folder that is not empty, are fine."""
        self._check(path)
        with told(self.where(path), "delete"):
            self._files.delete(path)

    def list(self, path: str) -> builtins.list[str]:
        """Names of the files and folders directly in a folder ("" for the root), ascending; [] when it is missing.

        Files that are still being written are left out.
        """
        self._check(path, root=True)
        with told(self.where(path), "list"):
            names = self._files.list(path)
        return sorted(name for name in names if not name.startswith(TEMPORARY))

    def _check(self, path: str, *, root: bool = False) -> None:
        if root and path == "":
            return
        if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise IntegrityError(
                f"{self.root}: path {path!r} points outside the store; the file that names it is not one of rayrag's"
            )

    def _check_digest(self, path: str, data: "bytes | pa.Buffer", expected: str | None) -> None:
        if expected is None:
            return
        actual = hashlib.sha256(data).hexdigest()
        if actual != expected:
            raise IntegrityError(
                f"{self.where(path)}: sha256 is {actual}, expected {expected}: the file was changed or damaged; "
                "restore it from a copy"
            )


def ensure_store(storage: Storage) -> None:
    """Make a missing or empty folder a store by creating `store.json`; nothing to do where there is one.

    Raises InputError when the root is a file or a folder of something else, IntegrityError when `store.json` is broken.
    """
    if storage.kind("") == "file":
        raise InputError(f"not a rayrag store: {storage.root} is a file; give a folder")
    names = storage.list("")
    if MARKER not in names:
        if names:
            raise InputError(
                f"not a rayrag store: {storage.root} is a folder with other content ({names[0]}, …) and no {MARKER}; "
                "give a new or empty folder"
            )
        marker = StoreMarker(kind="rayrag-store", schema_version="1.0")
        if storage.create(MARKER, marker.to_json()):
            return
    require_store(storage)


def require_store(storage: Storage) -> None:
    """Check that there is a store: InputError when there is none, IntegrityError when `store.json` is broken."""
    if not storage.exists(MARKER):
        if storage.kind("") == "file" or storage.list(""):
            raise InputError(f"{storage.root} is not a rayrag store (no {MARKER}); check the path given to --store")
        raise InputError(
            f"no store at {storage.root}; run `rayrag ingest … --store {storage.root}` first, or check the path"
        )
    data = storage.read(MARKER)
    if StoreMarker.from_json(data, storage.where(MARKER)).to_json() != data:
        raise IntegrityError(f"{storage.where(MARKER)}: not as rayrag writes it; restore the file from a copy")
