import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rayrag.index.postings import Postings
from rayrag.index.sparse import OkapiScorer, WeightedTerm
from rayrag.index.statistics import statistics_table

TERM = st.sampled_from("abcdefgh")


def counts_of(terms: list[str]) -> dict[str, int]:
    return {term: terms.count(term) for term in terms}


@given(
    st.lists(st.lists(TERM, max_size=12), min_size=1, max_size=12),
    st.lists(TERM, min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_scores_equal_rank_bm25_on_the_whole_corpus_for_any_sharding(
    chunks: list[list[str]], query: list[str], shards: int
) -> None:
    if not any(chunks):
        chunks = [*chunks, ["a"]]  # rank_bm25 divides by the vocabulary
    parts = [Postings.of_counts([counts_of(chunk) for chunk in chunks[at::shards]]) for at in range(shards)]
    table = statistics_table(parts, len(chunks), epsilon=0.25)
    idf = dict(zip(table["term"].to_pylist(), table["idf"].to_pylist(), strict=True))
    counts = counts_of(query)
    terms = [WeightedTerm(term, counts[term], idf[term]) for term in sorted(counts) if term in idf]
    average = sum(map(len, chunks)) / len(chunks)
    scores = np.empty(len(chunks))
    found = np.empty(len(chunks), bool)
    for at, part in enumerate(parts):
        scorer = OkapiScorer(part, average_length=average, k1=1.5, b=0.75)
        scores[at::shards], found[at::shards] = scorer.scores(terms)
    np.testing.assert_allclose(scores, BM25Okapi(chunks).get_scores(query), rtol=0, atol=1e-9)
    assert found.tolist() == [bool(set(chunk) & set(query)) for chunk in chunks]


def test_idf_by_hand() -> None:
    # "a" in 1 of 4 chunks: ln(3.5 / 1.5); "b" in 2 of 4: 0; "c" in 3 of 4: negative, so 0.25 * the mean of all three.
    parts = [Postings.of_counts([{"a": 2, "b": 1, "c": 1}, {"b": 1, "c": 1}, {"c": 5}, {}])]
    table = statistics_table(parts, 4, epsilon=0.25)
    assert table["term"].to_pylist() == ["a", "b", "c"]
    assert table["document_frequency"].to_pylist() == [1, 2, 3]
    a, c = math.log(3.5) - math.log(1.5), math.log(1.5) - math.log(3.5)
    assert table["idf"].to_pylist() == pytest.approx([a, 0.0, 0.25 * (a + 0.0 + c) / 3], abs=1e-15)


def test_a_corpus_without_terms_scores_nothing() -> None:
    postings = Postings.of_counts([{}, {}])
    assert len(statistics_table([postings], 2, epsilon=0.25)) == 0
    scores, found = OkapiScorer(postings, average_length=0.0, k1=1.5, b=0.75).scores([])
    assert scores.tolist() == [0.0, 0.0]
    assert not found.any()
