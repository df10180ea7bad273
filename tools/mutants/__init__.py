"""The planted faults: a row each, in six tables. `tools/mutate.py` plants them one at a time in a copy of the repository and looks
who notices.
"""

from __future__ import annotations

from mutants.layouts import LAYOUTS
from mutants.machines import MACHINES
from mutants.meaning import MEANING
from mutants.memory import MEMORY
from mutants.mutant import Mutant
from mutants.passes import PASSES
from mutants.text import TEXT

MUTANTS: tuple[Mutant, ...] = (*PASSES, *MEMORY, *LAYOUTS, *MEANING, *MACHINES, *TEXT)
