"""What every encoder promises; expectations compare bits, not tolerances."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayrag.embedding.base import Encoder, Role
from rayrag.errors import InputError

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "a",
    "sequences, mappings and other containers " * 2,
    "Die Straße führt nach Köln; ﬁnanziell, ½, Ⅳ.",
    "日本語の文章です。",
    "नमस्ते दुनिया",
    "👩‍👩‍👧‍👦 family, e\u0301 and é",
    "The quick brown fox jumps over the lazy dog.",
    "null \0 byte\r\nand\ttabs",
]


@pytest.fixture(scope="module")
def all_vectors(encoder: Encoder) -> dict[Role, np.ndarray]:
    """The vectors of all texts, by role."""
    roles: tuple[Role, ...] = ("passage", "query")
    return {role: encoder.encode(TEXTS, role) for role in roles}


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("role", ["passage", "query"])
def test_shape_type_and_norm(encoder: Encoder, all_vectors: dict[Role, np.ndarray], role: Role) -> None:
    vectors = all_vectors[role]
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), encoder.configuration.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(np.float64), axis=1), 1, atol=1e-6)


def test_no_texts(encoder: Encoder) -> None:
    vectors = encoder.encode([])
    assert (vectors.dtype, vectors.shape) == (np.float32, (0, encoder.configuration.dimension))
    assert encoder.truncated([]) == 0


@pytest.mark.parametrize("role", ["passage", "query"])
def test_alone_repeated_and_reversed(encoder: Encoder, all_vectors: dict[Role, np.ndarray], role: Role) -> None:
    vectors = all_vectors[role]
    assert same(vectors, encoder.encode(TEXTS, role))
    assert same(vectors[::-1].copy(), encoder.encode(TEXTS[::-1], role))
    assert same(vectors, np.concatenate([encoder.encode([text], role) for text in TEXTS]))
    assert same(vectors[0], vectors[TEXTS.index(TEXTS[0], 1)])


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(picked=st.lists(st.sampled_from(range(len(TEXTS))), max_size=8), role=st.sampled_from(["passage", "query"]))
def test_any_selection_in_any_order(
    encoder: Encoder, all_vectors: dict[Role, np.ndarray], picked: list[int], role: Role
) -> None:
    assert same(all_vectors[role][picked], encoder.encode([TEXTS[index] for index in picked], role))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4))
def test_any_unicode(encoder: Encoder, texts: list[str]) -> None:
    vectors = encoder.encode(texts)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    assert np.all((np.abs(norms - 1) < 1e-6) | (norms == 0))
    if texts:
        assert same(vectors[-1:], encoder.encode(texts[-1:]))


@pytest.mark.parametrize("role", ["passage", "query"])
def test_a_lone_surrogate_is_refused(encoder: Encoder, role: Role) -> None:
    with pytest.raises(InputError, match=r"texts\[1\]: character 2 is a lone surrogate"):
        encoder.encode(["fine", "ab\ud800c"], role)


def test_configuration_is_resolved(encoder: Encoder) -> None:
    assert encoder.configuration.precision != "auto"
    assert "/" not in encoder.configuration.model.removeprefix("sentence-transformers/")
    assert encoder.metadata.version
