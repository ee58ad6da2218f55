"""Builds on a cluster of two nodes: the bytes of a build in one process, whatever happens to the workers."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ray.util.state import list_actors

from rayrag.batch.executor import RayExecutor
from rayrag.corpus.ingest import ingest
from rayrag.errors import InputError, IntegrityError
from rayrag.index.build import build_index
from rayrag.index.executor import Executor, InProcess
from rayrag.index.plan import Unit
from rayrag.index.verify import verify
from rayrag.index.work import RunReport
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.documents import CorpusSettings
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import BuildReport, IndexConfiguration, IndexSettings
from rayrag.schema.settings import BatchSettings
from rayrag.schema.sparse import SparseConfiguration
from rayrag.storage import Storage

pytestmark = pytest.mark.usefixtures("ray_cluster")
HASHING = EncoderSettings(provider="hashing", dimension=64)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of a few chunks each."""
    folder = tmp_path_factory.mktemp("documents")
    for number in range(60):
        lines = [
            f"Paragraph {line} of document {number} speaks of {'shards ' * (line % 5)}and order."
            for line in range(number % 9 + 1)
        ]
        (folder / f"{number:02}.txt").write_text("\n\n".join(lines))
    return folder


def build(store: Path, executor: Executor, *, num_shards: int = 3) -> BuildReport:
    return build_index(
        Storage.open(store),
        chunking=ChunkConfiguration(chunk_size=120, overlap=20),
        sparse=SparseConfiguration(),
        encoder=HASHING,
        settings=IndexSettings(num_shards=num_shards, unit_bytes=1000),
        executor=executor,
    )


def shard_files(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted((store / "index/shards").rglob("*.*"))}


@pytest.fixture(scope="module")
def reference(documents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store built in this process."""
    store = tmp_path_factory.mktemp("reference") / "store"
    ingest(Storage.open(store), [str(documents)], settings=CorpusSettings())
    build(store, InProcess())
    return store


@pytest.mark.parametrize(
    "resources",
    [
        BatchSettings(encoders=1),
        BatchSettings(encoders=4),
        BatchSettings(encoders=3, encoder_gpus=0.5, encoder_cpus=0.5, readers=2),  # two kinds of workers
    ],
    ids=["one worker", "four workers", "fractional GPUs"],
)
def test_a_build_on_ray_has_the_bytes_of_one_in_process(
    documents: Path, reference: Path, tmp_path: Path, resources: BatchSettings
) -> None:
    store = tmp_path / "store"
    executor = RayExecutor(resources, [str(store), str(documents)])
    small = CorpusSettings(slice_bytes=2000, pack_bytes=1500)
    report = ingest(Storage.open(store), [str(documents)], settings=small, mapper=executor.map)
    assert report.counts["added"] == 60
    built = build(store, executor)
    assert built.index_fingerprint == build(reference, InProcess()).index_fingerprint
    assert shard_files(store) == shard_files(reference)
    assert not list((store / "index/runs").rglob("*.*"))
    again = build(store, executor)
    assert (again.changed, again.chunks_encoded) == (False, 0)
    verify(Storage.open(store))


@pytest.mark.parametrize("share", [1, 2], ids=["all units", "every second unit"])
def test_runs_of_an_interrupted_build_are_used(documents: Path, reference: Path, tmp_path: Path, share: int) -> None:
    store = tmp_path / "store"
    ingest(Storage.open(store), [str(documents)], settings=CorpusSettings())
    finished = 0

    class Interrupted(InProcess):
        def run_units(
            self, storage: Storage, configuration: IndexConfiguration, settings: EncoderSettings, units: Sequence[Unit]
        ) -> Iterator[RunReport]:
            nonlocal finished
            for report in super().run_units(storage, configuration, settings, units[::share]):
                finished += report.chunk_count
                yield report
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(store, Interrupted())
    built = build(store, RayExecutor(BatchSettings(encoders=2), [str(store)]))
    assert built.chunks_reused == finished > 0
    assert shard_files(store) == shard_files(reference)


def test_killed_workers_change_nothing(documents: Path, reference: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Storage.open(store), [str(documents)], settings=CorpusSettings())
    executor = RayExecutor(BatchSettings(encoders=2), [str(store)])
    killed: list[int] = []
    done = threading.Event()

    def kill_each_worker_once() -> None:
        while not done.wait(0.2):
            for actor in list_actors(filters=[("state", "=", "ALIVE")]):
                started = os.path.isdir(store / "index/runs")
                if started and "_EncodeUnit" in actor.class_name and len(killed) < 2 and actor.pid not in killed:
                    os.kill(actor.pid, signal.SIGKILL)
                    killed.append(actor.pid)

    killer = threading.Thread(target=kill_each_worker_once)
    killer.start()
    try:
        built = build_index(
            Storage.open(store),
            chunking=ChunkConfiguration(chunk_size=120, overlap=20),
            sparse=SparseConfiguration(),
            encoder=HASHING,
            settings=IndexSettings(num_shards=3, unit_bytes=1),  # a unit per document
            executor=executor,
        )
    finally:
        done.set()
        killer.join()
    assert killed
    assert built.index_fingerprint == build(reference, InProcess()).index_fingerprint
    assert shard_files(store) == shard_files(reference)


def test_an_error_of_a_worker_is_the_error_of_the_build(documents: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest(Storage.open(store), [str(documents)], settings=CorpusSettings())
    (pack,) = (store / "registry/packs").iterdir()
    data = bytearray(pack.read_bytes())
    data[5] ^= 1
    pack.write_bytes(data)
    with pytest.raises(IntegrityError, match=pack.name):
        build(store, RayExecutor(BatchSettings(), [str(store)]))
    assert not (store / "index/versions").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (BatchSettings(encoders=5), r"5 encoders of 1 CPU do not fit the cluster, which has 4 CPU \(2 on one node\)"),
        (BatchSettings(encoder_cpus=3), "1 encoders of 3 CPU"),
        (
            BatchSettings(encoders=5, encoder_cpus=0.1, encoder_gpus=0.5),
            r"5 encoders of 0.5 GPU do not fit .* has 2 GPU",
        ),
        (BatchSettings(encoders=2, encoder_cpus=2), "and a reader of 1 do not fit"),
    ],
)
def test_what_does_not_fit_the_cluster_is_refused_with_the_numbers(
    settings: BatchSettings, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        RayExecutor(settings, [str(tmp_path)])
