"""The part of the driver that launches. `driver.Driver` is built on it.

A launch that is repeated goes to the driver's own function through `ctypes` (*raw*): it takes arguments that were made before as they are,
where that of the bindings makes objects and ints of them, and more of its result, each time, for as much as half a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vxc.diag import VxcError
from vxc.runtime.library import library, reference
from vxc.runtime.parameters import Parameters

Size = tuple[int, int, int]


class Launches:
    """`_cu` are the bindings, `_call` calls one of their functions or raises `VxcError` E0604, which `failed` makes of a status."""

    _cu: Any

    def _call(self, name: str, *arguments: Any) -> Any:
        raise AssertionError("a driver has its own")

    def failed(self, name: str, status: Any) -> VxcError:
        raise AssertionError("a driver has its own")

    def launch(
        self, function: Any, grid: Size, block: Size, shared: int, stream: int, parameters: Parameters, cluster: Sequence[int] = (1, 1, 1),
        early: bool = False,
    ) -> None:  # fmt: skip
        """Enqueues a kernel; sizes in blocks and threads, `shared` the dynamic bytes a block, `early` as in `launch_config`."""
        self._call("cuLaunchKernelEx", self.launch_config(grid, block, shared, stream, cluster, early), function, parameters.address, 0)

    def launch_config(
        self, grid: Size, block: Size, shared: int, stream: int, cluster: Sequence[int] = (1, 1, 1), early: bool = False
    ) -> Any:
        """What a launch says beside its function and parameters, to be used as often as wished. `early`: its blocks may start once those of
        the kernel before it on the stream allow that; it waits by itself until that one has ended.
        """
        config = self._cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes = shared
        config.hStream = stream
        attributes = launch_attributes(self._cu, cluster, early)
        if attributes:
            config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def raw_launch(self) -> Callable[[Any, Any, Any, None], int]:
        """`enqueue(config, function, parameters, None)` launches in the current context, and gives 0 or what `refused` takes. The first two
        are as `raw_config` and `raw_function` give them, `parameters` is a `ctypes.byref` of the `void*[]`.
        """
        return library().cuLaunchKernelEx

    def raw_config(self, grid: Size, block: Size, shared: int, stream: int, early: bool) -> Any:
        config = self.launch_config(grid, block, shared, stream, early=early)
        return reference(config.getPtr(), config)

    def raw_function(self, function: Any) -> Any:
        return reference(int(function), function)

    def refused(self, status: int) -> VxcError:
        """What to raise for a raw launch that failed."""
        return self.failed("cuLaunchKernelEx", self._cu.CUresult(status))


def launch_attributes(bindings: Any, cluster: Sequence[int], early: bool) -> list[Any]:
    """`cluster`: blocks a cluster along x, y and z. `early`: programmatic dependent launch, see `launch_config`."""
    kinds, made = bindings.CUlaunchAttributeID, []
    if tuple(cluster) != (1, 1, 1):
        attribute = bindings.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
        made.append(attribute)
    if early:
        attribute = bindings.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        made.append(attribute)
    return made
