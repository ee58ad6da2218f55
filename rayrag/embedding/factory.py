"""From settings to an encoder, for building an index and for querying one that exists."""

from rayrag.embedding.base import Encoder
from rayrag.embedding.models import model_name
from rayrag.errors import InputError
from rayrag.schema.embedding import EmbeddingConfiguration, EmbeddingMetadata, EncoderSettings


def make_encoder(settings: EncoderSettings, threads: int | None = None) -> Encoder:
    """The encoder that `settings` ask for, loaded; `threads`, where given, is set for torch in the whole process.

    Raises InputError when the model cannot be found or the device is not there.
    """
    match settings.provider:
        case "hashing":
            from rayrag.embedding.hashing import HashingEncoder

            return HashingEncoder(settings.dimension)
        case "sentence-transformers":
            from rayrag.embedding.sentence_transformers import SentenceTransformerEncoder

            return SentenceTransformerEncoder(settings, threads)


def encoder_for_index(
    configuration: EmbeddingConfiguration,
    metadata: EmbeddingMetadata,
    settings: EncoderSettings,
    threads: int | None = None,
) -> Encoder:
    """The encoder for queries to an index of `configuration` and `metadata`.

    What decides a vector comes from the index; `settings` say where: `model` when it leads to a model of the index's
    name (a folder, say), `device` and `allow_download`. Hardware class and libraries may differ from those that built
    the index, which `class_difference` tells; an encoder for adding to the index must have the same.

    Raises InputError when the model cannot be found, or is not the one that the index was built with.
    """
    located = settings.model if model_name(settings.model) == configuration.model else configuration.model
    encoder = make_encoder(
        EncoderSettings(
            provider=configuration.provider,
            model=located,
            dimension=configuration.dimension,
            precision=configuration.precision,
            max_length=configuration.max_length,
            passage_batch=configuration.passage_batch,
            query_batch=configuration.query_batch,
            passage_prompt=configuration.passage_prompt,
            query_prompt=configuration.query_prompt,
            device=settings.device,
            allow_download=settings.allow_download,
        ),
        threads,
    )
    if encoder.metadata.version != metadata.version:
        raise InputError(
            f"model {configuration.model}: version {encoder.metadata.version} is loaded, the index was built with "
            f"{metadata.version}; give the folder of that model, or build the index again"
        )
    if encoder.configuration.dimension != configuration.dimension:
        raise InputError(
            f"model {configuration.model}: has dimension {encoder.configuration.dimension}, the index "
            f"{configuration.dimension}; give the folder of the model it was built with, or build the index again"
        )
    return encoder


def class_difference(a: EmbeddingMetadata, b: EmbeddingMetadata) -> str | None:
    """What may make the last bits of vectors differ between `a` and `b`, in words; None when nothing does."""
    differences = []
    if a.hardware_class != b.hardware_class:
        differences.append(f"hardware class {a.hardware_class} and {b.hardware_class}")
    for library in sorted(a.libraries.keys() | b.libraries.keys()):
        ours, theirs = a.libraries.get(library, "none"), b.libraries.get(library, "none")
        if ours != theirs:
            differences.append(f"{library} {ours} and {theirs}")
    return "; ".join(differences) or None
