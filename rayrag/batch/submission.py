"""Jobs: a command of rayrag submitted to a cluster's job server, followed to its end."""

import asyncio
import shlex
from collections.abc import Sequence
from typing import Any

from rayrag.errors import IntegrityError


def run_job(address: str, arguments: Sequence[str], environment: dict[str, str]) -> int:
    """Run `python -m rayrag ARGUMENTS` as a job; its log goes to stdout as it comes.

    Returns the driver's own exit code (0, 2, 3). Raises IntegrityError when the job server cannot be reached or the
    job ends otherwise. Leaving (Ctrl-C) leaves the job running.
    """
    client = _connect(address)
    job = client.submit_job(
        entrypoint=shlex.join(["python", "-m", "rayrag", *arguments]),
        runtime_env={"env_vars": environment},
    )
    print(f"job {job} at {address}", flush=True)
    try:
        asyncio.run(_follow(client, job))
    except KeyboardInterrupt:
        print(f"\njob {job} goes on: `ray job logs -f {job}`, `ray job stop {job}`", flush=True)
        raise
    info = client.get_job_info(job)
    if info.driver_exit_code is None or info.driver_exit_code not in (0, 2, 3):
        message = " ".join((info.message or "").split())
        raise IntegrityError(f"job {job} ended as {info.status.value}: {message}")
    return int(info.driver_exit_code)


def _connect(address: str) -> Any:
    from ray.job_submission import JobSubmissionClient

    try:
        return JobSubmissionClient(address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise IntegrityError(
            f"no Ray job server answers at {address} ({reason}): start a cluster with `cluster/local.sh start` or "
            "`ray start --head`, or give its --address"
        ) from error


async def _follow(client: Any, job: str) -> None:
    async for lines in client.tail_job_logs(job):
        print(lines, end="", flush=True)
