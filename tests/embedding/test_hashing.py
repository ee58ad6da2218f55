"""The lexical encoder against vectors computed by hand and against its rules written out plainly."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.embedding.hashing import HashingEncoder, words
from rayrag.errors import InputError


def test_vectors_by_hand() -> None:
    # `printf %s WORD | sha256sum`: bytes 0 to 7 modulo 8 (the low three bits of byte 7), and the parity of byte 8.
    #   fox  776cb326ab0cd5f0 a9: bucket 0, odd:  -
    #   dog  cd6357efdd966de8 c0: bucket 0, even: +
    #   cat  77af778b51abd4a3 c5: bucket 3, odd:  -
    #   a    ca978112ca1bbdca fa: bucket 2, even: +
    expected = {
        "fox": [-1, 0, 0, 0, 0, 0, 0, 0],
        "Cat": [0, 0, 0, -1, 0, 0, 0, 0],
        "fox, cat! fox; FOX_fox": [-4 / 17**0.5, 0, 0, -1 / 17**0.5, 0, 0, 0, 0],
        "a dog; a cat": [1 / 6**0.5, 0, 2 / 6**0.5, -1 / 6**0.5, 0, 0, 0, 0],
        "a dog; a fox": [0, 0, 1, 0, 0, 0, 0, 0],  # dog and fox share a bucket and cancel out
        "dog fox": [0] * 8,
        "... --- !?": [0] * 8,
        "": [0] * 8,
    }
    vectors = HashingEncoder(8).encode(list(expected))
    np.testing.assert_array_equal(vectors, np.array(list(expected.values())).astype(np.float32))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World! __init__ utf8 3.14", ["hello", "world", "init", "utf8", "3", "14"]),
        ("STRASSE Straße ﬁne Ⅳ", ["strasse", "strasse", "fine", "iv"]),
        ("Cafe\u0301 Café", ["café", "café"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("Python と日本語", ["python", "と", "日", "本", "語"]),
        ("ﾊﾟｲ", ["パ", "イ"]),
        ("한국", ["한", "국"]),
        ("a\u00a0b\u2028c\0d", ["a", "b", "c", "d"]),
        ("👩‍👩‍👧‍👦", []),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σίσυφοσ", "σίσυφοσ"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=60), max_size=4),
    st.sampled_from([1, 7, 64, 384]),
)
def test_against_the_rules_written_out(texts: list[str], dimension: int) -> None:
    expected = np.zeros((len(texts), dimension))
    for row, text in enumerate(texts):
        for word in words(text):
            digest = hashlib.sha256(word.encode()).hexdigest()
            sign = -1 if digest[17] in "13579bdf" else 1
            expected[row, int(digest[:16], 16) % dimension] += sign
        expected[row] /= np.linalg.norm(expected[row]) or 1
    np.testing.assert_allclose(HashingEncoder(dimension).encode(texts), expected, rtol=1e-6)


@given(st.lists(st.sampled_from(["fox", "cat", "dog", "a", "näh", "本"]), max_size=30), st.randoms())
def test_the_order_of_words_does_not_matter(chosen: list[str], random: object) -> None:
    encoder = HashingEncoder(16)
    shuffled = sorted(chosen, key=lambda _: random.random())  # type: ignore[attr-defined]
    one, other = encoder.encode([" ".join(chosen), " ".join(shuffled)])
    assert one.tobytes() == other.tobytes()


def test_bits_do_not_depend_on_the_process() -> None:
    code = (
        "from rayrag.embedding.hashing import HashingEncoder\n"
        "print(HashingEncoder(96).encode(['one two three two', 'Größe 本']).tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("0", "1")
    }
    assert outputs == {HashingEncoder(96).encode(["one two three two", "Größe 本"]).tobytes().hex()}


def test_pickles() -> None:
    encoder = HashingEncoder(32)
    copy = pickle.loads(pickle.dumps(encoder))
    assert copy.configuration == encoder.configuration
    assert copy.encode(["a b c"]).tobytes() == encoder.encode(["a b c"]).tobytes()


@pytest.mark.parametrize("dimension", [0, -1, 65_537])
def test_dimension_is_bounded(dimension: int) -> None:
    with pytest.raises(InputError, match=f"dimension {dimension}"):
        HashingEncoder(dimension)


def test_forgetting_words_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["one two three four five", "five six seven one"]
    expected = HashingEncoder(64).encode(texts)
    monkeypatch.setattr("rayrag.embedding.hashing._WORDS_KEPT", 2)
    monkeypatch.setattr("rayrag.embedding.hashing._LONGEST_WORD_KEPT", 4)
    assert HashingEncoder(64).encode(texts).tobytes() == expected.tobytes()
