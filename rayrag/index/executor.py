"""Where the work of a build runs: the protocol, and the executor that runs it in this process."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from rayrag.embedding.base import Encoder
from rayrag.embedding.factory import make_encoder
from rayrag.index.plan import Unit
from rayrag.index.work import RunReport, check_encoder, encode, finished_run, prepare
from rayrag.schema.embedding import EmbeddingConfiguration, EmbeddingMetadata, EncoderSettings
from rayrag.schema.index import IndexConfiguration
from rayrag.storage import Storage

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Decides where work runs, never what it gives: results are the same bytes for every executor."""

    def describe_encoder(self, settings: EncoderSettings) -> tuple[EmbeddingConfiguration, EmbeddingMetadata]:
        """What the encoder is on a worker, precision resolved."""
        ...

    def run_units(
        self, storage: Storage, configuration: IndexConfiguration, settings: EncoderSettings, units: Sequence[Unit]
    ) -> Iterator[RunReport]:
        """Write the run of every unit that has none; one report per unit, in any order."""
        ...

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """`function` of each item, in the order of the items."""
        ...


class InProcess:
    """Runs everything here, one step after the other."""

    def __init__(self) -> None:
        self._encoder: tuple[EncoderSettings, Encoder] | None = None

    def describe_encoder(self, settings: EncoderSettings) -> tuple[EmbeddingConfiguration, EmbeddingMetadata]:
        """Loads the encoder, which `run_units` then uses."""
        encoder = self._load(settings)
        return encoder.configuration, encoder.metadata

    def run_units(
        self, storage: Storage, configuration: IndexConfiguration, settings: EncoderSettings, units: Sequence[Unit]
    ) -> Iterator[RunReport]:
        """In the order of the units."""
        encoder = self._load(settings)
        check_encoder(encoder, configuration)
        for unit in units:
            yield finished_run(storage, unit) or encode(storage, encoder, prepare(storage, configuration, unit))

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The builtin."""
        return map(function, items)

    def _load(self, settings: EncoderSettings) -> Encoder:
        if self._encoder is None or self._encoder[0] != settings:
            self._encoder = settings, make_encoder(settings)
        return self._encoder[1]
