"""numba kernels of the combiner of the universal read-out, for one stream: gate, reader, body, marks.

Where loops run over neighbours in memory they become vector instructions. `combiner` and `universal` define
what is computed; tests/readouts/test_compiled.py compares.

Shape legend: E = experts, N = classes, P = prototypes that are examined, S = sharpnesses, C = candidates,
I = inputs, H = hidden units.
"""

import math

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from autocl.ops.jit import njit
from autocl.readouts.combiner import BOUND, CANDIDATES, LOWEST
from autocl.readouts.examination import UNSEEN

_REACH = 6.0


def _normal_distribution() -> np.ndarray:
    """Coefficients of p with Φ(z) = ½ + z p((z / 6)²) for |z| ≤ 6, to seven digits, highest power first.

    A polynomial, unlike `math.erf`, becomes vector instructions.
    """
    u = 0.5 - 0.5 * np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    z = _REACH * np.sqrt(u)
    share = np.array([0.5 * math.erf(x / math.sqrt(2)) for x in z]) / z
    fit = Chebyshev.fit(u, share, 22, domain=[0, 1])
    return fit.convert(kind=Polynomial).coef[::-1].copy()


NORMAL = _normal_distribution()


@njit(nogil=True, error_model="numpy")
def _gelu(a, scratch):
    """a [C, H] <- a Φ(a), in place."""
    C, H = a.shape
    for c in range(C):
        for h in range(H):
            z = min(max(np.float64(a[c, h]), -_REACH), _REACH) / _REACH
            scratch[0, h] = z * z
            scratch[1, h] = NORMAL[0]
        for k in range(1, len(NORMAL)):
            coefficient = NORMAL[k]
            for h in range(H):
                scratch[1, h] = scratch[1, h] * scratch[0, h] + coefficient
        for h in range(H):
            z = min(max(np.float64(a[c, h]), -_REACH), _REACH)
            a[c, h] *= min(max(0.5 + z * scratch[1, h], 0.0), 1.0)


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _affine(x, weight, out):
    """out [C, H] += x [C, I] @ weight [I, H]."""
    C, inputs = x.shape
    H = weight.shape[1]
    for c in range(C):
        for i in range(0, inputs - 3, 4):
            x0, x1, x2, x3 = x[c, i], x[c, i + 1], x[c, i + 2], x[c, i + 3]
            for h in range(H):
                out[c, h] += (
                    x0 * weight[i, h] + x1 * weight[i + 1, h] + x2 * weight[i + 2, h] + x3 * weight[i + 3, h]
                )
        for i in range(inputs - inputs % 4, inputs):
            for h in range(H):
                out[c, h] += x[c, i] * weight[i, h]


@njit(nogil=True, error_model="numpy")
def _strongest(base, chosen):
    """Fill chosen with the classes of highest base score, best first; ties go to the lower number."""
    for c in range(len(chosen)):
        best = -1
        for n in range(len(base)):
            taken = False
            for earlier in range(c):
                taken = taken or chosen[earlier] == n
            if not taken and (best < 0 or base[n] > base[best]):
                best = n
        chosen[c] = best


@njit(nogil=True, error_model="numpy")
def _log_sum(x):
    """Log of the sum of e^x [N]."""
    top = x[0]
    for n in range(1, len(x)):
        top = max(top, x[n])
    total = 0.0
    for n in range(len(x)):
        total += math.exp(x[n] - top)
    return top + math.log(total)


@njit(nogil=True, error_model="numpy")
def combine(scores, seen, share, sharpness, base, said):
    """Fill base [N], said [E, N] with log-probabilities of the gate and of each expert from scores [E, N]."""
    E, N = scores.shape
    for n in range(N):
        base[n] = 0.0
    for e in range(E):
        for n in range(N):
            said[e, n] = sharpness[e] * scores[e, n] if seen[n] else UNSEEN
        total = _log_sum(said[e])
        for n in range(N):
            said[e, n] -= total
            base[n] += share[e] * said[e, n]
    total = _log_sum(base)
    for n in range(N):
        base[n] -= total


@njit(nogil=True, error_model="numpy")
def corrected(base, said, size, reader, bias, fast_last, fast_bias, weights, chosen, work):
    """base [N] <- base with the corrections of reader and body of the strongest candidates, in place."""
    E = len(said)
    C = len(chosen)
    first, second, second_bias, own_part, shared_part, third_bias, last, last_bias = weights
    x, a, h, shared, g, scratch = work
    H = len(bias)
    _strongest(base, chosen)
    strongest = base[chosen[0]]
    next_one = base[chosen[1]] if C > 1 else strongest
    for c in range(C):
        n = chosen[c]
        own = max(base[n], LOWEST)
        rival = max(next_one if base[n] >= strongest else strongest, LOWEST)
        mean = 0.0
        for e in range(E):
            mean += max(said[e, n], LOWEST)
        mean /= E
        square = 0.0
        for e in range(E):
            what = max(said[e, n], LOWEST)
            x[c, e] = (what - own) / 2
            square += (what - mean) ** 2
        x[c, E] = own / 4
        x[c, E + 1] = (own - rival) / 4
        x[c, E + 2] = math.exp(own)
        x[c, E + 3] = size[n]
        x[c, E + 4] = math.sqrt(square / (E - 1)) / 2
        for i in range(H):
            a[c, i] = bias[i]
            h[c, i] = second_bias[i]
            g[c, i] = third_bias[i]
    _affine(x, first, a)
    _gelu(a, scratch)
    _affine(a, second, h)
    for i in range(H):
        shared[0, i] = 0.0
        shared[0, H + i] = 0.0
        a[0, i] = 0.0
    for c in range(C):
        likely = math.exp(max(base[chosen[c]], LOWEST))
        for i in range(H):
            shared[0, i] += h[c, i] / C
            shared[0, H + i] += likely * h[c, i]
    _affine(shared, shared_part, a[:1])
    for c in range(C):
        for i in range(H):
            g[c, i] += a[0, i]
    _affine(h, own_part, g)
    _gelu(g, scratch)
    for c in range(C):
        change = last_bias
        fast = fast_bias[chosen[c]]
        for i in range(H):
            change += g[c, i] * last[i]
            fast += g[c, i] * fast_last[i]
        base[chosen[c]] += BOUND * (reader * math.tanh(change / BOUND) + math.tanh(fast / BOUND))


@njit(nogil=True, error_model="numpy")
def rooms(E, N, H, dtype):
    """Working memory of `corrected`: candidates, and its arrays."""
    C = min(CANDIDATES, N)
    x = np.empty((C, E + 5), dtype)
    a, h, g = np.empty((C, H), dtype), np.empty((C, H), dtype), np.empty((C, H), dtype)
    return np.empty(C, np.int64), (x, a, h, np.empty((1, 2 * H), dtype), g, np.empty((2, H)))


@njit(nogil=True, error_model="numpy")
def marks(left_out, label, weight, seen, loss, accuracy):
    """Fill loss [E, S] and accuracy [E] with weighted means over prototypes; sharpness s is 2 ** s."""
    E, P, N = left_out.shape
    near = np.empty(N)
    for e in range(E):
        accuracy[e] = 0.0
        for s in range(loss.shape[1]):
            loss[e, s] = 0.0
        for p in range(P):
            if weight[p] == 0:
                continue
            best = -1
            for n in range(N):
                if seen[n] and (best < 0 or left_out[e, p, n] > left_out[e, p, best]):
                    best = n
            top = left_out[e, p, best]
            for n in range(N):
                near[n] = math.exp(left_out[e, p, n] - top) if seen[n] else 0.0
            behind = top - left_out[e, p, label[p]]
            for s in range(loss.shape[1]):
                total = 0.0
                for n in range(N):
                    total += near[n]
                    near[n] *= near[n]
                loss[e, s] += weight[p] * (2.0**s * behind + math.log(total))
            accuracy[e] += weight[p] if best == label[p] else 0.0
