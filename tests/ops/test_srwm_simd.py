"""The register operations of the SRWM kernels, one by one, against numpy."""

import numba
import numpy as np
import pytest

from autocl.ops.srwm import simd

DTYPES = [np.float32, np.float64]


@numba.njit
def exp_all(x, out, width):
    for i in range(0, len(x), width):
        simd.store(out, i, simd.exp(simd.load(x, i)))


@numba.njit
def rearranged(x, out, width):
    """Into out, one after the other: hsum, hmax, hsum4, the four of transpose, broadcast."""
    a, b = simd.load(x, 0), simd.load(x, width)
    c, d = simd.load(x, 2 * width), simd.load(x, 3 * width)
    simd.store(out, 0, simd.hsum(a))
    simd.store(out, width, simd.hmax(a))
    simd.store(out, 2 * width, simd.hsum4(a, b, c, d))
    columns = simd.transpose(a, b, c, d)
    for i in range(4):
        simd.store(out, (3 + i) * width, columns[i])
    simd.store(out, 7 * width, simd.broadcast(x, 1))


@numba.njit
def there_and_back(x, step, packed, out):
    v = simd.gather(x, 0, step)
    simd.store(packed, 0, v)
    simd.scatter(out, 0, step, v)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_is_accurate_to_an_ulp_or_two_and_clamped(dtype):
    width, limit = 32 // dtype().itemsize, 87 if dtype is np.float32 else 708
    x = np.linspace(-limit, limit, 4096).astype(dtype)
    out = np.empty_like(x)
    exp_all(x, out, width)
    want = np.exp(x.astype(np.longdouble))
    assert np.abs(out / want - 1).max() < 2 * np.finfo(dtype).eps
    extreme = np.array([-np.inf, -1e30, 0, 1e30, np.inf, np.nan, 0, 0], dtype)
    out = np.empty_like(extreme)
    exp_all(extreme, out, width)
    assert out[2] == 1
    assert np.isnan(out[5])
    assert (out[:2] > 0).all()
    assert out[0] == out[1] < 1e-37
    assert np.isfinite(out[3:5]).all()
    assert out[3] > 1e37


@pytest.mark.parametrize("dtype", DTYPES)
def test_movements_between_the_quarters(dtype):
    width = 32 // dtype().itemsize
    per_quarter = width // 4
    x = np.random.default_rng(0).normal(size=(4, 4, per_quarter)).astype(dtype)  # [register, quarter, lane]
    out = np.empty((8, 4, per_quarter), dtype)
    rearranged(x.reshape(-1), out.reshape(-1), width)
    np.testing.assert_allclose(out[0], np.tile(x[0].sum(0), (4, 1)), rtol=1e-6)
    np.testing.assert_array_equal(out[1], np.tile(x[0].max(0), (4, 1)))
    np.testing.assert_allclose(out[2], x.sum(1), rtol=1e-5)
    np.testing.assert_array_equal(out[3:7], x.swapaxes(0, 1))
    np.testing.assert_array_equal(out[7], np.tile(x.reshape(-1)[1 : 1 + per_quarter], (4, 1)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_lays_items_side_by_side_and_scatter_undoes_it(dtype):
    items, step = 8 // dtype().itemsize, 7
    x = np.random.default_rng(0).normal(size=items * step).astype(dtype)
    packed, out = np.empty(4 * items, dtype), np.zeros_like(x)
    there_and_back(x, step, packed, out)
    neighbours = x.reshape(items, step)[:, :4]
    np.testing.assert_array_equal(packed.reshape(4, items), neighbours.T)
    np.testing.assert_array_equal(out.reshape(items, step)[:, :4], neighbours)
    assert not out.reshape(items, step)[:, 4:].any()
