"""Hints for parameter names used by other libraries, and nested parameters of `training`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Self

from treelu.training.settings import NAMES, Settings

NESTED = "training__"
_CALLED = {
    "max_depth": "depth",
    "max_iter": "epochs",
    "n_epochs": "epochs",
    "lr": "learning_rate",
    "dropout": "drop_connect",
    "seed": "random_state",
}
_OF_SMALL_TREES = ("max_leaf_nodes", "max_terms", "min_samples_leaf")


class ParameterHints:
    """Refuses parameter names of other estimators with the name that this one has for them.

    `training`, a dict or `Settings`, is reachable in scikit-learn's nested form: ``training__optimizer``.
    """

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        if advice := advice_on(cls, parameters):
            raise TypeError(advice)
        return super().__new__(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also those of `training`, as ``training__name``."""
        parameters: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        if deep and isinstance(parameters.get("training", ...), dict | Settings | None):
            settings = Settings.of(parameters["training"])
            parameters |= {f"{NESTED}{name}": getattr(settings, name) for name in NAMES}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, as in scikit-learn; those of `training` as ``training__name``."""
        if advice := advice_on(type(self), parameters):
            raise ValueError(advice)
        nested = {name: parameters.pop(name) for name in list(parameters) if name.startswith(NESTED)}
        super().set_params(**parameters)  # type: ignore[misc]
        if nested:
            given = getattr(self, "training", None)
            changes = {name.removeprefix(NESTED): value for name, value in nested.items()}
            before = given.changed() if isinstance(given, Settings) else dict(given or {})
            changed = {**before, **changes}
            Settings.of(changed)  # refuses unknown names
            super().set_params(training=changed)  # type: ignore[misc]
        return self


def advice_on(cls: type, given: Iterable[str]) -> str | None:
    """A hint for a parameter that a class does not have; None where all is well or nothing is known.

    Examples
    --------
    >>> from treelu import LCNClassifier
    >>> advice_on(LCNClassifier, ["depth", "max_depth"])
    'LCNClassifier has no parameter max_depth; LCN calls this depth'
    """
    elsewhere: dict[str, str] = getattr(cls, "_elsewhere", {})
    known = [name for name in given if name in _CALLED or name in _OF_SMALL_TREES or name in elsewhere]
    if not known:
        return None
    own = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    kind = "Regressor" if cls.__name__.endswith("Regressor") else "Classifier"
    for name in known:
        if name in own:
            continue
        if _CALLED.get(name) in own:
            return (
                f"{cls.__name__} has no parameter {name}; {cls.__name__.removesuffix(kind)} calls this {_CALLED[name]}"
            )
        if name in elsewhere:
            return f"{cls.__name__} has no parameter {name}; write {elsewhere[name]}"
        if name in _OF_SMALL_TREES:
            return f"{cls.__name__} has no parameter {name}; ObliqueTree{kind} has it"
    return None
