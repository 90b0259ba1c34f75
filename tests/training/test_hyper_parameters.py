"""The choice of depth and drop rate: fifths that cover each row once, the setting that does better, its temperature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from treelu import LCNClassifier, LCNRegressor, LLNRegressor, load
from treelu.data.targets import Targets
from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain, Table
from treelu.nn.cpu.threads import limited
from treelu.training import Dataset, fit
from treelu.training.calibration import Tempering
from treelu.training.config import NetworkConfig
from treelu.training.history import History
from treelu.training.hyper_parameters import (
    FEW_FEATURES,
    LINEAR,
    RATES,
    Choice,
    HyperParameters,
    candidates_for,
    folds,
)

SETTINGS = candidates_for("auto", "auto", "auto", 1000, 20)
Trial = Callable[[HyperParameters, Dataset], NeuronChain]


def sample_of(labels: np.ndarray, X: np.ndarray | None = None) -> Dataset:
    X = np.zeros((len(labels), 1)) if X is None else X
    return Dataset(Table(X, np.float32), Targets("binary", labels.astype(np.float32)[:, None], 1))


def step_of(height: float) -> NeuronChain:
    """A network whose only output steps from −height to +height at zero."""
    network = LocallyConstantNetwork(1, 1, 1)
    network.weight[:], network.head.weight[:], network.head.bias[:] = 1.0, 2 * height, -height
    return network


def noisy_signs(seed: int) -> Dataset:
    """Rows of ±1 whose class is their sign in eight cases of ten."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(500, 1))
    return sample_of((X[:, 0] > 0) == (rng.random(500) < 0.8), X)


@pytest.fixture
def choose_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Choice]:
    """The choice among the default candidates, where trial(candidate, rows) takes the place of training."""

    def choose(trial: Trial, sample: Dataset, validation: Dataset | None = None) -> Choice:
        monkeypatch.setattr(fit, "train_once", lambda part, config, one, *_, **__: (trial(one, part), None))
        return fit.choose(sample, NetworkConfig(), 0, validation)

    return choose


def test_folds_hold_out_each_row_of_a_small_table_once_and_each_class_evenly() -> None:
    labels = np.repeat([0, 1], [90, 30])
    parts = list(folds(sample_of(labels), seed=0))
    held_out = [part.rows for _, part in parts]
    assert np.array_equal(np.sort(np.concatenate(held_out)), np.arange(120))
    assert [labels[rows].sum() for rows in held_out] == [6] * 5
    for train, part in parts:
        assert np.array_equal(np.union1d(train.rows, part.rows), np.arange(120))


def test_a_lone_row_of_a_class_stays_in_training() -> None:
    labels = np.repeat([0, 1, 2], [60, 60, 1])
    sample = sample_of(labels)
    classes = Targets("multiclass", labels, 3)
    parts = list(folds(Dataset(sample.table, classes), seed=0))
    assert sorted(np.concatenate([part.rows for _, part in parts])) == list(range(120))
    assert all(120 in train.rows for train, _ in parts)


def test_folds_stop_when_enough_rows_have_been_held_out() -> None:
    assert [len(part) for _, part in folds(sample_of(np.arange(1000) % 2), seed=0)] == [200, 200, 200]
    assert [len(part) for _, part in folds(sample_of(np.arange(3000) % 2), seed=0)] == [600, 600]
    assert len(list(folds(sample_of(np.arange(5000) % 2), seed=0))) == 1


def test_a_setting_that_is_clearly_behind_is_tried_once(choose_by: Callable[..., Choice]) -> None:
    tried = []

    def trial(setting: HyperParameters, part: Dataset) -> NeuronChain:
        """The two lower rates know the same, the highest nothing."""
        tried.append(setting)
        return step_of(1.0 if setting != SETTINGS[-1] else 0.0)

    assert choose_by(trial, noisy_signs(0)).hyper_parameters == SETTINGS[0]
    assert [tried.count(setting) for setting in SETTINGS] == [3, 2, 1]


def test_a_race_ends_when_one_is_left_and_is_tempered_on_enough_rows(choose_by: Callable[..., Choice]) -> None:
    """The same number of folds as for one candidate alone, whose tempering is then the same."""
    for n_rows, n_folds in ((500, 3), (900, 2), (1600, 2), (100, 5)):
        rng = np.random.default_rng(n_rows)
        X = rng.choice([-1.0, 1.0], size=(n_rows, 1))
        tried: list[HyperParameters] = []

        def trial(setting: HyperParameters, part: Dataset, tried: list[HyperParameters] = tried) -> NeuronChain:
            tried.append(setting)
            return step_of(1.0)

        choose_by(trial, sample_of((X[:, 0] > 0) == (rng.random(n_rows) < 0.8), X))
        assert len(tried) == 3 + 2 + (n_folds - 2)


def test_trials_make_half_of_the_planned_updates_with_twice_the_learning_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings: list[dict[str, Any]] = []

    def watched(network: Any, sample: Dataset, **options: Any) -> Any:
        trainings.append({**options, "rows": len(sample)})
        return History()

    monkeypatch.setattr(fit, "train", watched)
    X = np.random.default_rng(0).normal(size=(1000, 3))
    LCNClassifier(depth=2, drop_connect=0.1, random_state=0).fit(X, X[:, 0] > 0)
    *trials, final = trainings
    assert [one["rows"] for one in trainings] == [800, 800, 1000]
    assert (final["updates_per_epoch"], final["epochs"], final["learning_rate"]) == (40, 60, 0.01)
    for one in trials:
        assert (one["updates_per_epoch"], one["epochs"], one["learning_rate"]) == (20, 30, 0.02)
    trainings.clear()
    LCNClassifier(depth=2, drop_connect=0.1, epochs=4, random_state=0).fit(X, X[:, 0] > 0)
    assert [(one["updates_per_epoch"], one["learning_rate"]) for one in trainings] == [(None, 0.01)] * 3
    trainings.clear()
    LCNRegressor(depth=2, drop_connect=0.1, smoothing=0, random_state=0).fit(X, X[:, 0])
    assert [(one["updates_per_epoch"], one["learning_rate"]) for one in trainings] == [(40, 0.01)] * 4


@pytest.mark.parametrize("labels", [np.arange(40) % 2, np.arange(100) == 3], ids=["few rows", "a lone row of a class"])
def test_nothing_is_tried_without_rows_to_spare(labels: np.ndarray, choose_by: Callable[..., Choice]) -> None:
    def trial(setting: HyperParameters, sample: Dataset) -> NeuronChain:
        raise AssertionError

    assert choose_by(trial, sample_of(labels)) == (HyperParameters(12, SETTINGS[0].drop_connect), None)


@pytest.mark.parametrize("right", SETTINGS)
@pytest.mark.parametrize("own_rows", [False, True])
def test_the_setting_that_knows_wins_and_the_temperature_tells_how_sure_it_is(
    right: HyperParameters, own_rows: bool, choose_by: Callable[..., Choice]
) -> None:
    sample = noisy_signs(0)

    def trial(setting: HyperParameters, part: Dataset) -> NeuronChain:
        """Far too sure, the right way round or not."""
        return step_of(10.0 if setting == right else -10.0)

    choice = choose_by(trial, sample, sample if own_rows else None)
    assert choice.hyper_parameters == right
    assert choice.tempering.temperature == pytest.approx(10 / np.log(4), rel=0.2)  # log-odds of 0.8


def test_a_sure_network_that_is_right_more_often_beats_a_modest_one(choose_by: Callable[..., Choice]) -> None:
    def trial(setting: HyperParameters, part: Dataset) -> NeuronChain:
        """The low rate has a worse log-loss than the constant of the others, before tempering."""
        return step_of(50.0 if setting == SETTINGS[0] else 0.0)

    assert choose_by(trial, noisy_signs(1)).hyper_parameters == SETTINGS[0]


def test_one_row_far_out_does_not_decide_between_settings(choose_by: Callable[..., Choice]) -> None:
    """A linear output is right of all rows but one, which lies 1e6 away; the others know nothing."""
    sample = noisy_signs(2)
    X = sample.table.rows().to_dense()
    X[0] = 1e6 * (1 - 2 * sample.targets.y[0])  # on the wrong side
    sample = Dataset(Table(X, np.float32), sample.targets)

    def trial(setting: HyperParameters, part: Dataset) -> NeuronChain:
        network = LocallyLinearNetwork(1, 1, 1)
        for array in network.arrays().values():
            array[:] = 0.0
        network.output_weight[:] = float(setting == SETTINGS[0])
        return network

    choice = choose_by(trial, sample)
    assert choice.hyper_parameters == SETTINGS[0]
    assert choice.tempering is not None
    assert not choice.tempering.to_shares
    assert choice.tempering.temperature == pytest.approx(1 / np.log(4), rel=0.2)  # scores of ±1, right in 0.8


def test_estimators_keep_the_choice_and_temper_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    y = (X[:, 0] > 0).astype(int)
    settings = {"depth": 2, "epochs": 4, "random_state": 0}
    given = {**settings, "drop_connect": 0.3, "training": {"temper": False}}
    plain = LCNClassifier(**given).fit(X, y)
    values, mean = X[:, 0], X[:, 0].mean()
    plain_values = LCNRegressor(**given, smoothing=0).fit(X, values).predict(X)
    monkeypatch.setattr("treelu.training.fit.choose", lambda *_: Choice(HyperParameters(2, 0.3), Tempering(2.0)))
    chosen = LCNClassifier(**settings).fit(X, y)
    assert chosen.drop_connect_ == 0.3
    np.testing.assert_allclose(chosen.decision_function(X), plain.decision_function(X) / 2, atol=1e-6)
    drawn = LCNRegressor(smoothing=0, **settings).fit(X, values).predict(X)
    np.testing.assert_allclose(drawn - mean, (plain_values - mean) / 2, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("estimator_class", [LCNClassifier, LCNRegressor])
def test_a_rate_that_is_given_is_the_same_rate_chosen(estimator_class: type) -> None:
    """Neither tempering nor smoothing depends on whether depth and drop rate were given."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = X[:, 0] * X[:, 1] + rng.normal(size=150)
    y = (y > 0).astype(int) if estimator_class is LCNClassifier else y
    chosen = estimator_class(depth=2, epochs=4, random_state=0).fit(X, y)
    given = estimator_class(depth=2, epochs=4, drop_connect=chosen.drop_connect_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(given.tree_.values, chosen.tree_.values)


@pytest.mark.parametrize(
    ("n_features", "depths"),
    [(1, [16, 16, 12]), (128, [16, 16, 12]), (129, [15, 15, 12]), (2048, [12] * 3), (10**5, [12] * 3)],
)
def test_depth_leaves_room_for_the_whole_tree(n_features: int, depths: list[int]) -> None:
    assert [setting.depth for setting in candidates_for("auto", "auto", "auto", 499, n_features)] == [12] * 3
    settings = candidates_for("auto", "auto", "auto", 500, n_features)
    assert [setting.depth for setting in settings] == depths
    assert all(2**setting.depth * n_features <= 2**23 or setting.depth == 12 for setting in settings)


def test_depth_follows_a_drop_rate_that_is_given() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (X[:, 0] > 0).astype(int)
    for rate, depth in ((0.0, 16), (0.5, 16), (0.75, 12)):
        classifier = LCNClassifier(drop_connect=rate, epochs=1, random_state=0).fit(X, y)
        assert (classifier.depth_, classifier.drop_connect_) == (depth, rate)
        assert classifier.network_.depth == classifier.tree_.depth == depth
        again = LCNClassifier(drop_connect=rate, epochs=2, random_state=0).partial_fit(X, y, classes=[0, 1])
        assert again.partial_fit(X, y).network_.depth == depth


def test_warm_start_keeps_the_depth_that_was_chosen() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    regressor = LCNRegressor(epochs=2, warm_start=True, random_state=0).fit(X, rng.normal(size=80))
    chosen = regressor.depth_, regressor.drop_connect_
    regressor.fit(X, X[:, 0])
    assert (regressor.depth_, regressor.drop_connect_) == chosen


def test_threads_change_no_bit() -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    results = []
    for number in (1, 3):
        with limited(number):
            model = LCNClassifier(epochs=8, random_state=0).fit(X, y)
        results.append((model.depth_, model.drop_connect_, model.decision_function(X)))
    assert results[0][:2] == results[1][:2]
    np.testing.assert_array_equal(results[0][2], results[1][2])


@pytest.mark.parametrize("error", [FloatingPointError, KeyboardInterrupt])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_ends_a_trial_ends_the_fit(
    n_threads: int, error: type[BaseException], choose_by: Callable[..., Choice]
) -> None:
    def trial(setting: HyperParameters, part: Dataset) -> NeuronChain:
        raise error(f"depth {setting.depth}")

    with limited(n_threads), pytest.raises(error, match="depth 16"):
        choose_by(trial, noisy_signs(0))


def test_linear_leaves_choose_decay_with_the_drop_rate() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X @ rng.normal(size=6) + np.abs(X[:, 0]) + rng.normal(size=200)
    model = LLNRegressor(epochs=20, random_state=0).fit(X, y)
    settings = candidates_for("auto", "auto", "auto", 200, 6, linear=True)
    assert model.fitted_.chosen in settings
    assert {(setting.drop_connect, setting.weight_decay) for setting in settings} == set(LINEAR)
    given = LLNRegressor(epochs=20, drop_connect=0.1, random_state=0).fit(X, y)
    assert (given.drop_connect_, given.weight_decay_) == (0.1, 0.0)
    decaying = LLNRegressor(epochs=20, weight_decay=0.5, random_state=0).fit(X, y)
    assert decaying.drop_connect_ in RATES
    assert decaying.weight_decay_ == 0.5
    strong = LLNRegressor(epochs=20, drop_connect=0.0, weight_decay=50.0, random_state=0).fit(X, y)
    assert np.ptp(strong.predict(X)) < 0.1 * np.ptp(given.predict(X))


def test_trials_of_very_many_classes_are_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update costs as much as there are classes; those of ordinary tables are as long as ever."""
    from treelu.training import loop

    lengths: list[int] = []
    train = loop.train

    def counted(*arguments: Any, **options: Any) -> Any:
        lengths.append(options["epochs"])
        return train(*arguments, **options)

    monkeypatch.setattr("treelu.training.fit.train", counted)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    X = rng.normal(size=(120, 2)) + y[:, None]
    LCNClassifier(depth=2, epochs=20, random_state=0).fit(X, y)
    assert set(lengths[:-1]) == {10}
    assert lengths[-1] == 20
    lengths.clear()
    monkeypatch.setattr("treelu.training.hyper_parameters.MANY_OUTPUTS", 2)
    LCNClassifier(depth=2, epochs=20, random_state=0).fit(X, y)
    assert set(lengths[:-1]) == {5}
    assert lengths[-1] == 20


def test_a_network_on_few_features_is_tried_where_there_are_few_rows_for_each() -> None:
    def limits(*given: Any, n_rows: int = 400, n_features: int = 200, few: bool = True) -> list[int | None]:
        settings = candidates_for(*given, n_rows, n_features, try_few_features=few)
        return [setting.max_tree_features for setting in settings]

    auto = ("auto", "auto", "auto")
    assert limits(*auto) == [None, None, None, FEW_FEATURES]
    assert set(limits(*auto, n_rows=1000)) == {None}  # five rows for each feature
    assert set(limits(*auto, n_rows=60, n_features=2 * FEW_FEATURES)) == {None}
    assert set(limits(*auto, few=False)) == {None}
    assert limits("auto", 0.1, "auto") == [None]


@pytest.mark.slow
def test_with_more_features_than_rows_teach_the_default_does_not_lose_to_an_ordinary_tree(tmp_path: Path) -> None:
    """On all 200 features a network of the same table is right in 0.70 of the rows."""
    n_rows = 400
    X, y = make_classification(n_rows + 2000, 200, n_informative=4, n_redundant=2, random_state=2)
    train, test = slice(n_rows), slice(n_rows, None)
    cart = DecisionTreeClassifier(max_leaf_nodes=16, random_state=0).fit(X[train], y[train])
    model = LCNClassifier(random_state=0).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > cart.score(X[test], y[test]) - 0.02  # two standard errors
    assert model.max_tree_features_ == FEW_FEATURES
    assert np.count_nonzero(model.network_.weight.any(axis=1)) <= FEW_FEATURES
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").max_tree_features_ == FEW_FEATURES
