"""Queries to trees made to mislead solvers: what is called proved must hold for every row that an oracle can find.

The trees have saturated probabilities, units from 1e-15 to 1e15, repeated and opposite splits, weights of one split
that differ by 1e12, weights of 1e-170 and 1e160, and round weights on whose planes integers lie. Ranges may be open,
fixed in part or fixed altogether; groups may have fixed members. The oracle looks at all rows where these are integers,
and otherwise at rows in corners, on the planes and at random; a row without bounds counts where exact arithmetic
(fractions) agrees with `predict`.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.fuzz.cases import Tally, run_cases
from tests.tree.queries.oracles import Asked, awkward_tree, candidate_rows, pair_rows, some_ranges
from treelu.tree import ObliqueTree

PAIRS = ("rises", "falls", "independent")
QUERIES = (*PAIRS, "independent answer", "at_most", "at_least", "counterfactual", "output_range")


def ask(kind: str, tree: ObliqueTree, asked: Asked, rng: np.random.Generator) -> str:
    """Ask one query, and raise if what it says is wrong."""
    target = tree.classes[1] if tree.is_classifier else None
    several = tree.is_classifier and len(tree.classes) > 2
    if several and tree.leaf_weights is not None and kind not in ("independent answer", "counterfactual"):
        kind = "independent answer"  # probabilities of linear leaves with three classes have no direction
    if kind in (*PAIRS, "independent answer"):
        return _ask_pairs(kind, tree, asked, rng, target)
    if kind == "counterfactual":
        return _ask_nearest(tree, asked, rng)
    rows = candidate_rows(tree, asked, rng)
    values = asked.output(tree, rows, target)
    if kind == "output_range":
        found = tree.output_range(target=target, **asked.options)
        slack = 1e-9 * (1.0 if tree.is_classifier else asked.size(tree, rows))
        assert found.low <= values.min() + slack, (found.low, values.min())
        assert values.max() <= found.high + slack, (values.max(), found.high)
        return "proved"
    limit = float(rng.choice(values))  # aimed: some row's own value, or a float beside it
    limit = float(np.nextafter(limit, rng.choice([-np.inf, limit, np.inf])))
    verdict = getattr(tree, kind)(limit, target=target, **asked.options)
    beyond = values > limit if kind == "at_most" else values < limit
    if verdict:
        assert not asked.confirmed(tree, rows[beyond]).any(), (kind, limit, rows[beyond][:1])
    elif verdict.decided:
        value = asked.output(tree, verdict.rows, target)[0]
        assert asked.permits(verdict.rows[0])
        assert value > limit if kind == "at_most" else value < limit
    return _outcome(verdict)


def _outcome(verdict: Any) -> str:
    return "proved" if verdict else "refuted" if verdict.decided else "not decided"


def _ask_pairs(kind: str, tree: ObliqueTree, asked: Asked, rng: np.random.Generator, target: Any) -> str:
    """Two rows that differ in one feature, or in a group."""
    j = int(rng.integers(tree.n_features))
    grouped = [group for group in asked.groups if j in group]
    if grouped and kind in ("rises", "falls"):
        kind = "independent"
    of = "answer" if kind == "independent answer" else "value"
    options = dict(asked.options)
    if kind.startswith("independent"):
        verdict = tree.independent([j], of=of, target=None if of == "answer" else target, **options)
    else:
        verdict = getattr(tree, kind)(j, target=target, **options)
    features = grouped[0] if grouped else [j]
    first, second = pair_rows(tree, asked, features, rng)
    if verdict:
        if len(first):
            broken = asked.breaks(kind, tree, first, second, j, target)
            wrong = np.flatnonzero(broken)
            sure = asked.confirmed(tree, first[wrong]) & asked.confirmed(tree, second[wrong])
            assert not sure.any(), (kind, j, first[wrong][:1], second[wrong][:1])
    elif verdict.decided:
        a, b = verdict.rows
        assert asked.permits(a), a
        assert asked.permits(b), b
        assert set(np.flatnonzero(a != b)) <= set(features)
        assert asked.breaks(kind, tree, a[None], b[None], j, target, least=0.0)[0], verdict.outputs
    return _outcome(verdict)


def _ask_nearest(tree: ObliqueTree, asked: Asked, rng: np.random.Generator) -> str:
    """The nearest row with another answer: none is nearer than the bound, and "none" means none."""
    rows = candidate_rows(tree, asked, rng)
    x = rows[rng.integers(len(rows))]
    norm = str(rng.choice(["l1", "linf", "l2"]))
    if tree.is_classifier:
        wanted: dict[str, Any] = {"target": tree.predict(rows[[rng.integers(len(rows))]])[0]}
        fits = tree.predict(rows) == wanted["target"]
    else:
        values = tree.decision_function(rows)[:, 0]
        wanted = {"at_least": float(rng.choice(values))}
        fits = values >= wanted["at_least"]
    keep = [int(rng.integers(tree.n_features))] if rng.random() < 0.3 else []
    fits &= (rows[:, keep] == x[keep]).all(axis=1)
    found = tree.counterfactual(x, **wanted, norm=norm, keep=keep, scale=asked.scale, **asked.options)
    order: Any = {"l1": 1, "linf": np.inf, "l2": 2}[norm]
    distances = np.linalg.norm((rows[fits] - x) / asked.scale, ord=order, axis=1)
    if found:
        assert asked.permits(found.row)
        if tree.is_classifier:
            assert tree.predict(found.row[None])[0] == wanted["target"]
        else:
            assert tree.decision_function(found.row[None])[0, 0] >= wanted["at_least"]
    elif found.decided:
        assert not asked.confirmed(tree, rows[fits]).any(), ("none", x, rows[fits][:1])
        return "proved"
    nearer = distances < found.bound * (1 - 1e-6) - 1e-9
    assert not asked.confirmed(tree, rows[fits][nearer]).any(), ("nearer", found.bound, distances[nearer])
    return "refuted" if found else "not decided"


def case(rng: random.Random) -> str:
    """One query to one tree."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    tree = awkward_tree(numbers)
    asked = some_ranges(tree, numbers)
    return ask(str(numbers.choice(QUERIES)), tree, asked, numbers)


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Queries to awkward trees."""
    return run_cases(case, seed, count, only)
