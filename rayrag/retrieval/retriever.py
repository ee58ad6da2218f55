"""The retriever of one process: encodes and analyses the query, searches every shard, and shows the ranking."""

from rayrag.embedding.base import Encoder
from rayrag.errors import InputError, IntegrityError
from rayrag.index.analyzer import Analyzer
from rayrag.index.reader import Index
from rayrag.retrieval.leaf import ChunkContent, Leaf, LeafQuery
from rayrag.retrieval.root import Ranked, rank
from rayrag.schema.retrieval import Result, RetrieverConfiguration

MAX_QUERY_LENGTH = 16_384


class Retriever:
    """Answers queries from a loaded index. Without an encoder it searches in sparse mode only."""

    def __init__(self, index: Index, encoder: Encoder | None) -> None:
        """Raises IntegrityError when this installation would cut texts into other terms than the index holds."""
        configuration = index.manifest.configuration
        self._index = index
        self._encoder = encoder
        self._analyzer = Analyzer(configuration.sparse.analyzer)
        if self._analyzer.metadata != configuration.analyzer_metadata:
            raise IntegrityError(
                f"the index was analysed by {configuration.analyzer_metadata.content()}, this installation has "
                f"{self._analyzer.metadata.content()}: run `rayrag build-index` again (it encodes nothing anew)"
            )
        sparse = configuration.sparse
        self._leaves = [
            Leaf(entries, average_length=index.average_length, k1=sparse.k1, b=sparse.b) for entries in index.shards
        ]

    def retrieve(self, query: str, configuration: RetrieverConfiguration) -> list[Result]:
        """The results of a query, ranked from 1; InputError when there is nothing to search by."""
        check_query(query, configuration)
        leaf_query = self._leaf_query(query, configuration)
        ranking = rank([leaf.search(leaf_query) for leaf in self._leaves], configuration)
        return [_result(number, place, content) for number, (place, content) in enumerate(self._content(ranking), 1)]

    def _leaf_query(self, query: str, configuration: RetrieverConfiguration) -> LeafQuery:
        vector = terms = None
        if configuration.mode != "sparse":
            if self._encoder is None:
                raise InputError(f"mode {configuration.mode} needs an encoder; this retriever has none")
            vector = self._encoder.encode([query], "query")[0]
        if configuration.mode != "dense":
            terms = self._index.weigh(self._analyzer.counts(query))
        return LeafQuery(vector, terms, configuration.candidate_depth)

    def _content(self, ranking: list[Ranked]) -> list[tuple[Ranked, ChunkContent]]:
        found: dict[bytes, ChunkContent] = {}
        for number, leaf in enumerate(self._leaves):
            mine = [place for place in ranking if place.leaf == number]
            if mine:
                contents = leaf.content([place.row for place in mine])
                found.update(zip((place.chunk_id for place in mine), contents, strict=True))
        return [(place, found[place.chunk_id]) for place in ranking]


def check_query(query: str, configuration: RetrieverConfiguration) -> None:
    """InputError for an empty, too long or ill-formed query, and for a threshold where there is no cosine score."""
    if not query.strip():
        raise InputError("the query is empty: give the words or the question to search for")
    if len(query) > MAX_QUERY_LENGTH:
        raise InputError(f"the query has {len(query):,} characters; at most {MAX_QUERY_LENGTH:,} are allowed")
    if any("\ud800" <= character <= "\udfff" for character in query):
        raise InputError("the query is not valid UTF-8")
    if configuration.mode == "sparse" and configuration.min_score is not None:
        raise InputError("min_score is a bound on the cosine score, which sparse mode does not compute; leave it out")


def _result(number: int, place: Ranked, content: ChunkContent) -> Result:
    """The result at rank `number`."""
    return Result(
        rank=number,
        chunk_id=content.chunk_id,
        document_id=content.document_id,
        logical_name=content.logical_name,
        score=place.scores.dense,
        scores=place.scores,
        character_start=content.start,
        character_end=content.end,
        chunk_index=content.chunk_index,
        chunk_fingerprint=content.fingerprint,
        text=content.text,
        metadata=content.metadata,
    )
