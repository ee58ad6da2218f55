"""JSON Lines: one document per line, read strictly and in bounded memory.

A line is a JSON object in UTF-8. `text` is a string; `title`, where it is there, a string too. The document is `text`,
or `title`, a blank line and `text` when the title is not empty. All other fields are metadata: scalars or lists of
scalars. A field `metadata` that is an object (as in BEIR) is merged with them. Everything else is an error, and so are
duplicate keys, NaN, infinities and lone surrogates. Lines of white space only are skipped, but count as lines.
"""

import io
import json
import math
from collections.abc import Iterator
from typing import Any

from rayrag.fingerprint import canonical_json

_SKIPPED_AT_ONCE = 1 << 20


class LineError(ValueError):
    """Why a line is not a document."""


def split_lines(stream: io.BufferedIOBase, limit: int) -> Iterator[tuple[int, int, bytes | None]]:
    """(number from 1, offset in the file, content without its line end) of each line.

    The content of a line longer than `limit` bytes is None; it is passed over without being held.
    """
    number = offset = 0
    while line := stream.readline(limit + 2):  # two more for the line end
        number, start = number + 1, offset
        offset += len(line)
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(content) <= limit:
            yield number, start, content
            continue
        while not line.endswith(b"\n") and (line := stream.readline(_SKIPPED_AT_ONCE)):
            offset += len(line)
        yield number, start, None


def parse_line(line: str) -> tuple[str, str]:
    """The text of the document in a line, and its metadata as canonical JSON; LineError when it is none."""
    try:
        fields = _DECODER.decode(line)
    except RecursionError as error:
        raise LineError("the JSON is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON: {error.msg} at character {error.pos + 1}") from error
    except LineError:
        raise
    except ValueError as error:  # an integer of more digits than Python converts
        raise LineError("not JSON that can be read: a number has too many digits") from error
    if not isinstance(fields, dict):
        raise LineError("not a JSON object; expected one with the field `text`")
    text, title = _string(fields, "text"), _string(fields, "title") if "title" in fields else ""
    metadata = _metadata({name: value for name, value in fields.items() if name not in ("text", "title")})
    return f"{title}\n\n{text}" if title else text, metadata


def _string(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if name not in fields:
        raise LineError(f"field `{name}` is missing; expected a string")
    if not isinstance(value, str):
        raise LineError(f"field `{name}` is {_kind(value)}; expected a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LineError(f"field `{name}` holds a lone surrogate at character {error.start + 1}") from error
    return value


def _metadata(fields: dict[str, Any]) -> str:
    nested = fields.get("metadata")
    if isinstance(nested, dict):
        del fields["metadata"]
        if both := sorted(fields.keys() & nested.keys()):
            raise LineError(f"field {_quoted(both[0])} is both in the object and in its `metadata`")
        fields |= nested
    for name, value in fields.items():
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, dict | list):
                raise LineError(f"field {_quoted(name)} holds {_kind(item)}; metadata are scalars or lists of scalars")
    try:
        return canonical_json(fields).decode() if fields else "{}"
    except UnicodeEncodeError as error:
        name = next(name for name, value in fields.items() if not _is_unicode(name, value))
        raise LineError(f"field {_quoted(name)} holds a lone surrogate") from error


def _is_unicode(name: str, value: Any) -> bool:
    try:
        canonical_json({name: value})
    except UnicodeEncodeError:
        return False
    return True


def _quoted(name: str) -> str:
    return f"`{name.encode('unicode_escape').decode()}`" if not name.isprintable() else f"`{name}`"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"field {_quoted(twice)} is there twice")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise LineError(f"the number {text[:40]} is too large")
    return value


def _constant(text: str) -> float:
    raise LineError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
