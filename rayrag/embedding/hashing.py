"""A deterministic lexical baseline without a model: signed feature hashing of words.

It knows words, not meanings: texts are near when they share words, and no stemming or weighting is done. Different
words that fall into one bucket are confused (or cancel out), often at small dimensions: with 384 buckets a text of a
hundred different words has about a dozen such collisions. It serves tests, demonstrations and machines without a model.

The rules (version 1), for a text without lone surrogates:

1. NFKC, case folding, NFKC.
2. A word is a run of letters, numbers and marks (Unicode categories L, N and M); all else separates. Wide letters
   (Han, kana, Hangul), which are written without spaces, are words of their own. Thai, Lao, Khmer and Burmese are not
   segmented: there a word is what stands between spaces.
3. A word w adds its sign to its bucket, once per occurrence, where D = SHA-256 of w in UTF-8: the bucket is the first
   eight bytes of D as a big-endian number, modulo the dimension; the sign is minus where byte 8 of D is odd.
4. The sums are divided by their L2 norm: the sum of squares is an exact integer; its root and the quotients are
   float64, rounded to float32 at the end. Where all sums are 0 the vector is zero.
"""

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rayrag.embedding.base import Role
from rayrag.embedding.texts import require_unicode
from rayrag.errors import InputError
from rayrag.schema.embedding import HASHING_MODEL, EmbeddingConfiguration, EmbeddingMetadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASHING_VERSION = "1"
"""Changes whenever the rules of this module would give another vector for some text."""

_WORDS_KEPT = 1 << 17
_LONGEST_WORD_KEPT = 64


class HashingEncoder:
    """The encoder `local-hashing-embedding`; roles make no difference. Safe to share between threads."""

    def __init__(self, dimension: int) -> None:
        if not 1 <= dimension <= 65_536:
            raise InputError(f"dimension {dimension}: expected 1 to 65536 hash buckets")
        self._dimension = dimension
        self._slots = _Slots(dimension)

    def __reduce__(self) -> "tuple[type[HashingEncoder], tuple[int]]":
        return HashingEncoder, (self._dimension,)

    @property
    def configuration(self) -> EmbeddingConfiguration:
        """Provider, model name and dimension; the other fields are fixed, since nothing else decides a vector."""
        return EmbeddingConfiguration(
            provider="hashing",
            model=HASHING_MODEL,
            dimension=self._dimension,
            precision="fp32",
            max_length=None,
            passage_batch=1,
            query_batch=1,
        )

    @property
    def metadata(self) -> EmbeddingMetadata:
        """The version of the rules, and that of Python's Unicode database, which decides what a word is."""
        return EmbeddingMetadata(
            version=HASHING_VERSION, hardware_class="any", libraries={"unicodedata": unicodedata.unidata_version}
        )

    def encode(self, texts: Sequence[str], role: Role = "passage") -> "NDArray[np.float32]":
        """As the protocol says; InputError for a lone surrogate."""
        import numpy as np

        require_unicode(texts)
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            sums = self._sums(text)
            square = sum(value * value for value in sums.values())
            if square:
                norm = math.sqrt(square)
                row[list(sums)] = [value / norm for value in sums.values()]
        return vectors

    def truncated(self, texts: Sequence[str], role: Role = "passage") -> int:
        """Always 0: every word counts."""
        return 0

    def _sums(self, text: str) -> dict[int, int]:
        sums: dict[int, int] = {}
        slots = self._slots
        for word, count in Counter(words(text)).items():
            slot = slots[word]
            if slot < 0:
                slot, count = ~slot, -count
            sums[slot] = sums.get(slot, 0) + count
        return sums


def words(text: str) -> list[str]:
    """The normalised words of `text` in order, by the first two rules."""
    if text.isascii():
        text = text.lower()
    else:
        folded = unicodedata.normalize("NFKC", text).casefold()
        text = unicodedata.normalize("NFKC", folded)
    return text.translate(_SPACED).split()


class _Spaced(dict[int, str]):
    """Code point -> what stands for it before splitting at spaces; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if category[0] not in "LNM":
            spaced = " "
        elif category == "Lo" and unicodedata.east_asian_width(character) == "W":
            spaced = f" {character} "
        else:
            spaced = character
        self[code] = spaced
        return spaced


class _Slots(dict[str, int]):
    """Word -> its bucket, or the bitwise complement of its bucket where the sign is minus; bounded.

    Threads may share it: a value depends on its key alone.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self._dimension = dimension

    def __missing__(self, word: str) -> int:
        digest = hashlib.sha256(word.encode()).digest()
        bucket = int.from_bytes(digest[:8], "big") % self._dimension
        slot = ~bucket if digest[8] & 1 else bucket
        if len(word) <= _LONGEST_WORD_KEPT:
            if len(self) >= _WORDS_KEPT:
                self.clear()
            self[word] = slot
        return slot


_SPACED = _Spaced()
