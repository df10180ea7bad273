"""A folder of small files by key, shared by processes that know nothing of each other.

A file is written beside its place and then moved there, so none is ever seen in part. Its first line has a digest of its name and of
all else in it, so one that is damaged, cut short or renamed is as good as none. Nothing waits for anything: processes that make the same
entry at the same time all write it, and one file remains. What the folder does not allow (read-only, full, gone) is no error: it is
said once, in the log `vxc`, and the entry is made again when it is next needed.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from vxc.record import record

_HEAD = b"vxc 1 "
_DIGEST = 64  # hexadecimal digits
_ABOUT = slice(len(_HEAD) + _DIGEST + 1, None)  # of the first line
_LONGEST = 400  # bytes of it
_PART = ".part"  # ends the name of what is being written
_ABANDONED = 3600  # seconds after which nobody is writing a file any more
_RECENT = 60  # seconds within which a use need not be noted again


@record
class Entry:
    """One file: its key, its size in bytes, when it was last used (seconds since 1970)."""

    key: str
    nbytes: int
    used: float

    @property
    def kind(self) -> str:
        return self.key.partition("-")[0]

    @property
    def digest(self) -> str:
        return self.key.partition("-")[2]


class Store:
    """The entries of a folder, of at most `limit` bytes together: those unused for longest make room for new ones."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit, self._said = folder, limit, False

    def get(self, key: str) -> bytes | None:
        """What was put there, or None."""
        try:
            with self._opened(key) as file:
                used, whole = os.fstat(file.fileno()).st_mtime, file.read()
        except OSError:
            return None
        head, _, data = whole.partition(b"\n")
        if head[: _ABOUT.start] != _HEAD + _digest(key, head[_ABOUT], data):
            return None
        if time.time() - used > _RECENT:
            with suppress(OSError):
                os.utime(self.folder / key)
        return data

    def about(self, key: str) -> str:
        """What `put` was told of an entry, "" for none; unlike `get`, this is no use of it."""
        try:
            with self._opened(key) as file:
                return file.readline(_ABOUT.start + _LONGEST)[_ABOUT].decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def put(self, key: str, about: str, data: bytes) -> None:
        """Keeps data under a key, if the folder lets it and it is no larger than all that may be kept. `about` is a line for people."""
        line = " ".join(about.split()).encode()[:_LONGEST]
        whole = _HEAD + _digest(key, line, data) + line + b"\n" + data
        if len(whole) > self.limit:
            return
        try:
            self._make_folder()
            self._write(key, whole)
            self._make_room(key)
        except OSError as error:
            self._say(f"nothing is kept in the cache {self.folder}: {error.strerror or error}")

    def entries(self) -> list[Entry]:
        """All, the last used first. Raises OSError for a folder that cannot be read; one that is not there has none."""
        found = [Entry(f.name, f.stat.st_size, f.stat.st_mtime) for f in self._files() if not f.unfinished]
        return sorted(found, key=lambda e: (-e.used, e.key))

    def unfinished(self) -> int:
        """Bytes of files that are being written, or that a process which died left in part. Raises as `entries`."""
        return sum(file.stat.st_size for file in self._files() if file.unfinished)

    def clear(self) -> list[Entry]:
        """Removes all files, and gives the entries that there were. Raises OSError for one that cannot be removed."""
        found = self.entries()
        for name in [f.name for f in self._files()]:
            (self.folder / name).unlink(missing_ok=True)
        return found

    def check_writable(self) -> None:
        """Raises OSError where nothing can be kept."""
        self._make_folder()
        part = self._part(f"none-{'0' * _DIGEST}")
        self._new(part, b"")
        part.unlink(missing_ok=True)

    def _opened(self, key: str) -> BinaryIO:
        """The file of an entry. Raises OSError, also for what is no file, such as a pipe, which nobody may be writing to."""
        return open(self.folder / key, "rb", opener=_open_file)

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _part(self, key: str) -> Path:
        return self.folder / f".{key}.{os.getpid():x}.{os.urandom(6).hex()}{_PART}"

    def _new(self, path: Path, data: bytes) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _write(self, key: str, data: bytes) -> None:
        part = self._part(key)
        try:
            self._new(part, data)
            with suppress(FileNotFoundError):  # another process made room, or cleared all
                os.replace(part, self.folder / key)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise

    def _make_room(self, newest: str) -> None:
        """Removes what was used least recently beyond the limit, and what a process that died left in part, which counts until then."""
        total = 0
        for file in sorted(self._files(), key=lambda f: (f.name != newest, -f.stat.st_mtime)):
            total += file.stat.st_size
            if total > self.limit or file.abandoned:
                with suppress(OSError):  # another process may have removed it, or a system keep open files
                    (self.folder / file.name).unlink()

    def _say(self, message: str) -> None:
        """Once: the user has no need to hear of it with every kernel."""
        if not self._said:
            self._said = True
            logging.getLogger("vxc").warning(message)

    def _files(self) -> Iterator[_File]:
        """Those of the cache, of which others may be removed meanwhile; what else lies in the folder is not touched."""
        try:
            with os.scandir(self.folder) as found:
                for file in found:
                    if is_key(file.name.removeprefix(".").split(".")[0]):
                        with suppress(OSError):  # one that was removed; a link to nowhere
                            if file.is_file():
                                yield _File(file.name, file.stat())
        except FileNotFoundError:
            return


@record
class _File:
    name: str
    stat: os.stat_result

    @property
    def unfinished(self) -> bool:
        return self.name.endswith(_PART)

    @property
    def abandoned(self) -> bool:
        return self.unfinished and time.time() - self.stat.st_mtime > _ABANDONED


def _open_file(path: str, flags: int) -> int:
    """As `open` does it, without waiting for what is no file. Raises OSError."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no file", path)
    return descriptor


def is_key(name: str) -> bool:
    """Whether a name is one that `key_of` gives."""
    kind, dash, digest = name.partition("-")
    return bool(kind.isalpha() and dash) and len(digest) == _DIGEST and set(digest) <= set("0123456789abcdef")


def _digest(key: str, about: bytes, data: bytes) -> bytes:
    return hashlib.sha256(b"\n".join((key.encode(), about, data))).hexdigest().encode() + b" "
