"""What can be set, section by section. The records that decide fingerprints are sections as they are."""

from typing import Self, TypeVar

from pydantic import Field, model_validator

from rayrag.schema.base import Record
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.documents import CorpusSettings
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import IndexSettings
from rayrag.schema.retrieval import ContextSettings, RetrieverConfiguration
from rayrag.schema.sparse import SparseConfiguration

R = TypeVar("R", bound=Record)


class StoreSettings(Record):
    """`root` is the folder or URI (`s3://bucket/prefix`, …) of the store."""

    root: str = Field("rag-data", min_length=1)


class BatchSettings(Record):
    """What a build or ingest takes of a Ray cluster; decides nothing that a fingerprint covers.

    `encoders` actors run at once, each with `encoder_cpus` (its whole part is the number of threads) and
    `encoder_gpus` (a share of one GPU, or a whole number). Units are read, chunked and analysed by tasks with
    `reader_cpus`, `readers` at once at most (None: as many as there is room for); all else are tasks with
    `merge_cpus`. What is lost with a worker is run again.
    """

    encoders: int = Field(1, ge=1)
    encoder_cpus: float = Field(1.0, ge=0)
    encoder_gpus: float = Field(0.0, ge=0)
    readers: int | None = Field(None, ge=1)
    reader_cpus: float = Field(1.0, gt=0)
    merge_cpus: float = Field(1.0, gt=0)

    @model_validator(mode="after")
    def _gpus_are_shares_or_whole(self) -> Self:
        if self.encoder_gpus > 1 and not self.encoder_gpus.is_integer():
            raise ValueError(
                f"encoder_gpus {self.encoder_gpus} must be at most 1 or a whole number, as Ray allots GPUs"
            )
        return self


class RaySettings(Record):
    """`address` is the job server that `rayrag submit` talks to; None: the one that RAY_API_SERVER_ADDRESS or
    RAY_ADDRESS names, else http://127.0.0.1:8265."""

    address: str | None = Field(None, min_length=1)


def _defaults(section: type[R]) -> R:
    return section.model_validate({})


class Settings(Record):
    """Every setting with its default. A field with one possible value (`schema_version`) is not a setting."""

    store: StoreSettings = _defaults(StoreSettings)
    corpus: CorpusSettings = _defaults(CorpusSettings)
    chunking: ChunkConfiguration = _defaults(ChunkConfiguration)
    embedding: EncoderSettings = _defaults(EncoderSettings)
    sparse: SparseConfiguration = _defaults(SparseConfiguration)
    index: IndexSettings = _defaults(IndexSettings)
    retrieval: RetrieverConfiguration = _defaults(RetrieverConfiguration)
    context: ContextSettings = _defaults(ContextSettings)
    batch: BatchSettings = _defaults(BatchSettings)
    ray: RaySettings = _defaults(RaySettings)
