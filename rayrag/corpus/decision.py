"""The decision of an ingest: which of the scanned documents are registered, and what became of every one offered."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rayrag.corpus.registry import Registry
from rayrag.corpus.scan import Scan, Slice
from rayrag.corpus.sources import Rejection, SourceFile
from rayrag.digests import Digests, sortable
from rayrag.schema.documents import IngestOutcome, State


@dataclass(frozen=True, slots=True)
class Decision:
    """`accepted` holds, per slice, the positions in its scan, ascending; outcomes are sorted by source and line."""

    accepted: list[NDArray[np.int64]]
    outcomes: list[IngestOutcome]


def decide(
    slices: Sequence[Slice], scans: Sequence[Scan], rejections: Sequence[Rejection], registry: Registry
) -> Decision:
    """Accept every document that is not registered yet, once.

    Of documents with the same bytes the smallest by (logical name, record digest, source, line) is accepted, so that
    the order of sources and slices decides nothing.
    """
    offered = _Offered(slices, scans)
    registered, winners = registry.rows_of(offered.sha256), offered.winners()
    accepted = (registered < 0) & (winners == np.arange(len(winners)))
    names = registry.table["logical_name"].combine_chunks()
    sources = [file.source for file in offered.files]
    digits = offered.sha256.tobytes().hex()

    keyed: list[tuple[str, int, IngestOutcome]] = []
    for at, (file, line, row, winner) in enumerate(
        zip(offered.file_of, offered.line_of, registered.tolist(), winners.tolist(), strict=True)
    ):
        state: State = "duplicate"
        reason = None
        if row >= 0:
            reason = f"the same bytes are registered as {names[row].as_py()}"
        elif winner != at:
            reason = f"the same bytes are offered as {offered.name(winner)}"
        else:
            state = "added"
        document_id = f"doc-{digits[64 * at : 64 * at + 64]}"
        shown = _with_line(sources[file], line)
        keyed.append((sources[file], line, IngestOutcome(shown, state, document_id, reason)))
    for each in (*rejections, *(rejection for scan in scans for rejection in scan.rejections)):
        outcome = IngestOutcome(_with_line(each.source, each.line), each.state, None, each.reason)
        keyed.append((each.source, each.line, outcome))
    keyed.sort(key=lambda item: (item[0], item[1], item[2].state, item[2].document_id or ""))

    bounds = np.cumsum([0, *(len(scan.files) for scan in scans)])
    chosen = [np.flatnonzero(accepted[start:end]) for start, end in pairwise(bounds.tolist())]
    return Decision(chosen, [outcome for _, _, outcome in keyed])


class _Offered:
    """The documents of all scans, one after the other."""

    def __init__(self, slices: Sequence[Slice], scans: Sequence[Scan]) -> None:
        none = np.zeros((0, 32), np.uint8)
        self.files: list[SourceFile] = []
        self.file_of: list[int] = []
        self.line_of: list[int] = []
        for work, scan in zip(slices, scans, strict=True):
            self.file_of += (scan.files + len(self.files)).tolist()
            self.line_of += scan.lines.tolist()
            self.files += work.files
        self.sha256: Digests = np.concatenate([none, *(scan.sha256 for scan in scans)])
        self._record_digests: Digests = np.concatenate([none, *(scan.record_digests for scan in scans)])

    def name(self, at: int) -> str:
        """The logical name of a document."""
        return _with_line(self.files[self.file_of[at]].name, self.line_of[at])

    def winners(self) -> NDArray[np.int64]:
        """For each document, the smallest of those with the same bytes."""
        values = sortable(self.sha256)
        winners = np.arange(len(values))
        order = np.argsort(values, kind="stable")
        starts = np.flatnonzero(np.append(True, values[order][1:] != values[order][:-1])[: len(values)])
        ends = np.append(starts[1:], len(values))
        several = ends - starts > 1
        for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
            group = order[start:end]
            winners[group] = min(group.tolist(), key=self._rank)
        return winners

    def _rank(self, at: int) -> tuple[str, bytes, str, int]:
        digest = self._record_digests[at].tobytes()
        return self.name(at), digest, self.files[self.file_of[at]].source, self.line_of[at]


def _with_line(source: str, line: int) -> str:
    return f"{source}#{line}" if line else source
