"""Files on a local disk: temporary name, fsync, `rename` or `link`, fsync of the folder."""

import builtins
import contextlib
import errno
import logging
import os
import secrets
import stat
from typing import IO, TYPE_CHECKING

from rayrag.storage.base import TEMPORARY, Kind

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class LocalFiles:
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
            # Bounded first, so that a length from a damaged file allocates nothing.
            available = max(0, min(length, os.fstat(file.fileno()).st_size - offset))
            if available == 0:
                return b""  # `seek` refuses offsets that no file can have
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
            try:
                os.unlink(self._full(path))
            except IsADirectoryError:
                with contextlib.suppress(OSError):  # not empty: someone else's
                    os.rmdir(self._full(path))

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
