"""The shape of the code: who may import whom, what works without a GPU, how long files are, and tables that must be total."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from vxc.codes import CODES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "vxc"
LONGEST, WIDEST = 350, 140  # lines of a file, columns of a line
OPTIONAL = ("cuda", "pycuda", "numpy", "ml_dtypes", "click", "rich", "platformdirs", "torch")  # may be imported where they are used

# A unit (a module or folder of vxc) imports only from layers above it in this list: from what is further down the stack.
LAYERS = (
    ("record",),
    ("source", "dtypes", "grammars", "codes", "progress", "collector"),
    ("diag", "semantics"),
    ("target", "layout", "cache"),
    ("ir",),
    ("binding",),
    ("schedule", "register_cap"),
    ("frontend", "analysis"),
    ("pass_manager",),
    ("passes", "interp", "cuda"),
    ("pipeline",),
    ("driver",),
    ("runtime",),
    ("inputs",),
    ("diff", "explain"),
    ("api",),
    ("fuzz",),
    ("cli",),
    ("__main__",),
)
LEVEL = {unit: level for level, units in enumerate(LAYERS) for unit in units}
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def imports(nodes) -> set[str]:
    """The modules that import statements name; `from package import module` counts as the module."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (members & set(MODULES)) | ({node.module} if members - set(MODULES) else set())
            found |= members if node.module.startswith("cuda") else set()
    return found


def unit(module: str) -> str:
    return module.split(".")[1]


UNITS = sorted({unit(module) for module in MODULES if module != "vxc"})


@pytest.mark.parametrize("name", UNITS)
def test_imports_point_down(name):
    assert name in LEVEL, f"give vxc/{name} its place in LAYERS"
    for module in MODULES:
        if module != "vxc" and unit(module) == name:
            for target in imports(ast.walk(tree(module))):
                if target.startswith("vxc.") and unit(target) != name:
                    assert LEVEL[unit(target)] < LEVEL[name], f"{module} imports {target}"


def test_no_module_imports_itself_through_others():
    TopologicalSorter({m: imports(ast.walk(tree(m))) & set(MODULES) - {m} for m in MODULES}).prepare()


def test_only_optional_packages_are_imported_inside_functions():
    allowed = {
        ("vxc.diff", "vxc.runtime.launch"),  # what compares on a GPU also works without one
        ("vxc.diag", "difflib"),  # once something is wrong
        ("vxc.semantics.floats", "fractions"),  # of very large and very small numbers alone
        ("vxc.driver", "vxc.ir.reader"),  # IR as text
        ("vxc.__main__", "vxc.cli.main"),  # an interrupt meanwhile is no traceback
        ("vxc.api.compiling", "vxc.api.building"),  # the compiler, of which a call that is in the cache has no need
        ("vxc.api.compiling", "vxc.driver"),  # the same, for type checkers
        ("vxc.api.calls", "vxc.driver"),
        ("vxc.api.families", "vxc.driver"),
        ("vxc.api.ahead", "vxc.driver"),
        ("vxc.api.ahead", "vxc.api.shown"),  # remarks and printed IR
        ("vxc.api.dispatch", "vxc.api.host"),  # the interpreter
        ("vxc.api.tuned", "vxc.api.tune_check"),
        ("vxc.api.tuned", "vxc.api.tuning"),  # compiler and interpreter, where nothing is known yet
        ("vxc.api.tune_record", "vxc.api.building"),  # what an `extern fn` reads
        ("vxc.api.kernels", "vxc.api.torch_ops"),  # sizes of what the compiler has checked
        ("vxc.api.tuned", "vxc.api.torch_ops"),
    }
    for module in MODULES.keys() - {"vxc"}:  # which names what it offers for type checkers only
        inner = imports(ast.walk(tree(module))) - imports(tree(module).body)
        late = {name for name in inner if name.split(".")[0] not in OPTIONAL}
        assert {(module, name) for name in late} <= allowed


@pytest.mark.parametrize(
    "package, home", [("pycuda", "vxc.runtime"), ("cuda.bindings.driver", "vxc.runtime"), ("cuda.bindings.nvrtc", "vxc.cuda.nvrtc")]
)
def test_gpu_packages_have_one_home(package, home):
    users = {m for m in MODULES if any(f"{name}.".startswith(f"{package}.") for name in imports(ast.walk(tree(m))))}
    assert users and all(f"{user}.".startswith(f"{home}.") for user in users), users


SOURCES = sorted(path for folder in ("vxc", "tools", "tests", "samples") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_what_is_imported_is_used(path):
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    found = (n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)) and getattr(n, "module", "") != "__future__")
    bound = {(alias.asname or alias.name).split(".")[0] for n in found for alias in n.names}
    exported = [n.value.elts for n in nodes if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__"]
    used = {n.id for n in nodes if isinstance(n, ast.Name)} | {name.value for names in exported for name in names}
    assert sorted(bound - used) == []


WITHOUT_GPU = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cuda", "pycuda"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
import numpy as np
import vxc
compiled = vxc.compile(vxc.Source("k.vx", "kernel k(x: f32[N], out y: f32[N]) { parallel i in N { y[i] = x[i] + x[i]; } }"))
from vxc.interp.flat_interp import run_flat
print(run_flat(compiled.plan, {"x": np.ones(3, np.float32)}, {})["y"].tolist(), "__global__" in compiled.cuda)
try:
    compiled.binary
except vxc.VxcError as error:
    print(error.diagnostics[0].code)
"""


def test_everything_but_machine_code_works_without_cuda_packages():
    run = subprocess.run([sys.executable, "-c", WITHOUT_GPU], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (run.stdout, run.stderr) == ("[2.0, 2.0, 2.0] True\nE0601\n", "")


def test_importing_vxc_imports_nothing_heavy():
    code = "import sys, vxc; print(sorted({'numpy', 'lark', 'click', 'rich', 'cuda', 'pycuda'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60).stdout == "[]\n"


PATTERNS = ("vxc/**/*.py", "vxc/**/*.cuh", "tests/*.py", "tools/**/*.py", "samples/*.py")
TEXTS = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_finished(path):
    text = path.read_text("utf-8")
    lines = text.splitlines()
    assert len(lines) <= LONGEST
    assert [number for number, line in enumerate(lines, 1) if len(line) > WIDEST or line != line.rstrip()] == []
    if path.suffix == ".py" and text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module says what it is"
    assert path == Path(__file__) or not re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", text)


LONG = 60  # lines of a function


@pytest.mark.parametrize("module", MODULES)
def test_functions_are_short(module):
    functions = [node for node in ast.walk(tree(module)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [node.name for node in functions if node.end_lineno - node.lineno >= LONG] == []


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_every_code_is_reported_somewhere():
    """test_codes.py gives each of them."""
    own = PACKAGE / "codes.py"
    texts = (path.read_text("utf-8") for path in PACKAGE.rglob("*.py") if path != own)
    assert sorted({code for text in texts for code in re.findall(r'"([EWN]\d{4})"', text)} ^ set(CODES)) == []
