"""`rayrag build-index`, `inspect`, `show-chunk` and `verify`."""

import click

from rayrag.cli.options import executor_option, json_option, load, make_executor, setting, store_option


@click.command("build-index", short_help="Build the index of what is registered.")
@store_option
@setting("--chunk-size", "chunking.chunk_size", int, metavar="N", help="Characters per chunk (800).")
@setting("--overlap", "chunking.overlap", int, metavar="N", help="Characters shared by neighbours (100).")
@setting(
    "--separator-strategy",
    "chunking.separator_strategy",
    click.Choice(["character", "line", "paragraph", "sentence"]),
    help="Where chunks end (paragraph).",
)
@setting(
    "--embedder",
    "embedding.provider",
    click.Choice(["hashing", "sentence-transformers"]),
    help="Model, or lexical hashing, which needs none (sentence-transformers).",
)
@setting(
    "--model", "embedding.model", metavar="NAME", help="Folder, installed model package or hub id (all-MiniLM-L6-v2)."
)
@setting("--dimension", "embedding.dimension", int, metavar="N", help="Dimension of the hashing embedder (384).")
@setting(
    "--precision", "embedding.precision", click.Choice(["auto", "fp32", "bf16", "fp16"]), help="Of the model (auto)."
)
@setting("--device", "embedding.device", click.Choice(["auto", "cpu", "cuda"]), help="Where the model runs (auto).")
@setting("--allow-download", "embedding.allow_download", bool, help="Let a model be downloaded from the hub.")
@setting("--num-shards", "index.num_shards", int, metavar="N", help="1 to 4096 (by size).")
@executor_option
@json_option
@click.pass_context
def build_index(context: click.Context, executor: str, as_json: bool) -> None:
    """Build the index of the newest registry version. What has not changed is not encoded again."""
    from rayrag.cli.output import print_json, print_table, progress
    from rayrag.index.build import build_index as run
    from rayrag.storage import Storage

    loaded = load(context)
    settings = loaded.settings
    _check_flags(settings.embedding.provider, context.find_root().obj["overrides"])
    with progress() as show:
        report = run(
            Storage.open(settings.store.root),
            chunking=settings.chunking,
            sparse=settings.sparse,
            encoder=settings.embedding,
            settings=settings.index,
            executor=make_executor(executor, loaded),
            progress=show,
        )
    if as_json:
        print_json(report)
        return
    print_table(
        [
            ("documents", report.document_count),
            ("chunks", report.chunk_count),
            ("encoded", report.chunks_encoded),
            ("reused", report.chunks_reused),
            ("truncated", report.chunks_truncated),
            ("shards", report.shard_count),
            (
                "encoder",
                f"{report.embedding.model} ({report.embedding.precision}, {report.embedding_metadata.hardware_class})",
            ),
            ("seconds", ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in report.seconds.items())),
            ("index", f"version {report.index_version}{'' if report.changed else ' (unchanged)'}"),
            ("fingerprint", report.index_fingerprint),
        ]
    )


@click.command(short_help="Show what a store holds.")
@store_option
@json_option
@click.pass_context
def inspect(context: click.Context, as_json: bool) -> None:
    """Show what a store holds: documents, index, configuration, shards."""
    from rayrag.cli.output import print_json, print_table
    from rayrag.index.inspection import inspect_store
    from rayrag.storage import Storage

    found = inspect_store(Storage.open(load(context).settings.store.root))
    if as_json:
        print_json(found)
        return
    rows: list[tuple[str, object]] = [
        ("store", found.store),
        ("registry", f"version {found.registry_version}"),
        ("documents", found.document_count),
        ("bytes", found.total_bytes),
        ("document fingerprint", found.document_fingerprint),
    ]
    if found.configuration is None:
        print_table([*rows, ("index", "none yet: run `rayrag build-index`")])
        return
    chunking, embedding, sparse = (
        found.configuration.chunking,
        found.configuration.embedding,
        found.configuration.sparse,
    )
    stale = f", stale: it holds registry version {found.indexed_registry_version}" if found.stale else ""
    rows += [
        ("index", f"version {found.index_version} of {found.built_at:%Y-%m-%d %H:%M:%S} UTC{stale}"),
        ("chunks", found.chunk_count),
        ("index fingerprint", found.index_fingerprint),
        ("chunking", f"{chunking.chunk_size} characters, overlap {chunking.overlap}, {chunking.separator_strategy}"),
        (
            "embedding",
            f"{embedding.model}, {embedding.dimension} dimensions, {embedding.precision}, "
            f"{found.configuration.embedding_metadata.hardware_class}",
        ),
        (
            "sparse",
            f"Okapi BM25 k1 {sparse.k1}, b {sparse.b}, epsilon {sparse.epsilon}, {sparse.analyzer.stemmer} stemmer",
        ),
        ("shards", len(found.shards)),
    ]
    print_table(rows)
    for shard in found.shards:
        print(
            f"  {shard.first_group:03x}-{shard.end_group - 1:03x}  {shard.document_count:>9,} documents  "
            f"{shard.chunk_count:>9,} chunks  {shard.key[:16]}"
        )


@click.command("show-chunk", short_help="Show a chunk of the index.")
@click.argument("chunk_id", metavar="ID")
@store_option
@json_option
@click.pass_context
def show_chunk(context: click.Context, chunk_id: str, as_json: bool) -> None:
    """Show a chunk of the index, checked against the bytes of its document."""
    from rayrag.cli.output import print_json, print_table, print_text
    from rayrag.index.inspection import find_chunk
    from rayrag.storage import Storage

    chunk = find_chunk(Storage.open(load(context).settings.store.root), chunk_id)
    if as_json:
        print_json(chunk)
        return
    print_table([(name, value) for name, value in chunk.content().items() if name != "text"])
    print_text(f"\n{chunk.text}")


@click.command(short_help="Read, hash and derive everything again.")
@store_option
@json_option
@click.pass_context
def verify(context: click.Context, as_json: bool) -> None:
    """Read, hash and derive everything again: documents, chunks, terms, statistics, fingerprints."""
    from rayrag.cli.output import print_json, print_table, progress
    from rayrag.index.verify import verify as run
    from rayrag.storage import Storage

    with progress() as show:
        report = run(Storage.open(load(context).settings.store.root), show)
    if as_json:
        print_json(report)
        return
    index = f"version {report.index_version}{' (stale)' if report.stale else ''}" if report.index_version else "none"
    print_table(
        [
            ("registry", f"version {report.registry_version}"),
            ("documents", report.document_count),
            ("document fingerprint", report.document_fingerprint),
            ("index", index),
            ("chunks", report.chunk_count),
            ("index fingerprint", report.index_fingerprint or "none"),
            (
                "verified",
                f"all intact ({report.registry_versions} registry and {report.index_versions} index versions)",
            ),
            ("left over", f"{report.left_over} files that no version names"),
        ]
    )


def _check_flags(provider: str, flags: dict[str, tuple[object, str]]) -> None:
    """InputError for a flag that has no meaning for the embedder, and would be ignored."""
    from rayrag.errors import InputError
    from rayrag.schema.embedding import HASHING_MODEL

    other = {"hashing": ("model", "precision", "device", "allow_download"), "sentence-transformers": ("dimension",)}
    for name in other[provider]:
        if f"embedding.{name}" in flags:
            value, flag = flags[f"embedding.{name}"]
            if (name, value) not in (("precision", "auto"), ("precision", "fp32"), ("model", HASHING_MODEL)):
                raise InputError(f"{flag} {value} has no meaning for the embedder {provider}; leave it out")
