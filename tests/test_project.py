"""The project's own files: lock, ignore lists, changelog, import cost, module size."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rayrag

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
}
HEAVY = {"faiss", "numpy", "pyarrow", "pydantic", "ray", "sentence_transformers", "torch", "transformers"}


def unmet(requirement: Requirement) -> bool:
    version = PINS.get(canonicalize_name(requirement.name))
    return version is None or not requirement.specifier.contains(version, prereleases=True)


def test_the_lock_is_sorted_pins_and_nothing_else() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) == len(PINS)
    assert pins == sorted(pins, key=str.lower)


def test_the_lock_meets_the_requirements_of_core_and_the_extras_it_states() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["cpu"], *extras["test"], *extras["bench"]]
    assert [entry for entry in wanted if unmet(Requirement(entry))] == []


def test_the_lock_is_closed() -> None:
    """What a locked package requires is locked too, in a version that it accepts."""
    missing = {}
    for name in PINS:
        requirements = map(Requirement, importlib.metadata.requires(name) or ())
        needed = [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
        if broken := [str(each) for each in needed if unmet(each)]:
            missing[name] = broken
    assert missing == {}


def test_installed_is_what_is_locked() -> None:
    installed = {name: importlib.metadata.version(name).removesuffix("+cpu") for name in PINS}
    assert installed == PINS


def test_no_package_of_torch_that_text_does_not_need_is_locked() -> None:
    assert PINS.keys().isdisjoint({"torchvision", "torchaudio", "torchcodec", "triton"})
    assert [name for name in PINS if name.startswith("nvidia")] == []


@pytest.mark.parametrize(("file", "prefix"), [(".gitignore", "/"), (".dockerignore", "")])
def test_stores_tokens_and_secrets_stay_out_of_git_and_images(file: str, prefix: str) -> None:
    lines = set((ROOT / file).read_text().splitlines())
    assert {f"{prefix}rag-data/", f"{prefix}demo-data/", ".cluster/", ".env", ".venv/"} <= lines


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, rayrag, rayrag.errors, rayrag.fingerprint; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert HEAVY & set(printed.split()) == set()


def test_every_module_fits_in_a_readers_head() -> None:
    lengths = {path.relative_to(ROOT): path.read_text().count("\n") for path in (ROOT / "rayrag").rglob("*.py")}
    assert {path: length for path, length in lengths.items() if length >= 400} == {}


def test_every_folder_of_modules_is_a_package() -> None:
    """Without `__init__.py` a folder is missing from a built wheel, and from the import contracts."""
    folders = {path.parent for path in (ROOT / "rayrag").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## \[(\S+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == rayrag.__version__ == importlib.metadata.version("rayrag")


@pytest.mark.parametrize("script", [".ci/run", "cluster/local.sh", "cluster/demo.sh"])
def test_scripts_can_be_run(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", ROOT / script], check=False).returncode == 0
