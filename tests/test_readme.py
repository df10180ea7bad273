"""The READMEs' excerpts are what the commands print now; `pytest --bless` rewrites them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = re.compile(r"<!-- \$ (?P<command>.+?) -->\n+(?:```\n.*?\n```\n+)?", re.S)


FENCED = re.compile(r"```.*?```", re.S)


def output(command: str) -> str:
    words = command.split()
    program = [sys.executable, "-m", "vxc"] if words[0] == "vxc" else words[:1]
    return subprocess.run([*program, *words[1:]], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def refreshed(text: str) -> str:
    return COMMAND.sub(lambda m: f"<!-- $ {m['command']} -->\n\n```\n{output(m['command']).rstrip()}\n```\n\n", text)


@pytest.mark.parametrize("page", ["vxc/README.md"])
def test_excerpts_are_current(page, bless):
    path = ROOT / page
    text = path.read_text()
    now = refreshed(text)
    assert COMMAND.search(text), f"{page} has no excerpts"
    if bless:
        path.write_text(now)
    else:
        assert text == now


def test_links_lead_somewhere():
    for page in (*ROOT.glob("*.md"), *ROOT.glob("*/README.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", FENCED.sub("", page.read_text())):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
