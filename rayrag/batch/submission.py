"""Jobs: a command of rayrag submitted to a cluster's job server, followed to its end."""

import asyncio
import logging
import os
import shlex
from collections.abc import Sequence
from typing import Any

from rayrag.batch.address import check_listening
from rayrag.errors import InputError, IntegrityError

DEFAULT_ADDRESS = "http://127.0.0.1:8265"


def run_job(address: str | None, arguments: Sequence[str], environment: dict[str, str]) -> None:
    """Run `python -m rayrag ARGUMENTS` as a job; its log goes to stdout as it comes.

    `address` None is the cluster that RAY_API_SERVER_ADDRESS or RAY_ADDRESS names, or one on this machine. A driver
    that ends with 2 or 3 is an InputError or IntegrityError with its own message; IntegrityError also when the job
    server cannot be reached or the job ends otherwise. Leaving (Ctrl-C) leaves the job running.
    """
    from ray.exceptions import AuthenticationError

    job = None
    try:
        client = _connect(address)
        job = client.submit_job(
            entrypoint=shlex.join(["python", "-m", "rayrag", *arguments]),
            runtime_env={"env_vars": environment},
        )
        print(f"job {job} at {client.get_address()}", flush=True)
        tail = asyncio.run(_follow(client, job))
        info = client.get_job_info(job)
    except AuthenticationError as error:
        raise IntegrityError(
            "the cluster wants its token: `export RAY_AUTH_MODE=token` and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, "
            'or for a cluster of this checkout `eval "$(cluster/local.sh env)"`'
        ) from error
    except KeyboardInterrupt as error:
        if job is None:
            raise
        raise KeyboardInterrupt(f"job {job} goes on: `ray job logs -f {job}`, `ray job stop {job}`") from error
    except BrokenPipeError:  # who reads our output, not the job server
        raise
    except (RuntimeError, ConnectionError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise IntegrityError(f"the job server cannot be used: {reason}; see `ray job list`") from error
    if info.driver_exit_code not in (0, 2, 3):
        code = "" if info.driver_exit_code is None else f" with exit code {info.driver_exit_code}"
        raise IntegrityError(f"job {job} ended as {info.status.value}{code}; see `ray job logs {job}`")
    if info.driver_exit_code == 0:
        return
    said = [line.removeprefix("rayrag: ") for line in tail.splitlines() if line.startswith("rayrag: ")]
    reason = said[-1] if said else f"ended with exit code {info.driver_exit_code}; see `ray job logs {job}`"
    raise (InputError if info.driver_exit_code == 2 else IntegrityError)(f"job {job}: {reason}")


def _connect(address: str | None) -> Any:
    from ray.job_submission import JobSubmissionClient

    if address is not None and not address.startswith(("http://", "https://")):
        raise InputError(f"--address {address}: expected the URL of a job server, such as {DEFAULT_ADDRESS}")
    logging.getLogger("ray.dashboard.modules.job.sdk").setLevel(logging.WARNING)
    if address is not None:  # the client would let these win over the address it is given
        os.environ.pop("RAY_API_SERVER_ADDRESS", None)
        os.environ.pop("RAY_ADDRESS", None)
    wanted = address or DEFAULT_ADDRESS
    try:
        check_listening(os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or wanted)
        return JobSubmissionClient(wanted)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise IntegrityError(
            f"no Ray job server answers ({reason}): start a cluster with `cluster/local.sh start` or "
            "`ray start --head`, or give its --address"
        ) from error


async def _follow(client: Any, job: str) -> str:
    """Print the log as it comes, and return its end. The stream closes seconds after the job has ended, so its status
    is watched too."""
    printed = 0

    async def stream() -> None:
        nonlocal printed
        async for lines in client.tail_job_logs(job):
            print(lines, end="", flush=True)
            printed += len(lines)

    streaming = asyncio.create_task(stream())
    while not streaming.done():
        status = await asyncio.to_thread(client.get_job_status, job)
        if status.is_terminal():
            break
        await asyncio.wait([streaming], timeout=0.5)
    if streaming.done():
        streaming.result()
    else:
        streaming.cancel()
        await asyncio.wait([streaming])
    log: str = await asyncio.to_thread(client.get_job_logs, job)
    print(log[printed:], end="", flush=True)
    return log[-10_000:]
