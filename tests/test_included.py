"""What a CUDA text reads beside itself: found as NVRTC finds it, and part of a digest; or not to be told."""

from __future__ import annotations

import pytest

from vxc.cuda.included import alone, digest


def test_comments_behind_a_hash_are_read_once():
    comments = "/* */ " * 200  # in every way to split them, it would take for ever
    assert alone(f"#{comments}define A 1") and not alone(f'#{comments}include "a.h"') and alone("# /* */ A */ include")


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.h").write_text('#include "b.h"\n#define A 1\n')
    (tmp_path / "sub" / "b.h").write_text("#define B 1\n")
    return tmp_path


def test_a_text_that_reads_nothing():
    assert digest("return a;") == "" == digest("#include <cuda_fp16.h>\nreturn a;") and alone("return a;")


@pytest.mark.parametrize("name", ["sub/a.h", "sub/b.h"])
def test_a_file_that_is_read_or_that_one_reads_counts(work, name):
    text = '#include "sub/a.h"\nreturn A;'
    before = digest(text)
    assert before and not alone(text)
    (work / name).write_text((work / name).read_text() + "#define C 1\n")
    assert digest(text) != before


def test_names_are_not_part_of_it(work):
    (work / "sub" / "c.h").write_text((work / "sub" / "b.h").read_text())
    assert digest('#include "sub/b.h"') == digest('#  include\t"sub/c.h"') == digest(f'%:include "{work}/sub/b.h"')
    assert digest('#embed "sub/b.h"') == digest('#include "sub/b.h"')


def test_files_that_include_each_other_end(work):
    (work / "sub" / "b.h").write_text('#include "a.h"\n')
    assert digest('#include "sub/a.h"')


def test_a_file_that_comes_to_be_counts(work):
    before = digest('#include "late.h"')
    (work / "late.h").write_text("#define LATE\n")
    assert digest('#include "late.h"') != before


@pytest.mark.parametrize("text", ["#include NAME", "#include <mine.h>", "int t = __LINE__ + sizeof(__TIME__);", "#if __has_include(<x.h>)"])
def test_what_cannot_be_told(work, text):
    assert digest(text) is None
    (work / "sub" / "b.h").write_text(text)
    assert digest('#include "sub/a.h"') is None
