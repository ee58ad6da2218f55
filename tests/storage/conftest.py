"""Stores on three kinds of storage: a local folder, S3 (moto on loopback), a file system without exclusive create."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rayrag.storage import Storage
from rayrag.storage.remote import RemoteFiles


@pytest.fixture
def plain_storage(tmp_path: Path) -> Storage:
    """A store on a pyarrow.fs file system that can neither link nor put conditionally."""
    from pyarrow import fs

    root = tmp_path / "plain"
    return Storage(str(root), RemoteFiles(fs.LocalFileSystem(), str(root), None))


@pytest.fixture(params=["local", "s3", "plain"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty store; nothing of it is there yet."""
    if request.param == "plain":
        return request.getfixturevalue("plain_storage")
    if request.param == "s3":
        return Storage.open(request.getfixturevalue("s3_root"))
    return Storage.open(tmp_path / "local" / "store")


@pytest.fixture(params=["local", "s3"])
def shared_storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty store that several writers may share."""
    return Storage.open(request.getfixturevalue("s3_root") if request.param == "s3" else tmp_path / "store")


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code with arguments in another process; what still runs at the end is killed."""
    processes: list[subprocess.Popen[str]] = []

    def run(code: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, *arguments]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()
