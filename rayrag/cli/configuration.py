"""`rayrag config show`."""

import click

from rayrag.cli.options import json_option, load


@click.group()
def config() -> None:
    """Look at the settings."""


@config.command()
@json_option
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Show every setting with its value and where that came from."""
    import json

    from rayrag.cli.output import print_json

    loaded = load(context)
    values = loaded.values()
    if as_json:
        print_json({key: {"value": value, "origin": loaded.origins[key]} for key, value in values.items()})
        return
    width = max(map(len, values))
    for key, value in values.items():
        print(f"{key:<{width}}  {json.dumps(value, ensure_ascii=False):<44}  {loaded.origins[key]}")
