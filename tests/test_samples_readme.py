"""The tutorial of the samples is complete: a paragraph for each, with a line of it to look at and a command that runs it.

That the commands print what is shown is asked in `test_readme.py`.
"""

from __future__ import annotations

import re

import pytest
from cli_tool import SAMPLES

from tests.readme_tool import COMMAND

TEXT = (SAMPLES / "README.md").read_text("utf-8")
PARAGRAPHS = {found[1]: found[0] for found in re.finditer(r"^\*\*\[(\w+)\]\(\1\.vx\)\*\* .*?(?=^\*\*\[|^## |\Z)", TEXT, re.M | re.S)}


def test_every_sample_has_its_paragraph():
    assert sorted(PARAGRAPHS) == sorted(path.stem for path in SAMPLES.glob("*.vx"))
    assert f"tutorial of {len(PARAGRAPHS)} kernels" in TEXT


@pytest.mark.parametrize("name", PARAGRAPHS)
def test_paragraph(name):
    shown = re.search(r"Look at\s`([^`]+)`", PARAGRAPHS[name])
    assert shown and shown[1] in (SAMPLES / f"{name}.vx").read_text("utf-8")
    assert f"samples/{name}.vx" in COMMAND.search(PARAGRAPHS[name])["command"]
