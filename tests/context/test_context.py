import pytest

from rayrag.context.assembly import build_context, estimate_tokens
from rayrag.context.citations import cite, verify_citations
from rayrag.schema.retrieval import Context, Result, Retrieval, RetrieverConfiguration, Scores


def result(rank: int, text: str) -> Result:
    return Result(
        rank=rank,
        chunk_id=f"chunk-{rank}",
        document_id=f"doc-{rank}",
        logical_name="n",
        score=0.5,
        scores=Scores(dense=0.5, bm25=None, fusion=None, rerank=None),
        character_start=rank,
        character_end=rank + len(text),
        chunk_index=0,
        chunk_fingerprint="f",
        text=text,
        metadata={},
    )


RESULTS = [result(1, "abcd"), result(2, "efghi"), result(3, "j")]


@pytest.mark.parametrize(("tokens", "expected"), [(1, "abcd"), (2, "abcd"), (3, "abcd--efghi"), (4, "abcd--efghi--j")])
def test_the_context_is_the_longest_prefix_within_the_budget(tokens: int, expected: str) -> None:
    context = build_context(RESULTS, max_tokens=tokens, separator="--")
    assert context.text == expected
    assert context.token_estimate == -(-len(expected) // 4) <= tokens
    assert context.chunk_ids == [each.chunk_id for each in RESULTS[: len(expected.split("--"))]]


def test_a_first_chunk_beyond_the_budget_leaves_the_context_empty() -> None:
    context = build_context([result(1, "abcde"), result(2, "a")], max_tokens=1, separator="")
    assert (context.text, context.chunk_ids, context.token_estimate) == ("", [], 0)


def test_estimates_round_up() -> None:
    assert [estimate_tokens("x" * count) for count in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_the_fingerprint_covers_order_content_and_separator() -> None:
    prints = [
        build_context(results, max_tokens=100, separator=separator).fingerprint
        for results, separator in (
            (RESULTS, "--"),
            (RESULTS[::-1], "--"),
            (RESULTS, "\n"),
            (RESULTS[:2], "--"),
            ([result(1, "abcx"), *RESULTS[1:]], "--"),
        )
    ]
    assert len(set(prints)) == 5
    assert prints[0] == build_context(RESULTS, max_tokens=99, separator="--").fingerprint


def retrieval() -> Retrieval:
    return Retrieval(
        query="q",
        index_fingerprint="i",
        configuration=RetrieverConfiguration(),
        results=RESULTS,
        context=Context(text="", fingerprint="", token_estimate=0, estimator="", separator="", chunk_ids=[]),
        citations=cite(RESULTS),
    )


def test_citations_of_the_retrieval_are_right_in_any_order_and_number() -> None:
    citations = cite(RESULTS)
    assert verify_citations(citations, retrieval()) == []
    assert verify_citations(citations[::-1][:2], retrieval()) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("document_id", "doc-2"),
        ("character_start", 0),
        ("character_end", 9),
        ("score", 0.4),
        ("score", None),
        ("chunk_id", "chunk-9"),
    ],
)
def test_a_changed_citation_is_named(field: str, value: object) -> None:
    changed = cite(RESULTS)[0].model_copy(update={field: value})
    (problem,) = verify_citations([changed], retrieval())
    assert problem.startswith("citation 1:")
    assert str(value) in problem


def test_a_chunk_cited_twice_is_a_problem() -> None:
    citation = cite(RESULTS)[0]
    assert verify_citations([citation, citation], retrieval()) == ["citation 2: chunk-1 is cited twice"]
