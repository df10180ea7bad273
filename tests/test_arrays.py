"""Arrays from outside: views of foreign arrays, generators, `.npy`/`.npz` files, outputs."""

from __future__ import annotations

import os
import stat

import ml_dtypes
import numpy as np
import pytest

from vxc.diag import VxcError
from vxc.dtypes import BF16, DTYPES, F8E5M2, F16, F32, I8, I32
from vxc.runtime.arrays import ArrayView, describe, describe_device, read_argument, save_array, write_file
from vxc.runtime.generate import GENERATORS, generate, special_values


def write_array(path: str, array: np.ndarray) -> None:
    write_file(path, lambda file: save_array(file, array))


class Device:
    """A device array as CuPy or PyCUDA shows it."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"version": 3, "shape": (4, 6), "typestr": "<f4", "data": (4096, False), **interface}


def refused(code, function, *arguments, **more):
    with pytest.raises(VxcError) as caught:
        function(*arguments, **more)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and diagnostic.help
    return diagnostic.message


def test_device_arrays():
    assert describe(Device(), "x") == ArrayView(4096, (4, 6), (6, 1), F32, 4, False, "cuda")
    assert describe(Device(strides=(4, 16), data=(8, True), stream=1), "x") == ArrayView(8, (4, 6), (1, 4), F32, 4, True, "cuda", 1)
    assert describe(Device(shape=(0,), data=(0, False)), "x").size == 0
    assert describe(Device(typestr="<V2"), "x").dtype is None


def test_numpy_arrays_and_what_they_span():
    array = np.zeros((4, 6), np.int32)
    base = array.ctypes.data
    assert describe(array, "x") == ArrayView(base, (4, 6), (6, 1), I32, 4, False, "cpu")
    assert describe(array[::-1, 1::2], "x").strides == (-6, 2)
    assert describe(array[::-1, 1::2], "x").span == (base + 4, base + 96)
    assert describe(array[:, :0], "x").span[0] == describe(array[:, :0], "x").span[1]
    assert describe(np.zeros(3, ml_dtypes.bfloat16), "x").dtype is BF16


def test_torch_tensors_are_read_without_their_interface():
    fake = type("Tensor", (), {
        "__module__": "torch", "dtype": "torch.bfloat16", "is_cuda": True, "shape": (3, 5),
        "data_ptr": lambda self: 64, "stride": lambda self: (1, 3), "element_size": lambda self: 2,
    })  # fmt: skip
    assert describe(fake(), "x") == ArrayView(64, (3, 5), (1, 3), BF16, 2, False, "cuda")


def test_what_is_no_device_array_is_refused():
    assert refused("E0703", describe_device, np.zeros(4), "x") == "argument `x` is a CPU array (numpy.ndarray)"
    assert refused("E0703", describe, [1, 2], "x") == "argument `x` is no array: a list"
    assert "6 bytes" not in refused("E0706", describe, Device(strides=(26, 4)), "x")
    assert "other byte order" in refused("E0704", describe, np.zeros(4, ">f4"), "x")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize("kind", GENERATORS)
def test_generators_make_every_type(kind, dtype):
    arguments = {"full": (1,), "randint": (0, 2)}.get(kind, ())
    array = generate(kind, dtype, (3, 5), arguments, name="x", seed=7)
    assert array.shape == (3, 5) and array.dtype == dtype.numpy
    again = generate(kind, dtype, (3, 5), arguments, name="x", seed=7)
    assert array.tobytes() == again.tobytes()


def test_generated_values():
    draw = generate("rand", F32, (100_000,), name="x", seed=0)
    assert abs(draw.mean()) < 0.02 and abs(draw.std() - 1) < 0.02
    assert not np.array_equal(draw[:9], generate("rand", F32, (9,), name="y", seed=0))
    assert not np.array_equal(draw[:9], generate("rand", F32, (9,), name="x", seed=1))
    assert set(generate("randint", I8, (999,), (-3, 4), name="x", seed=0).tolist()) == set(range(-3, 4))
    assert read_argument("range:i8[2,3]:126", "x", None, seed=0).tolist() == [[126, 127, -128], [-127, -126, -125]]
    assert read_argument("full:f16[2]:1e6", "x", None, seed=0).tolist() == [np.inf, np.inf]
    assert read_argument("zeros:f32[]", "x", None, seed=0).shape == ()


def test_special_values():
    half = special_values(F16).astype(np.float64)
    assert np.isnan(half).any() and {np.inf, -np.inf, 65504.0, 2.0**-24, -(2.0**-14)} <= set(half.tolist())
    assert np.signbit(half[half == 0]).tolist() == [False, True]
    assert special_values(I8).tolist() == [-128, -127, -2, -1, 0, 1, 2, 3, 126, 127]
    assert special_values(DTYPES["f8e4m3"]).astype(np.float32).max(initial=0, where=~np.isnan(special_values(DTYPES["f8e4m3"]))) == 448


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("-0x10", -16), ("007", 7), ("0.125", 0.125), ("1e3", 1000.0), (".5", 0.5), ("-inf", -np.inf),
     ("true", True), ("false", False)],
)  # fmt: skip
def test_numbers(text, value):
    read = read_argument(text, "a", None, seed=0)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("rand:f32", "describes no array"), ("rand:f31[2]", "names no dtype"), ("full:f32[2]", "`full` takes value, not 0 values"),
        ("zeros:f32[2]:1", "takes no arguments, not 1 values"), ("full:i8[2]:300", "300 is no i8"), ("full:i8[2]:x", "invalid literal"),
        ("randint:u8[2]:0:257", "[0, 257) is no range of u8"), ("rand:f32[99999999999999]", "Unable to allocate"),
        ("rand:f32[-1]", "describes no array"),
    ],
)  # fmt: skip
def test_malformed_generators(text, cause):
    assert cause in refused("E0709", read_argument, text, "x", None, seed=0)


def test_an_unknown_kind():
    assert "`blurb` is no kind of array" in refused("E0709", generate, "blurb", F32, (2,), name="x", seed=0)


def test_files_round_trip(tmp_path):
    for dtype in DTYPES.values():
        array = generate("special", dtype, (3, 4), name="x", seed=1)
        write_array(str(tmp_path / "a.npy"), array)
        read = read_argument(str(tmp_path / "a.npy"), "x", dtype, seed=0)
        assert read.dtype == array.dtype and read.tobytes() == array.tobytes()
    assert os.listdir(tmp_path) == ["a.npy"]


def test_layouts_and_archives(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(array))
    np.save(tmp_path / "big.npy", array.astype(">f4"))
    np.savez(tmp_path / "two.npz", p=array, q=array + 1)
    np.savez_compressed(tmp_path / "one.npz", only=array)
    np.save(tmp_path / "bits.npy", array[:2].astype(ml_dtypes.float8_e5m2).view(np.uint8))
    read = {f: read_argument(str(tmp_path / f), "x", F32, seed=0) for f in ("fortran.npy", "big.npy", "two.npz:q", "one.npz")}
    for name, value in read.items():
        assert value.flags.c_contiguous and value.dtype == np.float32 and np.array_equal(value, array + (name == "two.npz:q"))
    assert np.array_equal(read_argument(str(tmp_path / "bits.npy"), "x", F8E5M2, seed=0).astype(np.float32), array[:2])


def test_bad_files(tmp_path):
    np.save(tmp_path / "good.npy", np.arange(100.0))
    data = (tmp_path / "good.npy").read_bytes()
    np.savez(tmp_path / "two.npz", p=1, q=2)
    archive = (tmp_path / "two.npz").read_bytes()
    header = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(127) + b"\n"
    contents = {
        "cut.npy": (data[:300], "could only read 21 elements"), "head.npy": (data[:40], "EOF"),
        "empty.npy": (b"", "neither a .npy nor a .npz"), "text.npy": (b"hello", "neither a .npy nor a .npz"),
        "cut.npz": (archive[:200], "not a zip file"), "huge.npy": (header, "Unable to allocate"),
    }  # fmt: skip
    for name, (written, cause) in contents.items():
        (tmp_path / name).write_bytes(written)
        assert cause in refused("E0710", read_argument, str(tmp_path / name), "x", F32, seed=0), name
    assert "of p, q" in refused("E0710", read_argument, str(tmp_path / "two.npz"), "x", F32, seed=0)
    assert "z is not a file in the archive" in refused("E0710", read_argument, str(tmp_path / "two.npz:z"), "x", F32, seed=0)
    np.save(tmp_path / "objects.npy", np.array([1, "a"], object), allow_pickle=True)
    np.save(tmp_path / "words.npy", np.array(["a"]))
    assert "Object arrays cannot be loaded" in refused("E0710", read_argument, str(tmp_path / "objects.npy"), "x", F32, seed=0)
    assert "are no numbers" in refused("E0710", read_argument, str(tmp_path / "words.npy"), "x", F32, seed=0)
    assert "No such file" in refused("E0710", read_argument, "nowhere.npy", "x", F32, seed=0)
    assert "Is a directory" in refused("E0710", read_argument, str(tmp_path), "x", F32, seed=0)


def test_outputs_are_whole_or_absent(tmp_path):
    path = tmp_path / "y.npy"
    write_array(str(path), np.zeros(3))
    before = path.read_bytes()
    with pytest.raises(ValueError):
        write_array(str(path), np.array([None]))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["y.npy"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    (tmp_path / "link.npy").symlink_to(path)
    write_array(str(tmp_path / "link.npy"), np.ones(3))
    assert (tmp_path / "link.npy").is_symlink() and np.load(path).tolist() == [1, 1, 1]
    write_array(os.devnull, np.ones(3))
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(("path", "cause"), [("nowhere/y.npy", "No such file"), (".", "Is a directory")])
def test_outputs_that_cannot_be_written(tmp_path, path, cause):
    assert cause in refused("E0711", write_array, str(tmp_path / path), np.zeros(3))
