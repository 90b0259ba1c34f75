"""How networks are trained, beyond what every estimator takes: what is rare, or only the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable
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
        for name, (holds, what) in _RULES.items():
            value = getattr(self, name)
            if not holds(value):
                raise ValueError(f"training: {name!r} must be {what}, got {value!r}")

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


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not _is_flag(value) and int(value) >= 1


def _is_number(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    return isinstance(value, Real) and not _is_flag(value) and math.isfinite(value) and low <= float(value) <= high


def _is_word(value: Any, *words: str) -> bool:
    return isinstance(value, str) and value in words


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "batch_size": (lambda size: _is_count(size) or _is_word(size, "auto"), "an integer from 1, or 'auto'"),
    "optimizer": (lambda name: _is_word(name, "amsgrad", "sgd"), "'amsgrad' or 'sgd'"),
    "schedule": (
        lambda how: callable(how) or _is_word(how, "cosine", "step", "constant"),
        "'cosine', 'step', 'constant' or a callable",
    ),
    "annealing": (lambda share: _is_number(share, 0, 1), "a number from 0 to 1"),
    "straight_through": (_is_flag, "True or False"),
    "negative_slope": (_is_number, "a number"),
    "n_init": (_is_count, "an integer from 1"),
    "feature_penalty": (lambda penalty: _is_number(penalty, 0), "a number from 0"),
    "refine_leaves": (lambda rows: _is_flag(rows) or _is_number(rows, 0), "True, False or a number from 0"),
    "temper": (_is_flag, "True or False"),
}
