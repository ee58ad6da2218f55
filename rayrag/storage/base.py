"""What every kind of storage offers, and how its errors are told."""

import builtins
import contextlib
import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Literal, Protocol

from rayrag.errors import IntegrityError

if TYPE_CHECKING:
    import pyarrow as pa

TEMPORARY = ".tmp-"
"""What the name of a file that is still being written begins with; `list` leaves such names out."""

Kind = Literal["file", "folder"]

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


class Files(Protocol):
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


@contextmanager
def told(where: str, action: str) -> Iterator[None]:
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
