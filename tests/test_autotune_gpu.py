"""Tuning on a device: what cannot run there is left out, what is much slower is dropped, what is wrong is not chosen."""

from __future__ import annotations

import pytest
from tuning_kernels import SCALE, SHARED

import vxc

pytestmark = pytest.mark.gpu
SLOW = """
kernel slow<R: int = 1>(x: f32[N], n: i32[4], out y: f32[N]) {
    @threads(128) grid b in ceildiv(N, 128) {
        parallel t in 128 { let i = b * 128 + t; serial r in R { if i < N { y[i] = x[i] + (n[(i + r) % 4] as f32); } } }
    }
}
example slow(x = rand(f32, 300), n = randint(i32, 0, 1, 4));
"""


@pytest.fixture
def torch(tmp_path, monkeypatch):
    monkeypatch.setenv("VXC_CACHE_DIR", str(tmp_path))  # nothing was tuned before
    return pytest.importorskip("torch")


def said(tuned: vxc.Tuned, value: int) -> str:
    """What the report says of the configuration with this value of the one axis."""
    return next(line for line in tuned.report().splitlines()[2:] if line.split()[0] == str(value))


def test_what_the_device_has_no_room_for_is_left_out(torch):
    copied = vxc.autotune(vxc.kernel(SHARED), S=[32, 128, 1 << 17])
    x = torch.randn(5000, device="cuda")
    assert torch.equal(copied(x), x)
    assert "left out, E0" in said(copied, 1 << 17) and "left out" not in said(copied, 32) + said(copied, 128)
    assert copied.choose(x)._calls.recipe.defines in ((("S", 32),), (("S", 128),))


def test_what_is_much_slower_is_dropped_early(torch):
    slow = vxc.autotune(vxc.kernel(SLOW), R=[1, 20_000])
    x, n = torch.randn(100_000, device="cuda"), torch.zeros(4, dtype=torch.int32, device="cuda")
    assert torch.equal(slow(x, n), x)
    assert "dropped after the first timing" in said(slow, 20_000) and slow.choose(x, n)._calls.recipe.defines == (("R", 1),)


def test_what_is_wrong_on_the_sample_is_not_chosen(torch):
    x, n = torch.randn(1000, device="cuda"), torch.zeros(1000, dtype=torch.int32, device="cuda")
    for factor in (2, 3):
        scale = vxc.autotune(vxc.kernel(SCALE), F=[2, 3], reference=lambda x, n: (n + 1, x * factor))
        assert torch.equal(scale(x, n), x * factor)
    with pytest.raises(vxc.LaunchError, match="E0719: no configuration of `scale` can be chosen"):
        vxc.autotune(vxc.kernel(SCALE), F=[2, 3], reference=lambda x, n: (n + 1, x * 5))(x, n)
    again = vxc.autotune(vxc.kernel(SCALE), F=[2, 3])
    assert torch.equal(again(x, n), x * 2) and int(n[0]) == 3
