import hashlib
import time
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.chunking.windows import chunk_document, separator_ends, windows
from rayrag.errors import InputError
from rayrag.fingerprint import fingerprint
from rayrag.schema.chunks import ChunkConfiguration, SeparatorStrategy

DOCUMENT = "doc-" + "5a" * 32
STRATEGIES = get_args(SeparatorStrategy)


def configuration(size: int, overlap: int, strategy: str) -> ChunkConfiguration:
    return ChunkConfiguration.model_validate({"chunk_size": size, "overlap": overlap, "separator_strategy": strategy})


def cut(text: str, size: int, overlap: int, strategy: str) -> list[str]:
    return [chunk.text for chunk in chunk_document(DOCUMENT, text, configuration(size, overlap, strategy))]


# --- by hand


@pytest.mark.parametrize(
    ("text", "size", "overlap", "strategy", "expected"),
    [
        ("abcdefghij", 4, 0, "character", ["abcd", "efgh", "ij"]),
        ("abcdefghij", 4, 1, "character", ["abcd", "defg", "ghij"]),  # the rest fits exactly: no fourth window
        ("abcd", 4, 3, "character", ["abcd"]),
        ("abc", 1, 0, "character", ["a", "b", "c"]),
        ("  a  ", 800, 100, "paragraph", ["  a  "]),  # nothing is stripped
        ("ab\ncd\nef\ngh", 8, 0, "line", ["ab\ncd\n", "ef\ngh"]),  # the last line end within 8
        ("ab\r\ncd\r\nef", 8, 0, "line", ["ab\r\ncd\r\n", "ef"]),
        ("ab\r\ncdefgh", 6, 0, "line", ["ab\r\n", "cdefgh"]),
        ("ab\ncdefghij", 6, 0, "line", ["ab\ncde", "fghij"]),  # 3 is half the window, not in its latter half
        ("abc\ndefghij", 6, 0, "line", ["abc\n", "defghi", "j"]),  # 4 is
        ("ab\ncd\nefg", 9, 0, "line", ["ab\ncd\nefg"]),  # it fits: no separator is looked for
        ("ab\ncdefgh", 8, 0, "line", ["ab\ncdefg", "h"]),
        ("ab\n\ncd\n\nefgh", 9, 0, "paragraph", ["ab\n\ncd\n\n", "efgh"]),
        ("a\nb\nc\nd\ne\nf", 6, 0, "paragraph", ["a\nb\nc\n", "d\ne\nf"]),  # no blank line: exact boundary
        ("ab \r\n \t\r\ncdefg", 9, 0, "paragraph", ["ab \r\n \t\r\n", "cdefg"]),
        ("abcd\n\n\nefghijk", 7, 0, "paragraph", ["abcd\n\n\n", "efghijk"]),
        ("abcd\n\n\nefghijk", 6, 0, "paragraph", ["abcd\n\n", "\nefghi", "jk"]),  # one blank line of two is in reach
        ("Ab. Cd. Ef.", 9, 0, "sentence", ["Ab. Cd. ", "Ef."]),
        ("今日は。元気？はい。", 8, 0, "sentence", ["今日は。元気？", "はい。"]),
        ("A b\nc. D e f", 9, 0, "sentence", ["A b\nc. ", "D e f"]),
        ("ab\r\ncd", 3, 0, "line", ["ab\r", "\ncd"]),  # an exact boundary is exact
        ("👩‍👩‍👧", 2, 0, "character", ["👩\u200d", "👩\u200d", "👧"]),
        # Overlap leads back from the separator at 6 ...
        ("abcde\nfghijklmno", 10, 3, "line", ["abcde\n", "de\nfghijkl", "jklmno"]),
        # ... and where it would lead back to the start or before, by one character less than the last window.
        ("abcde\nfghijklmno", 10, 8, "line", ["abcde\n", "bcde\nfghij", "de\nfghijkl", "\nfghijklmn", "ghijklmno"]),
    ],
)
def test_windows_by_hand(text: str, size: int, overlap: int, strategy: str, expected: list[str]) -> None:
    assert cut(text, size, overlap, strategy) == expected


def test_a_separator_of_the_last_window_is_not_used_again() -> None:
    # From 1, the target window [1, 11) has its last line end at 6, where the first window ended.
    assert list(windows("abcde\n" + "x" * 20, configuration(10, 9, "line")))[:3] == [(0, 6), (1, 11), (2, 12)]


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t \u00a0\u3000\u2028"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_text_of_white_space_has_no_chunk(text: str, strategy: str) -> None:
    assert chunk_document(DOCUMENT, text * 900, configuration(800, 100, strategy)) == []


def test_white_space_beside_text_is_kept() -> None:
    assert "".join(cut("a" + " " * 9 + "\n", 4, 0, "character")) == "a" + " " * 9 + "\n"


def test_a_repeated_passage_has_its_own_offsets() -> None:
    chunks = chunk_document(DOCUMENT, "Same again.\n\n" * 5, configuration(13, 0, "paragraph"))
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(0, 13), (13, 26), (26, 39), (39, 52), (52, 65)]
    assert len({chunk.content_sha256 for chunk in chunks}) == 1
    assert len({chunk.chunk_id for chunk in chunks}) == len({chunk.fingerprint for chunk in chunks}) == 5


def test_a_lone_surrogate_is_named_by_its_offset() -> None:
    with pytest.raises(InputError, match=rf"{DOCUMENT}: character 9 is a lone surrogate"):
        chunk_document(DOCUMENT, "abcd" * 2 + "e\ud800f", configuration(4, 0, "character"))


def test_identity_is_the_stated_digest() -> None:
    for document_id in (DOCUMENT, 'odd "é\n'):
        settings = configuration(5, 2, "line")
        for number, chunk in enumerate(chunk_document(document_id, "héé\nwörld\n日本", settings)):
            assert (chunk.index, chunk.document_id) == (number, document_id)
            assert chunk.content_sha256 == hashlib.sha256(chunk.text.encode()).hexdigest()
            common = {
                "configuration": settings.content(),
                "content_sha256": chunk.content_sha256,
                "document_id": document_id,
                "index": number,
            }
            assert chunk.chunk_id == "chunk-" + fingerprint({**common, "range": [chunk.start, chunk.end]})
            place = {"schema_version": "1.0", "start": chunk.start, "end": chunk.end}
            assert chunk.fingerprint == fingerprint({**common, **place, "chunk_id": chunk.chunk_id})


def test_identities_stay_what_they_were() -> None:
    (chunk,) = chunk_document(DOCUMENT, "One chunk.", ChunkConfiguration())
    assert chunk.chunk_id == "chunk-f6f3fe473413b98b317e6b75e4aa504f2f660a448489fad3756ab8010bf69cbc"
    assert chunk.fingerprint == "f5e6c607b373ad4292dac882b3380851b9e64adf7eabd3b2f5655a3ae0a1b25a"


@pytest.mark.parametrize("change", [{"chunk_size": 9}, {"overlap": 2}, {"separator_strategy": "line"}])
def test_every_configuration_field_changes_every_identity(change: dict[str, int | str]) -> None:
    text = "abcdef\n\nghi"
    base = configuration(8, 1, "paragraph")
    changed = ChunkConfiguration.model_validate({**base.content(), **change})
    before, after = chunk_document(DOCUMENT, text, base), chunk_document(DOCUMENT, text, changed)
    other = chunk_document("doc-" + "0" * 64, text, base)
    assert before[0].text == after[0].text == other[0].text or change == {"chunk_size": 9}
    for field in ("chunk_id", "fingerprint"):
        identities = [{getattr(chunk, field) for chunk in chunks} for chunks in (before, after, other)]
        assert len(set.union(*identities)) == len(before) + len(after) + len(other)


# --- properties

PIECES = st.sampled_from(
    ["a", "b c", ". ", "! ", "。", "\n", "\r\n", "\n\n", "\r\n\r\n", "\n \t\n", "\r", " ", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301",
     "שלום", "مرحبا؟ ", "\u200f", "漢字", "नि", "𝒳", "\u2029", "\x00", "Same passage. "]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=80))
CONFIGURATIONS = st.integers(1, 30).flatmap(
    lambda size: st.builds(configuration, st.just(size), st.integers(0, size - 1), st.sampled_from(STRATEGIES))
)


@given(TEXTS, CONFIGURATIONS)
def test_chunks_are_ranges_that_cover_the_text_and_move_forward(text: str, settings: ChunkConfiguration) -> None:
    chunks = chunk_document(DOCUMENT, text, settings)
    assert chunks == chunk_document(DOCUMENT, text, settings)
    if not text or text.isspace():
        assert chunks == []
        return
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert all(0 < chunk.end - chunk.start <= settings.chunk_size for chunk in chunks)
    assert (chunks[0].start, chunks[-1].end) == (0, len(text))
    for before, after in pairwise(chunks):
        assert before.start < after.start <= before.end < after.end  # no gap, no window within another
        assert after.start == max(before.end - settings.overlap, before.start + 1)
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)


@given(TEXTS, CONFIGURATIONS)
def test_a_window_ends_at_the_last_separator_of_its_latter_half(text: str, settings: ChunkConfiguration) -> None:
    ends = list(separator_ends(text, settings.separator_strategy))
    previous = 0
    for start, end in windows(text, settings):
        target = start + settings.chunk_size
        reachable = [at for at in ends if max(start + settings.chunk_size / 2, previous) < at <= target]
        assert end == (len(text) if target >= len(text) else max(reachable, default=target))
        previous = end


@given(TEXTS)
def test_separator_ends_by_another_road(text: str) -> None:
    lines = text.split("\n")
    offsets = [sum(len(line) + 1 for line in lines[: number + 1]) for number in range(len(lines) - 1)]
    blank = [at for at, line in list(zip(offsets, lines, strict=False))[1:] if not line.removesuffix("\r").strip(" \t")]
    assert list(separator_ends(text, "line")) == offsets
    assert list(separator_ends(text, "paragraph")) == blank
    assert list(separator_ends(text, "character")) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("unit", ["a", "\n", "a. ", "漢", "\r\n\t"])
def test_a_megabyte_takes_linear_time(strategy: str, unit: str) -> None:
    text = unit * (1_000_000 // len(unit)) + "x"
    begin = time.process_time()
    chunks = chunk_document(DOCUMENT, text, configuration(800, 100, strategy))
    assert time.process_time() - begin < 20
    assert chunks[-1].end == len(text)
    assert len(chunk_document(DOCUMENT, text[-9000:], configuration(1, 0, strategy))) == 9000
