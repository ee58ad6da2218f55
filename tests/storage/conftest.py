"""Stores on three kinds of storage: a local folder, S3 (moto on loopback), a file system without exclusive create."""

import itertools
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rayrag.storage import Storage
from rayrag.storage.remote import RemoteFiles

SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.disable()
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[dict[str, str]]:
    """A running S3 service with a bucket `bucket`: the variables that lead clients there."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request"}
        request = urllib.request.Request(f"{endpoint}/bucket", method="PUT", headers=signed)
        assert urllib.request.urlopen(request, timeout=30).status == 200
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.kill()
        server.communicate()


@pytest.fixture
def s3_root(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a new, empty prefix; this process's environment leads to the service."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/a%20prefix/store-{next(_numbers)}"


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
