"""Targets of a regression drawn to the outputs of a locally linear network."""

from __future__ import annotations

import numpy as np
import pytest

from treelu import ALCNRegressor, ELCNRegressor, LCNRegressor, LLNRegressor
from treelu.data.dataset import Dataset
from treelu.data.encoding import value_targets
from treelu.data.scaling import fit_scaling
from treelu.estimators._inputs import network_config
from treelu.nn import Table
from treelu.training.fit import smoothed_targets

QUICK = {"epochs": 20, "training": {"batch_size": 32}, "random_state": 0}


def noisy_line(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, targets and what they are without noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    truth = X @ np.array([2.0, 1.0, -1.0, 0.0, 0.0])
    return X, truth + 3 * rng.normal(size=n), truth


def smoothed(regressor: LCNRegressor, index: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The targets and what is trained on instead."""
    X, y, _ = noisy_line()
    targets = value_targets(y[:, None], fit_scaling(y[:, None], True))
    dataset = Dataset(Table(X, np.float32), targets, index)
    trained_on = smoothed_targets(dataset, None, network_config(regressor), seed=0)
    return targets.y, trained_on.y


def test_smoothed_targets_lie_between_targets_and_a_linear_networks_outputs() -> None:
    y, outputs = smoothed(LCNRegressor(**QUICK, smoothing=1.0))
    for share in (0.0, 0.3):
        _, trained_on = smoothed(LCNRegressor(**QUICK, smoothing=share))
        np.testing.assert_allclose(trained_on, y + share * (outputs - y), rtol=1e-4, atol=1e-5)
    assert float((outputs**2).mean()) < 0.8 * float((y**2).mean())  # the outputs have no noise of their own


def test_rows_that_are_not_trained_on_keep_their_targets() -> None:
    index = np.arange(0, 300, 2)
    y, trained_on = smoothed(LCNRegressor(**QUICK), index)
    assert np.array_equal(trained_on[1::2], y[1::2])
    assert not np.array_equal(trained_on[index], y[index])


@pytest.mark.parametrize(
    ("estimator", "smooths"),
    [
        (LCNRegressor(**QUICK), True),
        (LCNRegressor(**QUICK, drop_connect=0.3), True),
        (LCNRegressor(**QUICK, drop_connect=0.3, smoothing=0.5), True),
        (LCNRegressor(**QUICK, smoothing=0), False),
        (ALCNRegressor(**QUICK), False),
        (LLNRegressor(**QUICK), False),
    ],
)
def test_when_targets_are_smoothed(estimator: LCNRegressor, smooths: bool) -> None:
    y, trained_on = smoothed(estimator)
    assert np.array_equal(trained_on, y) != smooths


def test_a_noisy_line_is_found_better() -> None:
    errors: dict[float, list[float]] = {0.0: [], 0.7: []}
    for seed in range(3):
        X, y, truth = noisy_line(seed=seed)
        for smoothing, found in errors.items():
            settings = {
                "depth": 8,
                "drop_connect": 0.0,
                "epochs": 60,
                "training": {"batch_size": 32},
                "random_state": seed,
            }
            model = LCNRegressor(**settings, smoothing=smoothing).fit(X, y)
            found.append(float(np.sqrt(np.mean((model.predict(X) - truth) ** 2))))
            np.testing.assert_allclose(model.tree_.predict(X), model.predict(X), rtol=1e-6)
    assert np.mean(errors[0.7]) < np.mean(errors[0.0])


def test_several_targets_weights_and_validation_rows() -> None:
    X, y, truth = noisy_line()
    both = np.column_stack([y, -2 * y])
    model = LCNRegressor(**QUICK).fit(X[:200], both[:200], sample_weight=np.ones(200), eval_set=(X[200:], both[200:]))
    assert model.predict(X).shape == (300, 2)
    assert np.corrcoef(model.predict(X[200:])[:, 0], truth[200:])[0, 1] > 0.7
    assert model.history_.metric == "rmse"


def test_bad_values_and_ensembles() -> None:
    X, y, _ = noisy_line(60)
    for wrong in (-0.1, 1.5, "half"):
        with pytest.raises(ValueError, match="smoothing"):
            LCNRegressor(smoothing=wrong).fit(X, y)
    assert "smoothing" not in ELCNRegressor().get_params()
