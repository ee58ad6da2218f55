"""Sources behind a URI: listed and opened by pyarrow.fs."""

import functools
import io
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from rayrag.corpus.content import printable
from rayrag.errors import InputError
from rayrag.storage.base import told
from rayrag.storage.remote import REMOTE_SCHEMES, _complete_s3


@functools.lru_cache(maxsize=16)
def open_filesystem(uri: str) -> tuple[Any, str]:
    """The file system of a URI and the path in it; InputError for a URI that pyarrow.fs does not understand."""
    scheme = urlsplit(uri).scheme.lower()
    if scheme not in REMOTE_SCHEMES:
        known = ", ".join(f"{each}://" for each in REMOTE_SCHEMES)
        raise InputError(f"{printable(uri)}: not a file, a folder or a URI that can be read; expected file://, {known}")
    with told(uri, "reach the source"):
        try:
            filesystem, path = fs.FileSystem.from_uri(_complete_s3(uri) if scheme == "s3" else uri)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"{printable(uri)}: {str(error).partition(chr(10))[0]}") from error
    return filesystem, path


class Listing(NamedTuple):
    """The path of the root, how it is shown, whether it is a folder, and (name below it, size) of each file.

    The size is None for what is no regular file.
    """

    path: str
    shown: str
    is_folder: bool
    names: list[tuple[str, int | None]]


def list_remote(uri: str) -> Listing:
    """The files at or below `uri`; InputError when nothing is there, IntegrityError when the service fails."""
    filesystem, path = open_filesystem(uri)
    path, shown = path.rstrip("/"), uri.partition("?")[0].rstrip("/")
    with told(uri, "list"):
        found = filesystem.get_file_info(path)
        if found.type == fs.FileType.Directory:
            below = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
            files = [info for info in below if info.type != fs.FileType.Directory]
            names = [(info.path[len(path) :].lstrip("/"), _size(info)) for info in files]
            return Listing(path, shown, True, names)
    if found.type == fs.FileType.NotFound:
        raise InputError(f"{printable(uri)}: no such file or folder; check the URI")
    folder, _, name = path.rpartition("/")
    return Listing(folder, shown.rpartition("/")[0], False, [(name, _size(found))])


def open_remote(uri: str, path: str) -> io.BufferedIOBase:
    """A stream over a file of the URI's file system; OSError when it cannot be read."""
    filesystem, _ = open_filesystem(uri)
    return io.BufferedReader(filesystem.open_input_stream(path), buffer_size=1 << 20)


def _size(info: Any) -> int | None:
    return int(info.size) if info.type == fs.FileType.File else None
