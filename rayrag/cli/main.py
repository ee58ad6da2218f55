"""`rayrag`: the group of commands, and how it ends: 0 success, 2 invalid input, 3 integrity or storage failure."""

import os
import re
import sys
import traceback
from collections.abc import Sequence

import click

from rayrag import __version__
from rayrag.cli.configuration import config
from rayrag.cli.corpus import ingest, show_document
from rayrag.cli.index import build_index, inspect, show_chunk, verify
from rayrag.cli.retrieval import retrieve
from rayrag.cli.submission import submit
from rayrag.errors import RayragError

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="rayrag")
@click.option("--config", "config_file", metavar="FILE", help="Settings in YAML; else the file that RAG_CONFIG names.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(context: click.Context, config_file: str | None, debug: bool) -> None:
    """Build a reproducible, sharded hybrid search index from documents, and get ranked, cited chunks from it.

    \b
    rayrag ingest DOCUMENTS --store my-store
    rayrag build-index --store my-store
    rayrag retrieve "a question" --store my-store
    """
    context.obj = {"config_file": config_file, "debug": debug, "overrides": {}}


for command in (ingest, build_index, retrieve, inspect, show_document, show_chunk, verify, submit, config):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; whatever goes wrong is one line on stderr."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the end
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run(words)
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt as error:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # ends the line that shows ^C
        return _fail(str(error) or "interrupted; what was finished is kept, and the next run goes on from there", 130)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.ctx.get_help())
        return _fail("a command is missing; choose one of those listed", 2)
    except click.ClickException as error:
        return _fail(_usage(error), 2)
    except BrokenPipeError:  # the reader of our output has gone, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None:  # nor a reader of our output that has no room
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _fail(f"cannot write the output: {error.strerror or error}", 3)
        if "--debug" in words:
            traceback.print_exc()
        if isinstance(error, RayragError):
            return _fail(str(error), error.exit_code)
        message = str(error).strip().partition("\n")[0]
        return _fail(f"unexpected {type(error).__name__}: {message} (`rayrag --debug …` shows where)", 3)


def _run(words: list[str]) -> None:
    """What `cli.main` does, which however writes of its own on an interrupt and exits by itself on a broken pipe."""
    try:
        with cli.make_context("rayrag", list(words)) as context:
            cli.invoke(context)
    except click.exceptions.Exit:  # --help or --version has been printed
        return


def _fail(message: str, code: int) -> int:
    line = " ".join(each.strip() for each in message.splitlines())
    print("rayrag:", _CONTROL.sub(lambda found: ascii(found[0])[1:-1], line), file=sys.stderr)
    return code


def _usage(error: click.ClickException) -> str:
    command = getattr(error, "ctx", None)
    hint = f" (see `{command.command_path} --help`)" if command is not None else ""
    return f"{error.format_message()}{hint}"
