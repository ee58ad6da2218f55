"""Settings from four places: defaults < a YAML file < environment RAG_<SECTION>__<KEY> < flags.

A setting is named by a dotted key such as `chunking.chunk_size`. The file is the one given, else the one that
RAG_CONFIG names; none is looked for. Texts of the environment are converted strictly: whole numbers, numbers, true or
false, nothing or `null` for a setting that may be unset. A text that begins with a double quote is a JSON string (for
line breaks: `"\\n\\n"`); any other stands for itself.
"""

import difflib
import json
import math
import os
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rayrag.errors import InputError
from rayrag.schema.base import problem
from rayrag.schema.settings import Settings

if TYPE_CHECKING:
    import yaml

PREFIX = "RAG_"
FILE_VARIABLE = "RAG_CONFIG"
DEFAULT = "default"

_WHOLE = r"[-+]?(?:0|[1-9][0-9]*)"
_NUMBER = rf"(?:{_WHOLE}(?:\.[0-9]*)?|[-+]?\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_NUMBERS = tuple(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool"))
_MISSPELT = object()
"""What the text of an environment variable becomes when it does not have the form of its setting."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and for each dotted key where its value came from: `default`, the file as named, a variable, a flag."""

    settings: Settings
    origins: dict[str, str]

    def values(self) -> dict[str, Any]:
        """Dotted key -> value, for every setting, as plain JSON values."""
        return {key: _value_at(self.settings, key) for key in KEYS}

    def environment(self, changes: Mapping[str, Any] | None = None) -> dict[str, str]:
        """The environment in which another process loads these settings, whatever its own says, with `changes` to them.

        Every setting has its variable, and RAG_CONFIG is empty: names no file.
        """
        texts = {variable(key): _text(value) for key, value in (self.values() | dict(changes or {})).items()}
        return {FILE_VARIABLE: "", **texts}


class _Given(NamedTuple):
    """A value for a setting; `origin` is what `Loaded.origins` says, `place` is as exact as an error can be."""

    value: Any
    origin: str
    place: str


def load_settings(
    file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
    overrides: Mapping[str, tuple[Any, str]],
) -> Loaded:
    """The settings of one run. `overrides` maps dotted keys to (value, the flag it came by).

    Raises InputError for a file that is missing or not YAML, an unknown key (with the nearest known one) and a wrong
    value (with its key, origin and what is expected).
    """
    given: dict[str, _Given] = {}
    named = os.fspath(file) if file is not None else environment.get(FILE_VARIABLE) or None
    if named is not None:
        given |= _from_file(named, "--config" if file is not None else FILE_VARIABLE)
    given |= _from_environment(environment)
    for key, (value, flag) in overrides.items():
        if key not in KEYS:
            raise InputError(f"{flag}: unknown setting {key}{_did_you_mean(key, {each: each for each in KEYS})}")
        given[key] = _Given(value, flag, flag)
    settings = _validated(given)
    return Loaded(settings, {key: given[key].origin if key in given else DEFAULT for key in KEYS})


def variable(key: str) -> str:
    """The environment variable of a dotted key: `chunking.chunk_size` -> RAG_CHUNKING__CHUNK_SIZE."""
    return PREFIX + key.upper().replace(".", "__")


def _knobs(record: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in record.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _knobs(annotation, f"{prefix}{name}.")
        elif typing.get_origin(annotation) is not Literal or len(typing.get_args(annotation)) > 1:
            yield prefix + name, field


KEYS: Mapping[str, FieldInfo] = dict(_knobs(Settings))
"""Every dotted key that can be set, with its field, in the order of the sections."""

_VARIABLES = {variable(key): key for key in KEYS}
_SECTIONS = {key[:position] for key in KEYS for position, letter in enumerate(key) if letter == "."}
_NAMES = (*sorted(_SECTIONS), *KEYS)


def _value_at(record: Any, key: str) -> Any:
    for name in key.split("."):
        record = getattr(record, name)
    return record


def _from_file(named: str, asked_by: str) -> dict[str, _Given]:
    import yaml

    try:
        with open(named, "rb") as stream:
            data = stream.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{asked_by} {named}: cannot read it: {reason}; give the path of a YAML file") from error
    try:
        loader = _core_schema_loader(data)
        root = loader.get_single_node()
        return {} if root is None else dict(_settings_in(root, "", named, loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{named}{line}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = str(error).partition("\n")[0] if isinstance(error, yaml.YAMLError) else "nested too deeply"
        raise InputError(f"{named}: not valid YAML: {reason}") from error


def _core_schema_loader(data: bytes) -> "yaml.SafeLoader":
    """PyYAML's safe loader, but with plain scalars as in YAML 1.2: `no` and `1:30` are texts, `1e-3` is a number."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own form

    Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"([Tt]rue|TRUE|[Ff]alse|FALSE)\Z"), list("tTfF"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(rf"{_WHOLE}\Z"), list("-+0123456789"))
    number = rf"{_NUMBER}\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(number), list("-+.0123456789"))
    return Loader(data)


def _settings_in(
    node: "yaml.Node", section: str, named: str, loader: "yaml.SafeLoader"
) -> Iterator[tuple[str, _Given]]:
    """The settings below a node; a section may be empty, so that all of it can be commented out."""
    import yaml

    place = f"{named}, line {node.start_mark.line + 1}"
    if node.tag == "tag:yaml.org,2002:null":
        return
    if not isinstance(node, yaml.MappingNode):
        what = f"section {section}" if section else "the file"
        raise InputError(f"{place}: {what} must be a mapping of names to values, such as `chunk_size: 800`")
    lines: dict[str, int] = {}
    for name_node, value_node in node.value:
        line = name_node.start_mark.line + 1
        place = f"{named}, line {line}"
        if not isinstance(name_node, yaml.ScalarNode):
            raise InputError(f"{place}: a name is expected before the colon, not a list or mapping")
        name = name_node.value
        if name in lines:
            raise InputError(f"{place}: {name} is there twice, first on line {lines[name]}; remove one")
        lines[name] = line
        key = f"{section}.{name}" if section else name
        if key in KEYS:
            yield key, _Given(_scalar(value_node, KEYS[key], place, loader), named, place)
        elif key in _SECTIONS:
            yield from _settings_in(value_node, key, named, loader)
        else:
            kind = "setting" if section else "section"
            raise InputError(f"{place}: unknown {kind} {key}{_did_you_mean(key, {each: each for each in _NAMES})}")


def _scalar(node: "yaml.Node", field: FieldInfo, place: str, loader: "yaml.SafeLoader") -> Any:
    """The value of a node. Where a text is wanted, `2024` is one, and `1e3`, which is a number in YAML 1.2 only."""
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        return []  # no setting is a list or mapping; with aliases it may be huge, so it is not even made
    if _kind(field)[0] is str and node.tag in _NUMBERS:
        return node.value
    try:
        return loader.construct_object(node)
    except (ValueError, KeyError, AttributeError) as error:  # what PyYAML raises for `!!int x`, `!!bool x`, …
        raise InputError(f"{place}: {_shown(node.value)} is not a value of its type {node.tag}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, _Given]:
    given = {}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name == FILE_VARIABLE:
            continue
        key = _VARIABLES.get(name)
        if key is None:
            guess = name.removeprefix(PREFIX).lower().replace("__", ".")
            known = {each: variable(each) for each in KEYS} | {"config": FILE_VARIABLE}
            raise InputError(f"environment: unknown variable {name}{_did_you_mean(guess, known)}")
        text = environment[name]
        value = _converted(text, KEYS[key])
        if value is _MISSPELT:
            raise _wrong(key, text, name)
        given[key] = _Given(value, name, name)
    return given


def _converted(text: str, field: FieldInfo) -> Any:
    """The value that the text of a variable stands for, or `_MISSPELT`."""
    kind, optional = _kind(field)
    if optional and text in ("", "null"):
        return None
    try:
        if kind is int:
            return int(text) if re.fullmatch(_WHOLE, text) else _MISSPELT
        if kind is float:
            return float(text) if re.fullmatch(_NUMBER, text) else _MISSPELT
        if kind is bool:
            return {"true": True, "false": False}.get(text.lower(), _MISSPELT)
        if not text.startswith('"'):
            return text
        value = json.loads(text)
    except ValueError:  # not JSON, or more digits than Python converts
        return _MISSPELT
    return value if isinstance(value, str) else _MISSPELT


def _text(value: Any) -> str:
    """The text of an environment variable that stands for a value."""
    if value is None:
        return ""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.startswith('"') or value == "null" else value
    return json.dumps(value)


def _kind(field: FieldInfo) -> tuple[Any, bool]:
    """int, float, bool, str or a Literal; and whether None is allowed too."""
    if typing.get_origin(field.annotation) in (types.UnionType, typing.Union):
        (kind,) = (each for each in typing.get_args(field.annotation) if each is not type(None))
        return kind, True
    return field.annotation, False


def _validated(given: Mapping[str, _Given]) -> Settings:
    nested: dict[str, Any] = {}
    for key, (value, _, place) in given.items():
        if (isinstance(value, float) and not math.isfinite(value)) or (isinstance(value, str) and not _is_text(value)):
            raise _wrong(key, value, place)
        *sections, name = key.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    try:
        return Settings.model_validate(nested)
    except ValidationError as error:
        location = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        if location in given:
            raise _wrong(location, given[location].value, given[location].place) from error
        # A rule over several settings of a section: all that were set may be to blame.
        places = {each.place: None for key, each in given.items() if key.startswith(f"{location}.")}
        raise InputError(f"{problem(error)} (set by {'; '.join(places)})") from error


def _is_text(value: str) -> bool:
    """Whether a text can be written in UTF-8 and in an environment variable."""
    return not re.search("[\0\ud800-\udfff]", value)


def _wrong(key: str, value: Any, place: str) -> InputError:
    return InputError(f"{key} is {_shown(value)} ({place}): expected {_expected(KEYS[key])}")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "a list or mapping"
    try:
        shown = json.dumps(value, ensure_ascii=False)
        shown.encode()
    except (TypeError, ValueError):
        shown = ascii(value)
    return shown if len(shown) <= 80 else shown[:80] + "…"


def _expected(field: FieldInfo) -> str:
    kind, optional = _kind(field)
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: 'a text (UTF-8, no NUL; JSON if it begins with ")',
    }
    expected = names.get(kind) or "one of " + ", ".join(typing.get_args(kind))
    bounds: dict[str, float] = {}
    for rule in field.metadata:
        bounds |= {name: bound for name in ("ge", "gt", "le", "lt") if (bound := getattr(rule, name, None)) is not None}
        if getattr(rule, "min_length", 0):
            expected = f"{expected}, not empty"
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    if bounds:
        expected += ", " + " and ".join(f"{words[name]} {bound:,}" for name, bound in bounds.items())
    return expected + (", or nothing (null)" if optional else "")


def _did_you_mean(key: str, known: Mapping[str, str]) -> str:
    """The known key nearest to a wrong one, as `known` shows it: nearest in its section, then by its last part."""
    section, _, last = key.rpartition(".")
    siblings = [each for each in known if each.rpartition(".")[0] == section]
    last_parts = {each.rpartition(".")[2]: each for each in known}
    for word, choices in ((key, siblings), (last, list(last_parts)), (key, list(known))):
        for match in difflib.get_close_matches(word, choices, 1, 0.75):
            return f"; did you mean {known[match if match in known else last_parts[match]]}?"
    return "; `rayrag config show` lists all"
