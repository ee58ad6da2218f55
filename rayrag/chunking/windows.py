"""Cut a document's text into overlapping windows and give each an identity: a chunk.

Offsets are Python string positions, that is code points, in the decoded text (after a byte order mark). An exact
boundary may separate CR from LF or fall inside a grapheme cluster (an emoji sequence, a letter and its combining
mark): a window is never longer than `chunk_size`, and never shorter than asked where no separator is in reach.
"""

import json
import re
from collections.abc import Iterator

from rayrag.chunking.sentences import properties_sha256, sentence_ends
from rayrag.errors import InputError
from rayrag.fingerprint import canonical_json, sha256_hex
from rayrag.schema.chunks import Chunk, ChunkConfiguration, SeparatorStrategy

CHUNK_SCHEMA_VERSION = "1.0"

CHUNKER_VERSION = "1"
"""Changes whenever the rules of this module would cut some text otherwise."""

_LINE_END = re.compile("\n")
_BLANK_LINE = re.compile(r"\n(?=([ \t]*+\r?\n))")


def chunker_version(strategy: SeparatorStrategy) -> str:
    """What else decides the windows: the version of the rules and, for sentences, of the characters' properties."""
    return f"{CHUNKER_VERSION}+{properties_sha256()[:16]}" if strategy == "sentence" else CHUNKER_VERSION


def chunk_document(document_id: str, text: str, configuration: ChunkConfiguration) -> list[Chunk]:
    """The chunks of one document, by ascending start; a text of only white space has none.

    `text[chunk.start:chunk.end] == chunk.text`, `chunk.index` is the position in the list, and the ranges are those
    of `windows`. Identities are SHA-256 over canonical JSON (`rayrag.fingerprint.canonical_json`):

    - content_sha256 = SHA-256 of the chunk's text in UTF-8;
    - chunk_id = "chunk-" + fingerprint of {"configuration": configuration.content(), "content_sha256", "document_id",
      "index", "range": [start, end]};
    - fingerprint = fingerprint of {"chunk_id", "configuration": configuration.content(), "content_sha256",
      "document_id", "end", "index", "schema_version": "1.0", "start"}; the text takes part by its digest.

    Raises InputError naming the offset when the text holds a lone surrogate, which no UTF-8 document can.
    """
    if not text or text.isspace():
        return []
    # Canonical JSON, written out with its keys in order: building and dumping dicts would take most of the time.
    settings = canonical_json(configuration.content()).decode()
    document = json.dumps(document_id, ensure_ascii=False)
    chunks = []
    for index, (start, end) in enumerate(windows(text, configuration)):
        window = text[start:end]
        try:
            content_sha256 = sha256_hex(window.encode())
        except UnicodeEncodeError as error:
            raise InputError(
                f"{document_id}: character {start + error.start} is a lone surrogate; decode the document as UTF-8"
            ) from error
        common = f'"configuration":{settings},"content_sha256":"{content_sha256}","document_id":{document}'
        identity = f'{{{common},"index":{index},"range":[{start},{end}]}}'
        chunk_id = "chunk-" + sha256_hex(identity.encode())
        record = (
            f'{{"chunk_id":"{chunk_id}",{common},"end":{end},"index":{index},'
            f'"schema_version":"{CHUNK_SCHEMA_VERSION}","start":{start}}}'
        )
        fingerprint = sha256_hex(record.encode())
        chunks.append(Chunk(document_id, index, start, end, window, content_sha256, chunk_id, fingerprint))
    return chunks


def windows(text: str, configuration: ChunkConfiguration) -> Iterator[tuple[int, int]]:
    """The (start, end) ranges of the windows, which together cover the text; none for an empty text.

    - When the rest of the text fits in `chunk_size`, the window ends with the text.
    - Otherwise it ends after the last separator in the latter half of the target window, that is
      start + chunk_size / 2 < end <= start + chunk_size, or else at start + chunk_size.
    - The next window starts at end - overlap, or at start + 1 where the overlap would lead back further. Its end
      lies past this window's end: starts and ends strictly increase, so no window lies within another.
    """
    length, size = len(text), configuration.chunk_size
    ends = separator_ends(text, configuration.separator_strategy)
    start = end = last = 0  # `last` is the last separator end within the target window, `upcoming` the one after it
    upcoming = next(ends, length)
    while end < length:
        target = start + size
        if target >= length:
            end = length
        else:
            while upcoming <= target:
                last, upcoming = upcoming, next(ends, length)
            end = last if last > end and 2 * (last - start) > size else target
        yield start, end
        start = max(end - configuration.overlap, start + 1)


def separator_ends(text: str, strategy: SeparatorStrategy) -> Iterator[int]:
    """The offsets after each separator, ascending, found lazily in one pass over the text.

    `character` has none. `line`: after each line feed (so CR LF is one separator). `paragraph`: after each blank
    line, that is LF, optional spaces and tabs, LF, where either LF may be a CR LF. `sentence`: see `sentences`.
    """
    match strategy:
        case "character":
            return iter(())
        case "line":
            return (match.end() for match in _LINE_END.finditer(text))
        case "paragraph":
            return (match.end(1) for match in _BLANK_LINE.finditer(text))
        case "sentence":
            return sentence_ends(text)
