"""What a file is taken for, its text, and which names are fit to be logical names."""

import re
from pathlib import PurePosixPath
from typing import get_args

from rayrag.errors import InputError
from rayrag.schema.documents import MAX_NAME_LENGTH, ContentType

LINES_SUFFIX = ".jsonl"
SUFFIXES: dict[str, ContentType] = {
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".json": "application/json",
    LINES_SUFFIX: "text/plain",
}
"""Suffix (in any case) -> content type of the file, or of each line's text where every line is a document.

`.json` is one document of text: it is not parsed.
"""

BYTE_ORDER_MARK = "\ufeff"

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # the general category Cc
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_content_type(value: str | None) -> ContentType | None:
    """`value` as a content type; InputError when it is none."""
    for known in get_args(ContentType):
        if value == known:
            return known  # type: ignore[no-any-return]
    if value is None:
        return None
    raise InputError(f"content type {value!r}: expected one of {', '.join(get_args(ContentType))}")


def content_type_of(name: str, stated: ContentType | None) -> ContentType | None:
    """The content type of a file's documents: the stated one, or that of its suffix; None when neither says."""
    return stated or SUFFIXES.get(suffix_of(name))


def suffix_of(name: str) -> str:
    """The last suffix of a path in lower case, with its dot; empty for `Makefile` and `.profile`."""
    return PurePosixPath(name).suffix.lower()


def decode(data: bytes) -> str:
    """The text of a document: strict UTF-8, less one leading byte order mark.

    Raises UnicodeDecodeError, whose `start` is the offset of the first byte at fault, counted from the mark.
    """
    return data.decode().removeprefix(BYTE_ORDER_MARK)


def is_empty(text: str) -> bool:
    """Whether a text is empty or only white space, so that no chunk could come of it."""
    return not text or text.isspace()


def name_problem(name: str) -> str | None:
    """Why `name` cannot be a logical name; None when it can."""
    if len(name) > MAX_NAME_LENGTH:
        return f"the name has {len(name):,} characters, the limit is {MAX_NAME_LENGTH:,}; rename it"
    if _CONTROL.search(name):
        return "the name holds a control character; rename it"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "the name is not UTF-8; rename it"
    return None


def printable(name: str) -> str:
    """`name` in one line of valid UTF-8: control characters and bytes that are not UTF-8 are escaped."""
    if not _UNPRINTABLE.search(name):
        return name
    escaped = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), escaped)
