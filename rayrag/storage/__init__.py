"""The files of a store, on a local disk or an object store."""

from rayrag.storage.base import TEMPORARY, Kind
from rayrag.storage.store import MARKER, Storage, StoreMarker, Writer, ensure_store, require_store

__all__ = ["MARKER", "TEMPORARY", "Kind", "Storage", "StoreMarker", "Writer", "ensure_store", "require_store"]
