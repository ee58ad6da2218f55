"""Bi-encoders of the sentence-transformers library, at fixed shapes: a vector never depends on its batch.

Texts are tokenised without padding and cut at the maximum length; `rayrag.embedding.shapes` says which pass each
joins. In bf16 and fp16 the linear layers of the transformer and its attention run in that type, everything else
(embeddings, residual sums, normalisation layers, pooling and what follows it) in fp32. Vectors are normalised in
float64, row by row.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayrag.embedding.base import Role
from rayrag.embedding.hardware import (
    ResolvedPrecision,
    dtype_of,
    hardware_class,
    library_versions,
    resolve_device,
    resolve_precision,
)
from rayrag.embedding.models import model_version, resolve_model
from rayrag.embedding.shapes import SHAPES_VERSION, Pass, passes
from rayrag.embedding.texts import require_unicode
from rayrag.errors import InputError, IntegrityError
from rayrag.schema.embedding import EmbeddingConfiguration, EmbeddingMetadata, EncoderSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

_log = logging.getLogger(__name__)
_TEXTS_TOKENISED_AT_ONCE = 256
_LONGEST = 1 << 20
"""Tokenizers without a limit of their own say 10**30."""


class SentenceTransformerEncoder:
    """A loaded model. `encode` may be called from several threads; torch's own threads serve all of them."""

    def __init__(self, settings: EncoderSettings, threads: int | None = None) -> None:
        """Load the model that `settings` name; `threads`, where given, is set for torch in the whole process.

        Raises InputError when the model cannot be found or is not a bi-encoder of texts, IntegrityError when its
        files are damaged.
        """
        folder = resolve_model(settings.model, settings.allow_download)  # before torch, which takes seconds to load
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        self._device = resolve_device(settings.device)
        precision = resolve_precision(settings.precision, self._device)
        self._dtype = dtype_of(precision)
        self._model = _load(folder.path, folder.name, self._device)
        tokenizer = _fast_tokenizer(self._model, folder.name)
        self._max_length = _max_length(self._model, settings.max_length, folder.name)
        self._tokenizer = _at_length(tokenizer, self._max_length)
        self._pad_left = tokenizer.padding_side == "left"
        self._pad_token = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._pad_type = tokenizer.pad_token_type_id
        self._wants_types = "token_type_ids" in tokenizer.model_input_names
        self._prompts: dict[Role, str] = {"passage": settings.passage_prompt, "query": settings.query_prompt}
        require_unicode(list(self._prompts.values()))
        special = set(tokenizer.all_special_ids)
        self._prompt_lengths = {role: self._prompt_length(prompt, special) for role, prompt in self._prompts.items()}
        _mention_prompts(self._model, settings, folder.name)
        if self._dtype != torch.float32:
            for module in self._model[0].modules():
                if isinstance(module, torch.nn.Linear):
                    module.to(self._dtype)
        self._metadata = EmbeddingMetadata(
            version=model_version(folder.path),
            hardware_class=hardware_class(self._device),
            libraries={**library_versions(), "rayrag-shapes": SHAPES_VERSION},
        )
        self._configuration = self._configured(settings, folder.name, precision)

    @property
    def configuration(self) -> EmbeddingConfiguration:
        """As the protocol says."""
        return self._configuration

    @property
    def metadata(self) -> EmbeddingMetadata:
        """As the protocol says."""
        return self._metadata

    def encode(self, texts: Sequence[str], role: Role = "passage") -> "NDArray[np.float32]":
        """As the protocol says. InputError for a lone surrogate, IntegrityError naming the text whose vector is not
        finite."""
        import numpy as np

        configuration = self._configuration
        vectors = np.zeros((len(texts), configuration.dimension), np.float32)
        tokens = self._tokenise(texts, role)
        present = [index for index, row in enumerate(tokens) if row.shape[1]]  # no token at all: no features
        lengths = [tokens[index].shape[1] for index in present]
        batch = configuration.passage_batch if role == "passage" else configuration.query_batch
        for step in passes(lengths, self._max_length, batch):
            indices = [present[text] for text in step.texts]
            raw = self._forward(step, [tokens[index] for index in indices], role)
            finite = np.isfinite(raw[: len(indices)]).all(axis=1)
            if not finite.all():
                raise IntegrityError(
                    f"texts[{indices[int(np.argmin(finite))]}]: model {configuration.model} gives a vector that is not "
                    f"finite in {configuration.precision}; use another precision, or check the model's files"
                )
            norms = np.sqrt(np.square(raw).sum(axis=1, keepdims=True))
            unit = np.divide(raw, norms, out=np.zeros_like(raw), where=norms > 0)
            vectors[indices] = unit[: len(indices)]
        return vectors

    def truncated(self, texts: Sequence[str], role: Role = "passage") -> int:
        """As the protocol says; the prompt of the role counts."""
        require_unicode(texts)
        return sum(bool(encoding.overflowing) for encoding in self._encodings(texts, role))

    def _encodings(self, texts: Sequence[str], role: Role) -> Iterator[Any]:
        prompt = self._prompts[role]
        for start in range(0, len(texts), _TEXTS_TOKENISED_AT_ONCE):
            some = texts[start : start + _TEXTS_TOKENISED_AT_ONCE]
            yield from self._tokenizer.encode_batch_fast([prompt + text for text in some])

    def _tokenise(self, texts: Sequence[str], role: Role) -> "list[NDArray[np.int64]]":
        """For each text an array of two rows, token ids and token types."""
        import numpy as np

        require_unicode(texts)
        return [
            np.array((encoding.ids, encoding.type_ids), np.int64).reshape(2, -1)
            for encoding in self._encodings(texts, role)
        ]

    def _forward(self, step: Pass, tokens: "Sequence[NDArray[np.int64]]", role: Role) -> "NDArray[np.float64]":
        """The model's vectors [rows, dimension] of one pass, padding rows included. A padding row attends to one
        token, so that it is as finite as any other."""
        import numpy as np
        import torch

        shape = (step.rows, step.length)
        ids = np.full(shape, self._pad_token, np.int64)
        types = np.full(shape, self._pad_type, np.int64)
        mask = np.zeros(shape, np.int64)
        for row in range(step.rows):
            length = tokens[row].shape[1] if row < len(tokens) else 1
            place = slice(step.length - length, None) if self._pad_left else slice(length)
            mask[row, place] = 1
            if row < len(tokens):
                ids[row, place], types[row, place] = tokens[row]
        features: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if self._wants_types:
            features["token_type_ids"] = types
        features = {name: torch.from_numpy(value).to(self._device) for name, value in features.items()}
        if self._prompt_lengths[role]:
            features["prompt_length"] = self._prompt_lengths[role]  # for pooling that leaves the prompt out
        low = self._dtype != torch.float32
        with torch.inference_mode():
            with torch.autocast(self._device, self._dtype if low else None, enabled=low, cache_enabled=False):
                features = self._model[0](features)
            for name, value in features.items():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    features[name] = value.float()
            for module in list(self._model.children())[1:]:
                features = module(features)
            vectors: torch.Tensor = features["sentence_embedding"]
            return vectors.double().cpu().numpy()

    def _prompt_length(self, prompt: str, special: set[int]) -> int:
        """Tokens of a prompt without the special token that ends a text, as sentence-transformers counts them."""
        if not prompt:
            return 0
        ids = self._tokenizer.encode(prompt).ids
        return len(ids) - (bool(ids) and ids[-1] in special)

    def _configured(self, settings: EncoderSettings, name: str, precision: ResolvedPrecision) -> EmbeddingConfiguration:
        probe = next(passes([1], self._max_length, settings.query_batch))  # also a first proof that the model runs
        dimension = self._forward(Pass(probe.rows, probe.length, []), [], "query").shape[1]
        return EmbeddingConfiguration(
            provider="sentence-transformers",
            model=name,
            dimension=dimension,
            precision=precision,
            max_length=self._max_length,
            passage_batch=settings.passage_batch,
            query_batch=settings.query_batch,
            passage_prompt=settings.passage_prompt,
            query_prompt=settings.query_prompt,
        )


def _load(path: Path, name: str, device: str) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    try:
        with _no_progress_bars():
            model = SentenceTransformer(str(path), device=device, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # whatever a foreign model format raises
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(
            f"model {name}: {path} cannot be loaded: {reason}; give the folder of a bi-encoder that "
            "sentence-transformers loads without remote code"
        ) from error
    return model.eval().float()  # a checkpoint in bf16 would otherwise stay so


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Loading a model from the local disk takes a moment; transformers would draw a bar on stderr for it."""
    from transformers.utils import logging as transformers_logging

    bars: Any = transformers_logging  # which has no types
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _fast_tokenizer(model: "SentenceTransformer", name: str) -> Any:
    """The model's tokenizer; InputError for what is not a transformer that takes tokens of a text."""
    transformer = model[0]
    tokenizer = getattr(transformer, "tokenizer", None)
    if not hasattr(transformer, "auto_model") or not getattr(tokenizer, "is_fast", False):
        raise InputError(f"model {name}: not a transformer with a tokenizer.json; choose a bi-encoder that has both")
    if "message" in getattr(transformer, "modality_config", {}):
        raise InputError(f"model {name}: encodes chat messages, not plain text; choose a bi-encoder of texts")
    return tokenizer


def _max_length(model: "SentenceTransformer", asked: int | None, name: str) -> int:
    own = model.max_seq_length
    if own is None or own > _LONGEST:
        transformer: Any = model[0]
        own = getattr(transformer.auto_model.config, "max_position_embeddings", None)
    if asked is None:
        if own is None:
            raise InputError(f"model {name}: states no maximum length; give max_length in tokens")
        return int(own)
    if own is not None and asked > own:
        raise InputError(f"max_length {asked}: model {name} takes at most {own} tokens; give that or less")
    return asked


def _at_length(tokenizer: Any, max_length: int) -> "Tokenizer":
    """A copy of the tokenizer's core that cuts and never pads: its settings never change, so threads may share it
    (the tokenizer of transformers sets its core anew on every call)."""
    from tokenizers import Tokenizer

    core: Tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    core.no_padding()
    core.enable_truncation(max_length, direction=tokenizer.truncation_side)
    return core


def _mention_prompts(model: "SentenceTransformer", settings: EncoderSettings, name: str) -> None:
    declared = {key: prompt for key, prompt in model.prompts.items() if prompt}
    if declared and not (settings.passage_prompt or settings.query_prompt):
        _log.warning(
            "model %s declares prompts that are not used: set passage_prompt and query_prompt (it has %s)",
            name,
            ", ".join(f"{key}: {prompt!r}" for key, prompt in sorted(declared.items())),
        )
