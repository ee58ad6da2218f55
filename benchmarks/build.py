"""What a build costs beyond the encoder's own forward passes: in this process, and through Ray Data on two workers.

Run it with `python benchmarks/build.py FOLDER [--chunks N] [--precision fp32|bf16] [--skip-ray]` on a folder of
documents, for the second figure within `eval "$(cluster/local.sh env)"`. Wall time is from the first unit to the last
with the model loaded: reading, chunking, analysing, encoding, digests and writing. Forward time is that of the model
calls alone, at the same precision and shapes, in the same run. Ray's two workers of one thread each share the cores
that the passes in this process have to themselves.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rayrag.chunking.windows import chunker_version
from rayrag.corpus.ingest import ingest
from rayrag.corpus.registry import Registry
from rayrag.embedding.sentence_transformers import SentenceTransformerEncoder
from rayrag.index.analyzer import Analyzer
from rayrag.index.plan import Unit, make_plan, planned_documents
from rayrag.index.versions import run_folder
from rayrag.index.work import encode, prepare
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import IndexConfiguration, IndexSettings
from rayrag.schema.settings import BatchSettings
from rayrag.schema.sparse import SparseConfiguration
from rayrag.storage import Storage


class TimedEncoder(SentenceTransformerEncoder):
    """Adds up the time in the model's forward passes."""

    seconds = 0.0

    def _forward(self, *arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return super()._forward(*arguments)
        finally:
            self.seconds += time.perf_counter() - started


def configuration_of(encoder: SentenceTransformerEncoder) -> IndexConfiguration:
    chunking, sparse = ChunkConfiguration(), SparseConfiguration()
    return IndexConfiguration(
        chunking=chunking,
        chunker_version=chunker_version(chunking.separator_strategy),
        embedding=encoder.configuration,
        embedding_metadata=encoder.metadata,
        sparse=sparse,
        analyzer_metadata=Analyzer(sparse.analyzer).metadata,
    )


def units_of(storage: Storage, configuration: IndexConfiguration, chunks: int, unit_bytes: int) -> list[Unit]:
    """Units of documents with at least that many chunks in all."""
    documents = planned_documents(Registry.load(storage))
    units = make_plan(documents, configuration, IndexSettings(unit_bytes=unit_bytes), None).units
    step = configuration.chunking.chunk_size - configuration.chunking.overlap
    count = 0
    for number, unit in enumerate(units, 1):
        count += sum(unit.documents["size"].to_pylist()) // step
        if count >= chunks:
            return units[:number]
    return units


def in_process(
    storage: Storage, encoder: TimedEncoder, configuration: IndexConfiguration, units: Sequence[Unit]
) -> None:
    encoder.seconds = 0.0
    started = time.perf_counter()
    chunks = sum(encode(storage, encoder, prepare(storage, configuration, unit)).chunk_count for unit in units)
    wall = time.perf_counter() - started
    print(
        f"in process   {chunks:,} chunks in {len(units)} units: {wall:.1f} s, forward {encoder.seconds:.1f} s, "
        f"ratio {wall / encoder.seconds:.3f}",
        flush=True,
    )


def on_ray(
    storage: Storage,
    settings: EncoderSettings,
    configuration: IndexConfiguration,
    units: Sequence[Unit],
    forward: float,
) -> None:
    from rayrag.batch.executor import RayExecutor

    executor = RayExecutor(BatchSettings(encoders=2), [storage.root])
    reports = list(executor.run_units(storage, configuration, settings, units))
    # A run's manifest is the last thing written: its time is the end of the unit, on a clock all processes share.
    ends = [os.stat(storage.where(f"{run_folder(report.key)}/shard.json")).st_mtime for report in reports]
    wall = max(ends) - min(end - report.seconds for end, report in zip(ends, reports, strict=True))
    chunks = sum(report.chunk_count for report in reports)
    busy = sum(report.seconds for report in reports) / 2
    print(
        f"Ray, 2 workers {chunks:,} chunks: {wall:.1f} s, ratio to the forward time above {wall / forward:.3f}, "
        f"to half the time in the workers' encoders {wall / busy:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--chunks", type=int, default=5000)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--unit-bytes", type=int, default=1 << 18)
    parser.add_argument("--skip-ray", action="store_true")
    arguments = parser.parse_args()
    settings = EncoderSettings(precision=arguments.precision)
    encoder = TimedEncoder(settings)
    configuration = configuration_of(encoder)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("here", "ray"):
            ingest(Storage.open(Path(folder) / name), [arguments.folder])
        storage = Storage.open(Path(folder) / "here")
        units = units_of(storage, configuration, arguments.chunks, arguments.unit_bytes)
        in_process(storage, encoder, configuration, units)
        if not arguments.skip_ray:
            on_ray(Storage.open(Path(folder) / "ray"), settings, configuration, units, encoder.seconds)


if __name__ == "__main__":
    main()
