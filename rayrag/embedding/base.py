"""The encoder protocol: what the index and the retriever know of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from rayrag.schema.embedding import EmbeddingConfiguration, EmbeddingMetadata

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role = Literal["passage", "query"]


class Encoder(Protocol):
    """Turns texts into vectors. A vector is a pure function of (configuration, role, text), bit for bit:
    it never depends on the other texts of the call or on their order.
    """

    @property
    def configuration(self) -> EmbeddingConfiguration:
        """What was asked for, with `precision` resolved (never `auto`)."""
        ...

    @property
    def metadata(self) -> EmbeddingMetadata:
        """What was loaded: weight digest, dimension, maximum length, hardware class and library versions."""
        ...

    def encode(self, texts: Sequence[str], role: Role = "passage") -> "NDArray[np.float32]":
        """L2-normalised float32 vectors [n, dimension], in the order of `texts`; the zero vector for a text
        without features. An empty sequence gives shape [0, dimension]."""
        ...

    def truncated(self, texts: Sequence[str], role: Role = "passage") -> int:
        """How many of `texts` are longer than the model's maximum and lose their tail in `encode`."""
        ...
