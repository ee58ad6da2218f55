"""Buckets, rows and passes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayrag.embedding.shapes import Pass, buckets, passes, rows_of


@pytest.mark.parametrize(
    ("max_length", "expected"),
    [
        (8, (8,)),
        (16, (16,)),
        (17, (16, 17)),
        (256, (16, 32, 48, 64, 96, 128, 160, 192, 224, 256)),
        (300, (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 300)),
        (512, (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)),
        (1024, (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 1024)),
        (3000, (16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 1024, 2048, 3000)),
    ],
)
def test_buckets(max_length: int, expected: tuple[int, ...]) -> None:
    assert buckets(max_length) == expected


def test_rows() -> None:
    assert [rows_of(32, length) for length in (16, 64, 96, 128, 160, 256, 512, 8192)] == [32, 32, 21, 16, 12, 8, 4, 1]
    assert [rows_of(4, length) for length in (16, 64, 96, 128, 160, 512)] == [4, 4, 2, 2, 1, 1]


def test_passes_by_hand() -> None:
    # 2 rows up to 64 tokens, 1 row at 224; two full texts of 16 tokens may not share a pass.
    assert list(passes([16, 3, 16, 200, 17, 16], 256, 2)) == [
        Pass(1, 224, [3]),
        Pass(2, 32, [4]),
        Pass(2, 16, [0, 1]),
        Pass(2, 16, [2]),
        Pass(2, 16, [5]),
    ]
    assert list(passes([], 256, 2)) == []


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 40))
def test_passes_cover_each_text_once_at_its_own_shape(lengths: list[int], batch: int) -> None:
    steps = list(passes(lengths, 300, batch))
    assert Counter(text for step in steps for text in step.texts) == Counter(range(len(lengths)))
    for step in steps:
        assert 1 <= len(step.texts) <= step.rows == rows_of(batch, step.length)
        for text in step.texts:
            assert step.length == min(bucket for bucket in buckets(300) if bucket >= lengths[text])
        attended = sum(lengths[text] for text in step.texts)
        assert step.rows == 1 or attended < step.rows * step.length
    assert [step.length for step in steps] == sorted((step.length for step in steps), reverse=True)
