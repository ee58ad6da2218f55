"""The files of a store: immutable put, exclusive create, checked read; on a local disk or an object store.

A local disk is written through temporary name, fsync, `rename` (bulk files) or `link` (exclusive create) and fsync of
the folder. Everything else goes through pyarrow.fs, and exclusive create through obstore's conditional put on S3, GCS
and Azure. A file system that offers neither hard links nor a conditional put is single-writer: `create` then checks
and writes in two steps, and logs a warning.

Paths are relative POSIX paths inside the store. Failures of the disk or the service are IntegrityError.
"""

import builtins
import contextlib
import errno
import hashlib
import logging
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from rayrag.errors import InputError, IntegrityError
from rayrag.schema.base import Record

if TYPE_CHECKING:
    import pyarrow as pa

TEMPORARY = ".tmp-"
"""What the name of a file that is still being written begins with; `list` leaves such names out."""

MARKER = "store.json"
REMOTE_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
CONDITIONAL_PUT = ("s3", "gs", "gcs", "abfs", "abfss")

Kind = Literal["file", "folder"]

_log = logging.getLogger(__name__)
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_MENDS = {
    errno.ENOSPC: "free some space there and run again",
    errno.EDQUOT: "raise the quota or free some space and run again",
    errno.EACCES: "give this user access to it, or choose another store",
    errno.EPERM: "give this user access to it, or choose another store",
    errno.EROFS: "mount it writable, or choose another store",
    errno.ENOTDIR: "a part of that path is a file: choose another store, or restore the folder",
    errno.EISDIR: "a folder is in the place of that file: choose another store, or restore the file",
    errno.ENAMETOOLONG: "choose a shorter path for the store",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`) and run again",
}


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
        with _told(self._where, "write"):
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

    def __init__(self, root: str, files: "_Files") -> None:
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
            return cls(path, _LocalFiles(path))
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
            return cls(path, _LocalFiles(path))
        uri = text.rstrip("/")
        return cls(uri, _RemoteFiles.open(uri))

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
        with _told(self.where(path), "look at"):
            return self._files.kind(path)

    def size(self, path: str) -> int:
        """Bytes of a file; IntegrityError when it is missing."""
        self._check(path)
        with _told(self.where(path), "look at"):
            return self._files.size(path)

    def read(self, path: str, *, sha256: str | None = None) -> bytes:
        """The content of a file; IntegrityError when it is missing or its SHA-256 is not `sha256`."""
        self._check(path)
        with _told(self.where(path), "read"):
            data = self._files.read(path)
        self._check_digest(path, data, sha256)
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly the bytes [offset, offset + length); IntegrityError when the file is missing or ends before."""
        self._check(path)
        if offset < 0 or length < 0:
            raise IntegrityError(f"{self.where(path)}: bytes [{offset}, {offset + length}) are not a range of a file")
        with _told(self.where(path), "read"):
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
        with _told(self.where(path), "read"):
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
            with _told(where, "write"):
                file = self._files.begin(path, cleanup)
            yield Writer(file, where)
            with _told(where, "write"):
                self._files.finish(path, file)

    def create(self, path: str, data: bytes) -> bool:
        """Write a whole file unless there is one: True when this call made it, False when it was there.

        Of any number of writers at once exactly one gets True, except on a file system with neither hard links nor
        conditional puts, which is single-writer (a warning is logged).
        """
        self._check(path)
        with _told(self.where(path), "create"):
            return self._files.create(path, data)

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        self._check(path)
        with _told(self.where(path), "delete"):
            self._files.delete(path)

    def list(self, path: str) -> builtins.list[str]:
        """Names of the files and folders directly in a folder ("" for the root), ascending; [] when it is missing.

        Files that are still being written are left out.
        """
        self._check(path, root=True)
        with _told(self.where(path), "list"):
            names = self._files.list(path)
        return sorted(name for name in names if not name.startswith(TEMPORARY))

    def _check(self, path: str, *, root: bool = False) -> None:
        if root and path == "":
            return
        if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
            raise IntegrityError(
                f"{self.root}: path {path!r} points outside the store; the manifest that names it is not one of rayrag's"
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
    StoreMarker.from_json(storage.read(MARKER), storage.where(MARKER))


@contextmanager
def _told(where: str, action: str) -> Iterator[None]:
    """An OSError or Arrow error as IntegrityError in one line: what, where, how to mend."""
    try:
        yield
    except FileNotFoundError as error:
        if action in ("read", "look at"):
            raise IntegrityError(
                f"{where}: the file is missing; restore it from a copy, or build what it belongs to again"
            ) from error
        raise IntegrityError(f"{where}: cannot {action}: {_reason(error)}") from error
    except OSError as error:
        raise IntegrityError(f"{where}: cannot {action}: {_reason(error)}") from error
    except Exception as error:
        # Arrow's and obstore's own errors, named by module so that a local store needs neither package.
        if type(error).__module__.partition(".")[0] not in ("pyarrow", "obstore"):
            raise
        raise IntegrityError(f"{where}: cannot {action}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = text.strip().partition("\n")[0] or type(error).__name__
    return f"{line}; {_MENDS.get(number or 0, 'check the disk or the storage service and run again')}"


class _Files(Protocol):
    """What a kind of storage does; paths are checked, errors are the system's own."""

    def kind(self, path: str) -> Kind | None: ...
    def size(self, path: str) -> int: ...
    def read(self, path: str) -> bytes: ...
    def read_range(self, path: str, offset: int, length: int) -> bytes: ...
    def buffer(self, path: str) -> "pa.Buffer": ...
    def begin(self, path: str, cleanup: contextlib.ExitStack) -> IO[bytes]: ...
    def finish(self, path: str, file: IO[bytes]) -> None: ...
    def create(self, path: str, data: bytes) -> bool: ...
    def delete(self, path: str) -> None: ...
    def list(self, path: str) -> builtins.list[str]: ...


class _LocalFiles:
    """A folder of a POSIX file system."""

    def __init__(self, root: str) -> None:
        self._root = root

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root

    def kind(self, path: str) -> Kind | None:
        try:
            mode = os.stat(self._full(path)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        return "folder" if stat.S_ISDIR(mode) else "file"

    def size(self, path: str) -> int:
        status = os.stat(self._full(path))
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return status.st_size

    def read(self, path: str) -> bytes:
        with open(self._full(path), "rb") as file:
            return file.read()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with open(self._full(path), "rb") as file:
            available = max(0, min(length, os.fstat(file.fileno()).st_size - offset))  # a foreign length allocates nothing
            file.seek(offset)
            return file.read(available)

    def buffer(self, path: str) -> "pa.Buffer":
        import pyarrow as pa

        if self.size(path) == 0:
            return pa.py_buffer(b"")  # an empty file cannot be mapped
        with pa.memory_map(self._full(path), "r") as file:
            return file.read_buffer()  # holds the mapping beyond the file

    def begin(self, path: str, cleanup: contextlib.ExitStack) -> IO[bytes]:
        """A new file under a temporary name in the folder of `path`; the cleanup closes and removes it."""
        folder = os.path.dirname(self._full(path))
        _make_folder(folder)
        temporary = os.path.join(folder, TEMPORARY + secrets.token_hex(16))
        file = open(temporary, "xb")  # noqa: SIM115 - the exit stack closes it

        def discard() -> None:
            with contextlib.suppress(OSError):  # the error that brought us here says more
                file.close()
            with contextlib.suppress(OSError):  # after the rename it is gone
                os.unlink(temporary)

        cleanup.callback(discard)
        return file

    def finish(self, path: str, file: IO[bytes]) -> None:
        full = self._full(path)
        _sync(file)
        os.rename(file.name, full)
        _sync_folder(os.path.dirname(full))

    def create(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        if os.path.lexists(full):
            return False
        with contextlib.ExitStack() as cleanup:
            file = self.begin(path, cleanup)
            file.write(data)
            _sync(file)
            try:
                os.link(file.name, full)
            except FileExistsError:
                # NFS may repeat a link that had succeeded and then report it as there: two names mean it was ours.
                if os.stat(file.name).st_nlink != 2:
                    return False
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                _log.warning("%s: no hard links on this file system: keep to one writer at a time", self._root)
                if os.path.lexists(full):
                    return False
                os.rename(file.name, full)
        _sync_folder(os.path.dirname(full))
        return True

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._full(path))

    def list(self, path: str) -> builtins.list[str]:
        try:
            return os.listdir(self._full(path))
        except FileNotFoundError:
            return []


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems sync names by themselves
            raise
    finally:
        os.close(descriptor)


def _make_folder(folder: str) -> None:
    """Create a folder and its parents, each name durable."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    if parent == folder:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    _make_folder(parent)
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from None
        return
    _sync_folder(parent)


class _RemoteFiles:
    """A prefix of a pyarrow.fs file system. `conditional` makes the obstore store of that prefix, where there is one."""

    def __init__(self, filesystem: Any, base: str, conditional: Callable[[], Any] | None) -> None:
        self._filesystem = filesystem
        self._base = base.rstrip("/")
        self._conditional = conditional

    @classmethod
    def open(cls, uri: str) -> "_RemoteFiles":
        """InputError for a URI that pyarrow.fs does not understand, IntegrityError when the service does not answer."""
        import pyarrow as pa
        from pyarrow import fs

        scheme = urlsplit(uri).scheme.lower()
        if scheme == "s3":
            uri = _complete_s3(uri)
        with _told(uri, "reach the store"):
            try:
                filesystem, base = fs.FileSystem.from_uri(uri)
            except pa.ArrowInvalid as error:
                raise InputError(f"store {uri}: {str(error).partition(chr(10))[0]}") from error
            except pa.ArrowNotImplementedError as error:
                raise InputError(f"store {uri}: this pyarrow has no support for {scheme}://") from error
        if scheme not in CONDITIONAL_PUT:
            return cls(filesystem, base, None)
        region = filesystem.region if scheme == "s3" else None
        return cls(filesystem, base, lambda: _conditional_store(uri, region))

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}" if path else self._base

    def kind(self, path: str) -> Kind | None:
        from pyarrow import fs

        kinds: dict[Any, Kind | None] = {fs.FileType.NotFound: None, fs.FileType.Directory: "folder"}
        return kinds.get(self._filesystem.get_file_info(self._full(path)).type, "file")

    def size(self, path: str) -> int:
        from pyarrow import fs

        info = self._filesystem.get_file_info(self._full(path))
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if info.type == fs.FileType.Directory:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        return int(info.size)

    def read(self, path: str) -> bytes:
        return bytes(self.buffer(path).to_pybytes())

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self._filesystem.open_input_file(self._full(path)) as file:
            available = max(0, min(length, file.size() - offset))
            return bytes(file.read_at(available, offset)) if available else b""

    def buffer(self, path: str) -> "pa.Buffer":
        with self._filesystem.open_input_file(self._full(path)) as file:
            return file.read_buffer(file.size())

    def begin(self, path: str, cleanup: contextlib.ExitStack) -> IO[bytes]:
        """A local temporary file: an output stream of pyarrow.fs cannot be abandoned, it publishes what it has."""
        return cleanup.enter_context(tempfile.TemporaryFile(prefix="rayrag-"))

    def finish(self, path: str, file: IO[bytes]) -> None:
        file.seek(0)
        if self._conditional is not None:  # object stores publish a finished upload at once
            self._upload(self._full(path), file)
            return
        self._replace(path, file)

    def create(self, path: str, data: bytes) -> bool:
        if self._conditional is not None:
            from obstore import put
            from obstore.exceptions import AlreadyExistsError, PreconditionError

            try:
                put(self._conditional(), path, data, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
            return True
        _log.warning("%s: no exclusive create on this file system: keep to one writer at a time", self._base)
        if self.kind(path) is not None:
            return False
        with tempfile.TemporaryFile(prefix="rayrag-") as file:
            file.write(data)
            file.seek(0)
            self._replace(path, file)
        return True

    def _replace(self, path: str, file: IO[bytes]) -> None:
        full = self._full(path)
        folder = full.rpartition("/")[0]
        temporary = f"{folder}/{TEMPORARY}{secrets.token_hex(16)}"
        self._filesystem.create_dir(folder, recursive=True)
        try:
            self._upload(temporary, file)
            self._filesystem.move(temporary, full)
        except BaseException:
            with contextlib.suppress(OSError):  # the error that brought us here says more
                self._filesystem.delete_file(temporary)
            raise

    def _upload(self, full: str, file: IO[bytes]) -> None:
        with self._filesystem.open_output_stream(full) as stream:
            while piece := file.read(8 << 20):
                stream.write(piece)

    def delete(self, path: str) -> None:
        if self.kind(path) is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.delete_file(self._full(path))

    def list(self, path: str) -> builtins.list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self._full(path), allow_not_found=True)
        return [info.base_name for info in self._filesystem.get_file_info(selector)]


def _complete_s3(uri: str) -> str:
    """The URI with endpoint and region of the environment spelled out, so that pyarrow and obstore agree.

    What the URI says wins. pyarrow does not read AWS_REGION here: it would ask the service for the bucket's region.
    """
    parts = urlsplit(uri)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_override" not in query:
        split = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        query |= {"endpoint_override": split.netloc, "scheme": split.scheme}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if "endpoint_override" in query:
        region = region or "us-east-1"
    if region and "region" not in query:
        query["region"] = region
    return parts._replace(query=urlencode(query, quote_via=quote, safe=":/")).geturl()


def _conditional_store(uri: str, region: str | None) -> Any:
    """The obstore store of a completed S3, GCS or Azure URI."""
    from obstore.store import from_url

    parts = urlsplit(uri)
    scheme = {"gcs": "gs"}.get(parts.scheme, parts.scheme)
    url = parts._replace(scheme=scheme, query="").geturl()
    if scheme != "s3":
        return from_url(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    options: dict[str, Any] = {"region": region} if region else {}
    if "endpoint_override" in query:
        protocol = query.get("scheme", "https")
        options["endpoint"] = f"{protocol}://{query['endpoint_override']}"
        if protocol == "http":
            options["client_options"] = {"allow_http": True}
    return from_url(url, **options)
