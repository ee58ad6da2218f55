"""Settings: where they come from, what is refused, and the two files that document them."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rayrag.config import KEYS, load_settings, variable
from rayrag.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
DEFAULTS = load_settings(None, {}, {}).values()
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
WEIGHTS = st.floats(0, 1e300)


def refused(
    file: Path | str | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> str:
    with pytest.raises(InputError) as caught:
        load_settings(file, environment or {}, overrides or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """Write a configuration file and return its path."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "config.yaml"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def valid_settings() -> st.SearchStrategy[dict[str, Any]]:
    """Every key with a valid value; written from the documentation, not from the schema."""
    sizes = st.integers(1, 1 << 40)
    return st.fixed_dictionaries(
        {
            "store.root": TEXTS.filter(bool),
            "corpus.max_document_bytes": sizes,
            "corpus.pack_bytes": sizes,
            "corpus.slice_bytes": sizes,
            "chunking.chunk_size": st.integers(501, 1_000_000),
            "chunking.overlap": st.integers(0, 500),
            "chunking.separator_strategy": st.sampled_from(["character", "line", "paragraph", "sentence"]),
            "embedding.provider": st.sampled_from(["hashing", "sentence-transformers"]),
            "embedding.model": TEXTS.filter(bool),
            "embedding.dimension": st.integers(1, 65_536),
            "embedding.precision": st.sampled_from(["auto", "fp32", "bf16", "fp16"]),
            "embedding.max_length": st.none() | st.integers(8, 512),
            "embedding.passage_batch": st.integers(1, 1024),
            "embedding.query_batch": st.integers(1, 1024),
            "embedding.passage_prompt": TEXTS,
            "embedding.query_prompt": TEXTS,
            "embedding.device": st.sampled_from(["auto", "cpu", "cuda"]),
            "embedding.allow_download": st.booleans(),
            "sparse.analyzer.stemmer": st.sampled_from(["none", "english", "arabic", "norwegian", "turkish"]),
            "sparse.analyzer.stop_words": st.sampled_from(["none", "english"]),
            "sparse.k1": st.floats(1e-300, 1e300),
            "sparse.b": st.floats(0, 1),
            "sparse.epsilon": WEIGHTS,
            "index.num_shards": st.none() | st.integers(1, 4096),
            "index.shard_bytes": sizes,
            "index.unit_bytes": sizes,
            "retrieval.mode": st.sampled_from(["dense", "sparse", "hybrid"]),
            "retrieval.top_k": st.integers(1, 100),
            "retrieval.min_score": st.none() | st.floats(-1, 1),
            "retrieval.candidate_depth": st.integers(100, 2000),
            "retrieval.rrf_k": st.integers(1, 1000),
            "retrieval.dense_weight": WEIGHTS,
            "retrieval.sparse_weight": WEIGHTS,
            "context.max_tokens": st.integers(1, 100_000),
            "context.separator": TEXTS,
            "batch.encoders": st.integers(1, 64),
            "batch.encoder_cpus": st.floats(0, 64),
            "batch.encoder_gpus": st.floats(0, 1) | st.integers(1, 8).map(float),
            "batch.readers": st.none() | st.integers(1, 64),
            "batch.reader_cpus": st.floats(0.01, 64),
            "batch.merge_cpus": st.floats(0.01, 64),
            "ray.address": st.none() | st.just("null") | TEXTS.filter(bool),
        }
    )


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[name] = value
    return tree


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in tree.items():
        values |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return values


def exactly(values: Mapping[str, Any]) -> dict[str, str]:
    """Equal only when types are equal too: 1, 1.0 and True differ."""
    return {key: repr(value) for key, value in values.items()}


@given(values=valid_settings())
def test_any_settings_survive_yaml_the_environment_and_flags(
    values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.yaml"
    path.write_text(yaml.safe_dump(nested(values)), encoding="utf-8", newline="")
    by_file = load_settings(path, {}, {})
    by_flags = load_settings(None, {}, {key: (value, "--flag") for key, value in values.items()})
    by_environment = load_settings(None, by_file.environment(), {})
    for loaded in (by_file, by_flags, by_environment):
        assert exactly(loaded.values()) == exactly(values)
        assert loaded.settings == by_file.settings
    assert set(by_file.origins.values()) == {str(path)}
    assert by_environment.origins == {key: variable(key) for key in KEYS}


@given(values=valid_settings(), data=st.data())
def test_flags_win_over_the_environment_over_the_file_over_defaults(
    values: dict[str, Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "precedence.yaml"
    layer = st.sets(st.sampled_from([key for key in sorted(KEYS) if not key.startswith("chunking.")]))
    in_file, in_environment, in_flags = (data.draw(layer) for _ in range(3))
    texts = load_settings(None, {}, {key: (value, "--flag") for key, value in values.items()}).environment()
    path.write_text(yaml.safe_dump(nested({key: DEFAULTS[key] for key in in_file})), encoding="utf-8")
    loaded = load_settings(
        path,
        {variable(key): texts[variable(key)] for key in in_environment},
        {key: (DEFAULTS[key], f"--{key}") for key in in_flags},
    )
    for key in KEYS:
        if key in in_flags:
            expected = (DEFAULTS[key], f"--{key}")
        elif key in in_environment:
            expected = (values[key], variable(key))
        else:
            expected = (DEFAULTS[key], str(path) if key in in_file else "default")
        assert (loaded.values()[key], loaded.origins[key]) == expected


def test_defaults() -> None:
    loaded = load_settings(None, {}, {})
    assert set(loaded.origins.values()) == {"default"}
    assert (loaded.settings.store.root, loaded.settings.ray.address) == ("rag-data", None)
    assert (loaded.settings.chunking.chunk_size, loaded.settings.chunking.overlap) == (800, 100)
    assert loaded.settings.retrieval.schema_version == "1.0"
    assert not [key for key in KEYS if "schema_version" in key]


def test_config_yaml_has_every_setting_with_its_default() -> None:
    path = ROOT / "config" / "config.yaml"
    loaded = load_settings(path, {}, {})
    assert exactly(loaded.values()) == exactly(DEFAULTS)
    assert loaded.origins == dict.fromkeys(KEYS, str(path))
    assert list(flat(yaml.safe_load(path.read_text()))) == list(
        KEYS
    )  # in the order of the schema, for a plain reader too
    assert exactly(flat(yaml.safe_load(path.read_text()))) == exactly(DEFAULTS)


def test_config_yaml_explains_every_setting() -> None:
    """A comment above each, or above the group of lines that it belongs to."""
    lines = (ROOT / "config" / "config.yaml").read_text().splitlines()
    for key in KEYS:
        name = key.rpartition(".")[2]
        (first, *_) = [number for number, line in enumerate(lines) if line.lstrip().startswith(f"{name}:")]
        above = [line.lstrip() for line in lines[first - 2 : first]]
        assert any(line.startswith("#") for line in above), key


def test_env_example_has_every_variable_with_its_default() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("# ")] == []  # nothing is set by copying it
    pairs = [line[2:].split("=", 1) for line in lines if line.startswith("# RAG_")]
    environment = {name: "".join(shlex.split(value)) for name, value in pairs}
    assert list(environment) == ["RAG_CONFIG", *map(variable, KEYS)]
    loaded = load_settings(None, environment, {})
    assert exactly(loaded.values()) == exactly(DEFAULTS)


def test_an_environment_can_be_changed_for_another_process() -> None:
    loaded = load_settings(None, {"RAG_CHUNKING__OVERLAP": "7"}, {})
    environment = loaded.environment({"store.root": "/somewhere", "index.num_shards": 3})
    assert environment["RAG_CONFIG"] == ""
    assert set(environment) == {"RAG_CONFIG", *map(variable, KEYS)}
    other = load_settings(None, {"RAG_CONFIG": "/not/there", "PATH": "/bin"} | environment, {})
    assert other.values() == loaded.values() | {"store.root": "/somewhere", "index.num_shards": 3}


def test_the_file_is_the_flag_or_rag_config_and_no_other(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config("chunking: {chunk_size: 700}")
    assert load_settings(None, {}, {}).settings.chunking.chunk_size == 800
    assert load_settings(None, {"RAG_CONFIG": ""}, {}).settings.chunking.chunk_size == 800
    by_variable = load_settings(None, {"RAG_CONFIG": "config.yaml"}, {})
    assert (by_variable.settings.chunking.chunk_size, by_variable.origins["chunking.chunk_size"]) == (
        700,
        "config.yaml",
    )
    (tmp_path / "other.yaml").write_text("chunking: {chunk_size: 600}")
    assert load_settings("other.yaml", {"RAG_CONFIG": "config.yaml"}, {}).settings.chunking.chunk_size == 600


def test_a_file_that_cannot_be_read_is_named_with_who_asked_for_it(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml").startswith(f"--config {tmp_path}/none.yaml: cannot read it: No such file")
    assert refused(None, {"RAG_CONFIG": str(tmp_path)}).startswith(
        f"RAG_CONFIG {tmp_path}: cannot read it: Is a directory"
    )
    assert "cannot read it" in refused("a\0b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "chunking:\n  chunk_size: 1\n  overlap: 0\n  chunk_size: 2",
            "line 4: chunk_size is there twice, first on line 2",
        ),
        ("index: {}\nchunking: {}\nindex: {}", "line 3: index is there twice, first on line 1"),
        ("\n\nchunkin:\n  overlap: 1", "line 3: unknown section chunkin; did you mean chunking?"),
        ("chunking:\n  overlp: 1", "line 2: unknown setting chunking.overlp; did you mean chunking.overlap?"),
        ("chunking:\n  top_k: 1", "line 2: unknown setting chunking.top_k; did you mean retrieval.top_k?"),
        ("sparse:\n  stemmer: none", "unknown setting sparse.stemmer; did you mean sparse.analyzer.stemmer?"),
        (
            "sparse:\n  analyser:\n    stemmer: none",
            "line 2: unknown setting sparse.analyser; did you mean sparse.analyzer?",
        ),
        ("zzz: 1", "line 1: unknown section zzz; `rayrag config show` lists all"),
        ("retrieval: {schema_version: '1.0'}", "unknown setting retrieval.schema_version"),
        ("1: 2", "unknown section 1"),
        ("- chunking", "line 1: the file must be a mapping"),
        ("just words", "line 1: the file must be a mapping"),
        ("a: 1\n---\nb: 2", "line 2: not valid YAML"),
        ("chunking: 5", "line 1: section chunking must be a mapping"),
        ("sparse:\n  analyzer: [english]", "line 2: section sparse.analyzer must be a mapping"),
        ("chunking: {overlap: 1", "not valid YAML"),
        ("a: b: c", "line 1: not valid YAML"),
        ("chunking:\n\toverlap: 1", "line 2: not valid YAML"),
        ("? [a]\n: b", "line 1: a name is expected"),
        ("chunking: *nowhere", "line 1: not valid YAML: found undefined alias"),
        ("[" * 1000, "not valid YAML: nested too deeply"),
        (b"\xff\xfe\xff", "not valid YAML"),
        (b"store: {root: \xe9}", "not valid YAML"),
        ("store: {root: !!python/object/apply:os.getcwd []}", "line 1: expected"),
        ("store: {root: !!python/name:os.sep x}", "line 1: not valid YAML: could not determine a constructor"),
        ("chunking:\n  overlap: !!int x", 'line 2: "x" is not a value of its type'),
        ("chunking:\n  overlap: !!timestamp x", 'line 2: "x" is not a value of its type'),
        (
            "chunking:\n  overlap: 2026-01-01",
            'chunking.overlap is "2026-01-01" ({file}, line 2): expected a whole number',
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_line(config: Any, content: str | bytes, message: str) -> None:
    path = config(content)
    text = refused(path)
    assert str(path) in text
    assert message.replace("{file}", str(path)) in text.replace(f"({path}, line 1)", "line 1")


@pytest.mark.parametrize(
    "content", ["", "# all commented out\n", "---\n", "chunking:\n", "sparse:\n  analyzer:\n", "{}"]
)
def test_an_empty_file_or_section_sets_nothing(config: Any, content: str) -> None:
    assert load_settings(config(content), {}, {}).values() == DEFAULTS


def test_yaml_means_what_it_says(config: Any) -> None:
    """YAML 1.1 reads `no` as false, `010` as 8, `1:30` as 90, `1e-3` as a text, and `2024` never as the text it is."""
    content = """
store: {root: no}
sparse: {k1: 1e-3, b: 1, epsilon: .5}
embedding: {model: 1:30, passage_prompt: 1e3, query_prompt: 0x1F, allow_download: True}
context: {separator: 007}
ray: {address: 2024}
retrieval: {min_score: ~}
"""
    values = load_settings(config(content), {}, {}).values()
    assert (values["store.root"], values["embedding.model"]) == ("no", "1:30")
    assert (values["embedding.passage_prompt"], values["embedding.query_prompt"]) == ("1e3", "0x1F")
    assert (values["context.separator"], values["ray.address"]) == ("007", "2024")
    assert [repr(values[f"sparse.{name}"]) for name in ("k1", "b", "epsilon")] == ["0.001", "1.0", "0.5"]
    assert values["embedding.allow_download"] is True
    assert values["retrieval.min_score"] is None
    assert 'overlap is "010"' in refused(config("chunking: {overlap: 010}"))
    assert 'allow_download is "yes"' in refused(config("embedding: {allow_download: yes}"))


@pytest.mark.parametrize(
    "value", ["1.0", "'1'", "true", "[1]", "{a: 1}", "~", ".nan", "", "1_000", "99999999999999999999"]
)
def test_a_wrong_value_in_a_file_is_refused(config: Any, value: str) -> None:
    path = config(f"\nchunking:\n  chunk_size: {value}\n")
    text = refused(path)
    assert text.startswith("chunking.chunk_size is ")
    assert text.endswith(f" ({path}, line 3): expected a whole number, at least 1 and at most 1,000,000")


def test_a_bomb_of_aliases_is_refused_shortly(config: Any) -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))]
    text = refused(config("store:\n  root:\n" + "\n".join(f"    {line}" for line in lines)))
    assert text.startswith("store.root is a list or mapping")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RAG_CHUNK_SIZE", "did you mean RAG_CHUNKING__CHUNK_SIZE?"),
        ("RAG_CHUNKING_CHUNK_SIZE", "did you mean RAG_CHUNKING__CHUNK_SIZE?"),
        ("RAG_CHUNKING__CHUNK_SIZ", "did you mean RAG_CHUNKING__CHUNK_SIZE?"),
        ("RAG_SPARSE__STEMMER", "did you mean RAG_SPARSE__ANALYZER__STEMMER?"),
        ("RAG_TOPK", "did you mean RAG_RETRIEVAL__TOP_K?"),
        ("RAG_CONFG", "did you mean RAG_CONFIG?"),
        ("RAG_chunking__overlap", "did you mean RAG_CHUNKING__OVERLAP?"),
        ("RAG_RETRIEVAL__SCHEMA_VERSION", "unknown variable"),
        ("RAG_", "`rayrag config show` lists all"),
    ],
)
def test_an_unknown_variable_is_refused(name: str, message: str) -> None:
    text = refused(None, {name: "5"})
    assert text.startswith(f"environment: unknown variable {name}; ")
    assert message in text


def test_variables_of_others_are_left_alone() -> None:
    environment = {"RAGTIME": "1", "RAYRAG_CLUSTER": "x", "rag_config": "y", "MY_RAG_CONFIG": "z", "RAGS__X": ""}
    assert load_settings(None, environment, {}).values() == DEFAULTS


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("RAG_CHUNKING__CHUNK_SIZE", "900", 900),
        ("RAG_CHUNKING__CHUNK_SIZE", "+900", 900),
        ("RAG_SPARSE__K1", "2", 2.0),
        ("RAG_SPARSE__K1", "1e-3", 0.001),
        ("RAG_RETRIEVAL__MIN_SCORE", "-.5", -0.5),
        ("RAG_RETRIEVAL__MIN_SCORE", "", None),
        ("RAG_INDEX__NUM_SHARDS", "null", None),
        ("RAG_EMBEDDING__ALLOW_DOWNLOAD", "TRUE", True),
        ("RAG_EMBEDDING__ALLOW_DOWNLOAD", "false", False),
        ("RAG_RAY__ADDRESS", "null", None),
        ("RAG_RAY__ADDRESS", '"null"', "null"),
        ("RAG_EMBEDDING__MODEL", "null", "null"),
        ("RAG_EMBEDDING__MODEL", "1", "1"),
        ("RAG_EMBEDDING__QUERY_PROMPT", " query: ", " query: "),
        ("RAG_CONTEXT__SEPARATOR", r'"\n--\n"', "\n--\n"),
        ("RAG_CONTEXT__SEPARATOR", r"\n", r"\n"),
        ("RAG_CONTEXT__SEPARATOR", r'"\"quoted\""', '"quoted"'),
        ("RAG_CONTEXT__SEPARATOR", "'", "'"),
    ],
)
def test_texts_of_the_environment_are_converted(name: str, text: str, value: Any) -> None:
    loaded = load_settings(None, {name: text}, {})
    (key,) = (key for key in KEYS if variable(key) == name)
    assert repr(loaded.values()[key]) == repr(value)
    assert loaded.origins[key] == name


@pytest.mark.parametrize(
    ("name", "text", "expectation"),
    [
        ("RAG_CHUNKING__CHUNK_SIZE", "", "a whole number, at least 1 and at most 1,000,000"),
        ("RAG_CHUNKING__CHUNK_SIZE", "null", "a whole number"),
        ("RAG_CHUNKING__CHUNK_SIZE", "0", "a whole number, at least 1"),
        ("RAG_CHUNKING__CHUNK_SIZE", "1e3", "a whole number"),
        ("RAG_CHUNKING__CHUNK_SIZE", "8_00", "a whole number"),
        ("RAG_CHUNKING__CHUNK_SIZE", " 800", "a whole number"),
        ("RAG_CHUNKING__CHUNK_SIZE", "0800", "a whole number"),
        ("RAG_CHUNKING__CHUNK_SIZE", "٨٠٠", "a whole number"),
        ("RAG_CHUNKING__CHUNK_SIZE", "9" * 5000, "a whole number"),
        ("RAG_INDEX__NUM_SHARDS", "4097", "a whole number, at least 1 and at most 4,096, or nothing (null)"),
        ("RAG_RETRIEVAL__MIN_SCORE", "nan", "a number, at least -1 and at most 1, or nothing (null)"),
        ("RAG_SPARSE__K1", "inf", "a number, above 0"),
        ("RAG_SPARSE__K1", "1e999", "a number, above 0"),
        ("RAG_SPARSE__K1", "0", "a number, above 0"),
        ("RAG_EMBEDDING__ALLOW_DOWNLOAD", "yes", "true or false"),
        ("RAG_EMBEDDING__ALLOW_DOWNLOAD", "1", "true or false"),
        ("RAG_RETRIEVAL__MODE", "Hybrid", "one of dense, sparse, hybrid"),
        ("RAG_STORE__ROOT", "", "a text"),
        ("RAG_CONTEXT__SEPARATOR", '"open', 'JSON if it begins with "'),
        ("RAG_CONTEXT__SEPARATOR", '"\\ud800"', "a text (UTF-8"),
        ("RAG_CONTEXT__SEPARATOR", '"\\u0000"', "no NUL"),
        ("RAG_CONTEXT__SEPARATOR", "\udcff", "a text (UTF-8"),
    ],
)
def test_a_wrong_text_in_the_environment_is_refused(name: str, text: str, expectation: str) -> None:
    message = refused(None, {name: text})
    (key,) = (key for key in KEYS if variable(key) == name)
    assert message.startswith(f"{key} is ")
    assert f" ({name}): expected " in message
    assert expectation in message
    assert len(message) < 300
    message.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "5", None, 1.5, b"5", Path("x"), "9" * 500])
def test_a_wrong_value_of_a_flag_is_refused(value: Any) -> None:
    text = refused(None, {}, {"retrieval.top_k": (value, "--top-k")})
    assert text.startswith("retrieval.top_k is ")
    assert text.endswith(" (--top-k): expected a whole number, at least 1 and at most 100")
    assert len(text) < 200


def test_a_flag_for_an_unknown_setting_is_refused() -> None:
    text = refused(None, {}, {"retrieval.topk": (5, "--top-k")})
    assert text == "--top-k: unknown setting retrieval.topk; did you mean retrieval.top_k?"


def test_a_rule_over_two_settings_names_all_that_set_them(config: Any) -> None:
    path = config("chunking:\n  chunk_size: 500")
    text = refused(path, {"RAG_CHUNKING__OVERLAP": "500", "RAG_SPARSE__K1": "2"})
    expected = "chunking: overlap 500 must be smaller than chunk_size 500"
    assert text == f"{expected} (set by {path}, line 2; RAG_CHUNKING__OVERLAP)"
    assert refused(None, {"RAG_BATCH__ENCODER_GPUS": "1.5"}) == (
        "batch: encoder_gpus 1.5 must be at most 1 or a whole number, as Ray allots GPUs "
        "(set by RAG_BATCH__ENCODER_GPUS)"
    )


def test_the_real_environment_reaches_every_key() -> None:
    """Through a process, as a user sets it."""
    code = """
import json, os
from rayrag.config import load_settings
loaded = load_settings(None, os.environ, {})
print(json.dumps([loaded.values(), sorted(set(loaded.origins.values()))]))
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    environment = load_settings(None, {}, {}).environment({"context.separator": "\n\"ß'\\"})
    run = subprocess.run([sys.executable, "-c", code], env=clean | environment, capture_output=True, check=True)
    values, origins = json.loads(run.stdout)
    assert values == DEFAULTS | {"context.separator": "\n\"ß'\\"}
    assert origins == sorted(map(variable, KEYS))


def test_importing_config_loads_pydantic_and_nothing_heavier() -> None:
    code = """
import sys, rayrag.config
rayrag.config.load_settings(None, {}, {})
print(sorted({"yaml", "pyarrow", "numpy", "ray", "torch", "regex", "click"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
