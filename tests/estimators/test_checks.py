"""scikit-learn's own checks of every estimator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_param_validation, estimator_checks_generator

from tests.estimators.tables import ESTIMATORS, EXPECTED_FAILED_CHECKS, TRAINING
from treelu import LCNClassifier, LCNRegressor

# These ask for a model that has learnt something. The others are as true after three epochs.
LEARNING = {
    "check_classifiers_train",
    "check_classifiers_classes",
    "check_class_weight_classifiers",
    "check_class_weight_balanced_classifiers",
    "check_regressors_train",
    "check_regressors_int",
}


def checks() -> Iterator[Any]:
    """Every check of `check_estimator` for every estimator, those expected to fail marked."""
    for estimator_class in ESTIMATORS:
        for number, (_, check) in enumerate(estimator_checks_generator(estimator_class(), legacy=True)):
            name = check.func.__name__
            expected = EXPECTED_FAILED_CHECKS.get(name)
            marks = [pytest.mark.xfail(reason=expected, raises=AssertionError)] if expected else []
            yield pytest.param(estimator_class, check, id=f"{estimator_class.__name__}-{number}-{name}", marks=marks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize(("estimator_class", "check"), checks())
def test_check_estimator(estimator_class: type, check: Any) -> None:
    settings: dict[str, Any] = {"epochs": 3, "drop_connect": 0.0}
    if check.func.__name__ in LEARNING:
        settings = {**TRAINING, "depth": 8, "epochs": 60}
    if (
        check.func.__name__.endswith("_train")
        and not check.keywords
        and estimator_class in (LCNClassifier, LCNRegressor)
    ):
        settings = {}  # once with the defaults
    check(estimator_class(**settings))


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_check_param_validation(estimator_class: type) -> None:
    check_param_validation(estimator_class.__name__, estimator_class(epochs=1))


def test_few_checks_are_expected_to_fail_and_users_are_told_why() -> None:
    assert len(EXPECTED_FAILED_CHECKS) <= 2
    page = (Path(__file__).parents[2] / "docs" / "guides" / "groups-and-weights.md").read_text("utf-8")
    rows = re.findall(r"^\| `(check_\w+)` \| (.+) \|$", page, re.MULTILINE)
    assert {name for name, _ in rows} == set(EXPECTED_FAILED_CHECKS)
