"""`rayrag submit`: the same commands as Ray jobs."""

import os
from typing import Any

import click

from rayrag.cli.corpus import ingest
from rayrag.cli.index import build_index
from rayrag.cli.options import load, setting


@click.group(short_help="Run a command as a job on a Ray cluster.")
def submit() -> None:
    """Run a command as a job on a Ray cluster, stream its log, and end with its exit code."""


def _submission(command: click.Command) -> click.Command:
    """The command as one that submits itself: the same arguments, and where the cluster is."""

    @click.pass_context
    def run(context: click.Context, /, **parameters: Any) -> None:
        from rayrag.batch.submission import run_job

        loaded = load(context)
        debug = ["--debug"] if context.find_root().obj["debug"] else []
        arguments = [*debug, f"{command.name}", "--executor", "ray", *_arguments(command, parameters)]
        environment = loaded.environment({"store.root": _absolute(loaded.settings.store.root)} | _model(loaded))
        run_job(loaded.settings.ray.address, arguments, environment)

    submitted = click.Command(
        command.name,
        params=[parameter for parameter in command.params if parameter.name != "executor"],
        callback=run,
        help=command.help,
        short_help=command.short_help,
    )
    return setting("--address", "ray.address", metavar="URL", help="The cluster's job server.")(submitted)


def _arguments(command: click.Command, parameters: dict[str, Any]) -> list[str]:
    """The parameters as words again; settings travel by environment, and paths become absolute."""
    words: list[str] = []
    for parameter in command.params:
        value = parameters.get(parameter.name or "")
        if isinstance(parameter, click.Argument):
            words += ["--", *map(_absolute, parameters[parameter.name or ""])]
        elif value is True:
            words.insert(0, parameter.opts[0])
        elif value not in (None, False):
            words[:0] = [parameter.opts[0], _absolute(value) if parameter.name == "report" else str(value)]
    return words


def _absolute(path: str) -> str:
    """A path as every working directory sees it; URIs stay."""
    return path if "://" in path else os.path.abspath(path)


def _model(loaded: Any) -> dict[str, str]:
    model = loaded.settings.embedding.model
    return {"embedding.model": os.path.abspath(model)} if os.path.isdir(model) else {}


for each in (ingest, build_index):
    submit.add_command(_submission(each))
