"""From the typed tree to the flat IR: a plan of kernels at stage=tile and their launches.

`lower` makes a plan of one kernel and one launch. `lower_program` makes one of all that a program calls, in order: its
sizes are computed by entries of the plan, its arrays are workspaces. The grid is 1: mapping to blocks comes later. Statements and
expressions are lowered by the handlers of `lower_stmt` and `lower_expr`, parameters by `lower_signature`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from vxc.frontend.lower_expr import EXPRESSIONS, HOST
from vxc.frontend.lower_signature import Signature
from vxc.frontend.lower_state import Lowering
from vxc.frontend.lower_stmt import STATEMENTS
from vxc.frontend.required import required_steps
from vxc.frontend.typed import Array, Expr, TypedKernel, Var
from vxc.frontend.typed_program import ProgramCall, TypedProgram
from vxc.ir.builder import Builder
from vxc.ir.kernel import Kernel, Operand, Value
from vxc.ir.ops import BACKWARDS, STILL
from vxc.ir.plan import Plan
from vxc.ir.walk import names

HANDLERS = EXPRESSIONS | STATEMENTS


def lower(code: TypedKernel | TypedProgram) -> Plan:
    """The plan of a kernel or program. Raises VxcError (E0232) where a size or scalar of it calls an `extern fn`."""
    return lower_program(code) if isinstance(code, TypedProgram) else lower_kernel(code)


def lower_kernel(kernel: TypedKernel) -> Plan:
    signature = Signature(kernel, _host(kernel))
    body = _body(kernel, kernel.name, signature)
    host = signature.host.out.at(kernel.source.position(kernel.span.start))
    host.emit("launch", 1, *signature.arguments, kernel=kernel.name)
    return Plan(kernel.name, signature.bound, tuple(host.insts), (body,))


def lower_program(program: TypedProgram) -> Plan:
    """Dimensions of the kernels are those of what is passed to them; the plan requires what their signatures say beyond that."""
    host = _host(program)
    signature = Signature(program, host)
    host.buffers.update(signature.buffers)
    for symbol, value in program.lets:
        host.values[symbol] = host.run(value, symbol.name)
    for array in program.locals:
        shape = [host.run(extent) for extent in array.shape]
        host.out.at(program.source.position(array.span.start))
        for d, extent in enumerate(shape):
            if isinstance(extent, Value) and extent not in signature.bound:
                host.out.emit("require", host.out.emit("ge", extent, 0), what=f"dimension {d} of `{array.name}` is 0 or more")
        host.buffers[array] = host.out.declare("workspace", array.name, array.dtype, shape)
    sizes = {extent: held for array, buffer in host.buffers.items() for extent, held in zip(array.shape, buffer.shape)}
    kernels: list[Kernel] = []
    for call in program.calls:
        kernels.append(_launched(call, host, sizes, {kernel.name for kernel in kernels}))
    return Plan(program.name, signature.bound, tuple(host.out.insts), tuple(kernels))


def _host(code: TypedKernel | TypedProgram) -> Lowering:
    """What lowers the entries of a plan."""
    return Lowering(code.source, HOST, Builder(p.name for p in (*code.dims, *code.params)))


def _launched(call: ProgramCall, host: Lowering, sizes: dict[Expr, Operand], taken: set[str]) -> Kernel:
    """The kernel of a call, its launch appended to the plan. `sizes` are extents that the plan has computed."""
    kernel = call.kernel
    given = {p: host.buffers[a] if isinstance(a, Array) else host.run(a) for p, a in zip(kernel.params, call.args)}
    given |= {dim: sizes[size] if size in sizes else host.run(size) for dim, size in zip(kernel.dims, call.dims)}
    place = host.source.position(call.span.start)
    signature = Signature(kernel, Lowering(kernel.source, HOST, host.out, place), given)
    name = next(name for n in count(1) if (name := f"{kernel.name}_{n}" if n > 1 else kernel.name) not in taken)
    body = _body(kernel, name, signature)
    host.out.at(place).emit("launch", 1, *signature.arguments, kernel=name)
    return body


def _body(kernel: TypedKernel, name: str, signature: Signature) -> Kernel:
    body = Lowering(kernel.source, HANDLERS, Builder(names(signature.params)))
    body.values.update(signature.values)
    body.buffers.update(signature.buffers)
    body.required.update(_required(kernel, signature.host))
    for statement in kernel.body:
        body.run(statement)
    return body.out.build(name, signature.params, attrs=kernel.attrs, source=kernel.source)


def _required(kernel: TypedKernel, host: Lowering) -> Iterator[Expr]:
    """Has the plan require what steps must be; gives those steps."""
    said = set()
    for step, known, of_slice, span in required_steps(kernel):
        yield step
        what = step.symbol if isinstance(step, Var) else step
        if (what, of_slice) not in said:
            said.add((what, of_slice))
            holds = host.out.emit("gt" if of_slice else "ne", host.run(known), 0)
            host.out.at(host.place or host.source.position(span.start))
            host.out.emit("require", holds, code="E0735" if of_slice else "E0731", what=BACKWARDS if of_slice else STILL)
