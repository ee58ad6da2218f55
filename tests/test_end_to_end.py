"""From documents to results through the core: the promises that hold whatever the layout, order or history."""

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rayrag.corpus.ingest import ingest
from rayrag.corpus.registry import Registry, text_of
from rayrag.errors import IntegrityError
from rayrag.index.analyzer import Analyzer
from rayrag.index.build import build_index
from rayrag.index.executor import InProcess
from rayrag.index.reader import Index
from rayrag.index.shard import FILES
from rayrag.index.verify import verify
from rayrag.index.versions import newest, require_newest
from rayrag.pipeline import RAGPipeline
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.documents import CorpusSettings
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import BuildReport, IndexSettings
from rayrag.schema.retrieval import ContextSettings, RetrieverConfiguration
from rayrag.schema.sparse import AnalyzerConfiguration, SparseConfiguration
from rayrag.storage import Storage

HASHING = EncoderSettings(provider="hashing", dimension=32)
CHUNKING = ChunkConfiguration(chunk_size=60, overlap=15)


def add(store: Path, folder: Path, files: dict[str, str], *, chosen: Sequence[str] | None = None) -> None:
    for name in chosen or sorted(files):
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name].encode())
    ingest(Storage.open(store), [str(folder)], settings=CorpusSettings())


def build(
    store: Path,
    *,
    chunking: ChunkConfiguration = CHUNKING,
    sparse: SparseConfiguration | None = None,
    num_shards: int | None = 1,
    unit_bytes: int = 300,
    encoder: EncoderSettings = HASHING,
) -> BuildReport:
    return build_index(
        Storage.open(store),
        chunking=chunking,
        sparse=sparse or SparseConfiguration(),
        encoder=encoder,
        settings=IndexSettings(num_shards=num_shards, unit_bytes=unit_bytes),
        executor=InProcess(),
    )


def entries(store: Path) -> list[tuple[object, ...]]:
    """Every entry of the index in order, with all that belongs to it."""
    storage = Storage.open(store)
    found: list[tuple[object, ...]] = []
    for shard in Index.load(storage, require_newest(storage)).shards:
        terms = shard.postings.terms.to_pylist()
        offsets, numbers, frequencies = shard.postings.by_row()
        for row, chunk in enumerate(shard.chunks.to_pylist()):
            span = slice(offsets[row], offsets[row + 1])
            counts = dict(zip((terms[number] for number in numbers[span]), frequencies[span].tolist(), strict=True))
            found.append((*chunk.values(), shard.vectors[row].tobytes(), tuple(counts.items())))
    return found


def corpus(count: int, seed: int = 1) -> dict[str, str]:
    """Documents of made-up words: paragraphs, some of which are repeated, CRLF, marks, other scripts, emoji."""
    source = random.Random(seed)
    words = ["shard", "index", "café", "漢字", "vector", "Straße", "👩‍👩‍👧", "مرحبا", "entry", "query", "rank", "token"]
    files = {}
    for number in range(count):
        lines = [" ".join(source.choices(words, k=source.randint(3, 14))) for _ in range(source.randint(1, 7))]
        files[f"{source.choice('abc')}/{number:03}"] = (
            source.choice(["\n\n", "\r\n\r\n", "\n"]).join([*lines, lines[0]]) + f" {number}"
        )
    return files


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 40 documents, built from scratch with one shard."""
    root = tmp_path_factory.mktemp("reference")
    add(root / "store", root / "documents", corpus(40))
    build(root / "store")
    return root / "store"


@pytest.mark.parametrize(("num_shards", "unit_bytes"), [(3, 1), (8, 1000), (64, 10**9), (None, 5)])
def test_shards_and_units_do_not_change_the_index(
    reference: Path, tmp_path: Path, num_shards: int | None, unit_bytes: int
) -> None:
    add(tmp_path / "store", tmp_path / "documents", corpus(40))
    report = build(tmp_path / "store", num_shards=num_shards, unit_bytes=unit_bytes)
    assert report.shard_count == (num_shards or 1)
    assert report.index_fingerprint == build(reference).index_fingerprint
    assert entries(tmp_path / "store") == entries(reference)


@settings(max_examples=8)
@given(data=st.data())
def test_order_and_history_do_not_change_the_index(
    reference: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    files = corpus(40)
    root = tmp_path_factory.mktemp("history")
    names = data.draw(st.permutations(sorted(files)))
    cuts = sorted(data.draw(st.lists(st.integers(1, 39), max_size=3, unique=True)))
    for start, end in zip([0, *cuts], [*cuts, 40], strict=True):
        for each in names[start:end]:
            path = root / "documents" / f"{each}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[each].encode())
        ingest(Storage.open(root / "store"), [str(root / "documents")], settings=CorpusSettings())
        report = build(root / "store", num_shards=data.draw(st.sampled_from([1, 3, 8])))
        assert report.chunks_encoded + report.chunks_reused == report.chunk_count
        assert report.document_count == end
    assert report.index_fingerprint == build(reference).index_fingerprint
    assert entries(root / "store") == entries(reference)
    verify(Storage.open(root / "store"))


def test_an_unchanged_build_encodes_nothing_and_writes_nothing(reference: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("*")}
    report = build(reference)
    assert (report.changed, report.chunks_encoded, report.chunks_reused) == (False, 0, report.chunk_count)
    assert {path: path.stat().st_mtime_ns for path in reference.rglob("*")} == before


def test_new_documents_alone_are_encoded(tmp_path: Path) -> None:
    files = corpus(12)
    add(tmp_path / "store", tmp_path / "documents", files, chosen=sorted(files)[:11])
    first = build(tmp_path / "store", num_shards=3)
    add(tmp_path / "store", tmp_path / "documents", files)
    second = build(tmp_path / "store", num_shards=3)
    assert second.changed
    assert second.chunks_reused == first.chunk_count
    assert second.chunks_encoded == second.chunk_count - first.chunk_count > 0


def test_another_analyser_encodes_nothing_and_equals_a_build_from_scratch(tmp_path: Path) -> None:
    files = corpus(12)
    plain = SparseConfiguration(analyzer=AnalyzerConfiguration(stemmer="none", stop_words="none"))
    for name, configurations in (("a", [SparseConfiguration(), plain]), ("b", [plain])):
        add(tmp_path / name, tmp_path / "documents", files)
        for configuration in configurations:
            report = build(tmp_path / name, sparse=configuration, num_shards=3)
        if name == "a":
            assert report.chunks_encoded == 0
            verify(Storage.open(tmp_path / name))
    assert entries(tmp_path / "a") == entries(tmp_path / "b")


def test_parameters_of_bm25_change_the_fingerprint_and_no_shard(reference: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(reference, store)
    before = {path.name: path.stat().st_mtime_ns for path in (store / "index/shards").iterdir()}
    report = build(store, sparse=SparseConfiguration(k1=0.9))
    assert report.changed
    assert report.chunks_encoded == 0
    assert report.index_fingerprint != build(reference).index_fingerprint
    assert {path.name: path.stat().st_mtime_ns for path in (store / "index/shards").iterdir()} == before
    verify(Storage.open(store))


def test_changed_overlap_changes_every_chunk(reference: Path, tmp_path: Path) -> None:
    add(tmp_path / "store", tmp_path / "documents", corpus(40))
    build(tmp_path / "store", chunking=ChunkConfiguration(chunk_size=60, overlap=14))
    assert not {each[2] for each in entries(reference)} & {each[2] for each in entries(tmp_path / "store")}


class Killed(BaseException):
    """What a kill looks like to code that catches exceptions."""


def test_a_build_killed_at_any_write_leaves_the_old_index_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = corpus(14)
    add(tmp_path / "origin", tmp_path / "documents", files, chosen=sorted(files)[:7])
    first = build(tmp_path / "origin", num_shards=2)
    add(tmp_path / "origin", tmp_path / "documents", files)
    shutil.copytree(tmp_path / "origin", tmp_path / "whole")
    expected = build(tmp_path / "whole", num_shards=2)
    original = Storage._check
    kill_at = 0
    while True:
        kill_at += 7
        store = tmp_path / f"killed-{kill_at}"
        shutil.copytree(tmp_path / "origin", store)
        calls = 0

        def check(self: Storage, path: str, *, at: int = kill_at, **arguments: bool) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise Killed
            original(self, path, **arguments)

        with monkeypatch.context() as patch:
            patch.setattr(Storage, "_check", check)
            try:
                build(store, num_shards=2)
            except Killed:
                pass
            else:
                break
        visible = newest(Storage.open(store))
        assert visible is not None
        assert visible.index_fingerprint in (first.index_fingerprint, expected.index_fingerprint)
        Index.load(Storage.open(store), visible)
        again = build(store, num_shards=2)
        assert again.index_fingerprint == expected.index_fingerprint
        assert entries(store) == entries(tmp_path / "whole")
        shutil.rmtree(store)
    assert kill_at > 50


def files_of(store: Path) -> Iterator[Path]:
    yield from (path for path in sorted(store.rglob("*")) if path.is_file() and "runs" not in path.parts)


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_any_damage_to_any_file_is_found_and_named(reference: Path, tmp_path: Path, damage: str) -> None:
    for original in files_of(reference):
        store = tmp_path / "store"
        shutil.copytree(reference, store)
        path = store / original.relative_to(reference)
        data = bytearray(path.read_bytes())
        match damage:
            case "flip":
                data[len(data) // 2] ^= 4
                path.write_bytes(data)
            case "truncate":
                path.write_bytes(data[: len(data) // 2])
            case "remove":
                path.unlink()
        if damage == "remove" and path.name in ("store.json", "documents.json", "index.json"):
            shutil.rmtree(store)  # a store without its newest version is an older or an empty one
            continue
        with pytest.raises(IntegrityError) as caught:
            verify(Storage.open(store))
        assert path.name in str(caught.value) or path.parent.name in str(caught.value), path
        shutil.rmtree(store)


@pytest.mark.parametrize("name", [*FILES, "shard.json", "statistics"])
@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_a_build_makes_anew_what_is_missing_or_cut_short(
    reference: Path, tmp_path: Path, name: str, damage: str
) -> None:
    store = tmp_path / "store"
    shutil.copytree(reference, store)
    (path,) = (store / "index").rglob(name if name != "statistics" else "statistics/*.arrow")
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    report = build(store)
    assert report.changed
    assert report.index_fingerprint == build(reference).index_fingerprint
    assert report.chunks_encoded == (0 if name == "statistics" else report.chunk_count)
    verify(Storage.open(store))


def test_a_changed_byte_is_mended_as_the_message_says(reference: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(reference, store)
    (path,) = (store / "index").rglob("vectors.npy")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match=f"delete the folder {path.parent} and run `rayrag build-index`"):
        RAGPipeline.load(Storage.open(store), None)
    shutil.rmtree(path.parent)
    assert build(store).chunks_encoded > 0
    verify(Storage.open(store))


def test_verify_reads_every_version_and_counts_what_none_names(tmp_path: Path) -> None:
    files = corpus(6)
    store = tmp_path / "store"
    add(store, tmp_path / "documents", files, chosen=sorted(files)[:3])
    build(store)
    add(store, tmp_path / "documents", files)
    build(store)
    report = verify(Storage.open(store))
    assert (report.registry_versions, report.index_versions, report.left_over) == (2, 2, 0)
    for original in [path for path in files_of(store) if path.name != "store.json"]:
        damaged = tmp_path / "damaged"
        shutil.copytree(store, damaged)
        path = damaged / original.relative_to(store)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        with pytest.raises(IntegrityError):
            verify(Storage.open(damaged))
        shutil.rmtree(damaged)
    shutil.rmtree(store / "index/versions/00000002")
    report = verify(Storage.open(store))
    assert (report.index_version, report.stale, report.left_over) == (1, True, 2)  # a shard and its statistics


def test_a_foreign_shard_is_refused(reference: Path, tmp_path: Path) -> None:
    add(tmp_path / "other", tmp_path / "documents", corpus(5, seed=9))
    build(tmp_path / "other")
    shutil.copytree(reference, tmp_path / "store")
    (mine,), (theirs,) = ((root / "index/shards").iterdir() for root in (tmp_path / "store", tmp_path / "other"))
    for name in (*FILES, "shard.json"):
        shutil.copy(theirs / name, mine / name)
    with pytest.raises(IntegrityError, match=r"shard\.json"):
        RAGPipeline.load(Storage.open(tmp_path / "store"), None)


def test_chunks_are_ranges_of_their_documents(reference: Path) -> None:
    storage = Storage.open(reference)
    registry = Registry.load(storage)
    for row in entries(reference):
        record = registry.record(f"doc-{row[0].hex()}")  # type: ignore[attr-defined]
        assert text_of(registry.read(record))[row[4] : row[5]] == row[6]  # type: ignore[misc]


QUERIES = ["shard index", "café 漢字", "query query rank", "unknownword", "Straße"]


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_results_do_not_depend_on_shards_and_the_top_k_is_a_prefix(reference: Path, tmp_path: Path, mode: str) -> None:
    add(tmp_path / "store", tmp_path / "documents", corpus(40))
    build(tmp_path / "store", num_shards=8)
    one, eight = (RAGPipeline.load(Storage.open(store), HASHING) for store in (reference, tmp_path / "store"))
    for query in QUERIES:
        full = one.retrieve(query, RetrieverConfiguration(mode=mode, top_k=100), ContextSettings())  # type: ignore[arg-type]
        assert eight.retrieve(query, full.configuration, ContextSettings()) == full
        for top_k in (1, 3, 10):
            configuration = full.configuration.model_copy(update={"top_k": top_k})
            assert one.retrieve(query, configuration, ContextSettings()).results == full.results[:top_k]


def test_bm25_of_results_equals_rank_bm25_on_the_whole_corpus(reference: Path) -> None:
    rows = entries(reference)
    analyzer = Analyzer(AnalyzerConfiguration())
    model = BM25Okapi([analyzer.terms(str(row[6])) for row in rows])
    pipeline = RAGPipeline.load(Storage.open(reference), None)
    for query in QUERIES:
        expected = model.get_scores(analyzer.terms(query))
        by_id = {f"chunk-{row[2].hex()}": score for row, score in zip(rows, expected, strict=True)}  # type: ignore[attr-defined]
        found = pipeline.retrieve(query, RetrieverConfiguration(mode="sparse", top_k=100), ContextSettings()).results
        for result in found:
            assert result.scores.bm25 == pytest.approx(by_id[result.chunk_id], abs=1e-9)
            assert result.score is None
        if len(found) == 100:
            assert found[-1].scores.bm25 >= np.sort(expected)[-100] - 1e-9


def test_the_threshold_is_inclusive_and_on_the_cosine(reference: Path) -> None:
    pipeline = RAGPipeline.load(Storage.open(reference), HASHING)
    full = pipeline.retrieve("shard index", RetrieverConfiguration(top_k=100), ContextSettings()).results
    bound = sorted({result.score for result in full if result.score is not None})[-3]
    kept = pipeline.retrieve(
        "shard index", RetrieverConfiguration(top_k=100, min_score=bound), ContextSettings()
    ).results
    assert [result.chunk_id for result in kept] == [
        r.chunk_id for r in full if r.score is not None and r.score >= bound
    ]
    assert any(result.score == bound for result in kept)


def test_metadata_and_names_of_documents_come_with_results(tmp_path: Path) -> None:
    lines = [{"_id": "7", "title": "Tea", "text": "boiling water", "tags": ["a", 1], "metadata": {"year": 1900}}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ingest(Storage.open(tmp_path / "store"), [str(tmp_path / "corpus.jsonl")], settings=CorpusSettings())
    build(tmp_path / "store")
    pipeline = RAGPipeline.load(Storage.open(tmp_path / "store"), HASHING)
    (result,) = pipeline.retrieve("tea", RetrieverConfiguration(), ContextSettings()).results
    assert result.logical_name == "corpus.jsonl#1"
    assert result.text == "Tea\n\nboiling water"
    assert result.metadata == {"_id": "7", "tags": ["a", 1], "year": 1900}
