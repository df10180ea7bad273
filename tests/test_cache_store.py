"""The files of the cache: whole or not there, whoever writes, removes or damages them meanwhile, and wherever the folder is."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vxc.cache import places
from vxc.cache.store import Store
from vxc.diag import VxcError

ROOT = Path(__file__).parent.parent
LARGE = 1 << 20


def key(n: int) -> str:
    return f"code-{n:064x}"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "made" / "here", LARGE)


# ---- entries -----------------------------------------------------------------------------------------------------------


def test_what_is_put_is_got(store):
    assert store.get(key(1)) is None and store.entries() == [] and store.clear() == [] and store.about(key(1)) == ""
    for n, data in enumerate((b"", b"\n", b"a\nb\n", bytes(range(256)) * 99)):
        store.put(key(n), f"number\n{n}", data)
        assert store.get(key(n)) == data and store.about(key(n)) == f"number {n}"
    store.put(key(1), "again", b"other")
    assert store.get(key(1)) == b"other" and len(store.entries()) == 4 and names(store.folder) == [key(n) for n in range(4)]
    assert [e.key for e in store.clear()] and store.entries() == [] and names(store.folder) == []


def test_an_entry_is_for_its_owner_only(store):
    store.put(key(1), "", b"data")
    assert store.folder.stat().st_mode & 0o777 == 0o700 and (store.folder / key(1)).stat().st_mode & 0o777 == 0o600


def test_what_is_damaged_cut_short_or_renamed_is_not_there(store):
    store.put(key(1), "of a kernel", b"some data\n" * 3)
    path = store.folder / key(1)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at])
        assert store.get(key(1)) is None
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store.get(key(1)) is None
    for text in (whole + b"\n", b"\0" * len(whole)):
        path.write_bytes(text)
        assert store.get(key(1)) is None
    path.write_bytes(whole)
    assert store.get(key(1)) == b"some data\n" * 3
    path.rename(store.folder / key(2))
    assert store.get(key(2)) is None
    store.put(key(2), "", b"mended")
    assert store.get(key(2)) == b"mended"


def test_the_least_recently_used_make_room(tmp_path):
    store = Store(tmp_path, 3500)
    for n in range(3):
        store.put(key(n), "", bytes(1000))
        used = time.time() - 1000 + n
        os.utime(tmp_path / key(n), (used, used))
    assert store.get(key(0)) == bytes(1000)  # the oldest, used now
    store.put(key(3), "", bytes(1000))
    assert names(tmp_path) == [key(0), key(2), key(3)]
    store.put(key(4), "", bytes(3300))
    assert names(tmp_path) == [key(4)]
    store.put(key(5), "", bytes(3500))  # with its first line beyond the limit
    assert names(tmp_path) == [key(4)]


def test_looking_at_entries_is_no_use_of_them(store):
    for n in range(2):
        store.put(key(n), "", b"x")
        os.utime(store.folder / key(n), (n, n))
    store.about(key(0))
    assert [(e.key, e.used) for e in store.entries()] == [(key(1), 1), (key(0), 0)]


def test_what_a_process_left_in_part_goes_and_what_is_not_of_the_cache_stays(store):
    store.put(key(1), "", b"x")
    old, young = (store.folder / f".{key(n)}.1.{n}.part" for n in (8, 9))
    foreign = [store.folder / name for name in ("notes.txt", "code-12", ".hidden", "x" * 69)]
    for path in (old, young, *foreign):
        path.write_bytes(bytes(LARGE // 4))
        os.utime(path, (1, 1))
    os.utime(young)
    assert store.unfinished() == LARGE // 2
    store.put(key(2), "", b"y")
    assert not old.exists() and young.exists() and [e.key for e in store.entries()] == [key(2), key(1)]
    store.put(key(3), "", bytes(LARGE - 1000))  # beside which there is no room for what is older than the last
    assert [e.key for e in store.entries()] == [key(3), key(2)] and not young.exists()
    young.write_bytes(b"")
    store.clear()
    assert names(store.folder) == sorted(path.name for path in foreign)


def test_a_write_whose_file_is_cleared_meanwhile_leaves_nothing_and_is_no_trouble(store, monkeypatch, caplog):
    other, real = Store(store.folder, LARGE), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (real(file), other.clear()))
    store.put(key(1), "", b"x")
    assert names(store.folder) == [] and not caplog.records


@pytest.mark.parametrize("kind", ["pipe", "link to itself", "folder"])
def test_what_is_no_file_is_no_entry(store, kind):
    store.put(key(2), "", b"x")
    path = store.folder / key(1)
    {"pipe": os.mkfifo, "folder": os.mkdir, "link to itself": lambda path: path.symlink_to(path)}[kind](path)
    assert store.get(key(1)) is None and store.about(key(1)) == "" and [e.key for e in store.entries()] == [key(2)]
    store.put(key(3), "", b"y")
    store.clear()
    assert names(store.folder) == [key(1)]


# ---- folders that do not allow it --------------------------------------------------------------------------------------


def test_a_full_disk_is_said_once_and_leaves_nothing(store, monkeypatch, caplog):
    store.put(key(1), "", b"before")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for n in (2, 3):
        store.put(key(n), "", b"x")
    assert names(store.folder) == [key(1)] and store.get(key(1)) == b"before"
    assert [r.getMessage() for r in caplog.records] == [f"nothing is kept in the cache {store.folder}: No space left on device"]


WRITES = """
import resource, sys
from pathlib import Path
from vxc.cache.store import Store
from vxc.diag import VxcError
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
store = Store(Path(sys.argv[1]), 1 << 20)
for size in (1000, 9000, 1001, 9000):
    store.put(f"code-{size:064x}", "", bytes(size))
    print(store.get(f"code-{size:064x}") == bytes(size))
"""


def test_a_write_that_the_system_cuts_short_leaves_nothing(tmp_path):
    run = subprocess.run([sys.executable, "-c", WRITES, tmp_path], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert run.stdout.split() == ["True", "False", "True", "False"]
    assert run.stderr.splitlines() == [f"nothing is kept in the cache {tmp_path}: File too large"]
    assert names(tmp_path) == [key(1000), key(1001)]


def test_a_read_only_folder_still_gives_what_it_has(store, monkeypatch, caplog):
    store.put(key(1), "", b"data")
    os.utime(store.folder / key(1), (1, 1))

    def read_only(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    real = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: (read_only if flags & os.O_CREAT else real)(path, flags, *mode))
    monkeypatch.setattr(os, "utime", read_only)
    for n in (2, 3):
        store.put(key(n), "", b"x")
    assert store.get(key(1)) == b"data" and [e.key for e in store.entries()] == [key(1)] and len(caplog.records) == 1


def test_a_folder_that_cannot_be(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "too")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "nowhere"):
        store = Store(folder, LARGE)
        store.put(key(1), "", b"x")
        store.put(key(2), "", b"x")
        assert store.get(key(1)) is None
    assert len(caplog.records) == 3


def test_a_folder_behind_a_link_is_as_good(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Store(tmp_path / "link" / "vxc", LARGE).put(key(1), "", b"x")
    assert Store(tmp_path / "real" / "vxc", LARGE).get(key(1)) == b"x"


# ---- several processes -------------------------------------------------------------------------------------------------

CROWD = """
import random, sys
from pathlib import Path
from vxc.cache.store import Store
from vxc.diag import VxcError
store, chance = Store(Path(sys.argv[1]), 40_000), random.Random(sys.argv[2])
for _ in range(300):
    n = chance.randrange(30)
    data = f"{n} ".encode() * 1000
    found = store.get(f"code-{n:064x}")
    assert found in (None, data)
    if found is None or chance.random() < 0.1:
        store.put(f"code-{n:064x}", str(n), data)
    if chance.random() < 0.01:
        store.clear()
"""


def test_processes_that_write_read_and_remove_at_once(tmp_path):
    crowd = [
        subprocess.Popen([sys.executable, "-c", CROWD, tmp_path, str(n)], stderr=subprocess.PIPE, text=True, cwd=ROOT) for n in range(4)
    ]
    assert [process.communicate(timeout=120)[1] for process in crowd] == [""] * 4
    store = Store(tmp_path, 40_000)
    assert all(store.get(e.key) for e in store.entries()) and not [n for n in names(tmp_path) if n.endswith(".part")]
    store.put(key(99), "", b"x")
    assert sum(e.nbytes for e in store.entries()) <= 40_000


# ---- which folder, and names -------------------------------------------------------------------------------------------


@pytest.fixture
def on(monkeypatch, tmp_path):
    """The cache is on, and at home in a folder that is not there yet."""
    for name in ("VXC_CACHE", "VXC_CACHE_DIR", "VXC_CACHE_MIB", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return monkeypatch


def test_the_folder_is_that_of_the_platform_or_as_the_environment_says(on, tmp_path):
    assert places.folder() == tmp_path / "home" / ".cache" / "vxc" or sys.platform != "linux"
    places.store().put(key(1), "", b"x")
    assert places.store().get(key(1)) == b"x" and places.folder().is_dir()
    on.setenv("VXC_CACHE_DIR", "~/mine")
    assert places.store().folder == places.folder() == tmp_path / "home" / "mine" and places.store().get(key(1)) is None
    for off in ("0", "off", "No", " FALSE"):
        on.setenv("VXC_CACHE", off)
        assert places.store() is None
    on.setenv("VXC_CACHE", "yes")
    assert places.store()


def test_a_folder_that_no_place_is_said(on, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    on.chdir(gone)
    gone.rmdir()
    for given, words in (("~nosuchuser/x", "home directory"), ("relative", "No such file")):
        on.setenv("VXC_CACHE_DIR", given)
        with pytest.raises(VxcError, match=f"E0711.*the cache has no folder {given}: .*{words}"):
            places.folder()
        assert places.store() is None


def test_a_limit_that_is_no_number_is_said_once(on, caplog):
    on.setenv("VXC_CACHE_MIB", "lots")
    for _ in range(2):
        assert places.store().limit == 1024 << 20
    assert [r.getMessage() for r in caplog.records] == ["VXC_CACHE_MIB=lots is no number of MiB, and the cache may hold 1,024"]
    on.setenv("VXC_CACHE_MIB", "2")
    assert places.store().limit == 2 << 20 and places.misread() == ""


def test_without_a_home_there_is_no_cache(on):
    on.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/vxc"))
    on.setenv("HOME", "/nobody")
    assert places.store() is None


@pytest.mark.parametrize("given, mib", [("", 1024), ("64", 64), ("0", 0), ("-1", 1024), ("lots", 1024), ("1e3", 1024)])
def test_the_limit(on, given, mib):
    on.setenv("VXC_CACHE_MIB", given)
    assert places.limit() == mib << 20


def test_names_follow_from_meaning_and_from_the_compiler(monkeypatch):
    meanings = [(), ("a",), ("a", "b"), ("ab",), (["a", "b"],), (1,), ("1",), (True,), (None,), ("\ud800",)]
    keys = [places.key_of("plan", *meaning) for meaning in meanings]
    assert len({*keys}) == len(keys) and keys == [places.key_of("plan", *meaning) for meaning in meanings]
    monkeypatch.setattr(places, "code_digest", lambda: "other")
    assert not {*keys} & {places.key_of("plan", *meaning) for meaning in meanings}


def test_the_digest_of_the_compiler_is_of_every_file_and_nothing_else():
    printed = [
        subprocess.run(
            [sys.executable, "-c", f"{edit}\nimport json; from vxc.cache import places; print(json.dumps(places.code_digest()))"],
            capture_output=True, text=True, cwd=ROOT, check=True, timeout=60,
        ).stdout  # fmt: skip
        for edit in ("", "", "import numpy; numpy.__version__ = '0'")
    ]
    first, same, other = map(json.loads, printed)
    assert first == same == places.code_digest() != other
    found = {os.path.relpath(path, ROOT / "vxc") for path in places._sources(str(ROOT / "vxc"))}
    assert found >= {os.path.relpath(path, ROOT / "vxc") for path in (ROOT / "vxc").rglob("*.py")} | {"cuda/device/memory.cuh"}
