import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from uniseg.sentencebreak import sentence_boundaries

from rayrag.chunking.sentences import sentence_ends


def sentences(text: str) -> list[str]:
    offsets = sorted({0, *sentence_ends(text), len(text)})
    return [text[start:end] for start, end in pairwise(offsets)]


@pytest.mark.parametrize(
    "expected",
    [
        ["Hello there. ", "How are you? ", "Fine!"],
        ["He said, “Are you going?” ", "John shook his head."],  # closing marks stay with their sentence
        ["It is 3.14 or .5 exactly. ", "Yes."],  # SB6
        ["The U.S.A. ", "Next."],  # SB7 inside the abbreviation, SB11 after it
        ["See e.g. the annex (p. 4, etc.), please. ", "OK?"],  # SB8 and SB8a
        ["Wait... ", "What?! ", "(No.) ", "Yes"],
        ["今日は。", "元気ですか？「", "はい！」", "終わり"],  # no spaces; an opening bracket is SB=Close too
        ["مرحبا؟ ", "نعم. ", "لا"],
        ["नमस्ते। ", "कैसे हो"],
        ["no end in sight, 1, 2; 3: -"],
        ["Zo\u0308e.\u0301\u200d ", "Next"],  # SB5: marks and formats attach
    ],
)
def test_sentences_by_hand(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["A hard-wrapped\nsentence\r\nof three lines.\n", "The next.\r\n", "Last"],  # a line break is a space
        ["See e.g.\nfoo. ", "Bar"],  # so SB8 sees the lower-case letter after it
        ["A title\n\n", "Text"],  # a blank line ends a sentence without terminator
        ["A title\r\n \t\r\n", "  text"],
        ["End.\n\n", "lower"],  # SB4 comes before SB8
        ["End. \n\n", "\n", " \n", "  Next"],  # every blank line ends one; indentation belongs to what follows
        ["One\u2029", "two.\u2028", "three\u0085", "four"],  # Sep as in the annex
        ["Stop.)\n", "Go"],
    ],
)
def test_line_breaks_are_tailored(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


# Every property value but Other, which uniseg 0.10 leaves out of the context of SB8: `./a` must not break (next test).
WITHOUT_LINE_BREAKS = "aAbB.．!?,;:1٣)(\"'。？।؟-–\u0301\u200d\u00ad\u2029\u2028\u0085漢アع \u00a0\t"


@given(st.text(WITHOUT_LINE_BREAKS, max_size=30))
@example("A.\u0301A")
@example("a.)  \u2029 \u0301a")
def test_equals_the_annex_where_there_are_no_line_breaks(text: str) -> None:
    expected = [offset for offset in sentence_boundaries(text) if 0 < offset < len(text)]
    assert [offset for offset in sentence_ends(text) if offset < len(text)] == expected


def test_any_character_but_a_letter_may_stand_between_a_full_stop_and_a_lower_case_letter() -> None:
    assert sentences("etc. / or +1 more. // And") == ["etc. / or +1 more. ", "// And"]


@given(st.text(st.sampled_from("aA. \t\r\n。\u2029\u0301)1"), max_size=40))
def test_offsets_ascend_and_a_line_break_counts_as_a_space(text: str) -> None:
    ends = list(sentence_ends(text))
    assert all(before < after for before, after in pairwise([0, *ends]))
    assert all(end <= len(text) for end in ends)
    blank = any(not line.strip(" \t\r") for line in text.split("\n")[1:-1])
    if not blank:
        assert ends == list(sentence_ends(text.replace("\r", " ").replace("\n", " ")))


@pytest.mark.parametrize(
    "unit", ["a", ".", " ", ". ", "\n", "\n   ", ". 1", ".)", "A.", "\u0301", "a.\n\n", ".\r", ".\u0301", "。", "./"]
)
def test_time_is_linear(unit: str) -> None:
    # Half a million repetitions take about half a second; a quadratic scan would take hours.
    text = "A." + unit * 500_000 + ".A"
    begin = time.process_time()
    for _ in sentence_ends(text):
        pass
    assert time.process_time() - begin < 20
