"""What a call from Python would fix that a command leaves open: lengths of rows, and where arrays begin."""

from __future__ import annotations

from vxc.api.compiling import Specialiser, signatures
from vxc.api.host import dense_views
from vxc.api.libraries import view
from vxc.api.specialise import Recipe
from vxc.cli.common import Settings
from vxc.frontend.typed import TypedKernel
from vxc.inputs import Call
from vxc.source import Source


def fixed_by_python(kernel: TypedKernel, source: Source, call: Call, settings: Settings) -> str:
    """A line on the kernel that Python compiles for such arrays, with the options that show it; "" where that is the same one.

    The arrays are taken to begin at multiples of 16 bytes, as what libraries allocate does.
    """
    found, alone = signatures(source)
    signature = next((s for s in found if s.name == kernel.name), None)
    if signature is None or not call.arrays:
        return ""
    recipe = Recipe(source, kernel.name, tuple(sorted(settings.defines.items())), reduce_chunk=settings.reduce_chunk, alone=alone)
    views = dense_views({name: view(array, name) for name, array in call.arrays.items()})
    made = Specialiser(recipe, signature)(views)
    sizes = {name: value for name, value in made.defines if name in {dim.name for dim in kernel.dims}}
    aligned = {name: lies for name, lies in made.aligned if name not in settings.aligned}
    if not sizes and not aligned:
        return ""
    options = [f"-D {name}={n}" for name, n in sizes.items()] + [f"--aligned {name}={str(lies).lower()}" for name, lies in aligned.items()]
    parts = [", ".join(f"{name} = {n}" for name, n in sizes.items())] * bool(sizes) + ["where its arrays begin"] * bool(aligned)
    what = f"a call from Python with these arrays compiles for {' and '.join(parts)}"
    return f"{kernel.name}: {what}; to see that kernel, add {' '.join(options)}"
