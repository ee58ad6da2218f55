"""The executor that runs a build's work on a Ray cluster: units through Ray Data, everything else as tasks."""

import functools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import ray
from ray._private.services import canonicalize_bootstrap_address_or_die

from rayrag.batch.address import check_listening
from rayrag.embedding.factory import make_encoder
from rayrag.errors import InputError, IntegrityError, RayragError
from rayrag.index.plan import PLANNED, Unit
from rayrag.index.versions import RUNS
from rayrag.index.work import Prepared, RunReport, check_encoder, encode, finished_run, prepare
from rayrag.ipc import from_ipc, to_ipc
from rayrag.schema.embedding import EmbeddingConfiguration, EmbeddingMetadata, EncoderSettings
from rayrag.schema.index import IndexConfiguration
from rayrag.schema.settings import BatchSettings
from rayrag.storage import Storage

T = TypeVar("T")
R = TypeVar("R")


class RayExecutor:
    """Work on the cluster that this process is connected to, or that RAY_ADDRESS names.

    One row of the dataset is one unit. Ray Data bounds what is in flight between preparing and encoding; encoding a
    unit and writing its run are one step, so that a run has one author.
    """

    def __init__(self, resources: BatchSettings, paths: Sequence[str]) -> None:
        """`paths` are the store and the sources. Raises IntegrityError without a cluster, InputError when one of them
        is local to one of several nodes."""
        self._resources = resources
        with _ray_errors():
            if not ray.is_initialized():
                address = os.environ.get("RAY_ADDRESS") or canonicalize_bootstrap_address_or_die("auto")
                check_listening(address)
                ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
            _check_reachable(paths)
            _check_placement(resources)

    def describe_encoder(self, settings: EncoderSettings) -> tuple[EmbeddingConfiguration, EmbeddingMetadata]:
        """On a worker with the resources of an encoder."""
        with _ray_errors():
            resources = self._resources
            task: Any = ray.remote(num_cpus=resources.encoder_cpus, num_gpus=resources.encoder_gpus)(_describe)
            configuration, metadata = ray.get(task.remote(settings, self._threads))
            return configuration, metadata

    def run_units(
        self, storage: Storage, configuration: IndexConfiguration, settings: EncoderSettings, units: Sequence[Unit]
    ) -> Iterator[RunReport]:
        """Runs that are there first, then the others in whatever order they finish."""
        resources = self._resources
        begun = set(storage.list(RUNS))
        finished = self.map(functools.partial(finished_run, storage), [unit for unit in units if unit.key in begun])
        there = {report.key: report for report in finished if report is not None}
        yield from there.values()
        rows = [
            {"key": unit.key, "documents": to_ipc(unit.documents).to_pybytes()}
            for unit in units
            if unit.key not in there
        ]
        if not rows:
            return
        with _ray_errors():
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = False
            context.raise_original_map_exception = True
            logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # the caller reports progress and errors
            prepared = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
                _PrepareUnit(storage, configuration),
                compute=ray.data.TaskPoolStrategy(resources.readers),
                num_cpus=resources.reader_cpus,
            )
            reports = prepared.map(
                _EncodeUnit,  # type: ignore[arg-type]  # Ray makes one per actor
                fn_constructor_args=(storage, configuration, settings, self._threads),
                compute=ray.data.ActorPoolStrategy(size=min(resources.encoders, len(rows))),
                num_cpus=resources.encoder_cpus,
                num_gpus=resources.encoder_gpus,
            )
            for row in reports.iter_rows():
                yield RunReport(**row)

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """As tasks; at most as many in flight as the cluster has CPUs for, twice over."""
        cpus = self._resources.merge_cpus
        with _ray_errors():
            task: Any = ray.remote(num_cpus=cpus)(_call)
            limit = max(2, int(2 * ray.cluster_resources().get("CPU", 1) / max(cpus, 0.1)))
            shared = ray.put(function)
            flying: list[Any] = []
            for item in items:
                if len(flying) >= limit:
                    yield ray.get(flying.pop(0))
                flying.append(task.remote(shared, item))
            for reference in flying:
                yield ray.get(reference)

    @property
    def _threads(self) -> int:
        return max(1, int(self._resources.encoder_cpus))


class _PrepareUnit:
    """Reads, chunks and analyses a unit."""

    def __init__(self, storage: Storage, configuration: IndexConfiguration) -> None:
        self._storage = storage
        self._configuration = configuration

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        documents = from_ipc(pa.py_buffer(row["documents"]), PLANNED, f"unit {row['key']}")
        return prepare(self._storage, self._configuration, Unit(row["key"], documents)).to_row()


class _EncodeUnit:
    """An actor with a loaded encoder."""

    def __init__(
        self, storage: Storage, configuration: IndexConfiguration, settings: EncoderSettings, threads: int
    ) -> None:
        self._storage = storage
        self._encoder = make_encoder(settings, threads=threads)
        check_encoder(self._encoder, configuration)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return encode(self._storage, self._encoder, Prepared.from_row(row))._asdict()


def _describe(settings: EncoderSettings, threads: int) -> tuple[EmbeddingConfiguration, EmbeddingMetadata]:
    encoder = make_encoder(settings, threads=threads)
    return encoder.configuration, encoder.metadata


def _call(function: Callable[[T], R], item: T) -> R:
    return function(item)


@contextmanager
def _ray_errors() -> Iterator[None]:
    """Ray's errors as the product's own: the worker's error itself where it is one of ours."""
    try:
        yield
    except ray.exceptions.RayError as error:
        ours = _own_error(error)
        if ours is not None:
            raise ours from error
        first = str(error).strip().splitlines()
        raise IntegrityError(
            f"the Ray job failed ({type(error).__name__}): {first[-1] if first else ''}; see the job's log, and run it "
            "again: what was finished is kept"
        ) from error
    except ConnectionError as error:
        named = os.environ.get("RAY_ADDRESS")
        raise IntegrityError(
            f"no Ray cluster can be reached{f' at RAY_ADDRESS {named}' if named else ''}: start one with "
            "`ray start --head` (or cluster/local.sh start), or name it by RAY_ADDRESS"
        ) from error


def _own_error(error: BaseException | None) -> RayragError | None:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        # Ray's wrapper of an error is an instance of the error's class too, with a traceback for its message.
        if isinstance(error, RayragError) and not isinstance(error, ray.exceptions.RayError):
            error.args = (str(error).partition("\n")[0],)  # Ray Data adds lines on its retries
            return error
        seen.add(id(error))
        error = getattr(error, "cause", None) or error.__cause__ or error.__context__
    return None


def _check_placement(resources: BatchSettings) -> None:
    """InputError when the encoders, and a reader beside them, do not fit the cluster: they would wait forever."""
    beside = (
        0.0
        if (resources.encoder_gpus, resources.encoder_cpus) == (0.0, resources.reader_cpus)
        else resources.reader_cpus
    )
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for name, each, rest in (("CPU", resources.encoder_cpus, beside), ("GPU", resources.encoder_gpus, 0.0)):
        total, largest = sum(node.get(name, 0.0) for node in nodes), max(node.get(name, 0.0) for node in nodes)
        if each > largest or resources.encoders * each + rest > total + 1e-9:
            raise InputError(
                f"{resources.encoders} encoders of {each:g} {name}{f' and a reader of {rest:g}' if rest else ''} "
                f"do not fit the cluster, which has {total:g} {name} ({largest:g} on one node): lower batch.encoders "
                f"or batch.encoder_{name.lower()}s"
            )


def _check_reachable(paths: Sequence[str]) -> None:
    """A local path must lead to the same place on every node: compare what each node sees of it."""
    local = [os.path.abspath(path) for path in paths if "://" not in path]
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if not local or len({node["NodeManagerAddress"] for node in nodes}) < 2:
        return
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task: Any = ray.remote(num_cpus=0)(_seen)
    seen = ray.get(
        [
            task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(local)
            for node in nodes
        ]
    )
    for path, *views in zip(local, *seen, strict=True):
        if len(set(views)) > 1:
            raise InputError(
                f"{path} is not the same on all {len(nodes)} nodes of the cluster: "
                "use a shared file system or an object store, such as s3://bucket/prefix"
            )


def _seen(paths: Sequence[str]) -> list[tuple[str, int, int]]:
    """For each path the nearest that exists (itself or above), its inode and the time it changed (ns)."""
    seen = []
    for path in paths:
        while not os.path.exists(path):
            path = os.path.dirname(path)
        status = os.stat(path)
        seen.append((path, status.st_ino, status.st_mtime_ns))
    return seen
