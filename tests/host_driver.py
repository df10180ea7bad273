"""A driver whose device memory is host memory and whose kernels, those of test_launch.py, are Python."""

from __future__ import annotations

import contextlib
import ctypes
import itertools

import numpy as np


class HostDriver:
    """Device memory is host memory, kernels are Python, and `log` says in which order things happened."""

    def __init__(self):
        self.log, self.memory, self.addresses = [], {}, itertools.count(1)

    def _new(self, nbytes):
        buffer = (ctypes.c_char * max(nbytes, 1))()
        self.memory[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    @contextlib.contextmanager
    def active(self, device):
        yield

    def device_of(self, address):
        return 0

    def current_device(self):
        return 0

    def allocate(self, nbytes):
        return self._new(nbytes)

    def allocate_async(self, nbytes, stream):
        self.log.append(f"allocate {nbytes} on {stream}")
        return self._new(nbytes)

    def free(self, address):
        del self.memory[address]

    def free_async(self, address, stream):
        self.log.append(f"free on {stream}")
        del self.memory[address]

    def upload(self, address, array):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def synchronize(self, stream):
        self.log.append(f"synchronize {stream}")

    def wait(self, stream, producer):
        self.log.append(f"{stream} waits for {producer}")

    def load(self, cubin):
        self.log.append("load")
        return cubin

    def function(self, module, name):
        return name

    def launch(self, function, grid, block, shared, stream, parameters, early=False):
        self.log.append(f"{function} {grid[0]}x{block[0]} on {stream}{' early' * early}")
        _, *values = parameters.values
        if function == "scale":
            n, x, a, w = (v.value for v in values)
            self._floats(w, n)[:] = self._floats(x, n) * np.float32(a)
        else:
            k, w, y = (v.value for v in values)
            self._floats(y, k)[:] = self._floats(w, k + 1)[1:]

    @staticmethod
    def _floats(address, count):
        return np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)
