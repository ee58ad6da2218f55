"""`rayrag retrieve`."""

import click

from rayrag.cli.options import json_option, load, setting, store_option


@click.command(short_help="Show the chunks that answer a query best.")
@click.argument("query")
@store_option
@setting("--top-k", "retrieval.top_k", int, metavar="N", help="Results, 1 to 100 (5).")
@setting(
    "--mode",
    "retrieval.mode",
    click.Choice(["dense", "sparse", "hybrid"]),
    help="By vector, by words, or both (hybrid).",
)
@setting("--min-score", "retrieval.min_score", float, metavar="X", help="Lowest cosine score, inclusive (none).")
@setting(
    "--model", "embedding.model", metavar="NAME", help="Where the index's model lies, if it was built from a folder."
)
@setting("--device", "embedding.device", click.Choice(["auto", "cpu", "cuda"]), help="Where the model runs (auto).")
@setting("--allow-download", "embedding.allow_download", bool, help="Let the model be downloaded from the hub.")
@json_option
@click.pass_context
def retrieve(context: click.Context, query: str, as_json: bool) -> None:
    """Show the chunks that answer QUERY best, ranked, with where they come from."""
    from rayrag.cli.output import note, print_json, print_text
    from rayrag.pipeline import RAGPipeline
    from rayrag.retrieval.retriever import check_query
    from rayrag.storage import Storage

    settings = load(context).settings
    configuration = settings.retrieval
    check_query(query, configuration)
    storage = Storage.open(settings.store.root)
    pipeline = RAGPipeline.load(storage, settings.embedding if configuration.mode != "sparse" else None)
    for warning in pipeline.warnings:
        note(warning)
    found = pipeline.retrieve(query, configuration, settings.context)
    if as_json:
        print_json(found)
        return
    if not found.results:
        print("no results")
    for result in found.results:
        shown = {"cosine": result.scores.dense, "bm25": result.scores.bm25, "rrf": result.scores.fusion}
        scores = "  ".join(f"{name} {value:.4f}" for name, value in shown.items() if value is not None)
        click.echo(click.style(f"{result.rank}. {result.logical_name}", bold=True) + f"  {scores}")
        click.echo(click.style(f"   [{result.character_start}:{result.character_end}] {result.chunk_id}", dim=True))
        text = " ".join(result.text.split())
        print_text(click.wrap_text(text if len(text) <= 480 else f"{text[:480]}…", 100, "   ", "   ") + "\n")
    click.echo(click.style(f"index {found.index_fingerprint}", dim=True))
