"""Certificates that no row satisfies a set of linear conditions, checked on the tree's own numbers.

A solver only proposes. What is checked here is Farkas' lemma: conditions W v + c ≤ 0 (some < 0) on v in a box
contradict each other if multipliers λ ≥ 0 exist for which the least value of (λᵀW) v + λᵀc over the box is above 0;
0 will do where a strict condition has a multiplier. Every float is a rational number, so this is checked with an error
bound in floating point first and in fractions where that does not decide.

The tree adds in floating point, so a row may pass a split that it fails in exact arithmetic. ``error`` bounds that for
each condition. Conditions on the same direction of weights read the same floating-point sum s and differ in their
thresholds only; there the comparison itself is exact, and the error counts once for what is left of s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np

_U = 2.0**-53
_SMALLEST, _LARGEST = 1e-90, 1e90  # sizes between which products of three floats neither overflow nor underflow
_KEPT = 1e-11  # multipliers that are smaller in proportion are left out


@dataclass(frozen=True)
class ExactRows:
    """Conditions ``weights @ v + offsets <= 0``, below 0 where strict.

    Attributes
    ----------
    weights, offsets : arrays of shape (m, n) and (m,)
        As the tree has them, in the features' own units.
    rest : array of shape (m, n)
        What the weights are rounded by, where they are sums: the exact weights are ``weights + rest``.
    own : bool array of shape (m,)
        Whether the tree itself adds ``weights @ v`` in this order and compares it with ``-offsets``.
    strict : bool array of shape (m,)
    error : array of shape (m,)
        By how much each condition may be off, apart from rounding in sums; infinite: it must not be used for a proof.
    magnitude : array of shape (m, n)
        Sizes of the weights in the sums that are rounded; 0 where they are exact.
    direction : int array of shape (m,)
        Conditions with the same number read the same sum s, each as ``factor * s + offset <= 0``.
    factor : array of shape (m,)
        Plus or minus a power of two.
    size : array of shape (m,)
        The length of each condition in the units of the linear programme that proposes multipliers.
    """

    weights: np.ndarray
    offsets: np.ndarray
    strict: np.ndarray
    error: np.ndarray
    direction: np.ndarray
    factor: np.ndarray
    size: np.ndarray
    rest: np.ndarray
    own: np.ndarray
    magnitude: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)

    def within(self, low: np.ndarray, high: np.ndarray) -> ExactRows:
        """The same for values in a box: what rounding of sums may do there is part of the error."""
        reach = np.maximum(np.abs(low), np.abs(high))
        return replace(self, error=self.error + rounding(self.magnitude, reach))

    def and_also(self, *others: ExactRows) -> ExactRows:
        """These conditions and others."""
        parts = (self, *others)
        return ExactRows(**{
            one.name: np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(self)
        })  # fmt: skip


def rows_alone(
    weights: np.ndarray, offsets: np.ndarray, strict: np.ndarray, error: np.ndarray, size: np.ndarray
) -> ExactRows:
    """Conditions each of which reads a sum of its own, of exact weights."""
    m, none = len(offsets), np.zeros_like(weights)
    return ExactRows(weights, offsets, strict, error, np.full(m, -1), np.ones(m), size, none, np.zeros(m, bool), none)


def rounding(weights: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """How far the floating-point sums ``weights @ v`` with |v| ≤ reach are from the exact ones, at most.

    Terms without a bound are left out: there a proof is one of exact arithmetic.
    """
    used = weights != 0
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        sums = np.where(used & np.isfinite(reach), np.abs(weights) * reach, 0.0).sum(axis=-1)
    n = used.sum(axis=-1)
    return (n + 2) * _U * 1.01 * sums + n * 1e-323


def contradictory(rows: ExactRows, shifts: Sequence[tuple[int, int]] = ()) -> bool:
    """Whether two thresholds on the same sum exclude each other; comparisons of floats are exact.

    ``shifts``: pairs (a, b) of directions of which the sum a is never above the sum b.
    """
    ends: dict[int, list[tuple[float, bool]]] = {}
    for place in np.flatnonzero(rows.direction >= 0).tolist():
        low, high = ends.setdefault(int(rows.direction[place]), [(-np.inf, False), (np.inf, False)])
        end = (float(-rows.offsets[place] / rows.factor[place]), bool(rows.strict[place]))
        if rows.factor[place] > 0:  # s <= end
            high = min(high, end, key=lambda one: (one[0], not one[1]))
        else:
            low = max(low, end)
        ends[int(rows.direction[place])] = [low, high]
    none = [(-np.inf, False), (np.inf, False)]
    pairs = [(a, a) for a in ends] + list(shifts)
    return any(_crossed(ends.get(a, none)[0], ends.get(b, none)[1]) for a, b in pairs)


def _crossed(low: tuple[float, bool], high: tuple[float, bool]) -> bool:
    return low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1]))


def one_row_excludes(rows: ExactRows, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Which conditions the box excludes by themselves: bool (m,)."""
    rows = rows.within(low, high)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        least, error = _box_minimum(rows.weights, np.abs(rows.rest), low, high)
        total, slack = least + rows.offsets - rows.error, error + 8 * _U * (np.abs(least) + np.abs(rows.offsets))
        clear = total > slack + 8 * _U * rows.error
        near = ~clear & (total >= -slack - 8 * _U * rows.error) & np.isfinite(total)
    clear |= rows.own & _corner_excludes(rows, low, high)
    near &= ~clear
    summed = near & _sums_integers(rows, low, high)  # such as those of one-hot groups, of which there are many
    clear |= summed & ((total > 0) | ((total == 0) & rows.strict))
    near &= ~summed
    safe = rows.own | _in_range(rows.weights, rows.offsets[:, None], low, high)
    for place in np.flatnonzero(near | (clear & ~safe)).tolist():
        multipliers = np.zeros(len(rows))
        multipliers[place] = 1.0
        clear[place] = _excludes_exactly(rows, low, high, multipliers)
    return clear


def _sums_integers(rows: ExactRows, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether the least sum over the box is one of small integers, which floats compute exactly: bool (m,)."""
    ends = np.where(rows.weights > 0, low, np.where(rows.weights < 0, high, 0.0))
    parts = np.column_stack([rows.weights, ends, rows.offsets])
    with np.errstate(invalid="ignore"):
        are_integers = ((parts == np.rint(parts)) & (np.abs(parts) < 2**20)).all(axis=1)
    return are_integers & (rows.error == 0) & ~(rows.rest != 0).any(axis=1)


def _corner_excludes(rows: ExactRows, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The same by the tree's own sum in the best corner of the box: rounded sums are monotone in each term."""
    used = (rows.weights != 0).any(axis=0)
    weights = rows.weights[:, used]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        terms = np.where(weights == 0, 0.0, weights * np.where(weights > 0, low[used], high[used]))
        sums = np.add.accumulate(terms, axis=1)[:, -1] if terms.shape[1] else np.zeros(len(rows))
        total = sums + rows.offsets  # its sign is exact
        return (total > 0) | ((total == 0) & rows.strict)


def excludes(rows: ExactRows, low: np.ndarray, high: np.ndarray, multipliers: np.ndarray) -> bool:
    """Whether multipliers, proposed for rows of length 1, prove that no point of the box satisfies all conditions."""
    rows = rows.within(low, high)
    proposed = np.where(multipliers > _KEPT * multipliers.max(initial=0.0), multipliers, 0.0)
    if not proposed.any() or not np.isfinite(proposed).all() or np.isinf(rows.error[proposed > 0]).any():
        return False
    with np.errstate(over="ignore", under="ignore"):
        scaled = proposed / rows.size
        scaled = scaled / scaled.max()
    if not np.isfinite(scaled).all():
        return False
    return _excludes_in_floats(rows, low, high, scaled) or _excludes_exactly(rows, low, high, scaled)


def _in_range(weights: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Which rows have sizes that do not overflow or underflow."""
    size = np.abs(weights)
    fine = ((size == 0) | ((size > _SMALLEST) & (size < _LARGEST))).all(axis=-1)
    for other in others:
        size = np.abs(other)
        good = (size == 0) | ((size > _SMALLEST) & (size < _LARGEST)) | np.isinf(size)
        fine = fine & (good if other.ndim == 1 and weights.ndim == 1 else np.all(good, axis=-1))
    return fine


def _box_minimum(
    weights: np.ndarray, error: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The least ``(weights ± error) @ v`` over a box, and a bound of the rounding in computing it."""
    ends = [w * end for w in (weights - error, weights + error) for end in (low, high)]
    least = np.minimum.reduce([np.where(np.isnan(end), -np.inf, end) for end in ends])
    least = np.where((weights == 0) & (error == 0), 0.0, least)
    total = least.sum(axis=-1)
    return total, (weights.shape[-1] + 4) * 2 * _U * np.abs(least).sum(axis=-1)


def _excludes_in_floats(rows: ExactRows, low: np.ndarray, high: np.ndarray, multipliers: np.ndarray) -> bool:
    used = np.flatnonzero(multipliers)
    W, c, scaled = rows.weights[used], rows.offsets[used], multipliers[used]
    columns = (W != 0).any(axis=0)
    W, rest, low, high = W[:, columns], np.abs(rows.rest[used][:, columns]), low[columns], high[columns]
    if scaled.min() < _SMALLEST or not (_in_range(W).all() and _in_range(c[None], low[None], high[None]).all()):
        return False
    m = len(used) + 3
    with np.errstate(invalid="ignore", over="ignore"):
        least, error = _box_minimum(scaled @ W, m * 2 * _U * (scaled @ np.abs(W)) + 2 * scaled @ rest, low, high)
        charge = float(_charges(rows, used, scaled))
        total = least + scaled @ c - charge
        slack = error + 2 * m * 2 * _U * (abs(least) + scaled @ np.abs(c) + charge) + 1e-250
    return bool(total > slack)


def _charges(rows: ExactRows, used: np.ndarray, multipliers: np.ndarray) -> float:
    """The rounding errors of all sums, each with what is left of its multipliers; rounded up."""
    total = 0.0
    left: dict[int, tuple[float, float, float]] = {}
    for place, multiplier in zip(used.tolist(), multipliers.tolist(), strict=True):
        d = int(rows.direction[place])
        if d < 0:
            total += multiplier * float(rows.error[place])
            continue
        part = multiplier * float(rows.factor[place])
        net, size, error = left.get(d, (0.0, 0.0, 0.0))
        left[d] = net + part, size + abs(part), max(error, float(rows.error[place] / abs(rows.factor[place])))
    for net, size, error in left.values():
        total += (abs(net) + 8 * _U * size) * error
    return total * (1 + 64 * _U)


# Fractions


def _excludes_exactly(rows: ExactRows, low: np.ndarray, high: np.ndarray, multipliers: np.ndarray) -> bool:
    used = np.flatnonzero(multipliers).tolist()
    columns = np.flatnonzero((rows.weights[used] != 0).any(axis=0)).tolist()
    W = [[Fraction(float(rows.weights[i, k])) + Fraction(float(rows.rest[i, k])) for k in columns] for i in used]
    ends = [(float(low[k]), float(high[k])) for k in columns]
    weights = [Fraction(float(multipliers[i])) for i in used]
    for whole in (False, True):  # then with all sums that nearly vanish made to vanish
        solved = _without_residuals(W, ends, weights, whole)
        if solved is not None and _total(rows, used, W, ends, solved):
            return True
    return False


def _total(
    rows: ExactRows, used: list[int], W: list[list[Fraction]], ends: list[tuple[float, float]], weights: list[Fraction]
) -> bool:
    """Whether the sum of the conditions is above 0 everywhere in the box, or 0 with a strict one among them."""
    total = sum((m * Fraction(float(rows.offsets[i])) for m, i in zip(weights, used, strict=True)), Fraction(0))
    net: dict[int, tuple[Fraction, Fraction]] = {}
    for place, (m, i) in enumerate(zip(weights, used, strict=True)):
        d, factor = int(rows.direction[i]), Fraction(float(rows.factor[i]))
        key = d if d >= 0 else -1 - place
        part, error = net.get(key, (Fraction(0), Fraction(0)))
        net[key] = part + m * factor, max(error, Fraction(float(rows.error[i])) / abs(factor))
    total -= sum((abs(part) * error for part, error in net.values()), Fraction(0))
    for k, (first, last) in enumerate(ends):
        residual = sum((m * row[k] for m, row in zip(weights, W, strict=True)), Fraction(0))
        if residual:
            end = first if residual > 0 else last
            if np.isinf(end):
                return False
            total += residual * Fraction(end)
    strict = any(m > 0 and rows.strict[i] for m, i in zip(weights, used, strict=True))
    return total > 0 or (total == 0 and strict)


def _without_residuals(
    W: list[list[Fraction]], ends: list[tuple[float, float]], weights: list[Fraction], whole: bool
) -> list[Fraction] | None:
    """Multipliers near the given ones whose sum vanishes on features without an end; None where there are none."""
    n = len(ends)
    chosen: set[int] = set()
    for _ in range(n + 1):
        more = set()
        for k in range(n):
            residual = sum((m * row[k] for m, row in zip(weights, W, strict=True)), Fraction(0))
            size = sum((m * abs(row[k]) for m, row in zip(weights, W, strict=True)), Fraction(0))
            endless = np.isinf(ends[k][0] if residual > 0 else ends[k][1])
            if residual and (endless or whole) and abs(residual) <= size / 10**6:
                more.add(k)
            elif residual and endless:
                return None
        if not more:
            return weights
        chosen |= more
        solved = _cancelled([[row[k] for row in W] for k in sorted(chosen)], weights)
        if solved is None:
            return None
        weights = solved
    return None


def _cancelled(equations: list[list[Fraction]], values: list[Fraction]) -> list[Fraction] | None:
    """Values near the given ones, at least 0, with which each equation's sum is 0 (Gauss and Jordan)."""
    equations = [list(row) for row in equations]
    pivots: list[tuple[int, int]] = []
    for place, row in enumerate(equations):
        taken = {column for _, column in pivots}
        free = [j for j in range(len(row)) if row[j] and j not in taken]
        if not free:
            continue
        column = max(free, key=lambda j: abs(row[j]) * values[j])
        lead = row[column]
        equations[place] = row = [value / lead for value in row]
        for other, line in enumerate(equations):
            if other != place and line[column]:
                factor = line[column]
                equations[other] = [a - factor * b for a, b in zip(line, row, strict=True)]
        pivots.append((place, column))
    result = list(values)
    taken = {column for _, column in pivots}
    for place, column in pivots:
        result[column] = -sum(
            (equations[place][j] * values[j] for j in range(len(values)) if j not in taken), Fraction(0)
        )
    return None if min(result, default=Fraction(0)) < 0 else result
