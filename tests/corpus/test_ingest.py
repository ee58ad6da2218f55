import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayrag.corpus.ingest import RejectedIngest, ingest
from rayrag.corpus.packs import write_slice
from rayrag.corpus.registry import Registry, newest_version, read_sources
from rayrag.errors import InputError
from rayrag.fingerprint import combine_groups, digest_by_group, fingerprint, sha256_hex
from rayrag.schema.documents import CorpusSettings
from rayrag.storage import Storage

T = TypeVar("T")
R = TypeVar("R")
Tree = Callable[[dict[str, bytes | str]], Path]
Snapshot = Callable[[], dict[str, str]]


def contents(storage: Storage, version: int | None = None) -> dict[str, bytes]:
    """Logical name -> bytes of every registered document."""
    registry = Registry.load(storage, version)
    names = registry.table["logical_name"].to_pylist()
    return {name: data for name, (_, data) in zip(names, read_sources(storage, registry.table), strict=True)}


# --- what is rejected as a whole, and leaves no trace

ANY_SIZE = {"settings": CorpusSettings()}
STRICT = {"strict": True} | ANY_SIZE
SUFFIXES = "expected .txt, .md, .rst, .json, .jsonl, or state the content type"


@pytest.mark.parametrize(
    ("files", "source", "options", "message"),
    [
        ({"a.txt": ""}, "a.txt", {}, "{}: empty: no text"),
        ({"a.txt": b"\xff"}, "a.txt", {}, "{}: invalid: byte 0 of the file is not UTF-8; convert the file"),
        ({"a.txt": "123456789"}, "a.txt", {}, "{}: too_large: 9 bytes, the limit is 8; split it or raise corpus.max"),
        ({"a.py": "x"}, "a.py", {}, "{}: unsupported: suffix .py; " + SUFFIXES),
        ({"a.txt": "known"}, "a.txt", {}, "{}: duplicate: the same bytes are registered as first.md"),
        ({"a.jsonl": ""}, "a.jsonl", {}, "{}: empty: no lines but blank ones"),
        (
            {"a.jsonl": '{"text": ""}\n{"text": " "}'},
            "a.jsonl",
            ANY_SIZE,
            "{}#1: empty: no text (nothing can be registered; 2 offered: 2 empty)",
        ),
        (
            {"a.jsonl": '{"text": "a"}\n{"text": ""}\n{}'},
            "a.jsonl",
            ANY_SIZE,
            "{}#3: invalid: field `text` is missing; expected a string (a broken line rejects the file; 3 offered: "
            "1 added, 1 empty, 1 invalid)",
        ),
        ({"a.jsonl": '{"text": "a"}\n{}'}, "a.jsonl", {}, "{}#1: too_large: the line is longer than 8 bytes"),
        (
            {"d/a.py": "x", "d/b.txt": " "},
            "d",
            {},
            f"{{}}/a.py: unsupported: suffix .py; {SUFFIXES} (nothing can be registered; 2 offered: 1 empty, 1 unsupp",
        ),
        (
            {"d/a.md": "new", "d/b.md": "known"},
            "d",
            STRICT,
            "{}/b.md: duplicate: the same bytes are registered as first.md (with strict, one rejected document rejects "
            "all; 2 offered: 1 added, 1 duplicate)",
        ),
        ({"d/a.md": "new", "d/b.py": ""}, "d", STRICT, f"{{}}/b.py: unsupported: suffix .py; {SUFFIXES} (with strict"),
        ({}, "nowhere", {}, "{}: no such file or folder; check the path"),
        ({}, "folder", {}, "{}: the folder holds no files; check the path"),
        ({"a.md": "x"}, "a.md", {"content_type": "text/html"}, "content type 'text/html': expected one of text/plain"),
    ],
)  # fmt: skip
def test_a_rejected_ingest_changes_nothing(
    tree: Tree,
    tmp_path: Path,
    storage: Storage,
    snapshot: Snapshot,
    files: dict[str, bytes | str],
    source: str,
    options: dict[str, Any],
    message: str,
) -> None:
    ingest(storage, [str(tree({"first.md": "known"}) / "first.md")])
    path = tree(files) / source
    (tmp_path / "documents" / "folder" / "below").mkdir(parents=True)
    options = {"settings": CorpusSettings(max_document_bytes=8)} | options
    before = snapshot()
    with pytest.raises(InputError) as caught:
        ingest(storage, [str(path)], **options)
    assert str(caught.value).startswith(message.format(path))
    assert "\n" not in str(caught.value)
    assert snapshot() == before
    if "known" not in files.values():
        absent = Storage.open(tmp_path / "absent")
        with pytest.raises(InputError):
            ingest(absent, [str(path)], **options)
        assert not Path(absent.root).exists()


def test_the_report_of_a_rejected_ingest_travels_with_the_error(tree: Tree, storage: Storage) -> None:
    root = tree({"a.md": "A", "b.py": ""})
    with pytest.raises(RejectedIngest) as caught:
        ingest(storage, [str(root)], strict=True)
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.exit_code) == (str(caught.value), 2)
    assert error.report == caught.value.report
    assert [each.state for each in error.report.documents] == ["added", "unsupported"]
    assert error.report.rejected == str(error)
    assert not error.report.changed
    assert error.report.registry_version == error.report.document_count == 0


def test_a_folder_of_something_else_is_no_store(tree: Tree, tmp_path: Path) -> None:
    root = tree({"in/a.md": "A", "other/mine.txt": "mine"})
    for place in (root / "other", root / "other" / "mine.txt"):
        with pytest.raises(InputError, match="not a rayrag store"):
            ingest(Storage.open(place), [str(root / "in")])
    assert [path.name for path in (root / "other").iterdir()] == ["mine.txt"]


# --- what is accepted


def test_repeating_an_ingest_is_harmless(tree: Tree, storage: Storage, snapshot: Snapshot) -> None:
    root = tree({"a.md": "A", "b.jsonl": '{"text": "B"}\n{"text": ""}\n{"text": "A"}', "c.png": ""})
    first = ingest(storage, [str(root)])
    before = snapshot()
    for sources, duplicates in (
        ([str(root)], 3),
        ([str(root / "b.jsonl")], 2),
        ([str(root / "a.md"), str(root / "a.md")], 2),
    ):
        again = ingest(storage, sources)
        assert (again.changed, again.counts["added"], again.registry_version) == (False, 0, 1)
        assert (again.document_fingerprint, again.document_count) == (first.document_fingerprint, 2)
        assert again.counts["duplicate"] == duplicates
    assert snapshot() == before


def test_a_lone_jsonl_may_hold_empty_and_known_lines(tree: Tree, storage: Storage) -> None:
    root = tree({"b.jsonl": '{"text": "B"}\n{"text": ""}\n{"text": "B"}'})
    assert [each.state for each in ingest(storage, [str(root / "b.jsonl")]).documents] == [
        "added",
        "empty",
        "duplicate",
    ]


def test_the_smallest_logical_name_wins_within_an_ingest_and_the_first_after_it(tree: Tree, storage: Storage) -> None:
    root = tree({"x/m.md": "same", "y/b.md": "same", "z/a.md": "same"})
    ingest(storage, [str(root / "x"), str(root / "y")])
    assert list(contents(storage)) == ["b.md"]
    report = ingest(storage, [str(root / "z")])
    assert report.documents[0].reason == "the same bytes are registered as b.md"
    assert report.documents[0].document_id == f"doc-{sha256_hex(b'same')}"


def test_a_record_says_all_that_was_known(tree: Tree, storage: Storage) -> None:
    root = tree({"a.jsonl": '{"_id": "x1", "title": "T", "text": "A", "metadata": {"tags": ["p", 1]}}'})
    now = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    report = ingest(storage, [str(root)], ingested_at=now)
    sha256 = sha256_hex(b"T\n\nA")
    record = Registry.load(storage).record(report.documents[0].document_id or "")
    assert record.content() == {
        "schema_version": "1.0",
        "document_id": f"doc-{sha256}",
        "sha256": sha256,
        "size": 4,
        "logical_name": "a.jsonl#1",
        "content_type": "text/plain",
        "metadata": {"_id": "x1", "tags": ["p", 1]},
        "ingested_at": "2026-01-02T03:04:05.678901Z",
        "pack": sha256_hex(bytes.fromhex(sha256)),
        "offset": 0,
    }
    hashed = {key: record.content()[key] for key in record.content() if key not in ("document_id", "ingested_at")}
    del hashed["pack"], hashed["offset"]
    assert record.digest() == fingerprint(hashed)


def test_progress_counts_files_and_documents(tree: Tree, storage: Storage) -> None:
    root = tree({"a.md": "A", "b.jsonl": '{"text": "B"}\n{"text": "C"}'})
    seen: list[tuple[str, int, int]] = []
    ingest(storage, [str(root)], progress=lambda *step: seen.append(step), settings=CorpusSettings(slice_bytes=1))
    assert seen == [("scan", 0, 2), ("scan", 1, 2), ("scan", 2, 2), ("write", 0, 3), ("write", 1, 3), ("write", 3, 3)]


# --- the same documents, whatever the order, slices, packs, workers and number of ingests

texts = st.sampled_from(["a", "b", "\ufeffc", "d" * 40, "é\n", "f", "g"])
files = st.dictionaries(st.sampled_from("pqrst"), st.lists(texts, min_size=1, max_size=5), min_size=1, max_size=5)


def threads(count: int) -> Any:
    """A mapper over that many threads, by way of pickle as between processes."""

    def mapper(function: Callable[[T], R], items: Sequence[T], /) -> Iterator[R]:
        def call(item: bytes) -> bytes:
            return pickle.dumps(pickle.loads(pickle.dumps(function))(pickle.loads(item)))

        with ThreadPoolExecutor(count) as pool:
            yield from map(pickle.loads, pool.map(call, map(pickle.dumps, items)))

    return mapper


def expected_fingerprint(documents: dict[str, bytes]) -> str:
    """By definition, from logical name -> bytes."""
    members = {
        f"doc-{sha256_hex(data)}": fingerprint(
            {
                "schema_version": "1.0",
                "sha256": sha256_hex(data),
                "size": len(data),
                "logical_name": name,
                "content_type": "text/plain",
                "metadata": {},
            }
        )
        for name, data in documents.items()
    }
    return combine_groups(digest_by_group((each, bytes.fromhex(members[each])) for each in sorted(members)))


def lay_out(root: Path, files: dict[str, list[str]]) -> dict[str, bytes]:
    """One text: a .txt file; several: a .jsonl file. Returns logical name -> bytes of all offered."""
    offered = {}
    for name, members in files.items():
        if len(members) == 1:
            (root / f"{name}.txt").write_bytes(members[0].encode())
            offered[f"{name}.txt"] = members[0].encode()
            continue
        (root / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in members))
        offered |= {f"{name}.jsonl#{line}": text.encode() for line, text in enumerate(members, start=1)}
    return offered


@settings(max_examples=25)
@given(
    files=files,
    order=st.randoms(use_true_random=False),
    slice_bytes=st.sampled_from([1, 4200, 9000, 1 << 20]),
    pack_bytes=st.sampled_from([1, 600, 1100, 1 << 20]),
    workers=st.integers(1, 4),
)
def test_order_slices_packs_and_workers_decide_nothing(
    files: dict[str, list[str]], order: Any, slice_bytes: int, pack_bytes: int, workers: int
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder) / "documents"
        root.mkdir()
        offered = lay_out(root, files)
        smallest: dict[bytes, str] = {}
        for name in sorted(offered, reverse=True):
            smallest[offered[name]] = name
        expected = {name: data for data, name in smallest.items()}

        sources = [str(path) for path in root.iterdir()] + [str(root)]
        order.shuffle(sources)
        limits = CorpusSettings(slice_bytes=slice_bytes, pack_bytes=pack_bytes)
        storage = Storage.open(Path(folder) / "store")
        report = ingest(storage, sources, settings=limits, mapper=threads(workers))
        assert report.document_fingerprint == expected_fingerprint(expected)
        assert report.counts["added"] == report.document_count == len(expected)
        assert report.counts["duplicate"] == 2 * len(offered) - len(expected)
        assert contents(storage) == expected
        assert Registry.load(storage).manifest.total_bytes == sum(map(len, expected.values()))


@settings(max_examples=15)
@given(data=st.data(), pack_bytes=st.sampled_from([1, 1100, 1 << 20]))
def test_several_ingests_register_what_one_does(data: st.DataObject, pack_bytes: int) -> None:
    chosen = data.draw(st.lists(texts, min_size=1, max_size=7, unique=True))
    documents = {f"{number}.txt": text.encode() for number, text in enumerate(chosen)}
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in documents.items():
            (root / name).write_bytes(content)
        left = data.draw(st.permutations(sorted(documents)))
        storage = Storage.open(root / "store")
        ingests = 0
        while left:
            number = data.draw(st.integers(1, len(left)))
            batch, left = left[:number], left[number:]
            report = ingest(
                storage, [str(root / name) for name in batch], settings=CorpusSettings(pack_bytes=pack_bytes)
            )
            ingests += 1
            assert report.registry_version == ingests
        assert report.document_fingerprint == expected_fingerprint(documents)
        assert contents(storage) == documents


def test_packs_are_the_same_files_when_written_again(tree: Tree, tmp_path: Path) -> None:
    root = tree({f"{number}.txt": f"text {number}" for number in range(20)})
    limits = CorpusSettings(pack_bytes=2000)
    stores = [tmp_path / "one", tmp_path / "two"]
    for store in stores:
        ingest(Storage.open(store), [str(root)], settings=limits, ingested_at=datetime(2026, 1, 1, tzinfo=UTC))
    written = [{str(p.relative_to(store)): p.read_bytes() for p in store.rglob("*") if p.is_file()} for store in stores]
    assert written[0] == written[1]
    assert len([name for name in written[0] if name.endswith(".pack")]) == 7  # three records of 512 + 6 or 7 bytes


# --- several writers, crashes, files that change


def test_the_loser_of_a_race_decides_again(tree: Tree, storage: Storage) -> None:
    root = tree({"one/a.md": "A", "one/both.md": "both", "one/z.md": "Z", "two/both.md": "both", "two/c.md": "C"})
    raced = []

    def race(stage: str, done: int, total: int) -> None:
        if stage == "write" and done == total and not raced:
            raced.append(ingest(storage, [str(root / "two")]))

    limits = CorpusSettings(slice_bytes=1)
    report = ingest(storage, [str(root / "one")], settings=limits, progress=race)
    assert [each.state for each in raced[0].documents] == ["added", "added"]
    assert [each.state for each in report.documents] == ["added", "duplicate", "added"]
    assert (raced[0].registry_version, report.registry_version, report.document_count) == (1, 2, 4)
    assert contents(storage) == {"a.md": b"A", "both.md": b"both", "z.md": b"Z", "c.md": b"C"}
    assert report.document_fingerprint == Registry.load(storage).manifest.document_fingerprint
    assert contents(storage, 1) == {"both.md": b"both", "c.md": b"C"}


def test_a_lone_file_that_another_writer_registers_first_is_a_duplicate(tree: Tree, storage: Storage) -> None:
    root = tree({"a.md": "A"})

    def race(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("write", 1):
            ingest(storage, [str(root)])

    with pytest.raises(RejectedIngest, match="the same bytes are registered as a"):
        ingest(storage, [str(root / "a.md")], progress=race)
    assert newest_version(storage) == 1


def test_writers_at_once_lose_nothing_and_register_nothing_twice(tree: Tree, storage: Storage) -> None:
    writers = 4
    overlapping = {f"{w}/{n}.txt": f"text {n}" for w in range(writers) for n in range(3 * w, 3 * w + 6)}
    root = tree(overlapping)
    start = Barrier(writers)

    def write(writer: int) -> int:
        start.wait()
        return ingest(storage, [str(root / str(writer))]).counts["added"]

    with ThreadPoolExecutor(writers) as pool:
        added = list(pool.map(write, range(writers)))
    assert sum(added) == 15
    assert contents(storage) == {f"{n}.txt": f"text {n}".encode() for n in range(15)}
    for version in range(1, newest_version(storage) + 1):
        assert Registry.load(storage, version).version == version


RACE = """
import sys
from rayrag.corpus.ingest import ingest
from rayrag.storage import Storage
storage = Storage.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(ingest(storage, [sys.argv[2]]).counts["added"])
"""


def test_processes_at_once_lose_nothing(tree: Tree, storage: Storage) -> None:
    root = tree({f"{w}/{n}.txt": f"text {n}" for w in range(2) for n in range(20 * w, 20 * w + 30)})
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    commands = [[sys.executable, "-c", RACE, storage.root, str(root / str(writer))] for writer in range(2)]
    running = [subprocess.Popen(command, text=True, **pipes) for command in commands]
    assert [process.stdout.readline() for process in running] == ["ready\n"] * 2
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sum(int(process.communicate()[0]) for process in running) == 50
    assert [process.returncode for process in running] == [0, 0]
    assert contents(storage) == {f"{n}.txt": f"text {n}".encode() for n in range(50)}


CRASH = """
import os, signal, sys
from rayrag.corpus.ingest import ingest
from rayrag.storage import Storage
create = Storage.create
def crash(self, path, data):
    if path.startswith("registry/"):
        os.kill(os.getpid(), signal.SIGKILL)
    return create(self, path, data)
Storage.create = crash
ingest(Storage.open(sys.argv[1]), [sys.argv[2]])
"""


def test_a_kill_before_the_commit_leaves_the_last_version(tree: Tree, storage: Storage, snapshot: Snapshot) -> None:
    root = tree({"one/a.md": "A", "two/b.md": "B"})
    ingest(storage, [str(root / "one")])
    before = snapshot()
    killed = subprocess.run([sys.executable, "-c", CRASH, storage.root, str(root / "two")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(snapshot()) == len(before) + 2  # a pack and its records, which nothing names
    assert contents(storage) == {"a.md": b"A"}
    assert ingest(storage, [str(root / "two")]).registry_version == 2
    assert contents(storage) == {"a.md": b"A", "b.md": b"B"}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a.md", lambda path: path.write_text("changed")),
        ("a.md", lambda path: path.write_bytes(b"\xff")),
        ("a.md", lambda path: path.write_text("")),
        ("a.md", lambda path: path.unlink()),
        ("b.jsonl", lambda path: path.write_text('{"text": "B", "k": 2}')),  # the same bytes, other metadata
        ("b.jsonl", lambda path: path.write_text("\n")),
    ],
)
def test_a_file_that_changes_between_reading_and_writing(
    tree: Tree, storage: Storage, name: str, change: Callable[[Path], object]
) -> None:
    root = tree({"a.md": "A", "b.jsonl": '{"text": "B", "k": 1}'})

    def mapper(function: Callable[[T], R], items: Sequence[T], /) -> Iterator[R]:
        if function is write_slice:
            change(root / name)
        return map(function, items)

    with pytest.raises(InputError, match=name):
        ingest(storage, [str(root)], mapper=mapper)
    assert newest_version(storage) == 0
