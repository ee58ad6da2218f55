import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayrag.ranking.fusion import reciprocal_rank_fusion
from rayrag.ranking.order import top


@given(
    st.lists(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 0.9]), max_size=30).flatmap(
        lambda scores: st.tuples(st.just(scores), st.permutations([bytes([n]) * 32 for n in range(len(scores))]))
    ),
    st.integers(1, 12),
)
def test_top_is_the_head_of_the_full_sort(case: tuple[list[float], list[bytes]], count: int) -> None:
    scores, ids = case
    expected = sorted(range(len(ids)), key=lambda at: (-scores[at], ids[at]))[:count]
    assert top(np.array(scores, float), np.array(ids, "S32"), count).tolist() == expected


def test_ids_that_end_in_zero_bytes_are_told_apart_and_ordered() -> None:
    ids = [b"a" * 31 + b"\x01", b"a" * 31 + b"\x00", b"a" * 30 + b"\x00\x00"]
    assert top(np.zeros(3), np.array(ids, "S32"), 3).tolist() == [2, 1, 0]


def test_rrf_by_hand() -> None:
    fused = reciprocal_rank_fusion([([b"a", b"b"], 1.0), ([b"b", b"c"], 0.5)], k=60)
    assert fused == {b"a": 1 / 61, b"b": 1 / 62 + 0.5 / 61, b"c": 0.5 / 62}


def test_rrf_of_empty_lists() -> None:
    assert reciprocal_rank_fusion([([], 1.0), ([], 1.0)], k=60) == {}
    assert reciprocal_rank_fusion([([], 1.0), ([b"x"], 1.0)], k=60) == {b"x": 1 / 61}
