"""What every kind of storage promises."""

import hashlib
import itertools
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayrag.errors import IntegrityError
from rayrag.storage import TEMPORARY, Storage

from .conftest import Start

NOWHERE = ["..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "./a", ".", "a\0b"]
SHA_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, example 1


def test_what_is_put_can_be_read(storage: Storage) -> None:
    assert storage.put("a/b/c.bin", b"abc") == SHA_OF_ABC
    assert storage.read("a/b/c.bin") == b"abc"
    assert storage.read("a/b/c.bin", sha256=SHA_OF_ABC) == b"abc"
    assert storage.buffer("a/b/c.bin", sha256=SHA_OF_ABC).to_pybytes() == b"abc"
    assert storage.size("a/b/c.bin") == 3
    assert storage.read_range("a/b/c.bin", 1, 2) == b"bc"
    assert storage.read_range("a/b/c.bin", 3, 0) == b""
    assert [storage.kind(path) for path in ("a/b/c.bin", "a/b", "a", "", "b")] == ["file", *["folder"] * 3, None]
    assert [storage.exists(path) for path in ("a/b/c.bin", "a/b", "b")] == [True, False, False]


def test_names_may_hold_spaces_percent_signs_and_any_script(storage: Storage) -> None:
    names = ["a b", "50%", "%41", "naïve", "文書", "a+b", "a=b", "#1", "q?", "…", "..."]
    for name in names:
        storage.put(f"folder/{name}", name.encode())
        assert storage.create(f"folder/{name}", b"other") is False
        assert storage.create(f"created/{name}", name.encode()) is True
    for folder in ("folder", "created"):
        assert storage.list(folder) == sorted(names)
        assert [storage.read(f"{folder}/{name}") for name in names] == [name.encode() for name in names]


def test_an_empty_file(storage: Storage) -> None:
    assert storage.put("empty", b"") == hashlib.sha256(b"").hexdigest()
    assert (storage.read("empty"), storage.size("empty"), storage.buffer("empty").size) == (b"", 0, 0)
    assert storage.read_range("empty", 0, 0) == b""


def test_a_file_of_several_upload_parts(storage: Storage) -> None:
    """S3 takes more than 5 MiB in parts."""
    pieces = [bytes([number]) * (3 << 20) + b"odd" for number in range(4)]
    whole = b"".join(pieces)
    with storage.writer("big") as writer:
        assert [writer.write(memoryview(piece)) for piece in pieces] == [len(piece) for piece in pieces]
        assert writer.write(b"") == 0
    assert (writer.size, writer.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert storage.buffer("big", sha256=writer.sha256).size == len(whole)
    assert storage.read_range("big", 3 << 20, 8) == whole[3 << 20 : (3 << 20) + 8]


def test_arrow_writes_into_a_writer_and_reads_from_a_buffer(storage: Storage) -> None:
    import pyarrow as pa

    table = pa.table({"id": [1, 2, 3], "text": ["a", "b", "ß"]})
    with storage.writer("t.arrow") as writer, pa.ipc.new_file(writer, table.schema) as sink:
        sink.write_table(table)
    assert pa.ipc.open_file(storage.buffer("t.arrow", sha256=writer.sha256)).read_all().equals(table)


def test_nothing_is_visible_before_a_writer_ends_nor_when_it_fails(storage: Storage) -> None:
    storage.put("folder/old", b"old")

    def break_off(path: str) -> None:
        with storage.writer(path) as writer:
            writer.write(bytes(6 << 20))
            assert storage.list("folder") == ["old"]
            assert storage.kind("folder/new") is None
            raise ZeroDivisionError

    for path in ("folder/new", "folder/old"):
        with pytest.raises(ZeroDivisionError):
            break_off(path)
        assert storage.list("folder") == ["old"]
        assert storage.read("folder/old") == b"old"


def test_a_put_over_a_file_replaces_it(storage: Storage) -> None:
    storage.put("a", b"one")
    storage.put("a", b"two")
    assert (storage.read("a"), storage.list("")) == (b"two", ["a"])


def test_create_never_touches_a_file_that_is_there(storage: Storage) -> None:
    assert [storage.create("a/versions/1", data) for data in (b"first", b"second", b"first")] == [True, False, False]
    assert storage.read("a/versions/1") == b"first"
    storage.put("a/put", b"put")
    assert storage.create("a/put", b"created") is False
    assert storage.read("a/put") == b"put"
    assert storage.list("a/versions") == ["1"]


def test_of_sixteen_threads_exactly_one_creates(shared_storage: Storage) -> None:
    names = [f"versions/{number}" for number in range(5)]
    barrier = Barrier(16)

    def create(thread: int) -> list[str]:
        won = []
        for name in names:
            barrier.wait(60)
            if shared_storage.create(name, f"thread {thread}".encode()):
                won.append((name, thread))
        return won

    with ThreadPoolExecutor(16) as pool:
        won = dict(itertools.chain.from_iterable(pool.map(create, range(16))))
        assert len(won) == len(names)
    assert {name: shared_storage.read(name) for name in names} == {n: f"thread {t}".encode() for n, t in won.items()}
    assert shared_storage.list("versions") == [str(number) for number in range(5)]


def test_of_several_processes_exactly_one_creates(shared_storage: Storage, start: Start) -> None:
    code = """
import sys
from rayrag.storage import Storage
storage = Storage.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print(*[n for n in range(15) if storage.create(f"versions/{n}", sys.argv[2].encode())])
"""
    processes = [start(code, shared_storage.root, str(number)) for number in range(3)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [process.communicate(timeout=60)[0].split() for process in processes]
    assert Counter(itertools.chain.from_iterable(won)) == {str(number): 1 for number in range(15)}
    for number, names in enumerate(won):
        assert {shared_storage.read(f"versions/{name}") for name in names} <= {str(number).encode()}


def test_kill_9_inside_a_writer_leaves_no_visible_file(shared_storage: Storage, start: Start) -> None:
    code = """
import sys
from rayrag.storage import Storage
with Storage.open(sys.argv[1]).writer("folder/file") as writer:
    writer.write(bytes(9 << 20))
    print("writing", flush=True)
    sys.stdin.read()
"""
    process = start(code, shared_storage.root)
    assert process.stdout.readline() == "writing\n"
    process.kill()
    assert process.wait(60) == -9
    assert shared_storage.list("folder") == []
    assert not shared_storage.exists("folder/file")
    shared_storage.put("folder/file", b"the next run")
    assert (shared_storage.list("folder"), shared_storage.read("folder/file")) == (["file"], b"the next run")


def test_kill_9_among_many_files_leaves_whole_files_only(shared_storage: Storage, start: Start) -> None:
    after = 4
    code = """
import itertools, sys
from rayrag.storage import Storage
storage = Storage.open(sys.argv[1])
for number in itertools.count():
    storage.put(f"folder/{number}", str(number % 10).encode() * 300_000)
    print(number, flush=True)
"""
    process = start(code, shared_storage.root)
    for _ in range(after):
        process.stdout.readline()
    process.kill()
    finished = after + len(process.communicate(timeout=60)[0].split())
    names = shared_storage.list("folder")
    assert len(names) in (finished, finished + 1)  # killed between the last file and its line
    assert {int(name) for name in names} == set(range(len(names)))
    for name in names:
        assert shared_storage.read(f"folder/{name}") == name[-1].encode() * 300_000


def test_a_missing_file_is_named(storage: Storage) -> None:
    for path in ("a/nothing", "nothing"):
        for look in (storage.read, storage.size, storage.buffer, lambda path: storage.read_range(path, 0, 1)):
            with pytest.raises(IntegrityError, match="the file is missing") as caught:
                look(path)
            assert str(caught.value).startswith(f"{storage.where(path)}: ")
    storage.delete("a/nothing")
    assert storage.list("a") == []


def test_a_changed_file_is_named_with_both_digests(storage: Storage) -> None:
    storage.put("a/file", b"abd")
    for look in (storage.read, storage.buffer):
        with pytest.raises(IntegrityError, match="changed or damaged") as caught:
            look("a/file", sha256=SHA_OF_ABC)
        assert str(caught.value).startswith(f"{storage.where('a/file')}: ")
        assert SHA_OF_ABC in str(caught.value)
        assert hashlib.sha256(b"abd").hexdigest() in str(caught.value)


@pytest.mark.parametrize("start_at", [0, 2, 3, 4, 10**15])
def test_a_truncated_file_is_named(storage: Storage, start_at: int) -> None:
    storage.put("a/file", b"abc")
    with pytest.raises(IntegrityError, match="ends within") as caught:
        storage.read_range("a/file", start_at, 10**12)
    assert str(caught.value).startswith(f"{storage.where('a/file')}: ")


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1)])
def test_a_range_that_is_none_is_refused(storage: Storage, offset: int, length: int) -> None:
    storage.put("a", b"abc")
    with pytest.raises(IntegrityError, match="not a range"):
        storage.read_range("a", offset, length)


@pytest.mark.parametrize("path", NOWHERE)
def test_a_path_that_leaves_the_store_is_refused(storage: Storage, path: str) -> None:
    calls = [
        storage.read, storage.buffer, storage.size, storage.kind, storage.exists, storage.list, storage.delete,
        lambda path: storage.read_range(path, 0, 0), lambda path: storage.put(path, b""),
        lambda path: storage.create(path, b""),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(IntegrityError, match="points outside the store"):
            call(path)


def test_the_root_is_not_a_file(storage: Storage) -> None:
    for call in (storage.read, storage.size, storage.delete, lambda path: storage.create(path, b"")):
        with pytest.raises(IntegrityError, match="points outside the store"):
            call("")


def test_a_folder_is_not_a_file(storage: Storage) -> None:
    storage.put("a/file", b"abc")
    for look in (storage.read, storage.size, storage.buffer):
        with pytest.raises(IntegrityError) as caught:
            look("a")
        assert str(caught.value).startswith(f"{storage.where('a')}: ")


def test_delete_takes_one_file_and_may_be_repeated(storage: Storage) -> None:
    storage.put("a/one", b"1")
    storage.put("a/two", b"2")
    for _ in range(2):
        storage.delete("a/one")
        assert storage.list("a") == ["two"]
    assert storage.create("a/one", b"again") is True


def test_list_is_sorted_and_one_level_deep(storage: Storage) -> None:
    assert storage.list("") == []
    for path in ("b/deep/er", "a10", "a2", "B", "b/x", f"b/{TEMPORARY}left-by-a-crash"):
        storage.put(path, b"")
    assert storage.list("") == ["B", "a10", "a2", "b"]
    assert storage.list("b") == ["deep", "x"]


def test_a_store_and_its_errors_pickle(shared_storage: Storage) -> None:
    shared_storage.put("a", b"abc")
    copy = pickle.loads(pickle.dumps(shared_storage))
    assert (copy, hash(copy), copy.read("a")) == (shared_storage, hash(shared_storage), b"abc")
    with pytest.raises(IntegrityError) as caught:
        shared_storage.read("b")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "create", "delete"]), st.sampled_from("abc"), st.binary(max_size=3)), max_size=12
)
_runs = itertools.count()


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_a_store_behaves_like_a_dict(storage: Storage, operations: list[tuple[str, str, bytes]]) -> None:
    folder = f"run-{next(_runs)}"
    model: dict[str, bytes] = {}
    for operation, name, data in operations:
        path = f"{folder}/{name}"
        if operation == "put":
            storage.put(path, data)
            model[name] = data
        elif operation == "create":
            assert storage.create(path, data) is (name not in model)
            model.setdefault(name, data)
        else:
            storage.delete(path)
            model.pop(name, None)
    assert storage.list(folder) == sorted(model)
    assert {name: storage.read(f"{folder}/{name}") for name in model} == model
    assert [storage.exists(f"{folder}/{name}") for name in "abc"] == [name in model for name in "abc"]
