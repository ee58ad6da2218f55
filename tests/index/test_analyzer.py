import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.index import analyzer as module
from rayrag.index.analyzer import Analyzer
from rayrag.schema.sparse import AnalyzerConfiguration, Language

DEFAULT = Analyzer(AnalyzerConfiguration())
PLAIN = Analyzer(AnalyzerConfiguration(stemmer="none", stop_words="none"))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("... !? --", []),
        ("The Cats of the running dog", ["the", "cats", "of", "the", "running", "dog"]),
        ("__init__ snake_case utf8 UTF-8 a.b", ["init", "snake", "case", "utf8", "utf", "8", "a", "b"]),
        ("don't l’homme O'Neil", ["don", "t", "l", "homme", "o", "neil"]),
        ("Straße STRASSE ΣΊΣΥΦΟΣ", ["strasse", "strasse", "σίσυφοσ"]),  # case folding, not lowering
        ("ﬁne ＡＢＣ１２ x² ½ ㎏", ["fine", "abc12", "x2", "1", "2", "kg"]),  # NFKC
        ("cafe\u0301 café", ["café", "café"]),
        ("co\u00adoperate a\u200bb \ufeffx\ufe0f", ["cooperate", "a", "b", "x"]),
        ("\u0301 \u0301a 1\ufe0f\u20e3", ["a", "1"]),  # a mark begins no word
        ("नमस्ते हिन्दी", ["नमस्ते", "हिन्दी"]),  # marks belong to the word
        ("Привет МИР", ["привет", "мир"]),
        ("人工知能", ["人工", "工知", "知能"]),
        ("漢 字", ["漢", "字"]),
        ("Python言語3版x", ["python", "言語", "3", "版", "x"]),
        ("カタカナとひらがな", ["カタ", "タカ", "カナ", "ナと", "とひ", "ひら", "らが", "がな"]),
        ("ﾃﾞｰﾀ、人々", ["デー", "ータ", "人々"]),  # half width; prolonged sound and iteration marks
        ("한국어 텍스트", ["한국", "국어", "텍스", "스트"]),
        ("葛\U000e0100飾", ["葛飾"]),  # a variation selector is invisible
        ("สวัสดี", ["สว", "วั", "ัส", "สด", "ดี"]),
        ("ລາວ ខ្មែរ မြန်မာ", ["ລາ", "າວ", "ខ្", "្ម", "មែ", "ែរ", "မြ", "ြန", "န်", "်မ", "မာ"]),
        ("مُحَمَّد أحمد إلى مدرسة كتـــاب ١٩٩٠ ۱۲", ["محمد", "احمد", "الي", "مدرسه", "كتاب", "1990", "12"]),
        ("שלום עולם", ["שלום", "עולם"]),
    ],
)
def test_words_by_hand(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


@pytest.mark.parametrize(
    ("stemmer", "text", "terms"),
    [
        ("english", "Running runs; the nations' cats", ["run", "run", "nation", "cat"]),
        ("none", "Running the cats", ["running", "cats"]),
        ("german", "Häuser Haus", ["haus", "haus"]),
        ("french", "continuellement l'amour", ["continuel", "l", "amour"]),
        ("spanish", "corriendo", ["corr"]),
        ("russian", "книгами", ["книг"]),
        ("arabic", "المدرسة", ["مدرس"]),
        ("english", "THE ＴＨＥ Themselves 人の", ["人の"]),
    ],
)
def test_stop_words_and_stems_by_hand(stemmer: Language, text: str, terms: list[str]) -> None:
    assert Analyzer(AnalyzerConfiguration(stemmer=stemmer)).terms(text) == terms


def test_stop_words_go_before_stemming() -> None:
    # "doing" is on the list and "does" too, while "doe" (the stem of "does" elsewhere) is a word of its own.
    assert DEFAULT.terms("does doing a doe") == ["doe"]
    assert Analyzer(AnalyzerConfiguration(stop_words="none")).terms("the doing") == ["the", "do"]


@pytest.mark.parametrize("stemmer", Language.__args__)  # type: ignore[attr-defined]
def test_every_stemmer_gives_terms(stemmer: Language) -> None:
    analyzer = Analyzer(AnalyzerConfiguration(stemmer=stemmer))
    assert len(analyzer.terms("alpha beta 漢字 " * 3)) == 9


def test_counts_are_the_terms_counted() -> None:
    assert DEFAULT.counts("Cats, cat; dogs 漢字漢字") == {"cat": 2, "dog": 1, "漢字": 2, "字漢": 1}
    assert list(DEFAULT.counts("b a b")) == ["b"]  # "a" is a stop word
    assert DEFAULT.counts("") == {}


@given(st.text(max_size=60))
def test_terms_are_composed_words_or_bigrams_and_separators_do_not_matter(text: str) -> None:
    terms = PLAIN.terms(text)
    assert all(terms)
    assert PLAIN.terms(f" {text}.") == terms
    assert PLAIN.terms(text + " | " + text) == terms * 2
    assert PLAIN.terms(text + " 漢") == [*terms, "漢"]  # with and without bigrams, words are the same
    assert DEFAULT.counts(text) == {term: DEFAULT.terms(text).count(term) for term in DEFAULT.terms(text)}


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_ascii_is_letters_and_digits(text: str) -> None:
    assert PLAIN.terms(text) == re.findall("[a-z0-9]+", text.lower())


@given(st.text("abcXYZéßΣיم漢がหนึ่ง\u0301 ", max_size=30))
def test_case_and_composition_do_not_matter(text: str) -> None:
    import unicodedata

    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert PLAIN.terms(unicodedata.normalize(form, text)) == PLAIN.terms(text)
    assert PLAIN.terms(text.casefold()) == PLAIN.terms(text)


def test_one_analyzer_serves_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORDS_KEPT", 50)  # so that the threads clear the memory under one another
    texts = [f"universities{n} running{n % 7} cats nationally the{n}" for n in range(300)]
    expected = [Analyzer(AnalyzerConfiguration()).terms(text) for text in texts]
    shared = Analyzer(AnalyzerConfiguration())
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.terms, texts * 10)) == expected * 10
    assert len(shared._terms_of_words) <= 50 + 8


def test_long_words_are_not_remembered() -> None:
    analyzer = Analyzer(AnalyzerConfiguration())
    assert analyzer.terms("x" * 100_000) == ["x" * 100_000]
    assert len(analyzer._terms_of_words) == 0


def test_pickled_analyzer_gives_the_same_terms() -> None:
    copy = pickle.loads(pickle.dumps(DEFAULT))
    assert copy.terms("Running cats") == ["run", "cat"]
    assert copy.metadata == DEFAULT.metadata


def test_metadata_names_what_else_decides_the_terms() -> None:
    assert DEFAULT.metadata.stemmer_version.startswith("PyStemmer ")
    assert PLAIN.metadata.stemmer_version == "none"
    assert DEFAULT.metadata == Analyzer(AnalyzerConfiguration(stemmer="german")).metadata
