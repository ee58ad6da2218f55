"""A real tree: the sources of the Python Enhancement Proposals."""

from collections import Counter
from pathlib import Path

import pytest

from rayrag.corpus.ingest import ingest
from rayrag.corpus.registry import Registry, read_sources, text_of
from rayrag.storage import Storage

PEPS = Path(__file__).resolve().parents[3] / "shared" / "corpora" / "peps"


@pytest.mark.skipif(not PEPS.is_dir(), reason="the folder of the PEPs is not there")
def test_every_file_of_a_real_tree_is_accounted_for(tmp_path: Path) -> None:
    files = sorted(path for path in PEPS.rglob("*") if path.is_file())
    suffixes = Counter(path.suffix for path in files)
    storage = Storage.open(tmp_path / "store")
    report = ingest(storage, [str(PEPS)])
    assert [each.source for each in report.documents] == sorted(str(path) for path in files)
    assert report.counts["added"] == suffixes[".rst"] + suffixes[".json"] + suffixes[".txt"] + suffixes[".md"]
    assert report.counts["unsupported"] == len(files) - report.counts["added"]
    registry = Registry.load(storage)
    read = dict(read_sources(storage, registry.table))
    for document_id, name in zip(
        *(registry.table[key].to_pylist() for key in ("document_id", "logical_name")), strict=True
    ):
        assert read[document_id] == (PEPS / name).read_bytes()
        assert text_of(read[document_id])
