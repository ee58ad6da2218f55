"""The pipeline: the few lines that wire the stages from a question to its results, context and citations."""

from rayrag.context.assembly import build_context
from rayrag.context.citations import cite
from rayrag.corpus.registry import newest_version
from rayrag.embedding.factory import class_difference, encoder_for_index
from rayrag.index.reader import Index
from rayrag.index.versions import require_newest
from rayrag.retrieval.retriever import Retriever
from rayrag.schema.embedding import EncoderSettings
from rayrag.schema.retrieval import ContextSettings, Retrieval, RetrieverConfiguration
from rayrag.storage import Storage, require_store


class RAGPipeline:
    """A loaded index and what it takes to question it. `warnings` are what a user should know, in one line each."""

    def __init__(self, index: Index, retriever: Retriever, warnings: list[str]) -> None:
        self._index = index
        self._retriever = retriever
        self.warnings = warnings

    @classmethod
    def load(cls, storage: Storage, encoder: EncoderSettings | None) -> "RAGPipeline":
        """The newest index of a store with the encoder it was built with; without one, only sparse mode is there.

        Raises InputError when there is no store or no index, or the model is not the index's; IntegrityError naming
        the file when the index is damaged.
        """
        require_store(storage)
        manifest = require_newest(storage)
        warnings = []
        newest = newest_version(storage)
        if newest > manifest.registry_version:
            warnings.append(
                f"the index is stale: it holds version {manifest.registry_version} of the documents, the newest is "
                f"{newest}; run `rayrag build-index`"
            )
        loaded = None
        if encoder is not None:
            built = manifest.configuration
            loaded = encoder_for_index(built.embedding, built.embedding_metadata, encoder)
            difference = class_difference(built.embedding_metadata, loaded.metadata)
            if difference is not None:
                warnings.append(f"the query's vector may differ from the index's in its last bits: {difference}")
        index = Index.load(storage, manifest)
        return cls(index, Retriever(index, loaded), warnings)

    def retrieve(self, query: str, configuration: RetrieverConfiguration, context: ContextSettings) -> Retrieval:
        """The ranked results of a query, the context made of them, and one citation per result."""
        results = self._retriever.retrieve(query, configuration)
        return Retrieval(
            query=query,
            index_fingerprint=self._index.manifest.index_fingerprint,
            configuration=configuration,
            results=results,
            context=build_context(results, max_tokens=context.max_tokens, separator=context.separator),
            citations=cite(results),
        )
