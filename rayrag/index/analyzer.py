"""Text to terms: what BM25 counts, by the same rules for documents and queries.

1. Normalise: NFKC and case folding; leave out what is invisible (soft hyphens, joiners, variation selectors, byte
   order marks); fold Arabic script as Lucene's ArabicNormalizer does (no tatweel, no vowel marks, one alef, one yeh,
   teh marbuta as heh) and its digits to ASCII; NFKC again. The Snowball Arabic stemmer folds the script by itself,
   and knows more with teh marbuta in place, so with it that step is left out.
2. A word is a run of letters and numbers and the marks that follow them. All else separates words, underscores,
   hyphens, apostrophes and the zero-width space included: `__init__` gives init, `utf8` stays whole, "l'homme" gives
   l and homme.
3. Within it, a run of Han, Hiragana, Katakana, Hangul, Thai, Lao, Khmer or Myanmar characters gives its overlapping
   character bigrams, and a lone character itself. These are neither stop words nor stemmed.
4. A word of the stop list is left out; any other is stemmed.

Measured (nDCG@10, Okapi BM25 over whole documents): SciFact .693, MED .703, Cranfield .374, XQuAD zh .974, ar .868.
"""

import functools
import operator
import sys
import threading
import unicodedata
from collections import Counter

import regex
import Stemmer

from rayrag.fingerprint import fingerprint
from rayrag.schema.sparse import AnalyzerConfiguration, AnalyzerMetadata

ANALYZER_VERSION = "1"
"""Changes whenever the rules of this module would give other terms for some text."""

_ENGLISH = """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it
    its itself they them their theirs themselves what which who whom this that these those am is are was were be been
    being have has had having do does did doing would should could ought a an the and but if or because as until while
    of at by for with about against between into through during before after above below to from up down in out on off
    over under again further then once here there when where why how all any both each few more most other some such
    no nor not only own same so than too very cannot
"""
ENGLISH_STOP_WORDS = frozenset(_ENGLISH.split())
"""The Snowball project's English list (https://snowballstem.org/algorithms/english/stop.txt, BSD licence), without
its contractions, which are never words here."""

_BIGRAM_SCRIPTS = r"[\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}\p{scx=Hang}\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}]"
_BIGRAM_CHARACTER = rf"[{_BIGRAM_SCRIPTS}&&[\p{{L}}\p{{N}}]]"
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{Mn}\p{Mc}]*+")
_BIGRAM_RUN = regex.compile(rf"({_BIGRAM_CHARACTER}[{_BIGRAM_CHARACTER}\p{{Mn}}\p{{Mc}}]*+)", regex.VERSION1)
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}--\u200B]+", regex.VERSION1)
_ARABIC = regex.compile("[\u0622-\u06f9]")
_ARABIC_FOLDING = str.maketrans(
    "\u0622\u0623\u0625\u0671" "\u0649\u0629" "٠١٢٣٤٥٦٧٨٩" "۰۱۲۳۴۵۶۷۸۹",
    "\u0627\u0627\u0627\u0627" "\u064a\u0647" "0123456789" "0123456789",
    "\u0640\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0670",
)  # fmt: skip
_WORDS_KEPT = 1 << 17
_LONGEST_WORD_KEPT = 64


class Analyzer:
    """The terms of texts under one configuration; safe to share between threads, and picklable."""

    def __init__(self, configuration: AnalyzerConfiguration) -> None:
        self.configuration = configuration
        self._terms_of_words = _TermsOfWords(configuration)

    def __reduce__(self) -> tuple[type["Analyzer"], tuple[AnalyzerConfiguration]]:
        return Analyzer, (self.configuration,)

    def terms(self, text: str) -> list[str]:
        """The terms of `text` in order of occurrence, duplicates kept; none is empty."""
        text = self._normalise(text)
        words = _WORD.findall(text)
        term_of_word = self._terms_of_words
        if text.isascii() or not _BIGRAM_RUN.search(text):
            return [term for word in words if (term := term_of_word[word])]
        terms = []
        for word in words:
            for position, part in enumerate(_BIGRAM_RUN.split(word)):
                if position % 2 == 0:  # between runs, often empty
                    if part and (term := term_of_word[part]):
                        terms.append(term)
                elif len(part) == 1:
                    terms.append(part)
                else:
                    terms.extend(map(operator.add, part, part[1:]))
        return terms

    def counts(self, text: str) -> dict[str, int]:
        """How often each term occurs in `text`, in order of first occurrence."""
        return dict(Counter(self.terms(text)))

    @property
    def metadata(self) -> AnalyzerMetadata:
        """All that decides, besides the configuration, which terms a text has: equal metadata gives equal terms.

        The Unicode version of Python (NFKC, case folding), a digest of the characters that `regex` takes for words,
        bigrams and invisible (its releases outnumber the Unicode versions, so its own version would say too much),
        and the version of PyStemmer where it is used.
        """
        stemming = self.configuration.stemmer != "none"
        return AnalyzerMetadata(
            version=ANALYZER_VERSION,
            stemmer_version=f"PyStemmer {Stemmer.version()}" if stemming else "none",
            unicode_version=unicodedata.unidata_version,
            character_classes_sha256=_character_classes_sha256(),
        )

    def _normalise(self, text: str) -> str:
        if text.isascii():
            return text.lower()
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
        if self.configuration.stemmer != "arabic" and _ARABIC.search(text):
            text = text.translate(_ARABIC_FOLDING)
        return unicodedata.normalize("NFKC", text)


class _TermsOfWords(dict[str, str]):
    """Normalised word -> its term, "" for a stop word; `_WORDS_KEPT` words are remembered at most, and no long ones.

    Threads may share it: a value depends on its key alone. A Snowball stemmer has state, so each thread has its own.
    """

    def __init__(self, configuration: AnalyzerConfiguration) -> None:
        super().__init__()
        self._algorithm = configuration.stemmer
        self._stop_words = ENGLISH_STOP_WORDS if configuration.stop_words == "english" else frozenset()
        self._thread = threading.local()

    def __missing__(self, word: str) -> str:
        if len(self) >= _WORDS_KEPT:
            self.clear()
        term = "" if word in self._stop_words else self._stem(word)
        if len(word) <= _LONGEST_WORD_KEPT:
            self[word] = term
        return term

    def _stem(self, word: str) -> str:
        if self._algorithm == "none":
            return word
        try:
            stemmer = self._thread.stemmer
        except AttributeError:
            stemmer = self._thread.stemmer = Stemmer.Stemmer(self._algorithm, 0)
        return str(stemmer.stemWord(word)) or word  # no term is empty, whatever an algorithm strips


@functools.cache
def _character_classes_sha256() -> str:
    every_character = "".join(map(chr, range(sys.maxunicode + 1)))
    classes = [
        [match.span() for match in pattern.finditer(every_character)]
        for pattern in (
            regex.compile(r"[\p{L}\p{N}]+"),
            regex.compile(r"[\p{Mn}\p{Mc}]+"),
            regex.compile(f"{_BIGRAM_CHARACTER}+", regex.VERSION1),
            _INVISIBLE,
        )
    ]
    return fingerprint(classes)
