"""Commands as jobs: `rayrag submit` and `ray job submit` give what the command gives in one process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rayrag = Callable[..., Any]
Process = Callable[..., subprocess.CompletedProcess[str]]

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[2]
HASHING = ("--embedder", "hashing", "--dimension", "64", "--chunk-size", "60", "--overlap", "10", "--num-shards", "2")


def test_submitted_jobs_give_the_index_of_one_process(
    ray_cluster: Any, rayrag: Rayrag, documents: Path, origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = ("--address", ray_cluster.jobs_address)
    source = os.path.relpath(documents)
    ran = rayrag("submit", "ingest", source, "--store", "here", "--report", "report.json", *address)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("job raysubmit_")
    assert "registry     version 1" in ran.out
    assert (tmp_path / "report.json").is_file()
    ran = rayrag("submit", "build-index", "--store", "here", *HASHING, *address)
    assert (ran.code, ran.err) == (0, "")
    expected = rayrag("inspect", "--store", origin, "--json").json
    assert f"fingerprint  {expected['index_fingerprint']}" in ran.out
    found = rayrag("inspect", "--store", tmp_path / "here", "--json").json
    same = ("document_fingerprint", "index_fingerprint", "chunk_count", "shards", "configuration")
    assert {name: found[name] for name in same} == {name: expected[name] for name in same}
    assert rayrag("verify", "--store", "here").code == 0


def test_the_code_and_the_last_line_of_a_job_are_those_of_the_submission(
    ray_cluster: Any, rayrag: Rayrag, store: Path, tmp_path: Path
) -> None:
    address = ("--address", ray_cluster.jobs_address)
    ran = rayrag("submit", "ingest", tmp_path / "missing", "--store", tmp_path / "new", *address)
    assert ran.code == 2
    assert ran.err.startswith("rayrag: job raysubmit_")
    assert ran.err.endswith(f": {tmp_path}/missing: no such file or folder; check the path\n")
    assert not (tmp_path / "new").exists()
    (pack,) = store.glob("registry/packs/*")
    pack.write_bytes(b"x" + pack.read_bytes()[1:])
    ran = rayrag("submit", "build-index", "--store", store, "--embedder", "hashing", *address)
    assert ran.code == 3
    assert ran.err.startswith("rayrag: job raysubmit_")
    assert f": {pack}: bytes [" in ran.err
    assert ran.err.endswith(": the file was changed or damaged; restore it from a copy\n")
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.out


def test_a_wrong_token_is_told_with_the_way_to_the_right_one(ray_cluster: Any, process: Process, store: Path) -> None:
    environment = {"RAY_AUTH_TOKEN": "0" * 64}
    words = ("submit", "build-index", "--store", store, "--address", ray_cluster.jobs_address)
    ran = process(*words, environment=environment)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("rayrag: the cluster wants its token: ")
    assert ran.stderr.count("\n") == 1


def test_the_scripts_in_jobs_run_under_ray_job_submit(
    ray_cluster: Any, rayrag: Rayrag, documents: Path, origin: Path, tmp_path: Path
) -> None:
    for script, words in (("ingest", [documents]), ("build_index", HASHING)):
        entry = ["python", ROOT / "jobs" / f"{script}.py", *words, "--store", tmp_path / "store"]
        command = [BIN / "ray", "job", "submit", "--address", ray_cluster.jobs_address, "--", *entry]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    expected, found = (
        rayrag("inspect", "--store", store, "--json").json["index_fingerprint"]
        for store in (origin, tmp_path / "store")
    )
    assert found == expected
