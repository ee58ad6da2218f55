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
    identified by digest in the metadata. `batch` shapes are rows per forward pass: shapes decide the last bits.
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
