"""Sessions shown in the documentation: fenced blocks in which each line that begins with `$ ` is a command and what follows it
is what the command prints.

    $ vxc check samples/softmax.vx
    samples/softmax.vx: softmax: ok

`..` in a line stands for anything, a line of `..` for any number of lines. What a failing command says on standard error counts
as printed, too. A block of kernel text that begins with `# name.vx` is a file of that name for the commands of its page.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli_tool import vxc

ROOT = Path(__file__).parent.parent
SESSION = re.compile(r"^```\n(?P<text>\$ .*?\n)```$", re.M | re.S)
COMMAND = re.compile(r"^\$ (?P<command>.+)\n(?P<shown>(?:(?!\$ ).*\n)*)", re.M)
FILE = re.compile(r"^```vx\n(?P<text># (?P<name>\w+\.vx)\b.*?)^```$", re.M | re.S)
ANY = ".."


class Shown(NamedTuple):
    """A command of a page and what the page says that it prints."""

    command: str
    shown: str


def sessions(page: str) -> list[Shown]:
    text = (ROOT / page).read_text("utf-8")
    return [Shown(found["command"], found["shown"]) for session in SESSION.finditer(text) for found in COMMAND.finditer(session["text"])]


def workplace(page: str, folder: Path) -> None:
    """Makes the folder one in which the commands of a page work: the repository's entries, and the files that the page shows."""
    for entry in ROOT.iterdir():
        (folder / entry.name).symlink_to(entry)
    for found in FILE.finditer((ROOT / page).read_text("utf-8")):
        (folder / found["name"]).write_text(found["text"], "utf-8")


def printed(command: str, folder: Path) -> str:
    """What a command prints in a folder."""
    program, *arguments = shlex.split(command)
    if program == "vxc":
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            status, out, err, _ = vxc(*arguments)
    else:
        program = sys.executable if program == "python" else program
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([program, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
        status, out, err = done.returncode, done.stdout, done.stderr
    return out if status == 0 else out + err


def fits(shown: str, actual: str) -> bool:
    """Whether a text is what is shown."""

    def pattern(line: str) -> str:
        return r"(?:.*\n)*?" if line == ANY else ".*".join(map(re.escape, line.split(ANY))) + r"\n"

    return re.fullmatch("".join(map(pattern, shown.splitlines())), actual) is not None


def refreshed(page: str, folder: Path) -> str:
    """The page with what its commands print now, where that is another thing than it shows; a shown `..` line is not kept."""

    def command(found: re.Match) -> str:
        actual = printed(found["command"], folder)
        return found[0] if fits(found["shown"], actual) else f"$ {found['command']}\n{actual}"

    def session(found: re.Match) -> str:
        return f"```\n{COMMAND.sub(command, found['text'])}```"

    return SESSION.sub(session, (ROOT / page).read_text("utf-8"))
