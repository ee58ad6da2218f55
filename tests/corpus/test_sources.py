import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from rayrag.corpus import remote
from rayrag.corpus.content import decode, name_problem, printable
from rayrag.corpus.ingest import ingest
from rayrag.corpus.registry import Registry
from rayrag.corpus.sources import find_sources
from rayrag.errors import InputError
from rayrag.schema.documents import CorpusSettings, IngestReport
from rayrag.storage import Storage

LIMIT = 100
SETTINGS = CorpusSettings(max_document_bytes=LIMIT)


def states(report: IngestReport, root: Path) -> dict[str, tuple[str, str | None]]:
    return {os.path.relpath(each.source, root): (each.state, each.reason) for each in report.documents}


def test_every_state_and_its_reason(tree: Callable[..., Path], storage: Storage) -> None:
    root = tree(
        {
            "a.md": "# A",
            "b/a-copy.txt": "# A",
            "b/.hidden.rst": "hidden",
            "b/UPPER.TXT": "upper",
            "c.json": "{not parsed",
            "empty.txt": "",
            "white.txt": " \n\u2003",
            "mark.txt": b"\xef\xbb\xbf",
            "with-mark.txt": b"\xef\xbb\xbftext",
            "Makefile": "x",
            ".profile": "x",
            "image.png": b"\x89PNG",
            "latin.txt": b"caf\xe9",
            "cut.txt": b"\xef\xbb\xbf" + "é".encode()[:1],
            "at-limit.txt": "x" * LIMIT,
            "large.txt": "x" * (LIMIT + 1),
            "lines.jsonl": b'{"text": "one"}\r\n\n{"text": ""}\n  \n{"text": "# A"}\nx\n{"text": "\xff"}\n'
            + b'{"text": "'
            + b"y" * LIMIT
            + b'"}\n{"text": "last", "title": "T"}',
            "blank.jsonl": "\n \n",
            "mark.jsonl": b'\xef\xbb\xbf{"text": "marked"}',
            "n" * 200 + ".txt": "long but fine",
        }
    )
    (root / "link.txt").symlink_to(root / "c.json")
    (root / "broken.txt").symlink_to(root / "nowhere")
    (root / "unreadable.txt").symlink_to("/proc/self/mem")  # a regular file that cannot be read, even by root
    (root / "folder").symlink_to(root / "b")
    os.mkfifo(root / "fifo.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(root)  # the name of a socket may not be long
        try:
            listening.bind("socket.txt")
        finally:
            os.chdir(here)
        (root / "new\nline.txt").write_text("x")
        (Path(os.fsdecode(os.fsencode(root) + b"/latin-\xe9.txt"))).write_text("x")
        report = ingest(storage, [str(root)], settings=SETTINGS)
    suffixes = "expected .txt, .md, .rst, .json, .jsonl, or state the content type"
    assert states(report, root) == {
        "a.md": ("added", None),
        "b/a-copy.txt": ("duplicate", "the same bytes are offered as a.md"),
        "b/.hidden.rst": ("added", None),
        "b/UPPER.TXT": ("added", None),
        "c.json": ("added", None),
        "link.txt": ("duplicate", "the same bytes are offered as c.json"),
        "empty.txt": ("empty", "no text"),
        "white.txt": ("empty", "only white space"),
        "mark.txt": ("empty", "only white space"),
        "with-mark.txt": ("added", None),
        "Makefile": ("unsupported", f"no suffix; {suffixes}"),
        ".profile": ("unsupported", f"no suffix; {suffixes}"),
        "image.png": ("unsupported", f"suffix .png; {suffixes}"),
        "latin.txt": ("invalid", "byte 3 of the file is not UTF-8; convert the file"),
        "cut.txt": ("invalid", "byte 3 of the file is not UTF-8; convert the file"),
        "at-limit.txt": ("added", None),
        "large.txt": ("too_large", "101 bytes, the limit is 100; split it or raise corpus.max_document_bytes"),
        "lines.jsonl#1": ("added", None),
        "lines.jsonl#3": ("empty", "no text"),
        "lines.jsonl#5": ("duplicate", "the same bytes are offered as a.md"),
        "lines.jsonl#6": ("invalid", "not JSON: Expecting value at character 1"),
        "lines.jsonl#7": ("invalid", "byte 62 of the file is not UTF-8; convert the file"),
        "lines.jsonl#8": (
            "too_large",
            "the line is longer than 100 bytes; split it or raise corpus.max_document_bytes",
        ),
        "lines.jsonl#9": ("added", None),
        "blank.jsonl": ("empty", "no lines but blank ones"),
        "mark.jsonl#1": ("added", None),
        "n" * 200 + ".txt": ("added", None),
        "broken.txt": ("unreadable", "a link to a file that does not exist, or just deleted"),
        "unreadable.txt": ("unreadable", "cannot be read: Input/output error"),
        "folder": ("unsupported", "a link to a folder, not followed; give the folder itself"),
        "fifo.txt": ("unsupported", "not a regular file"),
        "socket.txt": ("unsupported", "not a regular file"),
        "new\\nline.txt": ("invalid", "the name holds a control character; rename it"),
        "latin-\\xe9.txt": ("invalid", "the name is not UTF-8; rename it"),
    }
    assert report.counts == {
        "added": 10,
        "duplicate": 3,
        "empty": 5,
        "unsupported": 6,
        "too_large": 2,
        "invalid": 6,
        "unreadable": 2,
    }
    assert sum(report.counts.values()) == len(report.documents)
    assert (report.registry_version, report.document_count, report.changed, report.rejected) == (1, 10, True, None)
    sources = [each.source for each in report.documents]
    assert sources == sorted(sources)

    registry = Registry.load(storage)
    records = [registry.record(each) for each in registry.table["document_id"].to_pylist()]
    assert {record.logical_name: (registry.read(record), record.content_type) for record in records} == {
        "a.md": (b"# A", "text/markdown"),
        "b/.hidden.rst": (b"hidden", "text/x-rst"),
        "b/UPPER.TXT": (b"upper", "text/plain"),
        "c.json": (b"{not parsed", "application/json"),
        "with-mark.txt": (b"\xef\xbb\xbftext", "text/plain"),
        "at-limit.txt": (b"x" * LIMIT, "text/plain"),
        "lines.jsonl#1": (b"one", "text/plain"),
        "lines.jsonl#9": (b"T\n\nlast", "text/plain"),
        "mark.jsonl#1": (b"marked", "text/plain"),
        "n" * 200 + ".txt": (b"long but fine", "text/plain"),
    }


def test_names() -> None:
    assert name_problem("ä" * 1024) is None
    assert name_problem("x" * 1025) == "the name has 1,025 characters, the limit is 1,024; rename it"
    assert name_problem("a\x85b") == "the name holds a control character; rename it"
    assert name_problem("a\ud800b") == "the name is not UTF-8; rename it"
    assert printable("tab\there\u2028\udce9 é 😀") == "tab\\there\\u2028\\xe9 é 😀"


def test_a_line_whose_name_is_too_long(tree: Callable[..., Path], storage: Storage) -> None:
    deep = "/".join(["d" * 200] * 5) + "/" + "n" * 11 + ".jsonl"  # 1,022 characters, 1,024 with `#1`
    root = tree({deep: '{"text": "x"}\n' * 9 + '{"text": "y"}\n'})
    assert len(deep) == 1022
    report = ingest(storage, [str(root)])
    assert [each.state for each in report.documents] == ["added", *["duplicate"] * 8, "invalid"]
    assert report.documents[9].reason == "the name has 1,025 characters, the limit is 1,024; rename it"


def test_decode_drops_one_mark_and_counts_from_the_first_byte() -> None:
    assert decode(b"\xef\xbb\xbf\xef\xbb\xbfa") == "\ufeffa"
    with pytest.raises(UnicodeDecodeError) as caught:
        decode(b"\xef\xbb\xbfab\xed\xa0\x80")  # a surrogate is not UTF-8
    assert caught.value.start == 5


def test_logical_names_and_sources(
    tree: Callable[..., Path], storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"sub/deep/a.md": "A", "sub/b.md": "B", "c.txt": "C", "sp ace.md": "S"})
    monkeypatch.chdir(root)
    report = ingest(storage, ["sub", "./c.txt", f"file://{root}/sp%20ace.md"])
    assert [each.source for each in report.documents] == [
        "./c.txt",
        f"file://{root}/sp ace.md",
        "sub/b.md",
        "sub/deep/a.md",
    ]
    assert sorted(Registry.load(storage).table["logical_name"].to_pylist()) == [
        "b.md",
        "c.txt",
        "deep/a.md",
        "sp ace.md",
    ]


def test_a_link_to_a_folder_is_followed_where_it_is_given(tree: Callable[..., Path], storage: Storage) -> None:
    root = tree({"real/a.md": "A"})
    (root / "link").symlink_to(root / "real")
    assert ingest(storage, [str(root / "link")]).counts["added"] == 1


def test_the_store_is_not_a_source(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree({"a.md": "A"})
    storage = Storage.open(root / "rag-data")
    first = ingest(storage, [str(root)])
    again = ingest(storage, [str(root)])
    assert (
        [each.source for each in again.documents] == [each.source for each in first.documents] == [str(root / "a.md")]
    )
    (root / "alias").symlink_to(root / "rag-data")
    for inside in (root / "rag-data", root / "rag-data" / "registry", root / "alias" / "store.json"):
        with pytest.raises(InputError, match="lies in the store"):
            ingest(storage, [str(inside)])


def test_a_stated_content_type_is_that_of_every_document(tree: Callable[..., Path], storage: Storage) -> None:
    root = tree({"a.py": "print()", "b.md": "# B", "c.jsonl": '{"text": "C"}'})
    ingest(storage, [str(root)], content_type="text/x-rst")
    table = Registry.load(storage).table
    assert dict(
        zip(table["logical_name"].to_pylist(), table["content_type"].to_pylist(), strict=True)
    ) == dict.fromkeys(["a.py", "b.md", "c.jsonl#1"], "text/x-rst")


def test_uris(tree: Callable[..., Path], storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree({"bucket/p/a.md": "A", "bucket/p/sub/b.jsonl": '{"text": "B"}\n{"text": "C"}\n', "bucket/p/d.png": "x"})

    def open_filesystem(uri: str) -> tuple[fs.FileSystem, str]:
        return fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()), uri.removeprefix("s3://").partition("?")[0]

    monkeypatch.setattr(remote, "open_filesystem", open_filesystem)
    report = ingest(storage, ["s3://bucket/p/?region=x"])
    assert {each.source: each.state for each in report.documents} == {
        "s3://bucket/p/a.md": "added",
        "s3://bucket/p/d.png": "unsupported",
        "s3://bucket/p/sub/b.jsonl#1": "added",
        "s3://bucket/p/sub/b.jsonl#2": "added",
    }
    assert sorted(Registry.load(storage).table["logical_name"].to_pylist()) == [
        "a.md",
        "sub/b.jsonl#1",
        "sub/b.jsonl#2",
    ]
    with pytest.raises(InputError, match=r"a\.md: duplicate: the same bytes are registered as a.md"):
        ingest(storage, ["s3://bucket/p/a.md"])
    with pytest.raises(InputError, match="no such file or folder"):
        ingest(storage, ["s3://bucket/q"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "source '': not a path"),
        ("nowhere", "nowhere: no such file or folder; check the path"),
        ("nul\0", "not a path"),
        ("https://example.org/a.md", "not a file, a folder or a URI that can be read; expected file://, s3://"),
        ("s3://key:secret@bucket/a", r"^s3://…@bucket: credentials in a URI"),
        ("file://host/a.md", "a file URI is file:///absolute/path"),
        ("file:///nowhere.md", "no such file or folder"),
    ],
)
def test_sources_that_cannot_be(source: str, message: str, storage: Storage, tree: Callable[..., Path]) -> None:
    good = str(tree({"a.md": "A"}))
    with pytest.raises(InputError, match=message) as caught:
        find_sources([good, source], None, LIMIT, storage)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_another_store_is_no_folder_of_documents(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents/a.txt").write_text("a")
    ingest(Storage.open(tmp_path / "documents/inner"), [str(tmp_path / "documents")])
    report = ingest(Storage.open(tmp_path / "store"), [str(tmp_path / "documents")])
    assert [(Path(each.source).name, each.state) for each in report.documents] == [
        ("a.txt", "added"),
        ("inner", "unsupported"),
    ]
    with pytest.raises(InputError, match="is a rayrag store"):
        ingest(Storage.open(tmp_path / "other"), [str(tmp_path / "documents/inner")])
    assert not (tmp_path / "other").exists()
