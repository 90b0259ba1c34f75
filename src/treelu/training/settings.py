"""How networks are trained, beyond what every estimator takes: what is rare, or only the paper's."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

from treelu.training.loop import Schedule


@dataclass(frozen=True)
class Settings:
    """The parameter `training` of estimators; a dict of some of these names does as well.

    Parameters
    ----------
    batch_size : int or "auto"
        Rows in each step. "auto" sets it from the number of rows.
    optimizer : {"amsgrad", "sgd"}
        "sgd" has Nesterov momentum 0.9.
    schedule : {"cosine", "step", "constant"} or callable
        How the learning rate falls: "step" is × 0.1 after each third; a callable maps (epoch, epochs) to a factor.
    annealing : float in [0, 1]
        Share of the epochs in which softplus turns into ReLU (§3.7); in the rest the network is the tree itself. 1 is
        the paper's, 0 trains the tree from the start.
    straight_through : bool
        Straight-through gradients: those of the smooth activation, so that the tree's splits keep moving while it is a
        tree. False takes the exact gradients, as the paper does: the nearer to ReLU, the less a split moves.
    negative_slope : float
        Slope of the activation below zero; 0 is ReLU.
    n_init : int
        Number of initialisations to train from (in parallel by `n_jobs`); the best by validation score, or by training
        loss, is kept.
    feature_penalty : float
        Strength of the group penalty that removes whole features from the tree, with exact zeros.
    refine_leaves : bool or float
        Refit the values of visited leaves to their rows; the number is how many rows the network's own value counts for
        (True: 10).
    temper : bool
        Divide the outputs by the temperature that short trainings find on rows held out. False saves these trainings
        where depth, drop rate and decay are given; the paper does not temper.

    Examples
    --------
    >>> Settings.of({"optimizer": "sgd"}).schedule
    'cosine'
    """

    batch_size: int | str = "auto"
    optimizer: str = "amsgrad"
    schedule: Schedule = "cosine"
    annealing: float = 0.5
    straight_through: bool = True
    negative_slope: float = 0.0
    n_init: int = 1
    feature_penalty: float = 0.0
    refine_leaves: bool | float = False
    temper: bool = True

    def __post_init__(self) -> None:
        _check("batch_size", self.batch_size, _is_count(self.batch_size) or _is(self.batch_size, "auto"),
               "an integer from 1, or 'auto'")  # fmt: skip
        _check("optimizer", self.optimizer, _is(self.optimizer, "amsgrad", "sgd"), "'amsgrad' or 'sgd'")
        known = callable(self.schedule) or _is(self.schedule, "cosine", "step", "constant")
        _check("schedule", self.schedule, known, "'cosine', 'step', 'constant' or a callable")
        share = _is_number(self.annealing) and 0 <= self.annealing <= 1
        _check("annealing", self.annealing, share, "a number from 0 to 1")
        _check("straight_through", self.straight_through, _is_flag(self.straight_through), "True or False")
        _check("negative_slope", self.negative_slope, _is_number(self.negative_slope), "a number")
        _check("n_init", self.n_init, _is_count(self.n_init), "an integer from 1")
        positive = _is_number(self.feature_penalty) and self.feature_penalty >= 0
        _check("feature_penalty", self.feature_penalty, positive, "a number from 0")
        strength = _is_flag(self.refine_leaves) or (_is_number(self.refine_leaves) and self.refine_leaves >= 0)
        _check("refine_leaves", self.refine_leaves, strength, "True, False or a number from 0")
        _check("temper", self.temper, _is_flag(self.temper), "True or False")

    @classmethod
    def of(cls, given: Any) -> Settings:
        """Settings as users give them: an object, a dict of some, or None."""
        if isinstance(given, cls):
            return given
        if given is None:
            return cls()
        if not isinstance(given, dict):
            raise ValueError(f"training must be a dict or treelu.training.Settings, got {given!r}")
        unknown = [name for name in given if name not in NAMES]
        if unknown:
            raise ValueError(f"training has no setting {unknown[0]!r}; there are {', '.join(NAMES)}")
        return cls(**given)

    def changed(self) -> dict[str, Any]:
        """The settings that are not the default ones."""
        defaults = asdict(Settings())
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}

    def but(self, **changes: Any) -> Settings:
        """These settings with some changes."""
        return replace(self, **changes)


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Parameters in one mapping → those of an estimator, with settings of training in their place.

    Examples
    --------
    >>> nested({"depth": 4, "optimizer": "sgd"})
    {'depth': 4, 'training': {'optimizer': 'sgd'}}
    """
    own = {name: value for name, value in flat.items() if name not in NAMES}
    training = {name: value for name, value in flat.items() if name in NAMES}
    return {**own, "training": {**own.get("training", {}), **training}} if training else own


NAMES = tuple(field.name for field in fields(Settings))


def _check(name: str, value: Any, holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"training: {name!r} must be {what}, got {value!r}")


def _is(value: Any, *words: str) -> bool:
    return isinstance(value, str) and value in words


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool_" or type(value).__name__ == "bool"


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not _is_flag(value) and int(value) >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not _is_flag(value) and math.isfinite(float(value))
