"""`rayrag ingest` and `rayrag show-document`."""

import click

from rayrag.cli.options import executor_option, json_option, load, make_executor, setting, store_option


@click.command(short_help="Register documents: files, folders or URIs.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@store_option
@click.option("--content-type", help="text/plain, text/markdown, text/x-rst or application/json, whatever the suffix.")
@click.option("--strict", is_flag=True, help="Reject everything when one document is rejected.")
@click.option("--report", metavar="FILE", help="Write what became of every document offered, as JSON.")
@setting("--max-document-bytes", "corpus.max_document_bytes", int, metavar="N", help="Largest document (16 MiB).")
@executor_option
@json_option
@click.pass_context
def ingest(
    context: click.Context,
    paths: tuple[str, ...],
    content_type: str | None,
    strict: bool,
    report: str | None,
    executor: str,
    as_json: bool,
) -> None:
    """Register documents: files, folders or URIs of .txt, .md, .rst, .json (one each) and .jsonl (one per line)."""
    from rayrag.cli.output import print_json, print_table, progress
    from rayrag.corpus.ingest import RejectedIngest
    from rayrag.corpus.ingest import ingest as run
    from rayrag.storage import Storage

    loaded = load(context)
    _check_report(report)
    try:
        with progress() as show:
            outcome = run(
                Storage.open(loaded.settings.store.root),
                paths,
                content_type=content_type,
                strict=strict,
                settings=loaded.settings.corpus,
                mapper=make_executor(executor, loaded, paths).map,
                progress=show,
            )
    except RejectedIngest as error:
        if report is not None:
            _write_report(report, error.report.to_json())
        if as_json:
            print_json(error.report)
        raise
    if report is not None:
        _write_report(report, outcome.to_json())
    if as_json:
        print_json(outcome)
        return
    rejected = [each for each in outcome.documents if each.state not in ("added", "duplicate")]
    for each in rejected[:20]:
        print(f"{each.state:<12} {each.source}: {each.reason}")
    if len(rejected) > 20:
        print(f"… and {len(rejected) - 20:,} more (--report FILE lists all)")
    counts = [(state, count) for state, count in outcome.counts.items() if count or state == "added"]
    print_table(
        [
            *counts,
            ("documents", outcome.document_count),
            ("registry", f"version {outcome.registry_version}{'' if outcome.changed else ' (unchanged)'}"),
            ("fingerprint", outcome.document_fingerprint),
        ]
    )


@click.command("show-document", short_help="Show a registered document.")
@click.argument("document_id", metavar="ID")
@store_option
@json_option
@click.pass_context
def show_document(context: click.Context, document_id: str, as_json: bool) -> None:
    """Show a registered document: its record and its text, checked against its sha256."""
    from rayrag.cli.output import print_json, print_table, print_text
    from rayrag.corpus.registry import Registry, text_of
    from rayrag.storage import Storage, require_store

    storage = Storage.open(load(context).settings.store.root)
    require_store(storage)
    registry = Registry.load(storage)
    record = registry.record(document_id)
    text = text_of(registry.read(record))
    if as_json:
        print_json({**record.content(), "text": text})
        return
    print_table(
        [(name, value) for name, value in record.content().items() if name not in ("schema_version", "pack", "offset")]
    )
    print_text(f"\n{text}")


def _check_report(path: str | None) -> None:
    """Fail before the work, not after it."""
    import os

    from rayrag.errors import InputError

    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not path or "\0" in path or os.path.isdir(path) or not os.path.isdir(folder):
        raise InputError(f"--report {path!r}: not a file in an existing folder; make the folder, or check the path")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise InputError(f"--report {path!r}: this user cannot write there; choose another file")


def _write_report(path: str, data: bytes) -> None:
    from rayrag.errors import InputError

    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise InputError(
            f"--report {path!r}: cannot write it: {error.strerror}; the store is as `rayrag inspect` shows it"
        ) from error
