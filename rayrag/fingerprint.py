"""Canonical JSON, SHA-256 and two-level digests: the identities of everything rayrag stores.

Fingerprints detect accidental change. They are not signatures: whoever can write a store can also rewrite them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

GROUP_BITS = 12
"""Documents fall into 2**12 groups by the leading bits of their sha256; shard bounds align to groups."""


def canonical_json(value: Any) -> bytes:
    """`value` as UTF-8 JSON with sorted keys and no spaces; NaN, infinities and lone surrogates raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def fingerprint(value: Any) -> str:
    """The SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(canonical_json(value))


def group_of(document_id: str) -> int:
    """The group (0 to 4095) of a document: the leading 12 bits of the sha256 in its id."""
    return int(document_id[4:7], 16)


def group_digest(members: Iterable[bytes]) -> str:
    """The digest of one group: SHA-256 over its members' 32-byte digests, in order."""
    digest = hashlib.sha256()
    for member in members:
        digest.update(member)
    return digest.hexdigest()


def combine_groups(groups: Mapping[int, str]) -> str:
    """The second level: SHA-256 over (group number as two bytes, group digest), ascending; empty groups left out.

    It stands for the ordered list of all members, and can be computed from any partition of the groups.
    """
    digest = hashlib.sha256()
    for number in sorted(groups):
        digest.update(number.to_bytes(2, "big") + bytes.fromhex(groups[number]))
    return digest.hexdigest()


def digest_by_group(members: Iterable[tuple[str, bytes]]) -> dict[int, str]:
    """Group digests of (document id, 32-byte member digest) pairs, given in document order."""
    open_groups: dict[int, Any] = {}
    for document_id, member in members:
        open_groups.setdefault(group_of(document_id), hashlib.sha256()).update(member)
    return {number: digest.hexdigest() for number, digest in open_groups.items()}
