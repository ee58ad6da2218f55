"""The plan of a build: which documents are encoded in which work unit, and what each shard is merged from."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rayrag.corpus.registry import Registry
from rayrag.digests import digests_of, group_numbers, sortable
from rayrag.fingerprint import GROUP_BITS, sha256_hex
from rayrag.index.tables import DIGEST, DOCUMENTS
from rayrag.index.versions import run_folder, shard_folder
from rayrag.schema.index import IndexConfiguration, IndexManifest, IndexSettings

PLANNED = pa.schema(
    [
        *list(DOCUMENTS)[:6],
        pa.field("pack", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
"""The documents of a plan, by ascending id: what a shard says of them, and where their bytes lie."""

GROUPS = 1 << GROUP_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Documents to chunk, encode and write as one run. The key is a digest of all that decides the run's content."""

    key: str
    documents: pa.Table


class Source(NamedTuple):
    """A folder of entries to merge from: a run, or a shard of an earlier index (then with the SHA-256 of its manifest).
    `analyze` says that its terms come from another analyser and have to be counted anew."""

    folder: str
    sha256: str | None
    analyze: bool


@dataclass(frozen=True, slots=True, eq=False)
class ShardTask:
    """One shard: the documents of groups [first_group, end_group), each of which one of the sources holds."""

    key: str
    first_group: int
    end_group: int
    documents: pa.Table
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All the work of a build. Units and shards are in document order; both sets of keys are content digests."""

    units: list[Unit]
    shards: list[ShardTask]


class EarlierIndex(NamedTuple):
    """An index with the same chunks and vectors, and the documents table of each of its shards."""

    manifest: IndexManifest
    documents: Sequence[pa.Table]


def make_plan(
    documents: pa.Table, configuration: IndexConfiguration, settings: IndexSettings, earlier: EarlierIndex | None
) -> Plan:
    """The work for `documents` (schema `PLANNED`, by ascending id). What `earlier` holds is copied, not encoded."""
    ids = sortable(digests_of(documents["document_id"]))
    held_ids = (
        np.concatenate([np.zeros(0, "S32"), *(_ids(table) for table in earlier.documents if len(table))])
        if earlier
        else ids[:0]
    )
    held = np.isin(ids, held_ids)
    units = _units(documents.filter(pa.array(~held)), configuration, settings.unit_bytes)
    bounds = shard_bounds(settings, int(documents["size"].to_numpy().sum()))
    groups = group_numbers(digests_of(documents["document_id"]))
    unit_ranges = [(_group(unit.documents, 0), _group(unit.documents, -1)) for unit in units]
    shards = []
    for first, end in pairwise(bounds):
        start, stop = np.searchsorted(groups, [first, end])
        sources = [
            Source(run_folder(unit.key), None, analyze=False)
            for unit, (lowest, highest) in zip(units, unit_ranges, strict=True)
            if lowest < end and highest >= first
        ]
        if earlier is not None and held[start:stop].any():
            analyze = not configuration.analyzes_like(earlier.manifest.configuration)
            sources += [
                Source(shard_folder(shard.key), shard.sha256, analyze)
                for shard, table in zip(earlier.manifest.shards, earlier.documents, strict=True)
                if shard.first_group < end and shard.end_group > first and len(table)
            ]
        members = documents.slice(start, stop - start)
        shards.append(ShardTask(_shard_key(members, configuration, first, end), first, end, members, tuple(sources)))
    return Plan(units, shards)


def shard_bounds(settings: IndexSettings, total_bytes: int) -> list[int]:
    """The first group of each shard, ascending, and the number of groups: ranges of as equal a width as can be."""
    number = settings.num_shards or min(GROUPS, max(1, -(-total_bytes // settings.shard_bytes)))
    return [at * GROUPS // number for at in range(number + 1)]


def planned_documents(registry: Registry) -> pa.Table:
    """The registry's documents as a table of schema `PLANNED`."""
    ids = pa.FixedSizeBinaryArray.from_buffers(DIGEST, len(registry.digests), [None, pa.py_buffer(registry.digests)])
    columns = {"document_id": ids} | {name: registry.table[name] for name in PLANNED.names[1:]}
    return pa.table(columns).cast(PLANNED)


def _units(documents: pa.Table, configuration: IndexConfiguration, unit_bytes: int) -> list[Unit]:
    sizes = documents["size"].to_numpy()
    bounds, filled = [0], 0
    for row, size in enumerate(sizes.tolist()):
        if filled and filled + size > unit_bytes:
            bounds.append(row)
            filled = 0
        filled += size
    bounds.append(len(sizes))
    prefix = configuration.entries_digest().encode()
    units = []
    for start, end in pairwise(bounds):
        members = documents.slice(start, end - start)
        if len(members):
            units.append(Unit(sha256_hex(prefix + digests_of(members["document_id"]).tobytes()), members))
    return units


def _shard_key(members: pa.Table, configuration: IndexConfiguration, first: int, end: int) -> str:
    digest = hashlib.sha256(json.dumps([configuration.entries_digest(), first, end]).encode())
    digest.update(digests_of(members["document_id"]).tobytes())
    digest.update(digests_of(members["record_digest"]).tobytes())
    return digest.hexdigest()


def _ids(table: pa.Table) -> NDArray[np.bytes_]:
    return sortable(digests_of(table["document_id"]))


def _group(table: pa.Table, row: int) -> int:
    return int(group_numbers(digests_of(table["document_id"].slice(row % len(table), 1)))[0])
