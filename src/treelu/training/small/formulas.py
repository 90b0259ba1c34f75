"""Linear leaves on the splits that were found: their held-out losses, with fewer and fewer features in the formulas.

For some sizes of the constant trees' paths, and for the tree without splits, leaves get linear functions of all
features (`leaf_models`), shared or of their own, with several ridges. With the ridge of least held-out loss, features
are then taken out, those first that the second-order loss misses least, and the rest is fitted again. With monotonic
features all leaves share their slopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treelu.training.parallel import check_not_stopped
from treelu.training.small.cross_validation import HeldOutLoss, Losses, Targets, record
from treelu.training.small.leaf_models import Floats, LeafProblem, LeafRows, Ridge, fitted_leaves
from treelu.training.small.monotone import directions
from treelu.training.small.numbers import numbers_of
from treelu.training.small.path import CONSTANT, OWN, Formula, TreeSize
from treelu.training.small.rows import TrainingRows, sample_of
from treelu.training.small.soft_tree import SoftTree
from treelu.tree.terms import Group, count, members, n_weights, renumbered, strongest

RIDGES = (1.0, 10.0, 100.0, 0.1, 0.01)  # of the slopes
CHANGES = (10.0, 1.0, 100.0)  # of the changes of slopes
USUAL_RIDGE = Ridge(1.0, 10.0)  # where nothing is compared
SCREENED = 64  # features of a formula at most: of more, those of the largest weights in a strong ridge
SCREENING_RIDGE, SCREENING_ROWS = Ridge(30.0), 5_000
MOST_ROWS = 20_000  # that formulas are fitted to
MOST_PARAMETERS = 400  # of all leaves with slopes of their own
LADDER = (48, 32, 24, 16, 12, 8, 6, 5, 4, 3, 2, 1)
MOST_STRUCTURES = 8  # of each kind
MOST_PROMISING, MOST_OF_VALUES = 3, 6  # of these, for classes and for values, whose leaves are fitted more quickly
TRIAL, TRIED_PARAMETERS = (
    Ridge(10.0, 10.0),
    100,
)  # the ridges of a trial, and the most parameters for slopes of their own
HOPELESS = 0.01  # how far the loss may be above the least one for features to be taken out


def with_formulas(
    found: Losses, folds: Sequence[tuple[Targets, TrainingRows]], max_terms: int, strength: float | None = None
) -> Losses:
    """Held-out losses of sizes with linear leaves.

    Parameters
    ----------
    found : Losses
        Of sizes with constant leaves.
    folds : sequence of pairs (Targets, TrainingRows)
        As of `cross_validate`.
    max_terms : int
        Of a formula.
    strength : float, optional
        The ridges, if given; otherwise they are chosen.
    """
    parts = [(_Part(targets[OWN]), held_out) for targets, held_out in folds]
    losses: Losses = {}
    n_outputs = folds[0][1].target.shape[1]
    n_scores = max(1, n_outputs - 1) if folds[0][1].is_classifier else n_outputs
    roots, changes = (RIDGES, CHANGES) if strength is None else ((strength,), (strength,))
    ridges, best = [Ridge(root) for root in roots], np.inf
    may_be_own = folds[0][1].signs is None
    for size in promising(found, parts):
        for own in (False, True) if size.leaves > 1 and may_be_own else (False,):
            terms = min(part.n_features for part, _ in parts)
            if own and size.leaves * (terms + 1) * n_scores > MOST_PARAMETERS:
                continue
            tried = ridges if own or size == CONSTANT else ridges[:1]  # of shared slopes only constants change
            full = fitted_on_folds(found[size], parts, tried, own=own)
            if size == CONSTANT:
                ridges = [Ridge(full.ridge.root, change) for change in changes]
            elif full.loss > best + HOPELESS:
                continue
            best = min(best, full.loss)
            losses |= with_fewer_terms(full, size, found[size], parts, max_terms)
    return losses


def structures(found: Losses) -> list[TreeSize]:
    """The tree without splits, and the best sizes of each number of leaves, some of each kind of splits."""
    rest = sorted(
        (size for size in found if size.candidate.start not in ("constant", "scores")),
        key=lambda size: found[size].score().mean(),
    )
    chosen: dict[tuple[bool, bool], dict[tuple[int, bool], TreeSize]] = {}
    for size in rest:
        leaves, _ = found[size].typical_size
        if leaves > 1:
            of_kind = chosen.setdefault((size.candidate.linear, size.candidate.start == "models"), {})
            of_kind.setdefault((leaves, size.terms <= 2), size)
    return [CONSTANT, *(size for of_kind in chosen.values() for size in [*of_kind.values()][:MOST_STRUCTURES])]


def promising(found: Losses, parts: Sequence[tuple[_Part, TrainingRows]]) -> list[TreeSize]:
    """The tree without splits, and the structures with the least loss of linear leaves on the first fold."""

    def trial(size: TreeSize) -> float:
        part = parts[0][0]
        own = size.leaves * (part.n_features + 1) <= TRIED_PARAMETERS and part.rows.signs is None
        return fitted_on_folds(found[size], parts[:1], [TRIAL], own=own).loss

    tried = structures(found)
    most = MOST_PROMISING if parts[0][1].is_classifier else MOST_OF_VALUES
    return [CONSTANT, *sorted(tried[1:], key=trial)[:most]]


class _Part:
    """The training rows of a fold, with the features that formulas may have in float64."""

    def __init__(self, rows: TrainingRows) -> None:
        self.index = sample_of(len(rows), MOST_ROWS)
        self.rows = rows = rows if len(self.index) == len(rows) else rows.part(self.index)
        self.target, self.weight = rows.target.astype(np.float64), rows.weight.astype(np.float64)
        self.features, self.group = np.arange(rows.n_features), rows.group
        if rows.n_features > SCREENED:
            self.features = screened(strengths_alone(rows.some(SCREENING_ROWS)), rows.group)
            self.group = None if rows.group is None else renumbered(rows.group[self.features])
        self.X = rows.X[:, [*self.features, -1]].astype(np.float64)

    @property
    def n_features(self) -> int:
        return len(self.features)

    @property
    def n_terms(self) -> int:
        return count(self.n_features, self.group)

    def problem(
        self, leaf: NDArray[np.int64], children: NDArray[np.int64], direction: Floats | None = None, *, own: bool
    ) -> LeafProblem:
        """The problem of a tree's leaves, from that of each row, with all features that formulas may have."""
        signs = self.rows.signs
        rows = LeafRows(self.X, self.target, self.weight, leaf, children, self.rows.is_classifier)
        if signs is not None:
            rows = rows._replace(signs=signs[self.features].astype(np.float64), direction=direction)
        return LeafProblem(rows, own)

    def problem_of(self, tree: SoftTree, *, own: bool) -> LeafProblem:
        """The problem of a tree in training."""
        signs = self.rows.signs
        direction = None if signs is None else directions(tree.splits[:, :-1], signs)
        return self.problem(tree.apply(self.rows.X), tree.children, direction, own=own)


@dataclass(frozen=True)
class _Full:
    """The problems of a structure with all features on the folds, solved, and their held-out loss."""

    own: bool
    ridge: Ridge
    loss: float
    found: HeldOutLoss
    solved: list[tuple[LeafProblem, Floats]]


def fitted_on_folds(
    constant: HeldOutLoss, parts: Sequence[tuple[_Part, TrainingRows]], ridges: Sequence[Ridge], *, own: bool
) -> _Full:
    """A structure with all features and the best of some ridges."""
    problems, results, totals = [], [], np.zeros(len(ridges))
    for (part, held_out), tree in zip(parts, constant.trees, strict=False):
        check_not_stopped()
        problem = part.problem_of(tree, own=own)
        thetas: list[Floats] = []
        for ridge in ridges:
            thetas.append(problem.solve(ridge, thetas[0] if thetas else None))
        scores = [held_out_scores(tree, part.features, problem.models(theta), held_out) for theta in thetas]
        totals += [loss @ held_out.weight for _, loss in scores]
        problems.append((problem, thetas))
        results.append(scores)
    best = int(np.argmin(totals))
    found = HeldOutLoss([], [], [], [], strengths=ridges)
    for scores, tree, (_, held_out) in zip(results, constant.trees, parts, strict=False):
        record(found, tree, scores[best][0], np.array([loss for _, loss in scores]), held_out)
    solved = [(problem, thetas[best]) for problem, thetas in problems]
    return _Full(own, ridges[best], float(found.score().mean()), found, solved)


def with_fewer_terms(
    full: _Full, size: TreeSize, constant: HeldOutLoss, parts: Sequence[tuple[_Part, TrainingRows]], max_terms: int
) -> Losses:
    """The losses of a structure with all features and with fewer, where these are not too many."""
    n_terms = min(part.n_terms for part, _ in parts)
    steps = ladder(n_terms, max_terms)
    found = {Formula(n_terms, full.own): full.found} | {
        Formula(terms, full.own): HeldOutLoss([], [], [], [], strengths=(full.ridge,)) for terms in steps
    }
    for (part, held_out), tree, (problem, theta) in zip(parts, constant.trees, full.solved, strict=True):
        full.found.numbers.append(numbers_with(part, tree, np.arange(problem.p), own=full.own))
        for terms, kept, models in eliminated(problem, theta, full.ridge, steps, part.group):
            outputs, loss = held_out_scores(tree, part.features[kept], models, held_out)
            of_terms = found[Formula(terms, full.own)]
            record(of_terms, tree, outputs, loss[None], held_out)
            of_terms.numbers.append(numbers_with(part, tree, kept, own=full.own))
    return {size._replace(formula=formula): of_one for formula, of_one in found.items() if formula.terms <= max_terms}


def numbers_with(part: _Part, tree: SoftTree, kept: NDArray[np.int64], *, own: bool) -> int:
    """Numbers to read in a tree whose formulas have the features that are kept."""
    group = None if part.group is None else renumbered(part.group[kept])
    n_slopes = n_weights(len(kept), group) * (tree.n_leaves if own else 1)
    n_outputs = part.rows.target.shape[1]
    return numbers_of(tree, n_outputs, n_slopes, is_classifier=part.rows.is_classifier)


def strengths_alone(rows: TrainingRows) -> Floats:
    """The squared weights of the features in a linear model of all of them, with a strong ridge."""
    (model,) = fitted_leaves(LeafRows.in_one_leaf(rows), SCREENING_RIDGE, own=False)
    squares: Floats = (model[:, :-1] ** 2).sum(axis=0)
    return squares


def screened(strength: Floats, group: Group) -> NDArray[np.int64]:
    """The features of the strongest terms, from their squared weights: at most `SCREENED` features, or one term."""
    if group is None:
        return np.sort(np.argsort(-strength, kind="stable")[:SCREENED])
    parts, of_terms = members(group), np.bincount(group, strength)
    order = np.argsort(-of_terms, kind="stable")
    most = max(1, int((np.cumsum([len(parts[term]) for term in order]) <= SCREENED).sum()))
    return strongest(of_terms, group, most)


def ladder(n_terms: int, max_terms: int) -> list[int]:
    """Numbers of terms on the way down from all.

    Examples
    --------
    >>> ladder(10, 7)
    [8, 7, 6, 5, 4, 3, 2, 1]
    """
    return sorted({t for t in (*LADDER, max_terms) if t < n_terms}, reverse=True)


def eliminated(
    problem: LeafProblem, theta: Floats, ridge: Ridge, steps: Sequence[int], group: Group = None
) -> Iterator[tuple[int, NDArray[np.int64], Floats]]:
    """Backward elimination: for each number of terms the features that are kept, and the leaves' models with them."""
    kept = np.arange(problem.p)
    for terms in steps:
        left = None if group is None else renumbered(group[kept])
        best, problem, theta = problem.with_fewer(theta, ridge, terms, left)
        theta, kept = problem.solve(ridge, theta), kept[best]
        yield terms, kept, problem.models(theta)


def held_out_scores(
    tree: SoftTree, features: NDArray[np.int64], models: Floats, rows: TrainingRows
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Predictions (n, K), and the log-loss or squared error (n,), for rows held out."""
    leaf = tree.apply(rows.X)
    X = rows.X[:, [*features, -1]].astype(np.float64)
    z = np.einsum("nkd,nd->nk", models[leaf], X)
    if not rows.is_classifier:
        return z, ((z - rows.target) ** 2).mean(axis=1)
    if z.shape[1] == 1:
        z = np.hstack([np.zeros_like(z), z])
    logs = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    return np.exp(logs), -logs[np.arange(len(z)), rows.target.argmax(axis=1)]


def formula_models(
    rows: TrainingRows,
    leaf: NDArray[np.int64],
    children: NDArray[np.int64],
    formula: Formula,
    ridge: Ridge,
    direction: Floats | None = None,
) -> Floats:
    """Models (L, K, D + 1) of the leaves, from the leaf of each row, on the scaled features.

    `direction` is that of each split, where rows have signs.
    """
    part = _Part(rows)
    problem = part.problem(leaf[part.index], children, direction, own=formula.own)
    theta = problem.solve(ridge)
    kept, models = np.arange(problem.p), problem.models(theta)
    if formula.terms < part.n_terms:
        steps = [t for t in ladder(part.n_terms, formula.terms) if t >= formula.terms]
        *_, (_, kept, models) = eliminated(problem, theta, ridge, steps, part.group)
    found = np.zeros((*models.shape[:2], rows.n_features + 1))
    found[:, :, [*part.features[kept], -1]] = models
    return found
