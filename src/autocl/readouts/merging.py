"""numba kernels of a memory: mergers in a full one, and clusters of its prototypes.

`autocl.readouts.memory` defines the mergers, scipy's Ward linkage the clusters;
tests/readouts/test_compiled.py compares.

Shape legend: T = demos, M = prototypes, D = dimensions, R = reaches.
"""

import math

import numpy as np

from autocl.ops.jit import njit


@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def merge_cost(p, w, q, v):
    """Scatter that a merger of two prototypes p, q [D] of weights w, v adds."""
    distance = p.dtype.type(0)
    for d in range(len(p)):
        step = p[d] - q[d]
        distance += step * step
    return distance * (w * v / (w + v))


@njit(nogil=True, error_model="numpy")
def _merge(prototype, weight, scatter, i, x, n, row):
    """Let prototype i stand for n more demos, whose mean is x [D]; n is of the memory's type. In place.

    What this adds to the scatter is the outer product of `row` [D].
    """
    total = weight[i] + n
    spread = weight[i] * n / total
    share = n / total
    step = x - prototype[i]
    for a in range(len(x)):
        part, line = spread * step[a], scatter[a * (a + 1) // 2 :]
        for b in range(a + 1):
            line[b] += part * step[b]
    length = math.sqrt(spread)
    for a in range(len(x)):
        prototype[i, a] += step[a] * share
        row[a] = length * step[a]
    weight[i] = total


@njit(nogil=True, error_model="numpy")
def _closest(cost, label, i):
    """The prototype that costs least to merge with i, or -1."""
    best = -1
    for j in range(len(label)):
        if label[j] == label[i] and j != i and (best < 0 or cost[i, j] < cost[i, best]):
            best = j
    return best


@njit(nogil=True, error_model="numpy")
def _scrambled(n):
    """As `memory._scrambled`."""
    z = (np.uint64(n) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, error_model="numpy")
def learn(prototype, weight, label, scatter, x, y, of, row, single):
    """Take demos x [T, D] of labels y [T] into a memory, in place; see `memory.Memory.learned`.

    One place in `single` keeps a single demo. The mergers are written to of [T] and row [T, D].
    """
    t = 0
    for place in range(len(label)):
        if t < len(x) and label[place] < 0:
            prototype[place], weight[place], label[place] = x[t], weight.dtype.type(1), y[t]
            t += 1
    if t < len(x):
        squeeze(prototype, weight, label, scatter, len(label) // single, x[t:], y[t:], of[t:], row[t:])


@njit(nogil=True, error_model="numpy")
def squeeze(prototype, weight, label, scatter, singles, x, y, of, row):
    """Take demos x [T, D] of labels y [T] into a full memory: each makes two of one label become one.

    In place. The first `singles` places keep single demos.
    """
    one = weight.dtype.type(1)
    seen = 0
    for i in range(len(weight)):
        seen += int(weight[i])
    p, w, a = prototype[singles:], weight[singles:], label[singles:]
    cost = np.empty((len(w), len(w)), prototype.dtype)  # Costs of other labels are never looked at.
    near = np.full(len(w), -1)
    for i in range(len(w)):
        for j in range(i):
            if a[i] == a[j]:
                found = merge_cost(p[i], w[i], p[j], w[j])
                cost[i, j] = cost[j, i] = found
                if near[i] < 0 or found < cost[i, near[i]]:
                    near[i] = j
                if near[j] < 0 or found < cost[j, near[j]]:
                    near[j] = i
    new = np.empty(prototype.shape[1], prototype.dtype)
    changed = np.empty(2, np.int64)
    for t in range(len(x)):
        new[:], n, c = x[t], one, y[t]
        place = int(_scrambled(seen + t) % np.uint64(seen + t + 1))
        if place < singles:  # The demo stays single; the one that was there goes on.
            new[:], n, c = prototype[place], weight[place], label[place]
            prototype[place], weight[place], label[place] = x[t], one, y[t]
        least = prototype.dtype.type(np.inf)
        first = -1
        joining = prototype.dtype.type(np.inf)
        into = -1
        for i in range(len(w)):
            if near[i] >= 0 and cost[i, near[i]] < least:
                first, least = i, cost[i, near[i]]
            if a[i] == c:
                found = merge_cost(p[i], w[i], new, n)
                if found < joining or into < 0:
                    into, joining = i, found
        if into >= 0 and joining <= least:
            _merge(p, w, scatter, into, new, n, row[t])
            changed[:], of[t] = into, c
        else:
            second = near[first]
            _merge(p, w, scatter, first, p[second], w[second], row[t])
            of[t] = a[first]
            p[second], w[second], a[second] = new, n, c
            changed[0], changed[1] = first, second
        for k in range(2):
            i = changed[k]
            for j in range(len(w)):
                same = a[i] == a[j] and i != j
                cost[i, j] = cost[j, i] = merge_cost(p[i], w[i], p[j], w[j]) if same else np.inf
        for i in range(len(w)):
            moved = i == changed[0] or i == changed[1] or near[i] == changed[0] or near[i] == changed[1]
            if moved or near[i] < 0:
                near[i] = _closest(cost, a, i)
                continue
            for k in range(2):
                j = changed[k]
                if cost[i, j] < cost[i, near[i]] or (cost[i, j] == cost[i, near[i]] and j < near[i]):
                    near[i] = j


@njit(nogil=True, error_model="numpy")
def clusters(distance, label, reach, number, owner):
    """Clusters of the prototypes of each class by Ward's criterion, cut at several heights.

    Args:
        distance: [M, M], squared.
        label: [M]; negative for places without a prototype.
        reach: [R], heights of the cuts, in units of the median height of a class's mergers.
        number: [R, M], filled with the cluster of each prototype, classes one after the other.
        owner: [R, M], filled with the class of each cluster.

    Returns:
        [R], the number of clusters.
    """
    M = len(label)
    count = np.zeros(len(reach), np.int64)
    done, members = np.zeros(M, np.bool_), np.empty(M, np.int64)
    for start in range(M):
        if done[start] or label[start] < 0:
            continue
        m = 0
        for i in range(start, M):
            if label[i] == label[start]:
                members[m], done[i] = i, True
                m += 1
        d = np.empty((m, m))
        for i in range(m):
            for j in range(m):
                d[i, j] = max(distance[members[i], members[j]], 0.0)
        height, left, right = _ward(d)
        # The median: heights of mergers by this criterion only grow.
        middle = (height[(m - 1) // 2] + height[(m - 2) // 2]) / 2 if m > 1 else 0.0
        for r in range(len(reach)):
            into = np.arange(m)
            for k in range(m - 1):
                if height[k] <= reach[r] * middle:
                    into[right[k]] = left[k]
            for i in range(m):
                root = i
                while into[root] != root:
                    root = into[root]
                if root == i:  # The lower number of a pair stays, so that a root comes first.
                    number[r, members[i]] = count[r]
                    owner[r, count[r]] = label[start]
                    count[r] += 1
                else:
                    number[r, members[i]] = number[r, members[root]]
    return count


@njit(nogil=True, error_model="numpy")
def _ward(d):
    """Mergers of points with squared distances d [m, m], which is used up: heights, and who takes in whom."""
    m = len(d)
    size = np.ones(m)
    alive = np.ones(m, np.bool_)
    near = np.zeros(m, np.int64)
    height, left, right = np.empty(m - 1), np.empty(m - 1, np.int64), np.empty(m - 1, np.int64)
    for i in range(m - 1):
        near[i] = _next(d, alive, i)
    for k in range(m - 1):
        i = -1
        for a in range(m - 1):
            if alive[a] and near[a] >= 0 and (i < 0 or d[a, near[a]] < d[i, near[i]]):
                i = a
        j = near[i]
        height[k], left[k], right[k] = math.sqrt(d[i, j]), i, j
        alive[j] = False
        between = d[i, j]
        for a in range(m):
            if alive[a] and a != i:
                both = (size[i] + size[a]) * d[i, a] + (size[j] + size[a]) * d[j, a] - size[a] * between
                d[i, a] = d[a, i] = both / (size[i] + size[j] + size[a])
        size[i] += size[j]
        for a in range(m - 1):
            if not alive[a]:
                continue
            if a == i or near[a] == i or near[a] == j:
                near[a] = _next(d, alive, a)
            elif a < i and (near[a] < 0 or d[a, i] < d[a, near[a]]):
                near[a] = i
    return height, left, right


@njit(nogil=True, error_model="numpy")
def _next(d, alive, i):
    """The closest of the points behind i, or -1."""
    best = -1
    for j in range(i + 1, len(d)):
        if alive[j] and (best < 0 or d[i, j] < d[i, best]):
            best = j
    return best
