"""What type checkers are told of the package."""

from __future__ import annotations

import subprocess
import sys
from typing import get_overloads

from vxc.api import authoring

CODE = '''
import vxc

@vxc.jit
def bare(x: object, y: object) -> None:
    """kernel bare(x: f32[N], out y: f32[N]) { y = x; }"""

@vxc.jit(debug=True)
def given(x: object, y: object) -> None:
    """kernel given(x: f32[N], out y: f32[N]) { y = x; }"""

reveal_type(bare)
reveal_type(given)
bare.bind(1)
print(given.name)
'''


def test_jit_has_a_type_for_each_way_to_write_it():
    bare, given = (each.__annotations__ for each in get_overloads(authoring.jit))
    assert (bare["return"], given["return"]) == ("Kernel", "Callable[[Callable[..., Any]], Kernel]")
    assert {*bare} == {*given} == {*authoring.jit.__annotations__}


def test_a_decorated_function_is_a_kernel_to_mypy(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*mypy, str(tmp_path / "mine.py")], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and said.count('Revealed type is "vxc.api.kernels.Kernel"') == 2 and "error" not in said, said
