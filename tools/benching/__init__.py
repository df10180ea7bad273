"""The parts of `tools/bench.py`: cases, peers, timing, the record and what is made of it. Only peers and timing need a GPU's libraries.

`ending` serves the other tools, too, and `orders` is of `reduce_sweep.py`. Whoever imports any of it is told here, in one line, of a
Python in which vxc, or what it is built on, is not installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_ABSENT = [name for name in ("vxc", "lark", "numpy", "ml_dtypes") if find_spec(name) is None]
if _ABSENT:
    _HINT = "make an environment: python3 -m venv .venv && .venv/bin/pip install -e '.[test]', then run this with .venv/bin/python"
    print(f"{Path(sys.argv[0]).name}: {sys.executable} has no {', no '.join(_ABSENT)}; {_HINT}", file=sys.stderr)
    sys.exit(4)
