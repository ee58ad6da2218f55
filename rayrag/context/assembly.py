"""The context: whole chunks in retrieval order, as many as the token budget holds."""

from collections.abc import Sequence

from rayrag.fingerprint import fingerprint
from rayrag.schema.retrieval import Context, Result

ESTIMATOR = "ceil(characters/4)"


def estimate_tokens(text: str) -> int:
    """ceil(characters / 4): an estimate, named as such in every context."""
    return -(-len(text) // 4)


def build_context(results: Sequence[Result], *, max_tokens: int, separator: str) -> Context:
    """The longest prefix of the results whose texts, joined by `separator`, are within `max_tokens` estimated tokens.

    A chunk is never cut: when the first alone is too long, the context is empty.
    """
    count = 0
    characters = 0
    for result in results:
        characters += len(result.text) + (len(separator) if count else 0)
        if -(-characters // 4) > max_tokens:
            break
        count += 1
    chosen = results[:count]
    text = separator.join(result.text for result in chosen)
    content = {
        "chunks": [{"chunk_id": result.chunk_id, "text": result.text} for result in chosen],
        "separator": separator,
        "estimator": ESTIMATOR,
    }
    return Context(
        text=text,
        fingerprint=fingerprint(content),
        token_estimate=estimate_tokens(text),
        estimator=ESTIMATOR,
        separator=separator,
        chunk_ids=[result.chunk_id for result in chosen],
    )
