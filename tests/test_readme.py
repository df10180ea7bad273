"""The documentation says what is so: its sessions print what it shows, its Python runs, its tables are those of the code.

`pytest tests/test_readme.py --bless` writes what the commands print now.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.readme_tool import ROOT, fits, printed, refreshed, sessions, workplace
from tests.test_architecture import LAYERS
from vxc.cli.main import COMMANDS
from vxc.dtypes import DTYPES
from vxc.frontend.build import RESERVED
from vxc.frontend.check_attrs import ATTRS
from vxc.frontend.check_calls import BUILTINS
from vxc.pipeline import PASSES
from vxc.runtime.generate import GENERATORS

PAGES = [str(path.relative_to(ROOT)) for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("[a-z]*/README.md")))]
WITH_SESSIONS = [page for page in PAGES if sessions(page)]
FENCED = re.compile(r"```.*?```", re.S)
PYTHON = re.compile(r"^```python( gpu)?\n(.*?)^```", re.M | re.S)


def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def section(page: str, title: str) -> str:
    return re.search(rf"^#+ {title}\n(.*?)(?=^#+ |\Z)", text(page), re.M | re.S)[1]


def table(page: str, title: str) -> list[list[str]]:
    """The rows of the first table of a section, below its head."""
    lines = [line for line in section(page, title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cells) -> list[str]:
    """What stands in backticks."""
    return [word for cell in cells for found in re.findall(r"`([^`]+)`", cell) for word in found.split()]


# ---- sessions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", WITH_SESSIONS)
def test_sessions_are_current(page, bless, tmp_path):
    workplace(page, tmp_path)
    if bless:
        (ROOT / page).write_text(refreshed(page, tmp_path), "utf-8")
        return
    outputs = [(command, shown, printed(command, tmp_path)) for command, shown in sessions(page)]
    wrong = [f"$ {command}\n{actual}" for command, shown, actual in outputs if not fits(shown, actual)]
    assert not wrong, f"{page} shows something else than\n{''.join(wrong)}"


def test_a_session_that_is_not_so_is_noticed():
    assert fits("a\n..\nz\n", "a\nb\nc\nz\n") and fits("a\n..\nz\n", "a\nz\n") and fits("x .. z\n", "x y z\n")
    assert not fits("a\n..\n", "b\na\n") and not fits("a\n", "a\nb\n") and not fits("a .. z\n", "a y\n") and not fits("a.\n", "ab\n")
    assert [command for page in ("README.md", "vxc/README.md", "samples/README.md") for command, _ in sessions(page)]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_in_a_session_or_in_a_table(page):
    """Fenced blocks with a `vxc` command at the start of a line are sessions, so that they are run."""
    for block in FENCED.findall(text(page)):
        assert block.startswith("```\n$ ") or not re.search(r"^vxc ", block, re.M), block


# ---- Python ----------------------------------------------------------------------------------------------------------


def run_python(code: str) -> None:
    """Runs a snippet and compares what it prints with the comments behind its calls of `print`."""
    shown = re.findall(r"^print\(.*\)  # (.+)$", code, re.M)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert shown and fits("".join(f"{line}\n" for line in shown), done.stdout), done.stdout


SNIPPETS = [(page, gpu, code) for page in PAGES for gpu, code in PYTHON.findall(text(page))]


@pytest.mark.parametrize("page, code", [(page, code) for page, gpu, code in SNIPPETS if not gpu])
def test_python_runs(page, code):
    run_python(code)


@pytest.mark.gpu
@pytest.mark.parametrize("page, code", [(page, code) for page, gpu, code in SNIPPETS if gpu])
def test_python_for_the_gpu_runs(page, code):
    run_python(code)


# ---- tables and links ------------------------------------------------------------------------------------------------


def test_links_lead_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", FENCED.sub("", text(page))):
            to = (ROOT / page).parent / target if target else ROOT / page
            assert to.exists(), f"{page} links to {target}"
            if anchor:
                titles = re.findall(r"^#+ (.+)$", to.read_text("utf-8"), re.M)
                anchors = {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}
                assert anchor in anchors, f"{page} links to #{anchor} of {to.name}"


def test_every_page_can_be_reached_from_the_first():
    seen, todo = set(), ["README.md"]
    while todo:
        page = todo.pop()
        if page not in seen:
            seen.add(page)
            links = re.findall(r"\]\(([^)#:]+\.md)", text(page))
            todo += [str(((ROOT / page).parent / link).resolve().relative_to(ROOT)) for link in links]
    assert set(PAGES) <= seen


def test_the_two_commands_of_the_readme():
    blocks = re.findall(r"^```\n(.*?)^```", text("README.md"), re.M | re.S)
    setup = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/vxc run samples/softmax.vx"
    assert f"{setup} -a x=rand:f32[8192,1000] --check\n" in blocks and ".venv/bin/pytest -q\n" in blocks


def test_the_readme_lists_every_command():
    assert [re.match(r"`vxc (\w+)", row[0])[1] for row in table("README.md", "Commands")] == list(COMMANDS)


def test_the_changelog_lists_every_command():
    assert f"The command line: {', '.join(COMMANDS)}.\n" in text("CHANGELOG.md")
    assert f"and {len(PASSES)} passes" in text("CHANGELOG.md")


def test_the_layers_are_those_that_are_enforced():
    listed = [tuple(words(row[:1])) for row in table("vxc/README.md", "Where things are")]
    assert listed == [units for units in LAYERS if units != ("__main__",)]


def test_the_reference_names_every_builtin_attribute_and_type():
    named = {name for word in words(row[1] for row in table("grammar/README.md", "Builtins")) for name in re.findall(r"[A-Za-z_]\w*", word)}
    parts_of_examples = {"as", "axis", "n", "x", "T", "a", "b", "condition", "message", "debug", "label", "values", "seed", "offset"}
    assert named >= BUILTINS and named - BUILTINS == parts_of_examples | {"inf", "nan"}
    attributes = {name for row in table("grammar/README.md", "Attributes") for name in re.findall(r"@(\w+)", row[0])}
    assert attributes == set(ATTRS)
    assert set(DTYPES) == set(words(row[1] for row in table("grammar/README.md", "Types")))
    reserved = re.search(r"Reserved are:\n\n(.*?)\n\n", text("grammar/README.md"), re.S)[1].split()
    assert sorted(reserved) == sorted(RESERVED)


def test_the_tutorial_names_every_way_to_make_an_array():
    assert set(GENERATORS) <= set(re.findall(r"`(\w+):", text("samples/README.md")))


def test_all_samples_of_the_gpu_record_agreed():
    cases = json.loads(text("tools/results/gpu.json"))["cases"]
    assert cases and all(case["passed"] for case in cases.values())


def test_every_tool_is_described():
    tools = {path.name for path in (ROOT / "tools").glob("*.py")}
    assert tools == set(re.findall(r"^## (\w+\.py)", text("tools/README.md"), re.M))
