"""The whole story in one process: ingest, build-index, retrieve, inspect, show-document, show-chunk, verify."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayrag.context.citations import verify_citations
from rayrag.schema.retrieval import Citation, Retrieval

Rayrag = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, str]]

HASHING = ("--embedder", "hashing", "--dimension", "64", "--chunk-size", "60", "--overlap", "10")
STATES = {"added", "duplicate", "empty", "unsupported", "too_large", "invalid", "unreadable"}


def test_ingest_reports_what_became_of_every_document(rayrag: Rayrag, documents: Path, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "blank.txt").write_text(" \n")
    (tmp_path / "more" / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "more" / "latin.txt").write_bytes("größe".encode("latin-1"))
    words = (
        "ingest",
        documents,
        tmp_path / "more",
        "--store",
        tmp_path / "store",
        "--report",
        tmp_path / "report.json",
    )
    ran = rayrag(*words, "--json")
    assert (ran.code, ran.err) == (0, "")
    report = ran.json
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert report["counts"].keys() == STATES
    assert {state: count for state, count in report["counts"].items() if count} == {
        "added": 5,
        "empty": 1,
        "unsupported": 1,
        "invalid": 1,
    }
    assert all(each.keys() == {"source", "state", "document_id", "reason"} for each in report["documents"])
    found = {each["source"]: each for each in report["documents"]}
    assert found[f"{documents}/lines.jsonl#2"]["state"] == "added"
    assert found[f"{tmp_path}/more/latin.txt"]["reason"].startswith("byte 2 of the file is not UTF-8")
    assert found[f"{tmp_path}/more/picture.png"]["document_id"] is None
    assert (report["changed"], report["document_count"], report["registry_version"]) == (True, 5, 1)

    again = rayrag(*words)
    assert again.code == 0
    table = dict(line.split(None, 1) for line in again.out.splitlines() if " " in line)
    assert (table["added"], table["documents"], table["registry"]) == ("0", "5", "version 1 (unchanged)")
    assert (table["fingerprint"], table["duplicate"]) == (report["document_fingerprint"], "5")
    assert f"{tmp_path}/more/latin.txt: byte 2 of the file is not UTF-8" in again.out


def test_strict_rejects_all_and_json_still_tells_everything(
    rayrag: Rayrag, documents: Path, tmp_path: Path, snapshot: Snapshot
) -> None:
    (tmp_path / "blank.txt").write_text("\n")
    words = ("ingest", documents, tmp_path / "blank.txt", "--store", tmp_path / "store", "--strict", "--json")
    ran = rayrag(*words, "--report", tmp_path / "report.json")
    assert ran.code == 2
    assert ran.err.startswith(f"rayrag: {tmp_path}/blank.txt: empty: ")
    assert ran.err.count("\n") == 1
    assert ran.json == json.loads((tmp_path / "report.json").read_text())
    assert ran.json["rejected"] == ran.err.removeprefix("rayrag: ").rstrip("\n")
    assert snapshot(tmp_path / "store") == {}


def test_build_reports_counts_and_seconds_and_an_unchanged_one_encodes_nothing(
    rayrag: Rayrag, store: Path, snapshot: Snapshot, tmp_path: Path
) -> None:
    before = snapshot(store)
    ran = rayrag("build-index", "--store", store, *HASHING, "--num-shards", 2, "--json")
    assert (ran.code, ran.err) == (0, "")
    same = ran.json
    assert (same["changed"], same["chunks_encoded"]) == (False, 0)
    assert same["chunks_reused"] == same["chunk_count"] > 5
    assert snapshot(store) == before

    (tmp_path / "new.txt").write_text("A document that came later.")
    assert rayrag("ingest", tmp_path / "new.txt", "--store", store).code == 0
    built = rayrag("build-index", "--store", store, *HASHING, "--json").json
    assert (built["changed"], built["chunks_encoded"], built["chunks_reused"]) == (True, 1, same["chunk_count"])
    assert built["index_fingerprint"] != same["index_fingerprint"]
    assert {"plan", "encoder", "encode", "merge", "statistics", "commit"} == built["seconds"].keys()
    assert all(seconds >= 0 for seconds in built["seconds"].values())

    table = dict(line.split(None, 1) for line in rayrag("build-index", "--store", store, *HASHING).out.splitlines())
    assert (table["encoded"], table["index"]) == ("0", "version 2 (unchanged)")
    assert table["fingerprint"] == built["index_fingerprint"]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "sparse"])
def test_retrieve_gives_ranked_results_context_and_citations_that_verify(
    rayrag: Rayrag, store: Path, documents: Path, mode: str
) -> None:
    ran = rayrag("retrieve", "shard entries", "--store", store, "--json", "--mode", mode, "--top-k", 2)
    assert (ran.code, ran.err) == (0, "")
    found = ran.json
    assert found.keys() == {"query", "index_fingerprint", "configuration", "results", "context", "citations"}
    assert found["query"] == "shard entries"
    assert (found["configuration"]["mode"], found["configuration"]["top_k"]) == (mode, 2)
    assert found["index_fingerprint"] == rayrag("inspect", "--store", store, "--json").json["index_fingerprint"]
    assert [result["rank"] for result in found["results"]] == [1, 2]
    for result in found["results"]:
        assert result.keys() == {
            *("rank", "chunk_id", "document_id", "logical_name", "score", "scores", "character_start"),
            *("character_end", "chunk_index", "chunk_fingerprint", "text", "metadata"),
        }
        assert result["scores"].keys() == {"dense", "bm25", "fusion", "rerank"}
        assert result["score"] == result["scores"]["dense"]
        assert (result["score"] is None) == (mode == "sparse")
        if not result["logical_name"].startswith("lines.jsonl"):
            text = (documents / result["logical_name"]).read_text()
            assert text[result["character_start"] : result["character_end"]] == result["text"]
    assert found["results"][0]["logical_name"] == "guide/shards.md"
    assert found["context"].keys() == {"text", "fingerprint", "token_estimate", "estimator", "separator", "chunk_ids"}
    assert found["context"]["chunk_ids"] == [result["chunk_id"] for result in found["results"]]
    fields = {"document_id", "chunk_id", "character_start", "character_end", "score"}
    assert all(citation.keys() == fields for citation in found["citations"])

    retrieval = Retrieval.model_validate_json(ran.out)
    citations = [Citation.model_validate(citation) for citation in found["citations"]]
    assert verify_citations(citations, retrieval) == []
    moved = citations[0].model_copy(update={"character_end": citations[0].character_end + 1})
    assert len(verify_citations([moved], retrieval)) == 1


def test_retrieve_prints_a_readable_ranking(rayrag: Rayrag, store: Path) -> None:
    ran = rayrag("retrieve", "Größe", "--store", store, "--top-k", 1)
    first, second, third, blank, last = ran.out.splitlines()
    assert first.startswith("1. guide/größe.txt  cosine 0.")
    assert " bm25 " in first
    assert " rrf 0." in first
    assert second.startswith("   [0:")
    assert third == "   Die Größe eines Index zählt in Bytes. 👩‍👩‍👧 漢字"
    assert (blank, last.startswith("index ")) == ("", True)
    assert "\x1b" not in ran.out
    nothing = rayrag("retrieve", "Größe", "--store", store, "--min-score", "1")
    assert (nothing.code, nothing.out.splitlines()[0]) == (0, "no results")


def test_metadata_of_a_line_comes_with_its_result(rayrag: Rayrag, store: Path) -> None:
    (result,) = rayrag("retrieve", "boiling tea", "--store", store, "--json", "--top-k", 1).json["results"]
    assert (result["logical_name"], result["metadata"]) == ("lines.jsonl#1", {"_id": "1", "year": 1900})


def test_inspect_before_and_after_a_build(rayrag: Rayrag, documents: Path, tmp_path: Path) -> None:
    ingested = rayrag("ingest", documents, "--store", tmp_path / "new", "--json").json
    found = rayrag("inspect", "--store", tmp_path / "new", "--json").json
    assert (found["document_count"], found["chunk_count"], found["index_fingerprint"], found["shards"]) == (
        5,
        0,
        None,
        [],
    )
    assert "none yet: run `rayrag build-index`" in rayrag("inspect", "--store", tmp_path / "new").out
    built = rayrag("build-index", "--store", tmp_path / "new", *HASHING, "--num-shards", 3, "--json").json
    ran = rayrag("inspect", "--store", tmp_path / "new", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["document_fingerprint"] == ingested["document_fingerprint"]
    assert ran.json["index_fingerprint"] == built["index_fingerprint"]
    assert (ran.json["chunk_count"], len(ran.json["shards"])) == (built["chunk_count"], 3)
    assert ran.json["configuration"]["chunking"]["overlap"] == 10
    table = rayrag("inspect", "--store", tmp_path / "new").out
    assert "60 characters, overlap 10, paragraph" in table
    assert table.count(" documents  ") == 3


def test_show_document_and_show_chunk_show_what_retrieve_cited(rayrag: Rayrag, store: Path, documents: Path) -> None:
    (result,) = rayrag("retrieve", "Größe", "--store", store, "--json", "--top-k", 1).json["results"]
    document = rayrag("show-document", result["document_id"], "--store", store, "--json").json
    assert document["text"] == (documents / "guide" / "größe.txt").read_text()
    assert (document["logical_name"], document["size"]) == ("guide/größe.txt", len(document["text"].encode()))
    chunk = rayrag("show-chunk", result["chunk_id"], "--store", store, "--json").json
    assert chunk == {name: result[name] for name in chunk}
    for command, key in (("show-document", "document_id"), ("show-chunk", "chunk_id")):
        shown = rayrag(command, result[key], "--store", store)
        assert shown.code == 0
        assert result[key] in shown.out
        assert "zählt in Bytes. 👩‍👩‍👧 漢字" in shown.out


def test_verify_says_what_it_verified(rayrag: Rayrag, store: Path) -> None:
    ran = rayrag("verify", "--store", store, "--json")
    assert (ran.code, ran.json["document_count"], ran.json["stale"]) == (0, 5, False)
    found = rayrag("inspect", "--store", store, "--json").json
    assert {name: ran.json[name] for name in ("index_fingerprint", "chunk_count")} == {
        name: found[name] for name in ("index_fingerprint", "chunk_count")
    }
    assert "all intact" in rayrag("verify", "--store", store).out


def test_a_stale_index_is_said_to_be_stale_and_still_answers(rayrag: Rayrag, store: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("A zebra.")
    rayrag("ingest", tmp_path / "new.txt", "--store", store)
    ran = rayrag("retrieve", "zebra shard", "--store", store, "--json")
    assert ran.code == 0
    assert ran.err.startswith("rayrag: the index is stale: ")
    assert "run `rayrag build-index`" in ran.err
    assert "new.txt" not in [result["logical_name"] for result in ran.json["results"]]
    assert "stale: it holds registry version 1" in rayrag("inspect", "--store", store).out
    assert rayrag("inspect", "--store", store, "--json").json["stale"] is True
    assert "version 1 (stale)" in rayrag("verify", "--store", store).out
    rayrag("build-index", "--store", store, *HASHING)
    assert (
        rayrag("retrieve", "zebra", "--store", store, "--json", "--top-k", 1).json["results"][0]["text"] == "A zebra."
    )


def test_the_default_store_is_rag_data_here(rayrag: Rayrag, documents: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert rayrag("ingest", documents).code == 0
    assert rayrag("inspect", "--json").json["store"] == str(tmp_path / "rag-data")


def test_a_stated_content_type_takes_a_file_of_any_suffix(rayrag: Rayrag, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("Words.")
    words = ("ingest", tmp_path / "README", "--store", tmp_path / "store", "--content-type", "text/markdown", "--json")
    (outcome,) = rayrag(*words).json["documents"]
    shown = rayrag("show-document", outcome["document_id"], "--store", tmp_path / "store", "--json").json
    assert (shown["content_type"], shown["logical_name"]) == ("text/markdown", "README")


def test_what_a_terminal_would_obey_is_escaped_there(
    rayrag: Rayrag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    (tmp_path / "bell.txt").write_bytes(b"ring \x1b]0;owned\x07 twice\r\nsecond\tline\n")
    rayrag("ingest", tmp_path / "bell.txt", "--store", tmp_path / "store")
    rayrag("build-index", "--store", tmp_path / "store", *HASHING)
    retrieval = ("retrieve", "ring", "--store", tmp_path / "store")
    (result,) = rayrag(*retrieval, "--json").json["results"]
    words = ("show-document", result["document_id"], "--store", tmp_path / "store")
    assert "ring \x1b]0;owned\x07 twice" in rayrag(*words).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = rayrag(*words).out
    assert r"ring \x1b]0;owned\x07 twice" in shown
    assert "\nsecond\tline\n" in shown
    assert r"ring \x1b]0;owned\x07 twice" in rayrag(*retrieval).out
