"""What an encoder was asked for, and what it turned out to be."""

from typing import Literal

from pydantic import Field

from rayrag.schema.base import Record

Provider = Literal["hashing", "sentence-transformers"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
HASHING_MODEL = "local-hashing-embedding"


class EmbeddingConfiguration(Record):
    """Everything that decides a vector and can be chosen. Where the model lies and which device runs it are not here.

    `model` is a name, never a path: for `sentence-transformers` the hub id or the folder's own name; the weights are
    identified by digest in the metadata. `passage_batch` and `query_batch` are rows per forward pass of short texts (of
    long ones as many as keep the number of tokens): shapes decide the last bits.
    """

    schema_version: Literal["1.0"] = "1.0"
    provider: Provider
    model: str
    dimension: int = Field(ge=1, le=65_536)
    precision: Precision
    max_length: int | None = Field(ge=1, description="tokens; None where a provider has no limit")
    passage_batch: int = Field(ge=1)
    query_batch: int = Field(ge=1)
    passage_prompt: str = ""
    query_prompt: str = ""


class EmbeddingMetadata(Record):
    """What was loaded. `hardware_class` and `libraries` name what may change the last bits of a vector."""

    version: str = Field(description="algorithm version, or `sha256:` + digest of the model's weights and files")
    hardware_class: str = Field(description="`any`, or e.g. `cpu-avx2`, `cuda-sm90`")
    libraries: dict[str, str]


class EncoderSettings(Record):
    """What to load and where to run it: the request that a factory turns into an encoder.

    `model` is the name of an installed model package or hub id, or the path of a folder; it is not used by `hashing`.
    `dimension` is the number of hash buckets of `hashing`; a model has its own. `max_length` None is the model's own.
    """

    provider: Provider = "sentence-transformers"
    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    dimension: int = Field(384, ge=1, le=65_536)
    precision: Precision = "auto"
    max_length: int | None = Field(None, ge=8)
    passage_batch: int = Field(32, ge=1, le=1024)
    query_batch: int = Field(4, ge=1, le=1024)
    passage_prompt: str = ""
    query_prompt: str = ""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    allow_download: bool = False
