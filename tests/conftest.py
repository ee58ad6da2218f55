"""What all tests share: hypothesis profiles, the shared data folder, a private Ray cluster, an S3 service."""

import itertools
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Ray reads these when it is imported, which test modules may do before the fixture below runs. The second keeps a
# cluster of several nodes on the loopback interface.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the fixture `shared` are skipped where that folder is not; those of `ray_cluster` are marked `ray`."""
    missing = pytest.mark.skipif(not SHARED.is_dir(), reason="no folder shared/ beside the checkout")
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "shared" in fixtures:
            item.add_marker(missing)
        if "ray_cluster" in fixtures:
            item.add_marker(pytest.mark.ray)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public test collections (BEIR layout) beside the checkout."""
    return SHARED


class RayCluster(NamedTuple):
    """A running cluster: where drivers connect (`ray.init`), where jobs are sent, what a client's environment needs."""

    address: str
    jobs_address: str
    environment: dict[str, str]


LocalCluster = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def local_cluster() -> LocalCluster:
    """`local_cluster(state, *arguments)` runs cluster/local.sh with its state in the folder `state`."""

    def run(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "cluster" / "local.sh", *arguments]
        environment = {**os.environ, "RAYRAG_CLUSTER_STATE": str(state)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.fixture(scope="session")
def ray_cluster(local_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """A private cluster of two nodes, each with 2 CPUs and a logical GPU; this process's environment leads to it."""
    state = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch:
        try:
            started = local_cluster(state, "start", "--nodes", "2", "--cpus", "2", "--gpus", "1")
            assert started.returncode == 0, started.stderr
            lines = local_cluster(state, "env").stdout.splitlines()
            exported = (line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export RAY_"))
            environment = dict(exported)
            for name, value in environment.items():
                patch.setenv(name, value)
            yield RayCluster(environment["RAY_ADDRESS"], environment["RAY_API_SERVER_ADDRESS"], environment)
        finally:
            if "ray" in sys.modules:
                sys.modules["ray"].shutdown()
            local_cluster(state, "stop")


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
