"""Files of a pyarrow.fs file system; on an object store, written by obstore, which can create exclusively."""

import builtins
import contextlib
import errno
import functools
import logging
import os
import secrets
import tempfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from rayrag.errors import InputError
from rayrag.storage.base import TEMPORARY, Kind, told

if TYPE_CHECKING:
    import pyarrow as pa

REMOTE_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
OBJECT_STORES = ("s3", "gs", "gcs", "abfs", "abfss")

_log = logging.getLogger(__name__)


class RemoteFiles:
    """A prefix of a pyarrow.fs file system.

    `object_store` makes the obstore store of that prefix, where there is one: it writes, since an output stream of
    pyarrow.fs cannot be abandoned (it publishes what it has) and cannot create exclusively.
    """

    def __init__(self, filesystem: Any, base: str, object_store: Callable[[], Any] | None) -> None:
        self._filesystem = filesystem
        self._base = base.rstrip("/")
        self._object_store = functools.cache(object_store) if object_store is not None else None

    @classmethod
    def open(cls, uri: str) -> "RemoteFiles":
        """InputError for a URI that pyarrow.fs does not understand, IntegrityError when the service does not answer."""
        import pyarrow as pa
        from pyarrow import fs

        scheme = urlsplit(uri).scheme.lower()
        if scheme == "s3":
            uri = _complete_s3(uri)
        with told(uri, "reach the store"):
            try:
                filesystem, base = fs.FileSystem.from_uri(uri)
            except pa.ArrowInvalid as error:
                raise InputError(f"store {uri}: {str(error).partition(chr(10))[0]}") from error
            except pa.ArrowNotImplementedError as error:
                raise InputError(f"store {uri}: this pyarrow has no support for {scheme}://") from error
        if scheme not in OBJECT_STORES:
            return cls(filesystem, base, None)
        region = filesystem.region if scheme == "s3" else None
        return cls(filesystem, base, lambda: _object_store(uri, region))

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
        """A local temporary file, sent when it is complete."""
        return cleanup.enter_context(tempfile.TemporaryFile(prefix="rayrag-"))

    def finish(self, path: str, file: IO[bytes]) -> None:
        file.seek(0)
        if self._object_store is None:
            self._replace(path, file)
            return
        from obstore import put

        put(self._object_store(), path, file)

    def create(self, path: str, data: bytes) -> bool:
        if self._object_store is not None:
            from obstore import put
            from obstore.exceptions import AlreadyExistsError, PreconditionError

            try:
                put(self._object_store(), path, data, mode="create")
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
        """Upload under a temporary name, then move."""
        full = self._full(path)
        folder = full.rpartition("/")[0]
        temporary = f"{folder}/{TEMPORARY}{secrets.token_hex(16)}"
        self._filesystem.create_dir(folder, recursive=True)
        try:
            with self._filesystem.open_output_stream(temporary) as stream:
                while piece := file.read(8 << 20):
                    stream.write(piece)
            self._filesystem.move(temporary, full)
        except BaseException:
            with contextlib.suppress(OSError):  # the error that brought us here says more
                self._filesystem.delete_file(temporary)
            raise

    def delete(self, path: str) -> None:
        match self.kind(path):
            case None:
                return
            case "folder":  # pyarrow leaves a marker of an emptied one
                if not self.list(path):
                    self._filesystem.delete_dir(self._full(path))
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


def _object_store(uri: str, region: str | None) -> Any:
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
