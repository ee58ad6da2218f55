"""The base of every record, and how a stored record is read back."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from rayrag.errors import IntegrityError
from rayrag.fingerprint import canonical_json, fingerprint


class Record(BaseModel):
    """A frozen, strict value: unknown fields and implicit conversions are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ser_json_inf_nan="constants")

    def content(self) -> dict[str, Any]:
        """The record as plain JSON values."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """SHA-256 over the canonical JSON of every field."""
        return fingerprint(self.content())

    def to_json(self) -> bytes:
        """Canonical JSON and a final newline: what is stored."""
        return canonical_json(self.content()) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Self:
        """The record stored in `data`; raises IntegrityError naming `where` when it is not a strict record."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise IntegrityError(f"{where}: not a valid {cls.__name__}: {problem(error)}") from error


def problem(error: ValidationError) -> str:
    """The first problem of a pydantic error in one line: `field: message`."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


class Manifest(Record):
    """A record whose stored form carries the digest of its own content under `manifest_sha256`."""

    def to_json(self) -> bytes:
        """Canonical JSON with `manifest_sha256` = the fingerprint of all other fields."""
        return canonical_json({**self.content(), "manifest_sha256": self.digest()}) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Self:
        """The manifest stored in `data`; IntegrityError when the digest, a field or the encoding is off."""
        import json

        try:
            content = json.loads(data)
            stated = content.pop("manifest_sha256")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise IntegrityError(f"{where}: not a manifest of rayrag ({type(error).__name__})") from error
        manifest = super().from_json(canonical_json(content), where)
        if stated != manifest.digest() or manifest.to_json() != data:
            raise IntegrityError(f"{where}: its content does not match its own digest; restore the file from a copy")
        return manifest
