"""From settings to encoders, and the encoder of an existing index."""

import subprocess
import sys
from pathlib import Path

import pytest

from rayrag.embedding.base import Encoder
from rayrag.embedding.factory import class_difference, encoder_for_index, make_encoder
from rayrag.embedding.models import resolve_model
from rayrag.errors import InputError
from rayrag.schema.embedding import EmbeddingMetadata, EncoderSettings

MODEL = EncoderSettings(device="cpu")


def test_hashing_for_its_index() -> None:
    built = make_encoder(EncoderSettings(provider="hashing", dimension=96))
    queries = encoder_for_index(built.configuration, built.metadata, MODEL)
    assert (queries.configuration, queries.metadata) == (built.configuration, built.metadata)
    assert queries.encode(["a b"], "query").tobytes() == built.encode(["a b"]).tobytes()


def test_hashing_of_another_version() -> None:
    built = make_encoder(EncoderSettings(provider="hashing"))
    other = built.metadata.model_copy(update={"version": "0"})
    with pytest.raises(InputError, match=r"local-hashing-embedding: version 1 is loaded, .* built with 0;"):
        encoder_for_index(built.configuration, other, MODEL)


def test_the_index_decides_and_settings_say_where(minilm: Encoder) -> None:
    asked = MODEL.model_copy(update={"query_prompt": "ignored: ", "passage_batch": 7, "precision": "bf16"})
    queries = encoder_for_index(minilm.configuration, minilm.metadata, asked)
    assert queries.configuration == minilm.configuration
    assert queries.encode(["a b"], "query").tobytes() == minilm.encode(["a b"], "query").tobytes()


def test_a_folder_is_found_by_its_name(minilm: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    for file in resolve_model(minilm.configuration.model).path.iterdir():
        (folder / file.name).symlink_to(file)
    configuration = minilm.configuration.model_copy(update={"model": "my-model"})
    here = MODEL.model_copy(update={"model": str(folder)})
    assert encoder_for_index(configuration, minilm.metadata, here).configuration == configuration
    with pytest.raises(InputError, match=r"model my-model: no such folder"):
        encoder_for_index(configuration, minilm.metadata, MODEL)


def test_other_weights_or_dimension(minilm: Encoder) -> None:
    other = minilm.metadata.model_copy(update={"version": "sha256:" + "0" * 64})
    with pytest.raises(InputError, match=rf"version {minilm.metadata.version} is loaded, .* with sha256:0+;"):
        encoder_for_index(minilm.configuration, other, MODEL)
    wrong = minilm.configuration.model_copy(update={"dimension": 512})
    with pytest.raises(InputError, match="has dimension 384, the index 512"):
        encoder_for_index(wrong, minilm.metadata, MODEL)


def test_class_difference() -> None:
    one = EmbeddingMetadata(version="1", hardware_class="cpu-amx", libraries={"torch": "2.12.0", "tokenizers": "0.22"})
    same = EmbeddingMetadata(version="2", hardware_class="cpu-amx", libraries={"tokenizers": "0.22", "torch": "2.12.0"})
    other = EmbeddingMetadata(version="1", hardware_class="cuda-sm90", libraries={"torch": "2.13.0", "faiss": "1"})
    assert class_difference(one, same) is None
    assert class_difference(one, other) == (
        "hardware class cpu-amx and cuda-sm90; faiss none and 1; tokenizers 0.22 and none; torch 2.12.0 and 2.13.0"
    )


def test_importing_the_factory_is_light() -> None:
    code = (
        "import sys, rayrag.embedding.factory, rayrag.embedding.hashing, rayrag.embedding.sentence_transformers\n"
        "heavy = {'numpy', 'torch', 'transformers', 'sentence_transformers', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
