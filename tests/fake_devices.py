"""Several devices in memory, as strict as real ones: `FakeCuda` and `FakeTorch` with a current device for each thread.

What belongs to a device says so: a function the one on which its module was loaded, an address the one where its memory was made, a stream
handle by its hundreds (107 is stream 7 of device 1; 0 is the default one of whichever is current). A launch in which these are not the
current device is refused as CUDA would; so nothing of a call may be of another device than its arrays.
"""

from __future__ import annotations

import contextlib
import ctypes
import pickle
import threading

import numpy as np
from fake_cuda import FakeCuda, FakeTorch, Tensor

from vxc.ir.kernel import Buffer


class Loaded:
    """A kernel of a module on a device."""

    def __init__(self, kernel, device):
        self.kernel, self.device = kernel, device


class FakeDevices(FakeCuda):
    """`ran` has for each launch its device and stream. `archs` are the capabilities."""

    def __init__(self, *archs: tuple[int, int]):
        super().__init__(len(archs))
        self.archs, self.ran, self.refusals, self.places, self._now = archs, [], [], {}, threading.local()

    @property
    def stack(self) -> list[int]:
        """The current devices of this thread, that of the program below those that `active` pushed."""
        if not hasattr(self._now, "stack"):
            self._now.stack = [0]
        return self._now.stack

    def current_device(self):
        return self.stack[-1]

    def make_current(self, device):
        """As the program does, outside of `active`."""
        self.stack[-1] = device

    @contextlib.contextmanager
    def active(self, device):
        self.stack.append(device)
        try:
            yield
        finally:
            assert self.stack.pop() == device

    def capability(self, device):
        return self.archs[device]

    def tensor(self, array: np.ndarray, device: int) -> Tensor:
        """One whose memory is on a device."""
        self.holds(array, device)
        return Tensor(array, device)

    def holds(self, array: np.ndarray, device: int) -> None:
        low, high = np.lib.array_utils.byte_bounds(array)
        self.places[low] = (high, device, array)  # which keeps it: no other array gets its address

    def device_of(self, address):
        if address in self.places:
            return self.places[address][1]
        found = [device for low, (high, device, _) in self.places.copy().items() if low <= address < high]
        assert len(found) == 1, hex(address)
        return found[0]

    def allocate(self, nbytes):
        address = super().allocate(nbytes)
        self.places[address] = (address + max(nbytes, 1), self.current_device(), None)
        return address

    def free(self, address):
        assert self.places.pop(address)[1] == self.current_device(), "freed in the context of another device"
        super().free(address)

    def load(self, cubin):
        self.log.append(f"load on {self.current_device()}")
        return cubin, self.current_device()

    def function(self, module, name):
        cubin, device = module
        assert device == self.current_device(), "a module of another device"
        return Loaded(pickle.loads(cubin)[name], device)

    def _run(self, config, function, address):
        device, stream, kernel = self.current_device(), config[-1], function.kernel
        pointers = self.pointers(kernel, address)
        if {function.device, *map(self.device_of, pointers), *([stream // 100] if stream else [])} != {device}:
            self.refusals.append((device, function.device, stream))
            return "CUDA_ERROR_INVALID_HANDLE"
        status = super()._run(config, kernel, address)
        if not status:
            self.ran.append((device, stream))
        return status

    def pointers(self, kernel, address):
        """The addresses that a launch is given."""
        table = (ctypes.c_void_p * len(kernel.params)).from_address(address)
        return [ctypes.c_uint64.from_address(table[at]).value for at, p in enumerate(kernel.params) if isinstance(p, Buffer)]


class TorchOnDevices(FakeTorch):
    """`streams` has the current stream of each device. The current device is CUDA's."""

    def __init__(self, cuda: FakeDevices):
        super().__init__()
        self.streams = dict.fromkeys(range(cuda.devices), 0)
        self._cuda = cuda
        self._C._cuda_getCurrentRawStream, self._C._cuda_getDevice = self.streams.__getitem__, cuda.current_device
        self._C._dynamo.guards._empty_strided_cuda = self.empty_here

    def empty_here(self, shape, strides, dtype):
        return self.empty_strided(shape, strides, dtype, self._cuda.current_device())

    def empty_strided(self, shape, strides, dtype, device):
        return self._cuda.tensor(np.empty(shape, dtype.vxc.numpy), device)
