"""Bad input: exit 2, one line on stderr that names the value and the mend, nothing on stdout, nothing changed."""

import builtins
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rayrag = Callable[..., Any]
Snapshot = Callable[[Path], dict[str, str]]

SURROGATE = os.fsdecode(b"caf\xe9")
UNKNOWN = "0" * 64


@pytest.fixture
def world(store: Path, documents: Path, tmp_path: Path, rayrag: Rayrag, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store, another without an index, and all kinds of input that is wrong."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin.txt").write_bytes("naïve größe".encode("latin-1"))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "Makefile").write_text("all:\n")
    (tmp_path / "blank.md").write_text(" \n\n")
    (tmp_path / "zero.txt").write_text("")
    (tmp_path / "broken.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n{"text": \n')
    (tmp_path / "latin.jsonl").write_bytes(b'{"text": "one"}\n{"text": "\xff"}\n')
    (tmp_path / "no-text.jsonl").write_text('{"title": "only"}\n')
    (tmp_path / "long.txt").write_text("x" * 100)
    shutil.copy(documents / "notes.rst", tmp_path / "again.rst")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thing.bin").write_bytes(b"?")
    (tmp_path / "model").mkdir()
    (tmp_path / "mistake.yaml").write_text("chunking:\n  chunk_siz: 3\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    assert rayrag("ingest", documents, "--store", tmp_path / "unbuilt").code == 0
    monkeypatch.chdir(tmp_path)
    return tmp_path


INGEST = [
    ("ingest missing.txt --store store", "missing.txt: no such file or folder"),
    ("ingest again.rst/deeper --store store", "again.rst/deeper: no such file or folder"),
    ("ingest empty --store store", "empty: the folder holds no files"),
    ("ingest latin.txt --store store", "latin.txt: invalid: byte 2 of the file is not UTF-8"),
    (
        "ingest picture.png --store store",
        "picture.png: unsupported: suffix .png; expected .txt, .md, .rst, .json, .jsonl",
    ),
    ("ingest Makefile --store store", "Makefile: unsupported: no suffix"),
    ("ingest blank.md --store store", "blank.md: empty: only white space"),
    ("ingest zero.txt --store store", "zero.txt: empty: no text"),
    ("ingest broken.jsonl --store store", "broken.jsonl#3: invalid: "),
    ("ingest latin.jsonl --store store", "latin.jsonl#2: invalid: byte 26 of the file is not UTF-8"),
    ("ingest no-text.jsonl --store store", "no-text.jsonl#1: invalid: "),
    ("ingest again.rst --store store", "again.rst: duplicate: "),
    ("ingest long.txt --store store --max-document-bytes 99", "long.txt: too_large: 100 bytes, the limit is 99"),
    ("ingest long.txt blank.md --strict --store store", "blank.md: empty: "),
    ("ingest blank.md picture.png --store store", "nothing can be registered"),
    ("ingest long.txt --content-type text/html --store store", "content type 'text/html': expected one of text/plain"),
    ("ingest long.txt --report nowhere/report.json --store store", "--report 'nowhere/report.json': not a file in"),
    ("ingest long.txt --report empty --store store", "--report 'empty': not a file in an existing folder"),
    ("ingest store --store store", "store: lies in the store"),
    ("ingest store/registry --store store", "lies in the store"),
    ("ingest long.txt --store other", "is a folder with other content (thing.bin, …)"),
    ("ingest long.txt --store again.rst", "again.rst is a file; give a folder"),
    ("ingest long.txt --store ftp://host/x", "not a folder or a URI that rayrag can open"),
    ("ingest long.txt --store s3://bucket/../x", "'..' is not allowed"),
    ("ingest long.txt --store s3://key:secret@bucket/x", "credentials in a URI"),
    ("ingest ftp://host/x --store store", "ftp"),
    ("ingest --store store", "Missing argument 'PATH...'"),
    ("ingest long.txt --max-document-bytes 0 --store store", "corpus.max_document_bytes is 0 (--max-document-bytes)"),
]
BUILD = [
    ("build-index --store nowhere", "run `rayrag ingest … --store "),
    ("build-index --store other", "other is not a rayrag store (no store.json)"),
    ("build-index --store again.rst", "again.rst is not a rayrag store"),
    ("build-index --store store --chunk-size 100 --overlap 100", "overlap"),
    ("build-index --store store --chunk-size 0", "chunking.chunk_size is 0 (--chunk-size): expected a whole number"),
    ("build-index --store store --overlap -1", "chunking.overlap is -1 (--overlap)"),
    (
        "build-index --store store --num-shards 0",
        "index.num_shards is 0 (--num-shards): expected a whole number, at least 1",
    ),
    ("build-index --store store --num-shards 5000", "at most 4,096"),
    ("build-index --store store --embedder hashing --dimension 0", "embedding.dimension is 0 (--dimension)"),
    ("build-index --store store --embedder word2vec", "'word2vec' is not one of 'hashing', 'sentence-transformers'"),
    ("build-index --store store --separator-strategy word", "'word' is not one of"),
    ("build-index --store store --precision fp8", "'fp8' is not one of"),
    ("build-index --store store --model no/such-model", "give the path of the model's folder, or allow the download"),
    ("build-index --store store --model model", "the folder holds no modules.json or config.json"),
    ("build-index --store store --chunk-size ten", "'ten' is not a valid integer"),
    ("build-index --store store surplus", "Got unexpected extra argument (surplus)"),
]
RETRIEVE = [
    ("retrieve shard --store nowhere", "no store at "),
    ("retrieve shard --store other", "other is not a rayrag store"),
    ("retrieve shard --store unbuilt", "no index has been built; run `rayrag build-index --store "),
    ("retrieve shard --store store --top-k 0", "retrieval.top_k is 0 (--top-k): expected a whole number, at least 1"),
    ("retrieve shard --store store --top-k 101", "at most 100"),
    ("retrieve shard --store store --min-score 2", "retrieval.min_score is 2.0 (--min-score)"),
    ("retrieve shard --store store --min-score nan", "retrieval.min_score is "),
    ("retrieve shard --store store --mode sparse --min-score 0.5", "which sparse mode does not compute"),
    ("retrieve shard --store store --mode fuzzy", "'fuzzy' is not one of 'dense', 'sparse', 'hybrid'"),
    ("retrieve --store store", "Missing argument 'QUERY'"),
    ("retrieve two words --store store", "Got unexpected extra argument (words)"),
]
SHOW = [
    ("inspect --store nowhere", "no store at "),
    ("inspect --store other", "is not a rayrag store"),
    ("verify --store nowhere", "no store at "),
    ("verify --store again.rst", "is not a rayrag store"),
    ("show-document ../../etc/passwd --store store", "'../../etc/passwd' is not a document id: expected doc- and 64"),
    ("show-document doc-../../../etc/passwd --store store", "is not a document id"),
    (f"show-document doc-{UNKNOWN}/.. --store store", "is not a document id"),
    (f"show-document doc-{UNKNOWN} --store store", f"doc-{UNKNOWN} is not registered in version 1 of "),
    (f"show-document chunk-{UNKNOWN} --store store", "is not a document id"),
    (f"show-document doc-{'A' * 64} --store store", "is not a document id"),
    (f"show-document doc-{UNKNOWN} --store nowhere", "no store at "),
    ("show-chunk ../../etc/passwd --store store", "'../../etc/passwd' is not a chunk id: expected chunk- and 64"),
    ("show-chunk chunk-.. --store store", "is not a chunk id"),
    (f"show-chunk chunk-{UNKNOWN} --store store", f"chunk-{UNKNOWN} is not in the index"),
    (f"show-chunk chunk-{UNKNOWN} --store unbuilt", "no index has been built"),
    (f"show-chunk chunk-{UNKNOWN} --store other", "is not a rayrag store"),
]
GENERAL = [
    ("retreive shard", "No such command 'retreive'. Did you mean 'retrieve'?"),
    ("inspect --stroe store", "No such option '--stroe'"),
    ("--verbose inspect", "No such option '--verbose'"),
    ("config shwo", "No such command 'shwo'"),
    ("--config nowhere.yaml inspect --store store", "--config nowhere.yaml: cannot read it: No such file or directory"),
    ("--config mistake.yaml inspect --store store", "line 2: unknown setting chunking.chunk_siz; did you mean"),
    ("--config list.yaml inspect --store store", "list.yaml, line 1: the file must be a mapping"),
    ("submit build-index --store store --address 127.0.0.1:8265", "expected the URL of a job server"),
    ("submit retrieve shard", "No such command 'retrieve'"),
]


def check(ran: Any, fragment: str) -> None:
    assert ran.code == 2
    assert ran.err.startswith("rayrag: ")
    assert ran.err.endswith("\n")
    assert len(ran.err.splitlines()) == 1
    assert fragment in ran.err
    assert len(ran.err) < 600
    assert ran.out == ""


@pytest.mark.parametrize(("words", "fragment"), [*INGEST, *BUILD, *RETRIEVE, *SHOW, *GENERAL])
def test_bad_input_is_one_line_and_changes_nothing(
    rayrag: Rayrag, world: Path, snapshot: Snapshot, words: str, fragment: str
) -> None:
    before = snapshot(world)
    check(rayrag(*words.split(" ")), fragment)
    assert snapshot(world) == before


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["retrieve", "", "--store", "store"], "the query is empty"),
        (["retrieve", " \t\n", "--store", "store"], "the query is empty"),
        (["retrieve", "x" * 16_385, "--store", "store"], "the query has 16,385 characters; at most 16,384"),
        (["retrieve", SURROGATE, "--store", "store"], "the query is not valid UTF-8"),
        (["ingest", SURROGATE, "--store", "store"], r"caf\xe9: no such file or folder"),
        (["ingest", "a\0b", "--store", "store"], r"'a\x00b': not a path"),
        (["ingest", "", "--store", "store"], "'': not a path"),
        (["ingest", "long.txt", "--store", "a\0b"], "store.root is "),
        (["ingest", "long.txt", "--store", SURROGATE], "store.root is "),
        (["ingest", "long.txt", "--store", ""], "store.root is "),
        (["ingest", "long.txt", "--store", "store", "--report", "a\0b"], r"--report 'a\x00b': not a file"),
        (["ingest", "long.txt", "--store", "store", "--report", ""], "--report '': not a file"),
        (["ingest", "long.txt", "--store", "store", "--report", f"{SURROGATE}/x"], "not a file in an existing folder"),
        (["ingest", "long.txt", "--store", "store", "--content-type", SURROGATE], "expected one of text/plain"),
        (["ingest", "long.txt", "--store", "store", "--content-type", ""], "content type '': expected one of"),
        (["build-index", "--store", "store", "--model", SURROGATE], "embedding.model is "),
        (["build-index", "--store", "store", "--model", "a\0b"], "embedding.model is "),
        (["show-document", f"doc-{SURROGATE}", "--store", "store"], "is not a document id"),
        (["show-document", "", "--store", "store"], "'' is not a document id"),
        (["show-document", "a\0b", "--store", "store"], "is not a document id"),
        (["show-document", f"doc-{UNKNOWN}\n", "--store", "store"], "is not a document id"),
        (["show-chunk", f"chunk-{UNKNOWN}\n", "--store", "store"], "is not a chunk id"),
        (["show-chunk", SURROGATE, "--store", "store"], "is not a chunk id"),
        (["--config", SURROGATE, "inspect", "--store", "store"], "cannot read it: No such file"),
        (["--config", "a\0b", "inspect", "--store", "store"], "cannot read it: "),
        ([SURROGATE], "No such command"),
        (["two\nlines"], "No such command"),
        (["\x1b[31mred"], r"\x1b[31mred"),
        (["inspect", f"--{SURROGATE}"], "No such option"),
    ],
)
def test_odd_words_are_bad_input_too(
    rayrag: Rayrag, world: Path, snapshot: Snapshot, words: list[str], fragment: str
) -> None:
    before = snapshot(world)
    check(rayrag(*words), fragment)
    assert snapshot(world) == before


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("RAG_CHUNKING__SIZE", "3", "unknown variable RAG_CHUNKING__SIZE"),
        ("RAG_CHUNKING__CHUNK_SIZ", "3", "did you mean RAG_CHUNKING__CHUNK_SIZE?"),
        ("RAG_CHUNKING__CHUNK_SIZE", "many", 'chunking.chunk_size is "many" (RAG_CHUNKING__CHUNK_SIZE)'),
        ("RAG_CONFIG", "nowhere.yaml", "RAG_CONFIG nowhere.yaml: cannot read it"),
    ],
)
@pytest.mark.parametrize("command", ["ingest long.txt", "build-index", "retrieve shard", "config show"])
def test_a_wrong_environment_is_bad_input(
    rayrag: Rayrag,
    world: Path,
    snapshot: Snapshot,
    monkeypatch: Any,
    name: str,
    value: str,
    fragment: str,
    command: str,
) -> None:
    before = snapshot(world)
    monkeypatch.setenv(name, value)
    check(rayrag(*command.split()), fragment)
    assert snapshot(world) == before


def test_a_rejected_ingest_makes_no_store(rayrag: Rayrag, world: Path) -> None:
    for source in ("latin.txt", "missing.txt", "empty", "broken.jsonl"):
        check(rayrag("ingest", source, "--store", "fresh"), source)
        assert not (world / "fresh").exists()


def test_an_over_limit_file_is_never_opened(rayrag: Rayrag, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = world / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    opened: list[str] = []
    original = builtins.open

    def watched(file: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(str(file))
        return original(file, *arguments, **options)

    monkeypatch.setattr(builtins, "open", watched)
    check(
        rayrag("ingest", "huge.txt", "--store", "store"), "too_large: 1,099,511,627,776 bytes, the limit is 16,777,216"
    )
    assert rayrag("ingest", "long.txt", "huge.txt", "--store", "store").code == 0
    assert str(world / "long.txt") in opened
    assert str(huge) not in opened


def test_a_group_without_a_command_shows_the_commands_and_is_bad_input(rayrag: Rayrag) -> None:
    for words in ((), ("submit",), ("config",)):
        ran = rayrag(*words)
        assert ran.code == 2
        assert ran.out.startswith("Usage: rayrag")
        assert ran.err == "rayrag: a command is missing; choose one of those listed\n"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "ingest",
        "build-index",
        "retrieve",
        "inspect",
        "show-document",
        "show-chunk",
        "verify",
        "config show",
        "submit",
        "submit ingest",
        "submit build-index",
    ],
)
def test_every_command_has_help(rayrag: Rayrag, command: str) -> None:
    ran = rayrag(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: rayrag {command}".rstrip())
    assert ran.out.count(" --executor") == (command in ("ingest", "build-index"))
