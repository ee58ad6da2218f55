"""What BM25 needs to know of the whole index: document frequencies, idf and lengths."""

from collections.abc import Iterable

import pyarrow as pa

from rayrag.index.postings import Postings
from rayrag.index.tables import STATISTICS


def statistics_table(shards: Iterable[Postings], chunk_count: int, epsilon: float) -> pa.Table:
    """Document frequency and idf of every term, ascending, from each shard's postings.

    The idf is rank-bm25's own (`BM25Okapi._calc_idf`): ln(N - n + 0.5) - ln(n + 0.5) for a term in n of N chunks, and
    epsilon times the mean idf of all terms where that is negative. Memory is proportional to the vocabulary.
    """
    total = pa.table({"term": pa.array([], pa.large_string()), "document_frequency": pa.array([], pa.int64())})
    for postings in shards:
        frequencies = pa.array(postings.document_frequencies, pa.int64())
        shard = pa.table({"term": postings.terms, "document_frequency": frequencies})
        grouped = pa.concat_tables([total, shard]).group_by("term", use_threads=False)
        total = grouped.aggregate([("document_frequency", "sum")]).rename_columns(["term", "document_frequency"])
    total = total.sort_by("term").combine_chunks()
    frequency_of = dict(zip(total["term"].to_pylist(), total["document_frequency"].to_pylist(), strict=True))
    idf = okapi_idf(frequency_of, chunk_count, epsilon)
    return pa.table([total["term"], total["document_frequency"], pa.array(idf.values(), pa.float64())], STATISTICS)


def okapi_idf(frequency_of: dict[str, int], chunk_count: int, epsilon: float) -> dict[str, float]:
    """The idf of each term as `rank_bm25.BM25Okapi` computes it, in the order given (which decides the last bit)."""
    if not frequency_of:
        return {}
    from rank_bm25 import BM25Okapi

    model = BM25Okapi.__new__(BM25Okapi)
    model.corpus_size, model.epsilon, model.idf = chunk_count, epsilon, {}
    model._calc_idf(frequency_of)
    return {term: model.idf[term] for term in frequency_of}
