"""The real model on a judged collection, through the whole core: MED, whole documents as chunks."""

import json
from pathlib import Path

import ir_measures
import pytest
from ir_measures import nDCG

from rayrag.corpus.ingest import ingest
from rayrag.index.build import build_index
from rayrag.index.executor import InProcess
from rayrag.pipeline import RAGPipeline
from rayrag.schema.chunks import ChunkConfiguration
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.index import IndexSettings
from rayrag.schema.retrieval import ContextSettings, RetrieverConfiguration
from rayrag.schema.sparse import SparseConfiguration
from rayrag.storage import Storage

ENCODER = EncoderSettings(precision="fp32")


@pytest.fixture(scope="module")
def pipeline(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> RAGPipeline:
    """MED, ingested and built with MiniLM."""
    storage = Storage.open(tmp_path_factory.mktemp("med") / "store")
    report = ingest(storage, [str(shared / "data/med/corpus.jsonl")])
    assert report.counts["added"] == 1033
    build_index(
        storage,
        chunking=ChunkConfiguration(chunk_size=1_000_000, overlap=0),
        sparse=SparseConfiguration(),
        encoder=ENCODER,
        settings=IndexSettings(),
        executor=InProcess(),
    )
    return RAGPipeline.load(storage, ENCODER)


@pytest.mark.parametrize(("mode", "least"), [("sparse", 0.68), ("dense", 0.72), ("hybrid", 0.785)])
def test_ndcg_at_10_on_med(pipeline: RAGPipeline, shared: Path, mode: str, least: float) -> None:
    folder = shared / "data/med"
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    lines = (folder / "qrels/test.tsv").read_text().splitlines()[1:]
    judged = [
        ir_measures.Qrel(query, document, int(grade)) for query, document, grade in (line.split("\t") for line in lines)
    ]
    run = [
        ir_measures.ScoredDoc(query["_id"], str(result.metadata["_id"]), -float(result.rank))
        for query in queries
        for result in pipeline.retrieve(
            query["text"],
            RetrieverConfiguration(mode=mode, top_k=10),  # type: ignore[arg-type]
            ContextSettings(),
        ).results
    ]
    assert ir_measures.calc_aggregate([nDCG @ 10], judged, run)[nDCG @ 10] >= least
