"""The grammar file: its table, its callbacks, and that they are shipped."""

from __future__ import annotations

import tomllib
from pathlib import Path

import lark
import pytest

from vxc import grammars
from vxc.frontend.build import Build
from vxc.frontend.parse import TABLES, dump, parse, parser
from vxc.source import Source

ROOT = Path(__file__).parent.parent
EXERCISES = sorted((Path(__file__).parent / "parse").glob("*.vx"))


@pytest.mark.parametrize("name", TABLES)
def test_the_table_is_fresh(name):
    """If this fails: python -m vxc.frontend.parse"""
    stamp = grammars.stamp(name, TABLES[name])
    assert (grammars.FOLDER / f"{name}.table").read_bytes().startswith(stamp + b"\n")


def test_the_table_parses_as_the_grammar_does():
    text, starts = (grammars.FOLDER / "vx.lark").read_text(encoding="utf-8"), grammars.STARTS["vx"]
    built = lark.Lark(text, parser="lalr", start=starts, keep_all_tokens=True, transformer=Build())
    for path in EXERCISES:
        source = Source(path.name, path.read_text(encoding="utf-8"))
        items = built.parse(source.text, "start")
        assert [dump(item) for item in items] == [dump(item) for item in parse(source).items]


def test_every_callback_belongs_to_a_rule():
    rules = {str(rule.alias or rule.origin.name) for rule in parser().rules}
    callbacks = {name for name in vars(Build) if not name.startswith("_")}
    assert callbacks <= rules


def test_the_wheel_holds_every_package_and_the_grammar():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    packages = {".".join(path.parent.relative_to(ROOT).parts) for path in ROOT.glob("vxc/**/__init__.py")}
    assert set(settings["packages"]) == packages | {"vxc.grammar"}
    assert settings["package-dir"] == {"vxc.grammar": "grammar"}
