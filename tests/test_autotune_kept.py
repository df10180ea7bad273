"""What is tuned over, and what is kept of it: axes and constraints, the cache, records; without a GPU."""

from __future__ import annotations

import json

import pytest
from tuning_kernels import SCALE, SUM, arguments, timings, tuned

import vxc

# ---- axes and constraints --------------------------------------------------------------------------------------------


def configurations(kernel=SCALE, axes=None, **options) -> list[str]:
    return list(map(str, vxc.autotune(vxc.kernel(kernel), axes or {}, **options)._configs))


def test_every_combination_in_the_order_given():
    assert configurations(B=[64, 32], F=[2, 3]) == ["B=64 F=2", "B=64 F=3", "B=32 F=2", "B=32 F=3"]
    assert configurations(axes={"B": [64]}, maxrregcount=[32, 64]) == ["B=64 maxrregcount=32", "B=64 maxrregcount=64"]


def test_knobs_become_options_of_the_kernel(gpu):
    scale = vxc.autotune(vxc.kernel(SCALE), maxrregcount=[40], reduce_chunk=[8])
    scale(*arguments())
    recipe = scale.choose(*arguments())._calls.recipe
    assert (recipe.maxrregcount, recipe.reduce_chunk, recipe.defines) == (40, 8, ())


def test_constraints_are_expressions_or_functions():
    assert configurations(B=[32, 64], F=[2, 3], where="B * F <= 128") == ["B=32 F=2", "B=32 F=3", "B=64 F=2"]
    assert configurations(B=[32, 64], F=[2, 3], where=["B * F > 64", lambda F: F == 2]) == ["B=64 F=2"]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"A": [1]}, "`scale` has no generic `A`; there are `B`, `F`, `maxrregcount`, `reduce_chunk`"),
        ({"maxregcount": [1]}, "`scale` has no generic `maxregcount`; did you mean `maxrregcount`?"),
        ({"B": []}, r"axis `B` is given \[\]; give it the values to try"),
        ({"B": 64}, "axis `B` is given 64; give it the values to try"),
        ({"B": "64"}, "axis `B` is given '64'; give it the values to try"),
        ({"maxrregcount": [0]}, "axis `maxrregcount` is given 0; give it positive ints"),
        ({"reduce_chunk": [0, -1]}, "axis `reduce_chunk` is given -1; give it ints of at least 0, which stands for a whole row"),
        ({"B": [32], "where": "B < "}, "the constraint `B < ` is no expression: invalid syntax"),
        ({"B": [32], "where": "C < 3"}, "the constraint `C < 3` asks for `C`, which is no axis; the axes are B"),
        ({"B": [32], "where": lambda C: True}, "a constraint asks for `C`, which is no axis"),
        ({"B": [32], "where": [7]}, "a constraint is 7; give a text"),
        ({"B": [32], "where": "B > 32"}, "no combination of values for `scale` satisfies all constraints"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(options, said):
    with pytest.raises(vxc.LaunchError, match="E0719: " + said):
        vxc.autotune(vxc.kernel(SCALE), **options)


def test_values_are_of_the_kind_of_their_generic():
    with pytest.raises(vxc.CompileError, match="E0218"):
        vxc.autotune(vxc.kernel(SCALE), B=["f32"])
    with pytest.raises(TypeError, match="what vxc.autotune tunes is a vxc kernel, not function"):
        vxc.autotune(lambda: 0, B=[1])


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_a_second_process_finds_it_in_the_cache(gpu, folder):
    tuned()(*arguments())
    assert timings(gpu)
    again = tuned()
    again(*arguments())
    assert not timings(gpu) and "B=64, 1.0000 ms; from the cache" in again.report()


@pytest.mark.parametrize("change", ["text", "axes", "device", "versions", "fixed"])
def test_what_a_choice_follows_from_is_its_key(gpu, folder, monkeypatch, change):
    tuned()(*arguments())
    timings(gpu)
    text, axes, kernel = SCALE, {"B": [32, 64, 128]}, {}
    if change == "text":
        text = text.replace("rand(f32, 50)", "rand(f32, 51)").replace("0, 9, 50", "0, 9, 51")
    elif change == "axes":
        axes["B"] = [32, 64]
    elif change == "device":
        gpu.device_name = lambda device: "Another"
    elif change == "versions":
        monkeypatch.setattr("vxc.api.tune_record.toolchain", lambda: "nvrtc 99.0 headers x")
    else:
        kernel["maxrregcount"] = 64
    vxc.autotune(vxc.kernel(text, **kernel), **axes)(*arguments())
    assert timings(gpu)


def included(path) -> str:
    """The kernel with an `extern fn` whose text includes a file."""
    text = f'extern fn twice(a: f32) -> f32 = "\\n#include \\"{path}\\"\\nreturn TWICE(a);" {{ return a * 2.0; }}\n'
    return text + SCALE.replace("(F as f32) * x[i]", "twice(x[i])")


def test_what_an_extern_fn_includes_is_part_of_the_key(gpu, folder):
    outer, inner = folder / "outer.h", folder / "inner.h"
    outer.write_text('#include "inner.h"\n')
    inner.write_text("#define TWICE(a) a * 2.0f\n")

    def tuned_again() -> bool:
        vxc.autotune(vxc.kernel(included(outer)), B=[32, 64])(*arguments())
        return bool(timings(gpu))

    assert tuned_again() and not tuned_again()
    inner.write_text("#define TWICE(a) a + a\n")
    assert tuned_again() and not tuned_again()


def test_a_record_made_with_another_included_file_is_left_out(gpu, folder):
    header, path = folder / "outer.h", folder / "scale.json"
    header.write_text("#define TWICE(a) a * 2.0f\n")
    first = vxc.autotune(vxc.kernel(included(header)), B=[32, 64])
    first(*arguments())
    first.export(path)
    assert vxc.autotune(vxc.kernel(included(header)), B=[32, 64]).load(path) == 1
    header.write_text("#define TWICE(a) a + a\n")
    assert vxc.autotune(vxc.kernel(included(header)), B=[32, 64]).load(path) == 0


def test_a_choice_for_a_text_that_reads_what_cannot_be_told_is_not_kept(gpu, folder):
    text = included("nothing.h").replace("#include", "#define HERE __DATE__\\n#include")
    for _ in range(2):
        vxc.autotune(vxc.kernel(text), B=[32, 64])(*arguments())
        assert timings(gpu)


def test_without_a_cache_each_process_tunes(gpu):
    tuned()(*arguments())
    timings(gpu)
    tuned()(*arguments())
    assert timings(gpu)


def test_a_record_runs_tuned_without_tuning(gpu, tmp_path):
    first, path = tuned(), tmp_path / "scale.json"
    first(*arguments())
    first.export(path)
    timings(gpu)
    second = tuned(record=path)
    second(*arguments())
    assert not timings(gpu) and f"B=64, 1.0000 ms; from {path}" in second.report()
    assert second.compile((50,), (50,), target="sm_90a").ir().count("threads=64") == 1
    second.export(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(path.read_text())


def test_a_record_that_is_missing_is_begun(gpu, tmp_path):
    scale = tuned(record=tmp_path / "none.json")
    scale(*arguments())
    assert timings(gpu)


def test_entries_of_other_kernels_and_configurations_are_left_out(gpu, tmp_path):
    first, path = tuned(), tmp_path / "scale.json"
    first(*arguments())
    first.export(path)
    assert tuned().load(path) == 1
    assert vxc.autotune(vxc.kernel(SCALE), B=[32, 128]).load(path) == 0
    assert vxc.autotune(vxc.kernel(SUM), L=[1]).load(path) == 0


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "no record of tuned kernels"), ("{", "no record"), ("[" * 100_000, "no record .*recursion"),
        ("[]", r"the file is \[\], and is to be an"),
        ('{"vxc_tuned": 1, "entries": []}', "it is of format 1, and this vxc reads 2"), ("{}", "it is of format None"),
        ('{"vxc_tuned": 2, "entries": [7]}', r"the file.entries\[0\] is 7, and is to be an object"),
        ('{"vxc_tuned": 2, "entries": [{}]}', r"the file.entries\[0\] lacks `kernel`"), ('{"vxc_tuned": 2}', "the file lacks `entries`"),
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_refused(tmp_path, text, said):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(vxc.LaunchError, match="E0710: cannot read .*bad.json: .*" + said):
        tuned().load(path)


@pytest.mark.parametrize(
    "place, value, said",
    [
        (("rows", 0, "milliseconds"), "a", r"rows\[0\].milliseconds is 'a', and is to be null or a number of 0 or more"),
        (("rows", 0, "milliseconds"), [1], r"milliseconds is \[1\]"),
        (("rows", 0, "milliseconds"), -1, "milliseconds is -1"),
        (("rows", 0, "milliseconds"), float("nan"), "milliseconds is nan"),
        (("rows", 0, "milliseconds"), float("inf"), "milliseconds is inf"),
        (("rows", 0, "milliseconds"), 10**400, "milliseconds is 1000"),
        (("rows", 0, "milliseconds"), True, "milliseconds is True"),
        (("rows", 1, "said"), None, r"rows\[1\].said is None, and is to be a text"),
        (("rows", 1, "config"), {"A": 1}, "rows are not all of the axes of what is chosen"),
        (("rows", 1, "config"), {"B": 1.5}, r"rows\[1\].config.B is 1.5, and is to be a number or a name"),
        (("rows",), [], "chosen is {'B': 64}, which is the configuration of no row"),
        (("rows",), {}, "rows is {}, and is to be a list"),
        (("chosen",), {"B": 65}, "the configuration of no row"),
        (("versions",), {"vxc": 1}, "versions.vxc is 1, and is to be a text"),
        (("more",), 1, "has an unknown `more`"),
    ],
)
def test_a_record_edited_by_hand_is_checked_before_it_is_used(gpu, tmp_path, place, value, said):
    first, path = tuned(), tmp_path / "scale.json"
    first(*arguments())
    first.export(path)
    data = json.loads(path.read_text())
    *before, last = place
    held = data["entries"][0]
    for step in before:
        held = held[step]
    held[last] = value
    path.write_text(json.dumps(data))
    with pytest.raises(vxc.LaunchError, match=r"E0710: cannot read .*\(the file.entries\[0\].*" + said):
        tuned().load(path)
    with pytest.raises(vxc.LaunchError, match="E0710: "):
        tuned(record=path)


def test_a_record_that_cannot_be_written_is_said(gpu, tmp_path):
    with pytest.raises(vxc.LaunchError, match="E0711"):
        tuned().export(tmp_path / "none" / "x.json")


def test_compiling_ahead_needs_something_known():
    with pytest.raises(vxc.LaunchError, match="E0719: `scale` was not tuned for .* on sm_90a; call it .* or `load` a record"):
        tuned().compile((50,), (50,), target="sm_90a")
    assert tuned().report() == "scale: not called yet" and "3 configurations" in repr(tuned())


def test_a_bar_says_what_is_best_so_far(gpu, monkeypatch, capsys):
    said = []

    class Bar:
        def __enter__(self):
            return lambda more, text="": said.append(text)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("vxc.api.tuning.progress", lambda text, total: said.append((text, total)) or Bar())
    tuned()(*arguments())
    assert said == [("tuning scale", 3), "3.0000 ms by B=32", "1.0000 ms by B=64", "1.0000 ms by B=64"]
