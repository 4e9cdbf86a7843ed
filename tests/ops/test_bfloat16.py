"""bfloat16 in kernels: the same conversions as torch's."""

import numpy as np
import torch

from autocl.ops.bfloat16 import narrow, widen
from autocl.ops.jit import njit


@njit()
def convert(x, bits, back):
    for i in range(len(x)):
        bits[i] = narrow(x[i], bits)
        back[i] = widen(bits[i])


def converted(x):
    bits, back = np.empty(len(x), np.uint16), np.empty(len(x), np.float32)
    convert(x.numpy(), bits, back)
    return torch.from_numpy(bits).view(torch.bfloat16), torch.from_numpy(back)


def test_any_float32_becomes_the_bfloat16_that_torch_makes_of_it():
    patterns = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32)
    x = torch.from_numpy(patterns.view(np.float32))  # of all sizes, with infinities and NaN
    bits, back = converted(x)
    want = x.bfloat16()
    assert torch.equal(bits.isnan(), x.isnan())
    number = ~x.isnan()
    assert torch.equal(bits[number], want[number])
    assert torch.equal(back[number], want.float()[number])


def test_ties_infinities_zeros_and_nan():
    halfway = torch.tensor([0x3F808000, 0x3F818000, 0x7F7FFFFF], dtype=torch.int32).view(torch.float32)
    x = torch.cat([halfway, torch.tensor([np.inf, -np.inf, 0.0, -0.0, 1.0])])
    bits, _ = converted(x)
    assert torch.equal(bits.view(torch.int16), x.bfloat16().view(torch.int16))
    # A NaN whose highest bits alone would be infinity's, and one that rounding would carry over the sign.
    nans = torch.tensor([0x7F800001, 0x7FFFFFFF], dtype=torch.int32).view(torch.float32)
    assert converted(nans)[0].isnan().all()


def test_other_numbers_stay_as_they_are():
    x = torch.randn(100, dtype=torch.float64)
    kept, back = np.empty(100), np.empty(100)
    convert(x.numpy(), kept, back)
    assert np.array_equal(kept, x.numpy())
    assert np.array_equal(back, x.numpy())
