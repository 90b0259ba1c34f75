"""Fitting a stack: networks that leave a fifth of the rows out in turn, a random forest, boosted trees, and weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.estimators._forests import Grown, grow_boosted, grow_forest
from treelu.estimators._plan import rows_in_batch
from treelu.estimators._setting import FOLDS, Setting
from treelu.estimators._trees import Visits, count_visits, feature_spread
from treelu.nn import LocallyConstantNetwork
from treelu.training import History, Sample, evaluate
from treelu.training.boosting import Ensemble, grow
from treelu.training.calibration import log_shares
from treelu.training.crossfit import CrossFit, HeldOut, Kind
from treelu.training.folds import Fold
from treelu.training.progress import epoch_bar
from treelu.training.scaling import Scaling
from treelu.training.sparsity import proximal_step
from treelu.training.stacking import Stack, Trees, find_weights
from treelu.training.targets import predictions

if TYPE_CHECKING:
    from treelu.estimators._members import EnsembleMixin

WIDE = 512  # features from which members see half of them each, and trees are not boosted
MOST_IN_BATCH = 256  # rows, in networks that take small batches
N_NETWORKS, N_ON_WIDE = 5, 30  # where n_estimators is None


class Style(NamedTuple):
    """How networks of one kind are made by default.

    Attributes
    ----------
    parameters : dict
        Those of the member.
    feature_fraction : float
        The share of the features that each sees.
    epochs : float
        The share of the member's own epochs.
    batches_per_pass : int, optional
        Batches that the rows are divided into, if that makes no more than `MOST_IN_BATCH` rows in each; the member's
        own rule where it is None.
    """

    parameters: dict[str, Any]
    feature_fraction: float = 1.0
    epochs: float = 1.0
    batches_per_pass: int | None = None


# A network of a low and one of a high drop rate are compared on the rows that both leave out.
# Small batches: an update's time goes with its rows, and a mean of networks smooths the noise of few rows.
USUAL = tuple(Style({"drop_connect": rate}, epochs=0.75, batches_per_pass=64) for rate in (0.05, 0.3))
# On fingerprints members that fit well do best if each sees other columns (docs/ensembles-study.md).
ON_WIDE = (
    Style(
        {
            "depth": 8,
            "drop_connect": 0.0,
            "epochs": 30,
            "training": {"batch_size": 256, "optimizer": "amsgrad", "schedule": "constant"},
        },
        feature_fraction=0.5,
    ),
)


def default_size(n_features: int) -> int:
    """How many networks a stack has, where `n_estimators` is None."""
    return N_ON_WIDE if n_features >= WIDE else N_NETWORKS


def fit_stack(estimator: EnsembleMixin, sample: Sample, validation: Sample | None, seed: int) -> None:
    """Fit all parts to scaled rows, weigh them, and set the estimator's attributes."""
    targets = sample.targets
    target = estimator._target_scaling or Scaling.identity(targets.n_outputs)
    folds = targets.folds(sample.rows, min(FOLDS, len(sample)), seed)
    grown = _grow_trees(estimator, sample, folds, seed)
    visits: list[Visits] = []
    kinds = _kinds(estimator, sample, seed, visits)
    held_out = HeldOut(sample, estimator.scaling_, target, folds)
    ensemble = Ensemble(target.center, "average" if targets.task == "regression" else "vote")
    n_members = estimator.n_members(sample.table.shape[1])
    history = grow(
        ensemble,
        n_members,
        CrossFit(kinds, estimator.bootstrap, seed),
        held_out,
        callbacks=estimator.callbacks or (),
        progress=epoch_bar(type(estimator).__name__, n_members, "member") if estimator.verbose else None,
    )
    groups = np.zeros(len(ensemble), np.int64)
    if validation is None:
        said, judged, rows = [held_out.outputs(), *(part.held_out for part in grown)], targets, sample.rows
    else:
        said = _outputs(ensemble, groups, [part.trees for part in grown], validation)
        judged, rows = validation.targets, validation.rows
    if targets.task == "regression":
        mean = np.average(targets.y[sample.rows].astype(np.float64), axis=0, weights=targets.weights(sample.rows))
        weights, constant = find_weights(said, judged, rows, mean), target.center + target.scale * mean
    else:
        constant = log_shares(targets, sample.rows)
        weights = find_weights(said, judged, rows, constant)
    trees = [part.trees.on_raw(estimator.scaling_, target) for part in grown]
    estimator.stack_ = Stack(targets.task, ensemble, groups, trees, weights, constant)
    estimator.ensemble_, estimator.history_, estimator.member_visits_ = ensemble, history, visits[: len(ensemble)]
    estimator.spread_ = feature_spread(sample.table) * estimator.scaling_.scale


def _grow_trees(estimator: EnsembleMixin, sample: Sample, folds: list[Fold], seed: int) -> list[Grown]:
    """A random forest; and boosted trees, unless there are many features or, with a tree for each, many classes."""
    if not estimator.n_trees or len(sample) < 2:
        return []
    # rows out of bag are single rows, whose groups or later rows a tree may have seen
    instead_of_bags = None if sample.targets.folding is None else folds
    grown = [grow_forest(sample, int(estimator.n_trees), seed, estimator.n_jobs, instead_of_bags)]
    boosted = None
    if sample.table.shape[1] < WIDE and sample.targets.task != "multiclass":
        boosted = grow_boosted(sample, folds, seed)
    return grown if boosted is None else [*grown, boosted]


def _kinds(estimator: EnsembleMixin, sample: Sample, seed: int, visits: list[Visits]) -> list[Kind]:
    """The kinds of networks to choose among: the estimator that was given, or else what suits the table's shape."""
    share = float(estimator.feature_fraction)
    if estimator.estimator is not None:
        member = estimator._prototype(temper=False)
        setting = member._choose_setting(sample, None, seed, sample.targets).setting
        return [Kind(trainer(member, lambda part: setting, visits), share)]
    kinds = []
    for style in ON_WIDE if sample.table.shape[1] >= WIDE else USUAL:
        member = estimator._prototype(temper=False, **style.parameters)
        if style.batches_per_pass is not None:
            n_rows = len(sample) * (FOLDS - 1) // FOLDS
            batch_size = min(MOST_IN_BATCH, rows_in_batch(n_rows, style.batches_per_pass))
            member.training = member._how.but(batch_size=batch_size)
        train = trainer(member, _only_setting(member), visits, style.epochs)
        kinds.append(Kind(train, min(share, style.feature_fraction)))
    return kinds


def _only_setting(member: Any) -> Callable[[Sample], Setting]:
    return lambda part: member._settings(len(part), part.table.shape[1])[0]


def trainer(
    prototype: Any, setting_for: Callable[[Sample], Setting], visits: list[Visits], epochs: float = 1.0
) -> Callable[[Sample, np.random.Generator], tuple[LocallyConstantNetwork, History]]:
    """How a member is trained; `visits` takes how many of its rows reach each leaf where it is a tree."""

    def train(sample: Sample, rng: np.random.Generator) -> tuple[LocallyConstantNetwork, History]:
        member, seed, setting = copy.copy(prototype), int(rng.integers(2**62)), setting_for(sample)
        network = member._network_for(sample, seed, setting)
        penalise = proximal_step(member._how.feature_penalty)
        history = member._run(network, sample, None, rng, penalise, epochs, decay=setting.decay)
        if network.activation.is_piecewise_linear:
            visits.append(count_visits(network, sample))
        return network, history

    return train


def _outputs(
    ensemble: Ensemble, groups: NDArray[np.int64], trees: list[Trees], sample: Sample
) -> list[NDArray[np.float64]]:
    """What each part says of the rows of another sample, in its scaled units."""
    task, said = sample.targets.task, []
    for group in np.unique(groups):
        members = [member for member, own in zip(ensemble.members, groups, strict=True) if own == group]
        outputs = []
        for member in members:
            scores = evaluate(member.network, sample.table.columns(member.features), sample.index).astype(np.float64)
            outputs.append(predictions(scores, task))
        said.append(np.mean(outputs, axis=0))
    return said + [part.outputs(sample.table, task, sample.index) for part in trees]
