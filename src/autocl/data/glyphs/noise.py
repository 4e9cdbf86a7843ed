"""Random numbers as a pure function of their keys, for whole arrays of keys at once."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the input changes half of the output's."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(keys: tuple[npt.ArrayLike, ...], count: int) -> Floats:
    """Uniform numbers in [0, 1).

    Args:
        keys: integers or int arrays that broadcast to [n]: what the numbers depend on, and all they do.
        count: numbers per key.

    Returns:
        float32 [n, count].
    """
    state = np.zeros(1, np.uint64)
    for key in keys:
        state = _mix(state + np.atleast_1d(np.asarray(key)).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (_mix(state[:, None] + steps) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def normals(keys: tuple[npt.ArrayLike, ...], count: int) -> Floats:
    """Standard normal numbers; arguments and shape as for `uniforms`."""
    pairs = (count + 1) // 2
    u = uniforms(keys, 2 * pairs)
    radius = np.sqrt(-2 * np.log(1 - u[:, :pairs]))
    angle = 2 * np.pi * u[:, pairs:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :count].astype(np.float32)
