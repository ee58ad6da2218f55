"""The whole story with documents and store on S3 (moto on loopback)."""

from pathlib import Path

import pytest

from rayrag.corpus.ingest import ingest
from rayrag.errors import IntegrityError
from rayrag.index.build import build_index
from rayrag.index.executor import InProcess
from rayrag.index.verify import verify
from rayrag.index.versions import require_newest, shard_folder
from rayrag.pipeline import RAGPipeline
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import BuildReport, IndexSettings
from rayrag.schema.retrieval import ContextSettings, RetrieverConfiguration
from rayrag.schema.sparse import SparseConfiguration
from rayrag.storage import Storage

HASHING = EncoderSettings(provider="hashing", dimension=32)
TEXTS = {
    "a.md": "# Tea\n\nBoiling water.",
    "sub/b.txt": "Coffee is ground.",
    "sub/c.jsonl": '{"text": "Cocoa"}\n{"text": " "}\n',
}


def build(storage: Storage) -> BuildReport:
    return build_index(
        storage,
        chunking=ChunkConfiguration(chunk_size=20, overlap=5),
        sparse=SparseConfiguration(),
        encoder=HASHING,
        settings=IndexSettings(num_shards=3),
        executor=InProcess(),
    )


def test_documents_and_store_on_s3_give_the_index_of_local_ones(s3_root: str, tmp_path: Path) -> None:
    documents, storage = Storage.open(f"{s3_root}/documents"), Storage.open(f"{s3_root}/store")
    for name, text in TEXTS.items():
        documents.put(name, text.encode())
        (tmp_path / "documents" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "documents" / name).write_text(text)
    local = Storage.open(tmp_path / "store")
    for each, source in ((storage, f"{s3_root}/documents"), (local, str(tmp_path / "documents"))):
        report = ingest(each, [source])
        assert (report.counts["added"], report.counts["empty"]) == (3, 1)
        build(each)
    assert build(storage).index_fingerprint == build(local).index_fingerprint
    assert verify(storage).index_fingerprint == verify(local).index_fingerprint
    found = [
        RAGPipeline.load(each, HASHING).retrieve("ground coffee", RetrieverConfiguration(), ContextSettings())
        for each in (storage, local)
    ]
    assert found[0] == found[1]
    assert found[0].results[0].logical_name == "sub/b.txt"

    manifest = require_newest(storage)
    held = max(manifest.shards, key=lambda shard: shard.chunk_count)
    path = f"{shard_folder(held.key)}/vectors.npy"
    data = bytearray(storage.read(path))
    data[-1] ^= 1
    storage.put(path, bytes(data))
    with pytest.raises(IntegrityError, match=r"s3://.*vectors\.npy"):
        RAGPipeline.load(storage, None)
