"""What the GPU record says of tests that were skipped."""

from __future__ import annotations

import json

import gpu_check
import pytest

SAID = """
SKIPPED [1] tests/test_api_two_gpus.py:38: needs two GPUs, and there are 1
SKIPPED [2] ../../tests/test_api_two_gpus.py:50: needs two GPUs, and there are 1
SKIPPED [1] tests/test_api_gpu.py:143: Skipped: this jax has no GPU
412 passed, 4 skipped in 90.0s
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a record of no samples, and of several GPUs none."""

    def write(**more: object) -> None:
        path = tmp_path / "gpu.json"
        whole = {"device": "H", "arch": "sm_90a", "passed": 412, "skipped": 4, "failed": 0, "cases": {}, **more}
        path.write_text(json.dumps(whole))
        monkeypatch.setattr(gpu_check, "RECORD", path)
        monkeypatch.setattr(gpu_check, "SEVERAL", tmp_path / "gpu2.json")
        monkeypatch.setattr(gpu_check, "sample_names", lambda: iter(()))

    return write


def test_skipped_tests_are_counted_by_reason():
    assert gpu_check.skips(SAID) == {"needs two GPUs, and there are 1": 3, "this jax has no GPU": 1}
    assert gpu_check.skips("412 passed in 90.0s\n") == {}


def test_what_was_skipped_is_said_with_the_reasons_and_that_two_gpus_have_no_record(written, capsys):
    written(skips=gpu_check.skips(SAID))
    assert gpu_check.fresh() == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "412 GPU tests passed, 0 failed, 4 skipped",
        "skipped 3: needs two GPUs, and there are 1",
        "skipped 1: this jax has no GPU",
        "no record from two GPUs or more: the tests that need them did not run; gpu_check.py --several runs them",
    ]


@pytest.mark.parametrize(
    "changed, status, end",
    [
        ({}, 0, ""),
        ({"key": "another"}, 1, "; stale"),
        ({"code": "another"}, 0, f"; {gpu_check.OLDER}"),
        ({"code": None}, 0, f"; {gpu_check.OLDER}"),
        ({"failed": 1}, 1, ""),
        ({"failed": 1, "code": "another"}, 1, f"; {gpu_check.OLDER}"),
        ({"key": "another", "code": "another"}, 1, f"; stale; {gpu_check.OLDER}"),
    ],
)
def test_a_record_of_several_gpus_counts_where_there_is_one(changed, status, end, written, capsys):
    """With other runtime files it is older, which fails nothing but is said; with other tests, or one that failed, it is no record."""
    written()
    keys = {"key": gpu_check.several_key(), "code": gpu_check.code_key()}
    whole = {"devices": ["H", "H"], "passed": 10, "skipped": 0, "failed": 0, **keys, **changed}
    gpu_check.SEVERAL.write_text(json.dumps({name: value for name, value in whole.items() if value is not None}))
    assert gpu_check.fresh() == status
    assert capsys.readouterr().out.splitlines()[-1] == f"on 2 GPUs 10 tests passed, {whole['failed']} failed, 0 skipped{end}"
    assert (gpu_check.OLDER in gpu_check.markdown_of_several(whole)) == ("code" in changed)


def test_what_launching_on_several_devices_goes_through_is_in_the_key(monkeypatch, tmp_path):
    files = {file.relative_to(gpu_check.ROOT).as_posix() for file in gpu_check.SEVERAL_CODE}
    assert {"vxc/runtime/launches.py", "vxc/runtime/driver.py", "vxc/api/devices.py", "vxc/api/dispatch.py"} <= files
    assert all(file.is_file() for file in gpu_check.SEVERAL_CODE)
    edited = tmp_path / "launches.py"
    edited.write_text("another")
    before = gpu_check.code_key()
    monkeypatch.setattr(gpu_check, "SEVERAL_CODE", (edited, *gpu_check.SEVERAL_CODE[1:]))
    assert gpu_check.code_key() != before


def test_the_readme_counts_samples_that_agreed_and_in_which_nothing_was_found():
    clean, found = {"memcheck": "0 errors", "racecheck": "0 errors"}, {"memcheck": "0 errors", "racecheck": "1 hazard"}
    cases = {"a": (True, clean), "b": (True, found), "c": (False, clean)}
    rows = {name: {"passed": passed, "sanitizer": said} for name, (passed, said) in cases.items()}
    record = {"device": "H", "passed": 5, "failed": 1, "skipped": 2, "skips": {"no jax": 2}, "cases": rows}
    said = " ".join(gpu_check.markdown(record).split())
    assert said.startswith("On H 2 of 3 samples agreed") and "found nothing in 2." in said
    assert said.endswith("5 passed, 1 failed and 2 were skipped (2: no jax).")
