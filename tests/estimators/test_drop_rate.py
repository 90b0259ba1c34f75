"""The choice of the drop rate: fifths that cover each row once, the rate that truly does better, its temperature."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from treelu import LCNClassifier, LCNRegressor
from treelu.estimators import _drop_rate
from treelu.estimators._drop_rate import RATES, choose_rate, folds
from treelu.nn import LocallyConstantNetwork, NeuronChain, Table
from treelu.objectives import Targets
from treelu.training import Sample


def sample_of(labels: np.ndarray, X: np.ndarray | None = None) -> Sample:
    X = np.zeros((len(labels), 1)) if X is None else X
    return Sample(Table(X, np.float32), Targets("binary", torch.from_numpy(labels.astype(np.float32))[:, None], 1))


def step_of(height: float) -> NeuronChain:
    """A network whose only output steps from −height to +height at zero."""
    network = LocallyConstantNetwork(1, 1, 1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.weight.fill_(1.0)
        network.head.weight.fill_(2 * height)
        network.head.bias.fill_(-height)
    return network


def noisy_signs(seed: int) -> Sample:
    """Rows of ±1 whose class is their sign in eight cases of ten."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(500, 1))
    return sample_of((X[:, 0] > 0) == (rng.random(500) < 0.8), X)


def test_folds_hold_out_each_row_of_a_small_table_once_and_each_class_evenly() -> None:
    labels = np.repeat([0, 1], [90, 30])
    parts = list(folds(sample_of(labels), seed=0))
    held_out = [part.rows for _, part in parts]
    assert np.array_equal(np.sort(np.concatenate(held_out)), np.arange(120))
    assert [labels[rows].sum() for rows in held_out] == [6] * 5
    for train, part in parts:
        assert np.array_equal(np.union1d(train.rows, part.rows), np.arange(120))


def test_folds_stop_when_enough_rows_have_been_held_out() -> None:
    assert [len(part) for _, part in folds(sample_of(np.arange(3000) % 2), seed=0)] == [600, 600]
    assert len(list(folds(sample_of(np.arange(5000) % 2), seed=0))) == 1


def test_a_rate_that_is_clearly_behind_is_tried_once() -> None:
    tried = []

    def trial(rate: float, part: Sample) -> NeuronChain:
        """The two lower rates know the same, the highest nothing."""
        tried.append(rate)
        return step_of(1.0 if rate < RATES[-1] else 0.0)

    assert choose_rate(trial, noisy_signs(0), None, seed=0).rate == RATES[0]
    assert [tried.count(rate) for rate in RATES] == [5, 5, 1]


@pytest.mark.parametrize("labels", [np.arange(40) % 2, np.arange(100) == 3], ids=["few rows", "a lone row of a class"])
def test_nothing_is_tried_without_rows_to_spare(labels: np.ndarray) -> None:
    def trial(rate: float, sample: Sample) -> NeuronChain:
        raise AssertionError

    assert choose_rate(trial, sample_of(labels), None, seed=0) == (RATES[0], None)


@pytest.mark.parametrize("right", RATES)
@pytest.mark.parametrize("own_rows", [False, True])
def test_the_rate_that_knows_wins_and_the_temperature_tells_how_sure_it_is(right: float, own_rows: bool) -> None:
    sample = noisy_signs(0)

    def trial(rate: float, part: Sample) -> NeuronChain:
        """Far too sure, the right way round or not."""
        return step_of(10.0 if rate == right else -10.0)

    choice = choose_rate(trial, sample, sample if own_rows else None, seed=0)
    assert choice.rate == right
    assert choice.temperature == pytest.approx(10 / np.log(4), rel=0.2)  # log-odds of 0.8


def test_a_sure_network_that_is_right_more_often_beats_a_modest_one() -> None:
    def trial(rate: float, part: Sample) -> NeuronChain:
        """The low rate has a worse log-loss than the constant of the others, before tempering."""
        return step_of(50.0 if rate == RATES[0] else 0.0)

    assert choose_rate(trial, noisy_signs(1), None, seed=0).rate == RATES[0]


def test_estimators_keep_the_choice_and_temper_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = (X[:, 0] > 0).astype(int)
    settings = {"depth": 2, "epochs": 4, "random_state": 0}
    plain = LCNClassifier(drop_connect=0.3, **settings).fit(X, y)
    monkeypatch.setattr("treelu.estimators._base.choose_rate", lambda *_: _drop_rate.Choice(0.3, 2.0))
    chosen = LCNClassifier(**settings).fit(X, y)
    assert chosen.drop_connect_ == 0.3
    np.testing.assert_allclose(chosen.decision_function(X), plain.decision_function(X) / 2, rtol=1e-9)
    plain_values = LCNRegressor(drop_connect=0.3, **settings).fit(X, X[:, 0]).predict(X)
    np.testing.assert_allclose(LCNRegressor(**settings).fit(X, X[:, 0]).predict(X), plain_values, rtol=1e-9)
