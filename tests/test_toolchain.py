"""The toolchain is named by its files, and found without loading NVRTC where the bindings would load that of the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from vxc.cuda import nvrtc, toolchain


def printed(code: str) -> list[str]:
    """What a process of its own prints."""
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def test_it_is_told_by_its_files_and_not_by_its_version_alone(tmp_path):
    (tmp_path / "include").mkdir()
    header, library = tmp_path / "include" / "vector_types.h", tmp_path / "libnvrtc.so.13"
    builtins = tmp_path / "libnvrtc-builtins.so.13.0"
    for path in (header, library, builtins, tmp_path / "libother.so"):
        path.write_bytes(b"text")
        os.utime(path, (1, 1))

    def name() -> str:
        return toolchain.named.__wrapped__(toolchain.Library(str(library), (13, 0)), (str(tmp_path / "include"),))

    first = name()
    assert first.startswith("nvrtc 13.0 files ") and name() == first
    seen = {first}
    for path in (header, library, builtins):
        for change in (lambda path: path.write_bytes(b"patched"), lambda path: os.utime(path, (2, 2))):
            change(path)
            seen.add(name())
    assert len(seen) == 7
    (tmp_path / "libother.so").write_bytes(b"patched")
    assert name() in seen


def test_the_library_in_use_is_found():
    library = Path(nvrtc._library())
    assert library.is_file() and "nvrtc" in library.name


def test_it_is_known_before_nvrtc_is_loaded():
    code = "import sys; from vxc.cuda import nvrtc; print(nvrtc.toolchain()); print('cuda.bindings' in sys.modules)"
    before, imported, after = printed(code + "; nvrtc._nvrtc(); print(nvrtc.toolchain())")
    assert before == after and before.startswith("nvrtc {}.{} files ".format(*nvrtc.nvrtc_version())) and imported == "False"


def test_a_library_that_is_loaded_from_elsewhere_is_the_one_in_use(tmp_path):
    for path in Path(nvrtc._library()).parent.glob("libnvrtc*"):
        shutil.copy(path, tmp_path)
    other = tmp_path / Path(nvrtc._library()).name
    code = f"import ctypes; ctypes.CDLL({str(other)!r}); from vxc.cuda import nvrtc, toolchain; print(toolchain.wheel_library())"
    wheel, library, name = printed(code + "; print(nvrtc._library()); print(nvrtc.toolchain())")
    assert (wheel, library) == ("None", str(other)) and name != nvrtc.toolchain()
