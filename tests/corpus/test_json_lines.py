import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.corpus.json_lines import LineError, parse_line, split_lines


@pytest.mark.parametrize(
    ("line", "text", "metadata"),
    [
        ('{"text": "a"}', "a", "{}"),
        ('{"title": "T", "text": "a"}', "T\n\na", "{}"),
        ('{"title": "", "text": "a"}', "a", "{}"),
        ('{"title": "T", "text": ""}', "T\n\n", "{}"),
        ('{"_id": "7", "text": "a", "x": 1.5, "z": null, "y": true}', "a", '{"_id":"7","x":1.5,"y":true,"z":null}'),
        ('{"text": "a", "tags": ["x", 2, null]}', "a", '{"tags":["x",2,null]}'),
        ('{"text": "a", "metadata": {"url": "u", "year": 1999}, "id": 1}', "a", '{"id":1,"url":"u","year":1999}'),
        ('{"text": "a", "metadata": {}}', "a", "{}"),
        ('{"text": "a", "metadata": "plain"}', "a", '{"metadata":"plain"}'),
        ('{"text": "\\ud83d\\ude00 \\u00e9"}', "😀 é", "{}"),  # an escaped pair is one character
    ],
)  # fmt: skip
def test_documents(line: str, text: str, metadata: str) -> None:
    assert parse_line(line) == (text, metadata)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "not a JSON object; expected one with the field `text`"),
        ("nonsense", "not JSON: Expecting value at character 1"),
        ('{"text": "a"} x', "not JSON: Extra data at character 15"),
        ('{"text": "a\tb"}', "not JSON: Invalid control character at at character 12"),
        ("{}", "field `text` is missing; expected a string"),
        ('{"text": null}', "field `text` is null; expected a string"),
        ('{"text": ["a"]}', "field `text` is a list; expected a string"),
        ('{"text": "a", "title": 7}', "field `title` is a number; expected a string"),
        ('{"text": "a", "title": true}', "field `title` is a boolean; expected a string"),
        ('{"text": "ab\\ud800"}', "field `text` holds a lone surrogate at character 3"),
        ('{"text": "a", "k": "\\udfff"}', "field `k` holds a lone surrogate"),
        ('{"text": "a", "\\udfff": 1}', "field `\\udfff` holds a lone surrogate"),
        ('{"text": "a", "k": ["\\udfff"]}', "field `k` holds a lone surrogate"),
        ('{"text": "a", "text": "b"}', "field `text` is there twice"),
        ('{"text": "a", "metadata": {"k": 1, "k": 1}}', "field `k` is there twice"),
        ('{"text": "a", "k": 1, "metadata": {"k": 1}}', "field `k` is both in the object and in its `metadata`"),
        ('{"text": "a", "k": NaN}', "NaN is not JSON"),
        ('{"text": "a", "k": -Infinity}', "-Infinity is not JSON"),
        ('{"text": "a", "k": 1e999}', "the number 1e999 is too large"),
        ('{"text": "a", "k": {"x": 1}}', "field `k` holds an object; metadata are scalars or lists of scalars"),
        ('{"text": "a", "k": [[1]]}', "field `k` holds a list; metadata are scalars or lists of scalars"),
        ('{"text": "a", "metadata": {"k": {}}}', "field `k` holds an object; metadata are scalars or lists of scalars"),
        ('{"text": "a", "k": ' + "1" * 5000 + "}", "not JSON that can be read: a number has too many digits"),
        ('{"text": "a", "k": ' + "[" * 100_000 + "}", "the JSON is nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_document(line: str, reason: str) -> None:
    with pytest.raises(LineError) as caught:
        parse_line(line)
    assert str(caught.value) == reason


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
names = st.text().filter(lambda name: name not in ("text", "title", "metadata"))


@given(text=st.text(), title=st.text(), metadata=st.dictionaries(names, scalars | st.lists(scalars, max_size=3)))
def test_what_was_written_is_read(text: str, title: str, metadata: dict[str, object]) -> None:
    read, stored = parse_line(json.dumps({"text": text, "title": title, **metadata}))
    assert read == (f"{title}\n\n{text}" if title else text)
    assert json.loads(stored) == metadata


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"").rstrip(b"\r")), max_size=6),
    limit=st.integers(0, 10),
    end=st.sampled_from([b"\n", b"\r\n"]),
    ended=st.booleans(),
)
def test_lines_are_split_within_the_limit(lines: list[bytes], limit: int, end: bytes, ended: bool) -> None:
    data = end.join([*lines, b""]) if ended or not lines or not lines[-1] else end.join(lines)
    expected, offset = [], 0
    for number, line in enumerate(lines, start=1):
        expected.append((number, offset, line if len(line) <= limit else None))
        offset += len(line) + len(end)
    assert list(split_lines(io.BytesIO(data), limit)) == expected


class LongLine(io.RawIOBase):
    """A line of 64 MiB, then a short one, made as it is read."""

    SIZE = 64 << 20

    def __init__(self) -> None:
        self.left = self.SIZE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        if self.left == 0:
            self.left = -1
            buffer[:4] = b"\nab\n"
            return 4
        size = max(0, min(len(buffer), self.left))
        buffer[:size] = bytes(size)
        self.left -= size
        return size


def test_a_long_line_is_not_held() -> None:
    tracemalloc.start()
    try:
        assert list(split_lines(io.BufferedReader(LongLine()), 100)) == [(1, 0, None), (2, LongLine.SIZE + 1, b"ab")]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
