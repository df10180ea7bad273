"""The tutorial of the samples: complete, and every command in it works."""

from __future__ import annotations

import re

import pytest

from tests.cli_tool import SAMPLES, vxc

PARAGRAPH = re.compile(r"^\*\*\[(\w+)\]\((\w+\.vx)\)\*\* .+?\n\n    vxc ([^\n]+)\n", re.M | re.S)
PARAGRAPHS = PARAGRAPH.findall((SAMPLES / "README.md").read_text("utf-8"))


def test_every_maths_kernel_has_its_paragraph():
    code = {path.name: re.sub("#.*", "", path.read_text("utf-8")) for path in SAMPLES.glob("*.vx")}
    maths = {name for name, text in code.items() if not re.search(r"\b(grid|program)\b", text)}
    assert maths <= {file for _, file, _ in PARAGRAPHS} <= set(code)


@pytest.mark.parametrize("name, file, command", PARAGRAPHS, ids=[name for name, _, _ in PARAGRAPHS])
def test_command(name, file, command, monkeypatch):
    monkeypatch.chdir(SAMPLES.parent)
    assert file == f"{name}.vx" and f"samples/{file} " in f"{command} "
    result = vxc(*command.split())
    assert result.status == 0, result.err
    assert result.out or result.err
