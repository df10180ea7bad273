"""Compiling the Triton kernels of a case ahead: one case takes about a second, which processes of their own share."""

from __future__ import annotations

from benching.cases import Case, Kernel


def compile_triton(case: Case, kernel: Kernel) -> None:
    """Puts every configuration into Triton's cache on disk; nothing is launched. What fails, fails in its turn."""
    try:
        from benching.peers import PEERS
        from benching.timing import arrays
        from benching.triton_kernels import compiling_only

        inputs = list(arrays(case, kernel).inputs.values())
        with compiling_only():
            PEERS["triton"](case, inputs)()
    except Exception:  # the case is run later all the same, and says there what is wrong
        return
