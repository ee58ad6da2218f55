"""What people and machines see: tables, JSON, progress."""

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rayrag.schema.base import Record

# All but tab and line break; a carriage return is one where it ends a line.
_CONTROL = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Progress(Protocol):
    """Called with a stage, how much of it is done, and how much there is."""

    def __call__(self, stage: str, done: int, total: int) -> None: ...


def print_json(value: Record | dict[str, Any]) -> None:
    """A record as indented JSON."""
    content = value.content() if isinstance(value, Record) else value
    print(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False))


def print_table(rows: Sequence[tuple[str, Any]]) -> None:
    """Names and values in two columns."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        match value:
            case bool() | dict():
                shown = json.dumps(value, ensure_ascii=False)
            case int():
                shown = f"{value:,}"
            case _:
                shown = str(value)
        print_text(f"{name:<{width}}  {shown}")


def print_text(text: str) -> None:
    """Text that comes from documents; on a terminal its control characters are escaped, for they can do harm there."""
    print(_CONTROL.sub(lambda found: ascii(found[0])[1:-1], text) if sys.stdout.isatty() else text)


def note(message: str) -> None:
    """A line on stderr that is not an error."""
    print(f"rayrag: {message}", file=sys.stderr)


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress on stderr: bars on a terminal; elsewhere a line whenever five seconds have passed."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last >= 5:
            self._last = now
            print(f"{stage}: {done:,} of {total:,}", file=sys.stderr, flush=True)
