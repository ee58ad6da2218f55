"""The real MiniLM model: bits under any batch and threads, and the library's own `encode` as the oracle."""

import socket
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from rayrag.embedding.base import Encoder
from rayrag.embedding.models import resolve_model
from rayrag.embedding.sentence_transformers import SentenceTransformerEncoder
from rayrag.errors import InputError, IntegrityError
from rayrag.schema.embedding import EncoderSettings, Precision

PATH = resolve_model("all-MiniLM-L6-v2").path
HELP = [text.strip() for _, text in sorted(topics.items())]
MIXED = [HELP[number][:size] for number, size in enumerate((20, 90, 300, 800, 5000, 40, 1500, 250, 5000, 5000))]


def settings(**changes: Any) -> EncoderSettings:
    fixed = {"model": "all-MiniLM-L6-v2", "precision": "fp32", "device": "cpu", "passage_batch": 8, "query_batch": 2}
    return EncoderSettings(**{**fixed, **changes})


@pytest.fixture(scope="module")
def reference() -> SentenceTransformer:
    return SentenceTransformer(str(PATH), device="cpu", local_files_only=True)


@pytest.fixture
def threads() -> Iterator[None]:
    """Restores torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def mixed(minilm: Encoder) -> np.ndarray:
    """The vectors of MIXED, computed with torch's own number of threads."""
    return minilm.encode(MIXED)


def test_like_the_library(minilm: Encoder, mixed: np.ndarray, reference: SentenceTransformer) -> None:
    expected = reference.encode(MIXED, normalize_embeddings=True)
    np.testing.assert_allclose(mixed, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(minilm.encode(MIXED[:3], "query"), expected[:3], rtol=0, atol=2e-6)


def test_bits_under_order_selection_and_threads(minilm: Encoder, mixed: np.ndarray, threads: None) -> None:
    torch.set_num_threads(1)
    order = np.random.default_rng(1).permutation(len(MIXED))
    assert minilm.encode([MIXED[place] for place in order]).tobytes() == mixed[order].tobytes()
    torch.set_num_threads(3)
    chosen = [8, 2, 8, 8]  # more texts of the longest length than a pass may have
    assert minilm.encode([MIXED[place] for place in chosen]).tobytes() == mixed[chosen].tobytes()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision(precision: Precision, reference: SentenceTransformer) -> None:
    # Without AMX these types are slow on a CPU: few rows, short texts of two buckets.
    encoder = SentenceTransformerEncoder(settings(precision=precision, passage_batch=2))
    texts = [MIXED[0], MIXED[5], MIXED[1][:70]]
    vectors = encoder.encode(texts)
    expected = reference.encode(texts, normalize_embeddings=True)
    assert vectors.dtype == np.float32
    assert np.sum(vectors * expected, axis=1).min() >= 0.9999
    assert not np.array_equal(vectors, expected)
    assert encoder.encode(texts[::-1]).tobytes() == vectors[::-1].tobytes()
    assert encoder.configuration.precision == precision
    transformer = encoder._model[0]
    types = {
        type(module).__name__: module.weight.dtype for module in transformer.modules() if hasattr(module, "weight")
    }
    low = torch.bfloat16 if precision == "bf16" else torch.float16
    assert types == {"Linear": low, "Embedding": torch.float32, "LayerNorm": torch.float32}


def test_prompts_and_roles(reference: SentenceTransformer) -> None:
    encoder = SentenceTransformerEncoder(settings(passage_prompt="passage: ", query_prompt="query: "))
    for role, prompt in (("passage", "passage: "), ("query", "query: ")):
        expected = reference.encode(["the fox"], prompt=prompt, normalize_embeddings=True)
        np.testing.assert_allclose(encoder.encode(["the fox"], role), expected, rtol=0, atol=2e-6)
    assert encoder.configuration.passage_prompt == "passage: "
    assert encoder.configuration.query_prompt == "query: "


def test_truncation_is_counted() -> None:
    encoder = SentenceTransformerEncoder(settings(max_length=8, query_prompt="one two "))
    texts = ["a b c d e f", "a b c d e f g", "a b c d", "a b c d e"]  # and two special tokens
    assert encoder.truncated(texts) == 1
    assert encoder.truncated(texts, "query") == 3
    one, other = encoder.encode(["a b c d e f and g", "a b c d e f or h"])
    assert one.tobytes() == other.tobytes()
    assert encoder.configuration.max_length == 8


def test_configuration_and_metadata(minilm: Encoder) -> None:
    configuration, metadata = minilm.configuration, minilm.metadata
    assert configuration.model == "sentence-transformers/all-MiniLM-L6-v2"
    assert (configuration.dimension, configuration.max_length) == (384, 256)
    assert (configuration.passage_batch, configuration.query_batch) == (8, 2)
    assert metadata.version.startswith("sha256:")
    assert metadata.hardware_class.startswith("cpu-")
    assert set(metadata.libraries) == {"torch", "transformers", "tokenizers", "sentence-transformers", "rayrag-shapes"}


def test_auto_is_resolved() -> None:
    configuration = SentenceTransformerEncoder(settings(precision="auto", device="auto")).configuration
    assert configuration.precision in ("fp32", "bf16")


def test_a_folder_keeps_its_name_and_version(
    minilm: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    folder = tmp_path / "my-model"
    folder.mkdir()
    for file in PATH.iterdir():
        (folder / file.name).symlink_to(file)
    encoder = SentenceTransformerEncoder(settings(model=str(folder)))
    assert encoder.configuration == minilm.configuration.model_copy(update={"model": "my-model"})
    assert encoder.metadata == minilm.metadata
    assert capfd.readouterr() == ("", "")


def test_threads_are_set_once(threads: None) -> None:
    SentenceTransformerEncoder(settings(), threads=1)
    assert torch.get_num_threads() == 1


def test_a_vector_that_is_not_finite_names_its_text() -> None:
    encoder = SentenceTransformerEncoder(settings())
    encoder._model[0].auto_model.embeddings.word_embeddings.weight.data[4419] = float("nan")  # fox
    assert np.isfinite(encoder.encode(["a dog", "a cat"])).all()
    with pytest.raises(IntegrityError, match=r"texts\[2\]: .* not finite in fp32"):
        encoder.encode(["a dog", "a cat", "a fox"])


def test_more_than_the_model_takes() -> None:
    with pytest.raises(InputError, match=r"max_length 257: .* at most 256"):
        SentenceTransformerEncoder(settings(max_length=257))


def test_no_gpu() -> None:
    if torch.cuda.is_available():
        assert SentenceTransformerEncoder(settings(device="cuda")).metadata.hardware_class.startswith("cuda-sm")
        return
    with pytest.raises(InputError, match="torch sees no GPU"):
        SentenceTransformerEncoder(settings(device="cuda"))


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(InputError, match="cannot be loaded") as caught:
        SentenceTransformerEncoder(settings(model=str(tmp_path)))
    assert "\n" not in str(caught.value)
