"""Ingest: scan the sources, decide, write, commit."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from rayrag.corpus.content import check_content_type
from rayrag.corpus.decision import Decision, decide
from rayrag.corpus.packs import WriteTask, write_slice
from rayrag.corpus.records import stored_record_digests
from rayrag.corpus.registry import Registry, make_manifest, manifest_path
from rayrag.corpus.scan import Scan, Slice, make_slices, scan_slice
from rayrag.corpus.sources import Offer, find_sources
from rayrag.errors import InputError, IntegrityError
from rayrag.schema.documents import CorpusSettings, DocumentsManifest, IngestOutcome, IngestReport, Partition, State
from rayrag.storage import Storage, ensure_store

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is."""


class Mapper(Protocol):
    """Applies a function to items wherever it likes (function, items and results pickle); results in their order."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> Iterator[R]: ...


class RejectedIngest(InputError):
    """An ingest of which nothing was registered; `report` says what became of every document offered."""

    def __init__(self, message: str, report: IngestReport) -> None:
        super().__init__(message)
        self.report = report

    def __reduce__(self) -> tuple[type["RejectedIngest"], tuple[str, IngestReport]]:
        return RejectedIngest, (str(self), self.report)


def in_process(function: Callable[[T], R], items: Sequence[T], /) -> Iterator[R]:
    """One after the other, here."""
    return map(function, items)


def ingest(
    storage: Storage,
    sources: Sequence[str],
    *,
    content_type: str | None = None,
    strict: bool = False,
    settings: CorpusSettings | None = None,
    mapper: Mapper = in_process,
    progress: Progress = lambda stage, done, total: None,
    ingested_at: datetime | None = None,
) -> IngestReport:
    """Register the documents that `sources` offer (see `rayrag.corpus.sources`) as the next version of the registry.

    What is registered does not depend on the order of the sources, the sizes of slices and packs, or the mapper. A
    stated content type is that of every document, whatever the suffix (a line of `.jsonl` stays a document). Nothing
    is written unless something is accepted, and nothing written is visible before the commit; a store is made where
    there is none. Of several writers at once each commits its own documents, and none registers one twice.
    `ingested_at` (with a time zone) is now by default.

    Raises RejectedIngest, an InputError, when

    - the only source is a file that is not added (a duplicate included); of a `.jsonl` file, when a line is invalid or
      too large, or no line is added or a duplicate;
    - no document at all is added or a duplicate;
    - `strict` is set and any document is not added.

    Raises InputError for sources that are not there, or change meanwhile; IntegrityError when the store is damaged.
    """
    settings = settings or CorpusSettings()
    stated = check_content_type(content_type)
    if storage.kind("") == "file" or storage.list(""):
        ensure_store(storage)  # makes none here: it checks what is there
    registry = Registry.load(storage)
    offer = find_sources(sources, stated, settings.max_document_bytes, storage)
    slices = make_slices(offer.files, stated, settings)
    scans = _scan(slices, len(offer.files), mapper, progress)
    written = _Written(storage, slices, scans, ingested_at or datetime.now(UTC), mapper, progress)
    while True:
        decision = decide(slices, scans, offer.rejections, registry)
        if problem := _problem(decision, offer, strict):
            raise RejectedIngest(problem, _report(decision, registry.manifest, changed=False, rejected=problem))
        if not any(len(positions) for positions in decision.accepted):
            return _report(decision, registry.manifest, changed=False)
        ensure_store(storage)
        partitions = written.partitions(decision)
        manifest = _next_manifest(registry, partitions, scans, decision)
        if storage.create(manifest_path(manifest.version), manifest.to_json()):
            return _report(decision, manifest, changed=True)
        registry = Registry.load(storage)  # another writer was first
        if registry.version < manifest.version:
            raise IntegrityError(
                f"{storage.where(manifest_path(manifest.version))}: is there but not a file; move it out of the store"
            )


def _scan(slices: Sequence[Slice], file_count: int, mapper: Mapper, progress: Progress) -> list[Scan]:
    scans: list[Scan] = []
    done = 0
    progress("scan", 0, file_count)
    for scan in mapper(scan_slice, slices):
        done += len(slices[len(scans)].files)
        scans.append(scan)
        progress("scan", done, file_count)
    return scans


class _Written:
    """Writes what a decision accepts, and remembers it: after a lost race only slices that are affected are written."""

    def __init__(
        self,
        storage: Storage,
        slices: Sequence[Slice],
        scans: Sequence[Scan],
        ingested_at: datetime,
        mapper: Mapper,
        progress: Progress,
    ) -> None:
        self._storage = storage
        self._slices = slices
        self._scans = scans
        self._ingested_at = ingested_at
        self._mapper = mapper
        self._progress = progress
        self._done: dict[int, tuple[bytes, list[Partition]]] = {}

    def partitions(self, decision: Decision) -> list[Partition]:
        """The partitions that hold exactly the accepted documents."""
        accepted = {number: each for number, each in enumerate(decision.accepted) if len(each)}
        missing = [n for n in accepted if n not in self._done or self._done[n][0] != accepted[n].tobytes()]
        total, done = sum(len(accepted[number]) for number in missing), 0
        self._progress("write", 0, total)
        tasks = [self._task(number, accepted[number]) for number in missing]
        for number, partitions in zip(missing, self._mapper(write_slice, tasks), strict=True):
            self._done[number] = accepted[number].tobytes(), partitions
            done += len(accepted[number])
            self._progress("write", done, total)
        return [partition for number in accepted for partition in self._done[number][1]]

    def _task(self, number: int, positions: NDArray[np.int64]) -> WriteTask:
        scan = self._scans[number]
        return WriteTask(
            self._storage,
            self._slices[number],
            scan.files[positions],
            scan.lines[positions],
            scan.record_digests[positions],
            self._ingested_at,
        )


def _next_manifest(
    registry: Registry, partitions: Sequence[Partition], scans: Sequence[Scan], decision: Decision
) -> DocumentsManifest:
    chosen = list(zip(scans, decision.accepted, strict=True))
    documents = np.concatenate([registry.digests, *(scan.sha256[positions] for scan, positions in chosen)])
    if sum(partition.document_count for partition in partitions) != len(documents) - len(registry.digests):
        raise IntegrityError("other documents were written than were accepted; run again, and report this as a fault")
    return make_manifest(
        registry.version + 1,
        [*registry.manifest.partitions, *partitions],
        registry.manifest.total_bytes + sum(int(scan.sizes[positions].sum()) for scan, positions in chosen),
        documents,
        np.concatenate(
            [stored_record_digests(registry.table), *(scan.record_digests[positions] for scan, positions in chosen)]
        ),
    )


def _problem(decision: Decision, offer: Offer, strict: bool) -> str | None:
    """Why the ingest as a whole is rejected; None when it is not."""
    rejected = [outcome for outcome in decision.outcomes if outcome.state != "added"]
    if not rejected:
        return None
    if strict:
        return _told(rejected, decision, "with strict, one rejected document rejects all")
    if all(outcome.state not in ("added", "duplicate") for outcome in decision.outcomes):
        return _told(rejected, decision, "nothing can be registered")
    if offer.single and not (offer.files and offer.files[0].is_lines):
        return _told(rejected, decision, "nothing can be registered")
    if offer.single:
        broken = [outcome for outcome in rejected if outcome.state not in ("duplicate", "empty")]
        return _told(broken, decision, "a broken line rejects the file") if broken else None
    return None


def _told(rejected: Sequence[IngestOutcome], decision: Decision, rule: str) -> str:
    first = f"{rejected[0].source}: {rejected[0].state}: {rejected[0].reason}"
    if len(decision.outcomes) == 1:
        return first
    counts = ", ".join(f"{count:,} {state}" for state, count in _counts(decision).items() if count)
    return f"{first} ({rule}; {len(decision.outcomes):,} offered: {counts})"


def _counts(decision: Decision) -> dict[State, int]:
    found = Counter(outcome.state for outcome in decision.outcomes)
    return {state: found[state] for state in get_args(State)}


def _report(
    decision: Decision, manifest: DocumentsManifest, *, changed: bool, rejected: str | None = None
) -> IngestReport:
    return IngestReport(
        counts=_counts(decision),
        documents=decision.outcomes,
        document_fingerprint=manifest.document_fingerprint,
        registry_version=manifest.version,
        document_count=manifest.document_count,
        changed=changed,
        rejected=rejected,
    )
