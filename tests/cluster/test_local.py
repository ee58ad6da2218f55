"""cluster/local.sh: what it starts can be used, is told from other clusters, and is gone after `stop`."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def processes_of(folder: str) -> dict[int, str]:
    """Process id -> command line of all processes whose command line or environment names `folder`."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if folder.encode() in command + (process / "environ").read_bytes():
                found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say start, stop, status or env"),
        (("restart",), "say start, stop, status or env"),
        (("start", "--nodes", "0"), "--nodes must be at least 1"),
        (("start", "--nodes"), "--nodes needs a number"),
        (("start", "--port", "x"), "--port needs a number"),
        (("start", "--colour", "1"), "unknown option --colour"),
    ],
)
def test_a_wrong_call_exits_2_and_starts_nothing(
    local_cluster, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = local_cluster(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "folder").exists()


def test_without_a_cluster(local_cluster, tmp_path: Path) -> None:
    assert (local_cluster(tmp_path, "status").returncode, local_cluster(tmp_path, "stop").returncode) == (1, 0)
    environment = local_cluster(tmp_path, "env")
    assert (environment.returncode, environment.stdout) == (1, "")
    assert "cluster/local.sh start" in environment.stderr


def test_jobs_import_rayrag_and_keep_their_exit_code(ray_cluster) -> None:
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient(ray_cluster.jobs_address)
    jobs = [
        client.submit_job(entrypoint='python -c "import rayrag, sys; print(sys.executable, rayrag.__file__)"'),
        client.submit_job(entrypoint='python -c "raise SystemExit(3)"'),
    ]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not all(client.get_job_status(job).is_terminal() for job in jobs):
        pass
    assert [client.get_job_info(job).driver_exit_code for job in jobs] == [0, 3]
    assert f"{sys.executable} {ROOT / 'rayrag' / '__init__.py'}" in client.get_job_logs(jobs[0])


def test_both_nodes_listen_on_loopback_only_and_run_tasks(ray_cluster) -> None:
    import ray

    ray.init(ray_cluster.address, log_to_driver=False, ignore_reinit_error=True)
    assert [(node["Alive"], node["NodeManagerAddress"]) for node in ray.nodes()] == [(True, "127.0.0.1")] * 2
    assert ray.cluster_resources()["CPU"] == 4
    assert ray.get(ray.remote(lambda: sys.executable).remote()) == sys.executable
    ray.shutdown()


def test_two_clusters_and_one_that_lost_a_process(local_cluster, ray_cluster, tmp_path: Path) -> None:
    mine = {name: value for name, value in ray_cluster.environment.items() if name.startswith("RAY_A")}
    try:
        assert local_cluster(tmp_path, "start", "--cpus", "1").returncode == 0
        folder = (tmp_path / "folder").read_text().strip()
        assert local_cluster(tmp_path, "start").stdout == "already running\n"
        environment = local_cluster(tmp_path, "env").stdout
        assert not any(f"{name}={value}\n" in environment for name, value in mine.items() if name != "RAY_AUTH_MODE")

        [control_store] = [pid for pid, command in processes_of(folder).items() if "gcs_server" in command.split()[0]]
        os.kill(control_store, signal.SIGKILL)
        assert local_cluster(tmp_path, "status").returncode == 1
    finally:
        assert local_cluster(tmp_path, "stop").returncode == 0
    assert processes_of(folder) == {}
    assert not Path(folder).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]
    ray = shutil.which("ray", path=str(Path(sys.executable).parent))
    assert (
        subprocess.run([ray, "job", "list"], env={**os.environ, **mine}, capture_output=True, check=False).returncode
        == 0
    )
