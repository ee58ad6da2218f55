"""How text becomes terms, and the parameters of Okapi BM25."""

from typing import Literal

from pydantic import Field

from rayrag.schema.base import Record

Language = Literal[
    "none", "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian",
    "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "turkish",
]  # fmt: skip


class AnalyzerConfiguration(Record):
    """Terms are Unicode words after NFKC and case folding; runs of a script without spaces become character bigrams.

    `stemmer` names a Snowball algorithm; `stop_words` a list that is left out. The same analyser serves documents
    and queries.
    """

    schema_version: Literal["1.0"] = "1.0"
    stemmer: Language = "english"
    stop_words: Literal["none", "english"] = "english"


class AnalyzerMetadata(Record):
    """What else decides the terms of a text: versions of the rules, of Snowball and of Unicode."""

    version: str
    stemmer_version: str
    unicode_version: str
    character_classes_sha256: str


class SparseConfiguration(Record):
    """Okapi BM25 with the epsilon floor of rank-bm25 for negative idf."""

    schema_version: Literal["1.0"] = "1.0"
    analyzer: AnalyzerConfiguration = AnalyzerConfiguration()
    k1: float = Field(1.5, gt=0)
    b: float = Field(0.75, ge=0, le=1)
    epsilon: float = Field(0.25, ge=0)
