"""`vxc cache` and the line of the doctor: what is kept, where, and how it goes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from vxc.cache.store import Store
from vxc.cli.cache import _ago
from vxc.cli.main import main
from vxc.runtime.doctor import report


OFF = "note: the cache is turned off, by VXC_CACHE\n"


@pytest.fixture
def kept(monkeypatch, tmp_path) -> Store:
    """A cache of two entries, the second of which is damaged."""
    monkeypatch.setenv("VXC_CACHE", "1")
    monkeypatch.setenv("VXC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("VXC_CACHE_MIB", "64")
    store = Store(tmp_path / "cache", 64 << 20)
    for n, about in enumerate(("softmax for sm_90a", "sums")):
        store.put(f"plan-{n:064x}", about, bytes(1000))
    (store.folder / f"plan-{1:064x}").write_bytes(b"damaged")
    for n in range(2):
        os.utime(store.folder / f"plan-{n:064x}", (time.time() - 7300 * (n + 1),) * 2)
    return store


def vxc(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main(["cache", *arguments])
    return status, *capsys.readouterr()


def test_the_folder_is_printed_whether_it_is_there_or_not(kept, capsys, monkeypatch):
    assert vxc(capsys, "path") == (0, f"{kept.folder}\n", "")
    monkeypatch.setenv("VXC_CACHE", "0")
    monkeypatch.setenv("VXC_CACHE_DIR", "/gone/for/good")
    assert vxc(capsys, "path") == (0, "/gone/for/good\n", "") and json.loads(vxc(capsys, "path", "--json")[1]) == {"path": "/gone/for/good"}
    assert vxc(capsys, "ls") == (0, "", f"{OFF}note: 0 entries, 0.0 MiB of 64 MiB in /gone/for/good\n")
    assert vxc(capsys, "clear") == (0, "removed 0 entries, 0.0 MiB from /gone/for/good\n", OFF)


def test_entries_are_listed_and_using_none_of_them(kept, capsys):
    before = kept.entries()
    status, out, err = vxc(capsys, "ls")
    assert status == 0 and [line.split() for line in out.splitlines()] == [
        ["KIND", "NAME", "OF", "BYTES", "LAST", "USED"],
        ["plan", "000000000000", "softmax", "for", "sm_90a", f"{before[0].nbytes:,}", "2", "hours", "ago"],
        ["plan", "000000000000", "7", "4", "hours", "ago"],
    ]
    assert err == f"note: 2 entries, 0.0 MiB of 64 MiB in {kept.folder}\n" and kept.entries() == before
    listed = json.loads(vxc(capsys, "ls", "--json")[1])
    assert (listed["path"], listed["limit"]) == (str(kept.folder), 64 << 20)
    assert [(e["key"], e["about"], e["bytes"]) for e in listed["entries"]] == [
        (before[0].key, "softmax for sm_90a", before[0].nbytes), (before[1].key, "", 7)
    ]  # fmt: skip


def test_entries_are_removed(kept, capsys):
    (kept.folder / "mine.txt").write_text("")
    assert vxc(capsys, "clear") == (0, f"removed 2 entries, 0.0 MiB from {kept.folder}\n", "")
    assert [path.name for path in kept.folder.iterdir()] == ["mine.txt"]
    assert json.loads(vxc(capsys, "clear", "--json")[1]) == {"path": str(kept.folder), "removed": 0, "bytes": 0}


def test_what_cannot_be_removed_is_said(kept, capsys, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refused)
    status, out, err = vxc(capsys, "clear")
    assert (status, out) == (1, "") and f"error[E0711]: cannot write {kept.folder}: Permission denied" in err


@pytest.mark.parametrize("seconds, said", [(-5, "0 seconds"), (0.4, "0 seconds"), (1, "1 second"), (3599, "59 minutes"), (90000, "1 day")])
def test_times(seconds, said):
    assert _ago(seconds) == said


def test_the_doctor_says_where_the_cache_is_and_how_large(kept, monkeypatch):
    def line():
        return next(check for check in report() if check.name == "cache")

    assert (line().status, line().detail) == ("ok", f"{kept.folder}, 2 entries, 0.0 of 64 MiB")
    monkeypatch.setenv("VXC_CACHE_MIB", "lots")
    assert line().status == "optional" and "VXC_CACHE_MIB=lots is no number of MiB" in line().detail
    for folder in ("/proc/nope", __file__, "~nosuchuser/x"):
        monkeypatch.setenv("VXC_CACHE_DIR", folder)
        assert line().status == "optional" and f"the cache has no folder {folder}: " in line().detail and "VXC_CACHE_DIR" in line().advice
    monkeypatch.setenv("VXC_CACHE", "0")
    assert (line().status, line().detail) == ("optional", "turned off, by VXC_CACHE") and "unset VXC_CACHE" in line().advice


@pytest.mark.parametrize("place", ["file", "file/below", "loop", "x" * 300, "~nosuchuser/x"])
def test_a_folder_that_cannot_be_is_told(kept, capsys, monkeypatch, tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.setenv("VXC_CACHE_DIR", place if place.startswith("~") else str(tmp_path / place))
    for command in ("ls", "clear"):
        status, out, err = vxc(capsys, command)
        assert (status, out) == (1, "") and "error[E0711]" in err and "internal" not in err
    assert vxc(capsys, "path")[0] == (1 if place.startswith("~") else 0)


def test_what_was_not_finished_is_counted_and_removed(kept, capsys):
    (kept.folder / f".plan-{7:064x}.1.2.part").write_bytes(bytes(3 << 20))
    assert vxc(capsys, "ls")[2] == f"note: 2 entries, 0.0 MiB, 3.0 MiB of others not finished, of 64 MiB in {kept.folder}\n"
    assert json.loads(vxc(capsys, "ls", "--json")[1])["unfinished"] == 3 << 20
    assert vxc(capsys, "clear")[0] == 0 and not [*kept.folder.iterdir()]


def test_fuzzing_keeps_nothing(kept, monkeypatch, tmp_path):
    assert main(["fuzz", "-n", "1", "--on", "flat", "-j", "1", "-o", str(tmp_path)]) == 0
    assert os.environ["VXC_CACHE"] == "0" and len(kept.entries()) == 2
