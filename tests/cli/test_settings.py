"""Settings as the command line shows and takes them: default < file < variable < flag."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rayrag = Callable[..., Any]


def test_config_show_tells_where_each_value_came_from(
    rayrag: Rayrag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("chunking:\n  chunk_size: 500\n  overlap: 50\nretrieval:\n  top_k: 7\n")
    monkeypatch.setenv("RAG_CHUNKING__OVERLAP", "20")
    ran = rayrag("--config", file, "config", "show", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["chunking.chunk_size"] == {"value": 500, "origin": str(file)}
    assert ran.json["chunking.overlap"] == {"value": 20, "origin": "RAG_CHUNKING__OVERLAP"}
    assert ran.json["retrieval.mode"] == {"value": "hybrid", "origin": "default"}
    lines = dict(line.split(None, 1) for line in rayrag("--config", file, "config", "show").out.splitlines())
    assert lines.keys() == ran.json.keys()
    assert lines["chunking.chunk_size"].split() == ["500", str(file)]
    assert lines["chunking.overlap"].split() == ["20", "RAG_CHUNKING__OVERLAP"]
    monkeypatch.setenv("RAG_CONFIG", str(file))
    assert rayrag("config", "show", "--json").json == ran.json


def test_a_flag_wins_over_a_variable_and_that_over_the_file(
    rayrag: Rayrag, documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("chunking: {chunk_size: 111, overlap: 11}\nembedding: {provider: hashing, dimension: 8}\n")
    monkeypatch.setenv("RAG_STORE__ROOT", str(tmp_path / "store"))
    monkeypatch.setenv("RAG_CHUNKING__OVERLAP", "22")
    monkeypatch.setenv("RAG_EMBEDDING__DIMENSION", "16")
    assert rayrag("ingest", documents).code == 0
    assert rayrag("--config", file, "build-index", "--dimension", 32).code == 0
    built = rayrag("inspect", "--json").json["configuration"]
    assert (built["chunking"]["chunk_size"], built["chunking"]["overlap"]) == (111, 22)
    assert (built["embedding"]["provider"], built["embedding"]["dimension"]) == ("hashing", 32)


def test_the_variable_and_the_flag_of_the_store(rayrag: Rayrag, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_STORE__ROOT", "/nowhere")
    assert rayrag("inspect").code == 2
    assert rayrag("inspect", "--store", store).code == 0
