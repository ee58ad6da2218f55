"""Citations: one per result, and the check that a set of citations is what a retrieval gave."""

from collections.abc import Sequence

from rayrag.schema.retrieval import Citation, Result, Retrieval


def cite(results: Sequence[Result]) -> list[Citation]:
    """One citation per result, in rank order."""
    return [
        Citation(
            document_id=result.document_id,
            chunk_id=result.chunk_id,
            character_start=result.character_start,
            character_end=result.character_end,
            score=result.score,
        )
        for result in results
    ]


def verify_citations(citations: Sequence[Citation], retrieval: Retrieval) -> list[str]:
    """What is wrong with citations that claim to come from `retrieval`; empty when nothing is.

    Each citation must name a chunk that was retrieved, once, with its document, range and score. Not every result
    needs to be cited, and the order is free.
    """
    expected = {citation.chunk_id: citation for citation in cite(retrieval.results)}
    problems = []
    seen: set[str] = set()
    for number, citation in enumerate(citations, 1):
        truth = expected.get(citation.chunk_id)
        if truth is None:
            problems.append(f"citation {number}: {citation.chunk_id} was not retrieved")
            continue
        if citation.chunk_id in seen:
            problems.append(f"citation {number}: {citation.chunk_id} is cited twice")
        seen.add(citation.chunk_id)
        for field, value in citation.content().items():
            if value != getattr(truth, field):
                problems.append(f"citation {number}: {field} is {value}, the retrieval has {getattr(truth, field)}")
    return problems
