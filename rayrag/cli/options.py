"""Options that several commands share. A flag that stands for a setting names the setting's key."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rayrag.config import Loaded
    from rayrag.index.executor import Executor

F = TypeVar("F", bound=Callable[..., Any])


def setting(flag: str, key: str, kind: Any = str, **attributes: Any) -> Callable[[F], F]:
    """A flag that overrides the setting `key`, such as `chunking.chunk_size`."""

    def record(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            context.find_root().obj["overrides"][key] = (value, flag)

    if kind is bool:
        return click.option(flag, is_flag=True, expose_value=False, callback=record, **attributes)
    return click.option(flag, type=kind, expose_value=False, callback=record, **attributes)


store_option = setting("--store", "store.root", metavar="STORE", help="Folder or URI of the store (rag-data).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
executor_option = click.option(
    "--executor",
    type=click.Choice(["in-process", "ray"]),
    default="in-process",
    show_default=True,
    help="Where the work runs; `ray` is for jobs on a cluster (see `rayrag submit`).",
)


def load(context: click.Context) -> "Loaded":
    """The settings of this call: defaults, file, environment, flags."""
    import os

    from rayrag.config import load_settings

    root = context.find_root().obj
    return load_settings(root["config_file"], os.environ, root["overrides"])


def make_executor(name: str, loaded: "Loaded", sources: Sequence[str] = ()) -> "Executor":
    """The executor of that name, for work on the store and on `sources`."""
    if name == "ray":
        from rayrag.batch.executor import RayExecutor

        return RayExecutor(loaded.settings.batch, [loaded.settings.store.root, *sources])
    from rayrag.index.executor import InProcess

    return InProcess()
