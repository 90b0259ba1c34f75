"""Which candidates are compared: starts, regularisation and targets, as data."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from treelu.training.small.config import TreeLimits
from treelu.training.small.path import MOST_LINEAR, OWN, TEACHER, Candidate
from treelu.training.small.rows import TrainingRows


class Regularisation(NamedTuple):
    """The drop rate of DropConnect, and the l1 penalty."""

    drop_rate: float = 0.0
    penalty: float = 0.0


# The first of these is tried with every start, the others with the best two
REGULARISATIONS = [
    Regularisation(), Regularisation(0.1), Regularisation(0.25), Regularisation(0.5), Regularisation(penalty=0.003),
]  # fmt: skip
REGRESSION_REGULARISATIONS = [
    Regularisation(penalty=0.0003), Regularisation(penalty=0.001), Regularisation(), Regularisation(0.05),
    Regularisation(0.1),
]  # fmt: skip
RIDGES = (0.001, 0.01, 0.1)  # of linear models, a row


def trained_candidates(rows: TrainingRows, limits: TreeLimits, targets: Collection[str]) -> list[Candidate]:
    """Starts that are trained by gradients, on the rows' own targets and on the teacher's."""
    if limits.max_terms == 1 or not limits.can_train(rows):
        return []
    starts = ["random", "cart"]
    if rows.n_features <= MOST_LINEAR:
        starts.append("linear")
    if limits.max_terms == 2:
        starts.append("pairs")
    first = regularisations(rows)[0]
    return [Candidate(start, *first, kind) for kind in own_and_soft(targets) for start in starts]


def regularised(best: Collection[Candidate], rows: TrainingRows) -> list[Candidate]:
    """The best starts with the other regularisations."""
    return [candidate._replace(**how._asdict()) for candidate in best for how in regularisations(rows)[1:]]


def regularisations(rows: TrainingRows) -> list[Regularisation]:
    """Those worth a trial."""
    if rows.n_features == 1:
        return [Regularisation()]
    return REGULARISATIONS if rows.is_classifier else REGRESSION_REGULARISATIONS


def ordinary_candidates(rows: TrainingRows, limits: TreeLimits, targets: Collection[str]) -> list[Candidate]:
    """Trees that are grown and not trained: scikit-learn's, by sets of levels, for linear leaves, by exact search."""
    found = [Candidate("entropy")] if rows.is_classifier else [Candidate("squared_error")]
    found += [Candidate("squared_error", targets=TEACHER)] if TEACHER in targets else []
    if rows.group is not None:
        found += [Candidate("sets", targets=kind) for kind in own_and_soft(targets)]
    if rows.linear and rows.signs is None:
        found.append(Candidate("models"))
    if limits.max_terms > 1 or not limits.can_train(rows):
        return found
    return [*found, Candidate("thresholds"), *exact_candidates(rows)]


def exact_candidates(rows: TrainingRows) -> list[Candidate]:
    """Trees of exact pieces of depth 2; by errors too where there are classes."""
    if rows.signs is not None:
        return []
    return [Candidate(start) for start in ("exact", "exact errors") if start == "exact" or rows.is_classifier]


def linear_model_candidates(rows: TrainingRows, limits: TreeLimits, targets: Collection[str]) -> list[Candidate]:
    """Linear models that a tree may follow; none for one or two terms or linear leaves: other starts are better."""
    few_terms = limits.max_terms == 1 or limits.max_terms < min(3, rows.n_terms)
    if few_terms or rows.linear or rows.signs is not None or not limits.can_train(rows):
        return []
    return [Candidate("scores", penalty=ridge, targets=kind) for kind in own_and_soft(targets) for ridge in RIDGES]


def network_candidates(targets: Collection[str]) -> list[Candidate]:
    """The linear regions of each locally linear network."""
    return [Candidate("network", targets=kind) for kind in targets if kind not in (OWN, TEACHER)]


def largest_candidate(rows: TrainingRows, limits: TreeLimits) -> Candidate:
    """One that is never far behind the best, where nothing is compared."""
    if not limits.can_train(rows):
        return Candidate("gini" if rows.is_classifier else "squared_error")
    if limits.max_terms == 1:
        return Candidate("thresholds" if rows.group is None else "sets")
    return Candidate("pairs") if limits.max_terms == 2 else Candidate("cart", 0.1)


def own_and_soft(targets: Collection[str]) -> list[str]:
    """The kinds of targets that any start may be trained on."""
    return [kind for kind in (OWN, TEACHER) if kind in targets]
