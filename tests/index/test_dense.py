import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.index.dense import DenseIndex, exact_scores


def ids(count: int, seed: int = 0) -> np.ndarray:
    order = np.random.default_rng(seed).permutation(count)
    return np.array([int(number).to_bytes(32, "big") for number in order], "S32")


def brute_force(vectors: np.ndarray, names: np.ndarray, query: np.ndarray, count: int) -> tuple[list[int], list[float]]:
    scores = []
    for row in vectors.tolist():
        total = 0.0
        for x, y in zip(row, query.tolist(), strict=True):
            total += x * y
        scores.append(total)
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], bytes(names[at]).ljust(32, b"\0")))[:count]
    return order, [scores[at] for at in order]


def test_ties_at_the_boundary_are_kept_by_id() -> None:
    # FAISS alone returns rows 11, 10, 2 here: it drops row 0 of the ten that tie for the third place.
    vectors = np.zeros((12, 4), np.float32)
    vectors[:10, 0], vectors[10:, 0] = 0.5, 0.9
    names = np.array([bytes([row]) * 32 for row in range(1, 13)], "S32")
    rows, scores = DenseIndex(vectors, names).search(np.array([1, 0, 0, 0], np.float32), 3)
    assert rows.tolist() == [10, 11, 0]
    assert scores.tolist() == [np.float32(0.9), np.float32(0.9), 0.5]


@pytest.mark.parametrize("copies", [1, 3, 700, 3000])
def test_masses_of_equal_vectors_widen_the_fetch(copies: int) -> None:
    generator = np.random.default_rng(copies)
    base = generator.standard_normal((5, 16)).astype(np.float32)
    base /= np.linalg.norm(base, axis=1, keepdims=True)
    vectors = np.repeat(base, copies, axis=0)[generator.permutation(5 * copies)]
    names = ids(len(vectors))
    for query in (base[0], base[3], -base[1], np.zeros(16, np.float32)):
        rows, scores = DenseIndex(vectors, names).search(query, 10)
        assert (rows.tolist(), scores.tolist()) == brute_force(vectors, names, query, 10)


@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 1000), st.integers(1, 20))
def test_search_equals_brute_force_bit_for_bit(total: int, dimension: int, seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = (generator.integers(-2, 3, (total, dimension)) / 4 + generator.random((total, 1)) * 1e-7).astype(
        np.float32
    )
    query = (generator.integers(-2, 3, dimension) / 4).astype(np.float32)
    names = ids(total, seed)
    rows, scores = DenseIndex(vectors, names).search(query, count)
    assert (rows.tolist(), scores.tolist()) == brute_force(vectors, names, query, count)


def test_near_ties_within_the_bound_are_ordered_by_the_exact_score() -> None:
    generator = np.random.default_rng(7)
    base = generator.standard_normal(384).astype(np.float32)
    base /= np.linalg.norm(base)
    noise = generator.standard_normal((4000, 384)).astype(np.float32) * np.float32(2e-9)
    vectors = base + noise
    names = ids(4000)
    rows, scores = DenseIndex(vectors, names).search(base, 20)
    assert (rows.tolist(), scores.tolist()) == brute_force(vectors, names, base, 20)


def test_an_exact_score_does_not_depend_on_the_other_rows() -> None:
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((9000, 384)).astype(np.float32)
    query = generator.standard_normal(384).astype(np.float32)
    together = exact_scores(vectors, query)
    for rows in ([0], [5], [4095, 4096], list(range(8999, -1, -7))):
        assert exact_scores(vectors[rows], query).tolist() == together[rows].tolist()
    assert math.isclose(together[3], math.fsum(vectors[3].astype(float) * query.astype(float)), abs_tol=1e-12)
