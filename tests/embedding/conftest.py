"""Encoders, loaded once per process."""

import pytest

from rayrag.embedding.base import Encoder
from rayrag.embedding.factory import make_encoder
from rayrag.schema.embedding import EncoderSettings


@pytest.fixture(scope="session")
def hashing() -> Encoder:
    return make_encoder(EncoderSettings(provider="hashing", dimension=64))


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    """The real model in fp32, with few rows per pass, so that tests on two cores stay quick."""
    settings = EncoderSettings(model="all-MiniLM-L6-v2", precision="fp32", passage_batch=8, query_batch=2, device="cpu")
    return make_encoder(settings)


@pytest.fixture(scope="session", params=["hashing", "minilm"])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    """Every implementation in turn: the contract suite runs over all of them."""
    return request.getfixturevalue(request.param)
