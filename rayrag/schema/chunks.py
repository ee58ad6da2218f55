"""How documents are cut, and what a chunk is."""

from typing import Literal, NamedTuple, Self

from pydantic import Field, model_validator

from rayrag.schema.base import Record

SeparatorStrategy = Literal["character", "line", "paragraph", "sentence"]


class ChunkConfiguration(Record):
    """Window sizes in characters (code points). Its fingerprint is part of every chunk's identity."""

    schema_version: Literal["1.0"] = "1.0"
    chunk_size: int = Field(800, ge=1, le=1_000_000)
    overlap: int = Field(100, ge=0)
    separator_strategy: SeparatorStrategy = "paragraph"

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> Self:
        if self.overlap >= self.chunk_size:
            raise ValueError(f"overlap {self.overlap} must be smaller than chunk_size {self.chunk_size}")
        return self


class Chunk(NamedTuple):
    """A character window of one document: `document_text[start:end] == text`.

    `index` counts from 0 within the document; `chunk_id` is `chunk-` + SHA-256 over document id, configuration,
    index, range and content; `fingerprint` covers every field and the whole chunk configuration.
    """

    document_id: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which a chunk has no use for
    start: int
    end: int
    text: str
    content_sha256: str
    chunk_id: str
    fingerprint: str
