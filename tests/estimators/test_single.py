"""LCN, ALCN and LLN: what they learn, and what each parameter and argument of `fit` does."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from tests.estimators.tables import (
    CLASSIFIERS,
    ESTIMATORS,
    FAST,
    REGRESSORS,
    TRAINING,
    bits,
    data_for,
    scores,
    three_classes,
    tumours,
    two_classes,
    values,
)
from treelu import (
    ALCNClassifier,
    ELCNClassifier,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTreeClassifier,
)

# What is learnt


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_two_classes(estimator_class: type) -> None:
    X, y = tumours()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    classifier = estimator_class(**TRAINING, depth=4, epochs=60).fit(X_train, y_train)
    assert classifier.score(X_test, y_test) > 0.92
    chances = classifier.predict_proba(X_test)
    assert chances.shape == (len(X_test), 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.allclose(chances[:, 1], 1 / (1 + np.exp(-classifier.decision_function(X_test))))
    assert np.array_equal(classifier.predict(X_test), classifier.classes_[chances.argmax(axis=1)])


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_three_classes(estimator_class: type) -> None:
    X, y = three_classes()
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    classifier = estimator_class(**TRAINING, depth=8, epochs=300).fit(X, names)
    assert classifier.score(X, names) > 0.9
    assert classifier.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert classifier.decision_function(X).shape == classifier.predict_proba(X).shape == (150, 3)
    assert classifier.network_.out_features == 3


@pytest.mark.parametrize("estimator_class", REGRESSORS)
def test_regression(estimator_class: type) -> None:
    X, y = values(n=400)
    regressor = estimator_class(**TRAINING, depth=5, epochs=100).fit(X, y, eval_set=(X, y))
    # the leaves of an LCN are constant: a bound for it that a stump does not reach
    assert regressor.score(X, y) > (0.5 if estimator_class is LCNRegressor else 0.8)
    assert regressor.predict(X).shape == (400,)


@pytest.mark.parametrize("estimator_class", REGRESSORS)
def test_several_targets_of_different_size(estimator_class: type) -> None:
    X, y = values(n=400, n_outputs=3)
    y = y * [1.0, 1e4, 1e-4]
    regressor = estimator_class(**TRAINING, depth=5, epochs=100).fit(X, y, eval_set=(X, y))
    assert regressor.predict(X).shape == (400, 3)
    assert regressor.score(X, y) > (0.4 if estimator_class is LCNRegressor else 0.7)
    one = estimator_class(**FAST).fit(X, y[:, :1])
    assert one.predict(X).shape == (400,)


def test_an_oblique_tree_beats_a_straight_one_where_the_border_is_oblique() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    y = X.sum(axis=1) > 0
    settings = {**TRAINING, "depth": 2, "epochs": 60}
    ours = LCNClassifier(**settings).fit(X[:500], y[:500]).score(X[500:], y[500:])
    straight = DecisionTreeClassifier(random_state=0).fit(X[:500], y[:500]).score(X[500:], y[500:])
    assert ours > 0.93 > straight


@pytest.mark.parametrize("hidden_layers", [(8,), [8, 4], np.array([5])], ids=["tuple", "list", "array"])
def test_hidden_layers(hidden_layers) -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST, hidden_layers=hidden_layers).fit(X, y)
    widths = [len(layer.bias) for layer in classifier.network_.head.hidden]
    assert [*classifier.network_.head.bias.shape, *widths] == [*hidden_layers, 1]
    assert np.allclose(classifier.tree_.decision_function(X), classifier.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("estimator_class", [LCNClassifier, LLNClassifier])
def test_a_negative_slope_makes_leaky_neurons(estimator_class: type) -> None:
    X, y = two_classes()
    classifier = estimator_class(**{**FAST, "training": {"negative_slope": 0.2}}).fit(X, y)
    assert (classifier.network_.activation.kind, classifier.network_.activation.negative_slope) == ("leaky_relu", 0.2)
    assert np.allclose(classifier.tree_.decision_function(X), classifier.decision_function(X), atol=1e-9)


def test_the_smooth_estimator_stays_smooth() -> None:
    classifier = ALCNClassifier(**FAST).fit(*two_classes())
    assert classifier.network_.activation.kind == "softplus"
    assert classifier.history_["annealing"] == [0.0] * 4


# What is left behind


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_the_network_reads_raw_features_in_double_precision(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**{**FAST, "drop_connect": 0.25}).fit(X, y)
    network = estimator.network_
    assert network.dtype == np.float64
    out = network(X)
    assert np.allclose(out[:, 0], scores(estimator, X), atol=1e-9)
    assert (estimator.n_features_in_, estimator.history_.ended, len(estimator.history_)) == (4, "finished", 4)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_the_same_random_state_gives_the_same_bits(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    settings = {**FAST, "drop_connect": 0.5}
    first, second = (estimator_class(**settings).fit(X, y) for _ in range(2))
    assert np.array_equal(scores(first, X), scores(second, X))
    assert first.history_["train_loss"] == second.history_["train_loss"]
    refitted = first.fit(X, y)
    assert np.array_equal(scores(refitted, X), scores(second, X))
    other = estimator_class(**{**settings, "random_state": 1}).fit(X, y)
    assert not np.allclose(scores(other, X), scores(second, X))


@pytest.mark.parametrize("kind", [LCNClassifier, ObliqueTreeClassifier])
def test_a_random_state_object_is_advanced(kind: Any) -> None:
    """As scikit-learn does it, for all estimators alike: each fit draws other numbers, the same ones from the start."""
    X, y = two_classes()
    settings = FAST if kind is LCNClassifier else {"max_leaf_nodes": 3, "n_updates": 20, "teacher": None}
    state = np.random.RandomState(3)
    kind(**{**settings, "random_state": state}).fit(X, y)
    assert state.get_state()[2] != np.random.RandomState(3).get_state()[2]


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_pickle_and_clone(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST).fit(X, y)
    twin = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(scores(twin, X), scores(estimator, X))
    assert twin.history_ == estimator.history_
    fresh = clone(estimator)
    assert fresh.get_params() == estimator.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_prediction_does_not_depend_on_how_the_rows_are_cut() -> None:
    X, y = values(n=300)
    regressor = LCNRegressor(**FAST).fit(X, y)
    one_by_one = np.concatenate([regressor.predict(X[row : row + 1]) for row in range(300)])
    assert np.array_equal(one_by_one, regressor.predict(X))
    many = np.tile(X, (60, 1)).astype(np.float32)  # more than one block
    assert np.array_equal(regressor.predict(many)[:300], regressor.predict(many)[-300:])


# Scaling


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_the_units_of_the_features_do_not_matter(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    units, shifts = np.array([1e3, 1e-3, 1.0, 50.0]), np.array([1e4, 0.0, -5.0, 1.0])
    plain = estimator_class(**FAST).fit(X, y)
    other = estimator_class(**FAST).fit(X * units + shifts, y)
    difference = np.abs(scores(plain, X) - scores(other, X * units + shifts))
    assert np.median(difference) < 1e-3 * np.ptp(scores(plain, X))


@pytest.mark.parametrize("estimator_class", REGRESSORS)
def test_the_units_of_the_targets_do_not_matter(estimator_class: type) -> None:
    X, y = values()
    plain, other = estimator_class(**FAST).fit(X, y), estimator_class(**FAST).fit(X, 1e4 * y - 3e6)
    assert np.allclose(other.predict(X), 1e4 * plain.predict(X) - 3e6, rtol=1e-3)


def test_binary_and_sparse_features_are_left_as_they_are() -> None:
    X, y = bits()
    classifier = LCNClassifier(**FAST).fit(X, y)
    assert classifier.scaling_.is_identity
    mixed = np.column_stack([X[:, :3], 10 + 4 * np.random.default_rng(0).standard_normal(len(X))])
    classifier = LCNClassifier(**FAST).fit(mixed, y)
    assert classifier.scaling_.center[:3].tolist() == [0, 0, 0]
    assert classifier.scaling_.scale[3] == pytest.approx(mixed[:, 3].std())
    assert LCNClassifier(**FAST, standardize=False).fit(mixed, y).scaling_.is_identity


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_a_constant_feature_does_no_harm(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    with_constant = np.column_stack([X, np.full(len(X), 0.1)])
    estimator = estimator_class(**FAST).fit(with_constant, y)
    elsewhere = with_constant.copy()
    elsewhere[:, 4] = 0.2  # a step of a tenth, not of a rounding error's multiple
    change = np.abs(scores(estimator, elsewhere) - scores(estimator, with_constant)).max()
    assert change < 2 * np.ptp(scores(estimator, with_constant))


def test_a_constant_target_is_predicted() -> None:
    X, _ = values()
    assert np.allclose(LCNRegressor(**FAST).fit(X, np.full(len(X), 0.1)).predict(X), 0.1, atol=0.3)


# Weights


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_doubling_all_weights_changes_nothing(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    weight = np.random.default_rng(0).integers(1, 5, len(X)).astype(float)
    first = estimator_class(**FAST).fit(X, y, sample_weight=weight)
    second = estimator_class(**FAST).fit(X, y, sample_weight=2 * weight)
    assert np.array_equal(scores(first, X), scores(second, X))
    unweighted = estimator_class(**FAST).fit(X, y)
    assert not np.allclose(scores(first, X), scores(unweighted, X))
    ones = estimator_class(**FAST).fit(X, y, sample_weight=np.full(len(X), 0.25))
    assert np.allclose(scores(ones, X), scores(unweighted, X), atol=1e-3)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_in_one_batch_weights_are_repetitions(estimator_class: type) -> None:
    """Weight 0 is absence and weight 2 is twice: where batches do not come into it."""
    X, y = data_for(estimator_class)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    # targets are scaled by the rows that are there: give the regressor none to scale
    settings = {**FAST, "standardize": False}
    settings["training"] = {"batch_size": 1000, "schedule": "constant", "temper": False}
    settings |= {} if estimator_class in CLASSIFIERS else {"smoothing": 0}
    y = y if estimator_class in CLASSIFIERS else (y - y.mean()) / y.std()
    weighted = estimator_class(**settings).fit(X, y, sample_weight=weight)
    rows = np.repeat(np.arange(len(X)), weight)
    repeated = estimator_class(**settings).fit(X[rows], y[rows])
    assert np.allclose(scores(weighted, X), scores(repeated, X), atol=1e-3)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_rows_without_weight_are_as_good_as_removed(estimator_class: type, way: str) -> None:
    """They scale neither features nor targets, and are not held out."""
    X, y = data_for(estimator_class)
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    wild = np.where(weight == 0, 1e6, 1.0)
    X_wild, y_wild = X * wild[:, None], y if estimator_class in CLASSIFIERS else y * wild
    settings = {**FAST, "early_stopping": True}
    weighted = getattr(estimator_class(**settings), way)(X_wild, y_wild, sample_weight=weight)
    removed = getattr(estimator_class(**settings), way)(X[weight > 0], y[weight > 0])
    assert np.array_equal(scores(weighted, X), scores(removed, X))


def test_a_class_whose_rows_have_no_weight_is_known_and_not_predicted() -> None:
    X, y = three_classes()
    model = LCNClassifier(**{**FAST, "epochs": 30}).fit(X, y, sample_weight=(y != 2).astype(float))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X).shape == (len(X), 3)
    assert not (model.predict(X) == 2).any()
    one = LCNClassifier(**FAST).fit(X, y == 2, sample_weight=(y != 2).astype(float))
    assert not one.predict(X).any()


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
@pytest.mark.parametrize("class_weight", [{"no": 1.0, "yes": 5.0}, "balanced"])
def test_class_weight_is_a_sample_weight(estimator_class: type, class_weight) -> None:
    X, y = two_classes()
    keep = (y == "no") | (np.arange(len(y)) % 4 == 0)
    X, y = X[keep], y[keep]
    by_class = estimator_class(**FAST, class_weight=class_weight).fit(X, y)
    by_row = estimator_class(**FAST).fit(X, y, sample_weight=compute_sample_weight(class_weight, y))
    assert np.array_equal(scores(by_class, X), scores(by_row, X))
    rare_weight = np.where(np.arange(len(y)) % 2, 1.0, 2.0)
    both = estimator_class(**FAST, class_weight=class_weight).fit(X, y, sample_weight=rare_weight)
    weights = compute_class_weight(class_weight, classes=np.unique(y), y=y, sample_weight=rare_weight)
    product = weights[(y == "yes").astype(int)] * rare_weight
    assert np.array_equal(scores(both, X), scores(estimator_class(**FAST).fit(X, y, sample_weight=product), X))


# Validation and early stopping


def halves(estimator_class: type):
    X, y = data_for(estimator_class)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_eval_set_keeps_the_best_epoch(estimator_class: type) -> None:
    X, y, X_valid, y_valid = halves(estimator_class)
    settings = {**FAST, "epochs": 15, "learning_rate": 0.05}
    estimator = estimator_class(**settings).fit(X, y, eval_set=(X_valid, y_valid))
    history = estimator.history_
    is_classifier = estimator_class in CLASSIFIERS
    best = max if is_classifier else min
    assert history.metric == ("auc" if is_classifier else "rmse")
    assert history.best_epoch == 1 + history["valid_score"].index(best(history["valid_score"]))
    if is_classifier:
        here = roc_auc_score(y_valid, estimator.decision_function(X_valid))
    else:
        here = root_mean_squared_error(y_valid, estimator.predict(X_valid))
    # single precision in training, double afterwards: a row on a border may change sides
    assert here == pytest.approx(best(history["valid_score"]), rel=0.02)


def test_eval_set_of_three_classes_is_judged_by_log_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = three_classes()

    def fitted() -> tuple[LCNClassifier, float]:
        classifier = LCNClassifier(**FAST).fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
        return classifier, log_loss(y[1::2], classifier.predict_proba(X[1::2]), labels=classifier.classes_)

    classifier, tempered = fitted()
    with monkeypatch.context() as patch:
        patch.setattr("treelu.training.fit.calibrate", lambda *_: None)
        untempered_classifier, untempered = fitted()
    assert classifier.history_.metric == "log_loss"
    assert untempered == pytest.approx(min(untempered_classifier.history_["valid_score"]), rel=0.02)
    assert tempered <= untempered * (1 + 1e-6)  # tempering on these rows can only lower it
    LCNClassifier(**FAST).fit(X[::2], y[::2], eval_set=(X[y < 2], y[y < 2]))  # not all classes need to be there


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_eval_set_does_not_change_what_is_trained(estimator_class: type) -> None:
    X, y, X_valid, y_valid = halves(estimator_class)
    settings = FAST if estimator_class in CLASSIFIERS else {**FAST, "smoothing": 0}
    with_set = estimator_class(**settings).fit(X, y, eval_set=(X_valid, y_valid))
    without = estimator_class(**settings).fit(X, y)
    assert with_set.history_["train_loss"] == without.history_["train_loss"]


@pytest.mark.parametrize(("patience", "epochs_without_better"), [(True, 10), (np.True_, 10), (3, 3), (1, 1)])
def test_early_stopping_with_an_eval_set(patience, epochs_without_better: int) -> None:
    X, y, X_valid, y_valid = halves(LCNClassifier)
    settings = {**FAST, "epochs": 30, "learning_rate": 1e-9, "early_stopping": patience}
    history = LCNClassifier(**settings).fit(X, y, eval_set=(X_valid, y_valid)).history_
    assert history.ended == "early"
    assert len(history) == history.best_epoch + epochs_without_better


@pytest.mark.parametrize("estimator_class", [LCNClassifier, LCNRegressor])
def test_early_stopping_without_an_eval_set_holds_rows_out(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    settings = {**FAST, "epochs": 30, "learning_rate": 1e-9, "early_stopping": 2}
    estimator = estimator_class(**settings).fit(X, y)
    assert estimator.history_.ended == "early"
    assert estimator.history_.metric is not None
    assert 0.89 * len(X) < estimator.fitted_.patterns.counts.sum() < 0.92 * len(X)


@pytest.mark.parametrize("n_rare", [2, 5])
def test_rows_of_a_rare_class_are_held_out_too(n_rare: int) -> None:
    """Else there would be no AUC to stop by."""
    X, _ = two_classes(n=100)
    y = np.zeros(100, int)
    y[:n_rare] = 1
    for seed in range(5):
        settings = {**FAST, "random_state": seed, "early_stopping": True}
        classifier = LCNClassifier(**settings).fit(X, y)
        assert np.isfinite(classifier.history_["valid_score"]).all()


def test_early_stopping_says_when_there_is_nothing_to_hold_out() -> None:
    X, _ = two_classes(n=20)
    y = np.zeros(20, int)
    y[3] = 1
    with pytest.raises(ValueError, match=r"early_stopping needs at least two rows of each class .* give an eval_set"):
        LCNClassifier(**FAST, early_stopping=True).fit(X, y)


# Callbacks, progress, Ctrl-C


def test_callbacks() -> None:
    seen = []

    def callback(record, network) -> bool:
        seen.append((record.epoch, network.depth))
        return record.epoch == 3

    classifier = LCNClassifier(**FAST, callbacks=[callback]).fit(*two_classes())
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert classifier.history_.ended == "callback"


def test_ctrl_c_leaves_a_fitted_estimator() -> None:
    def callback(record, network) -> None:
        if record.epoch == 2:
            raise KeyboardInterrupt

    X, y = two_classes()
    classifier = LCNClassifier(**FAST, callbacks=[callback])
    with pytest.warns(UserWarning, match="training interrupted"):
        classifier.fit(X, y)
    assert classifier.history_.ended == "interrupted"
    assert classifier.predict(X).shape == y.shape
    assert classifier.tree_.n_leaves == 8


def test_verbose_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = two_classes()
    LCNClassifier(**FAST, verbose=True).fit(X, y, eval_set=(X, y))
    shown = capsys.readouterr().out
    assert "LCNClassifier" in shown
    assert "epoch 4/4" in shown
    assert "valid" in shown
    LCNClassifier(**FAST).fit(X, y)
    assert capsys.readouterr().out == ""


# Going on


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_warm_start_goes_on_where_it_stopped(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST, warm_start=True).fit(X, y)
    before = scores(estimator, X)
    estimator.set_params(learning_rate=1e-12).fit(X, y)
    assert np.allclose(scores(estimator, X), before, atol=1e-4 * np.ptp(before))
    estimator.set_params(learning_rate=0.01, epochs=20).fit(X, y)
    assert not np.allclose(scores(estimator, X), before, atol=1e-2 * np.ptp(before))
    cold = estimator_class(**{**FAST, "epochs": 20}).fit(X, y)
    assert estimator.history_["train_loss"][0] < cold.history_["train_loss"][0]


@pytest.mark.parametrize("estimator_class", [LCNClassifier, LCNRegressor])
def test_warm_start_on_rows_of_another_scale(estimator_class: type) -> None:
    """The network is kept on raw features: other rows bring another scaling, not another function."""
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST, warm_start=True).fit(X, y)
    before = scores(estimator, X)
    estimator.set_params(learning_rate=1e-12).fit(X[:40] * 1.3 + 0.1, y[:40])
    assert np.allclose(scores(estimator, X), before, atol=1e-3 * np.ptp(before))


@pytest.mark.parametrize(
    "estimator",
    [
        LCNClassifier(**FAST, warm_start=True),
        ELCNClassifier(LCNClassifier(**FAST), n_estimators=1, combine="average", warm_start=True),
    ],
)
def test_warm_start_needs_the_same_columns_and_classes(estimator: Any) -> None:
    """What there is reads columns by their places, and answers with the numbers of classes."""
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=list("abcd"))
    estimator.fit(frame, y)
    with pytest.raises(ValueError, match=r"continues a model of the features 'a', .* are 'd', .* set warm_start=False"):
        estimator.fit(frame[list("dcba")], y)
    with pytest.raises(ValueError, match=r"of the classes 'no', 'yes', but the classes are 'maybe', 'yes' now"):
        estimator.fit(frame, np.where(y == "no", "maybe", y))
    labels = np.column_stack([y == "no", y == "yes"]).astype(int)
    estimator.fit(frame, labels).fit(frame, labels)
    with pytest.raises(ValueError, match=r"continues a model of the features 'a', .* are 'd', .* set warm_start=False"):
        estimator.fit(frame[list("dcba")], labels)


def test_warm_start_needs_the_same_shape() -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST, warm_start=True).fit(X, y)
    with pytest.raises(
        ValueError, match=r"warm_start=True continues a network of 4 features, depth 3 .* set warm_start=False"
    ):
        classifier.set_params(depth=5).fit(X, y)
    classifier.set_params(depth=3)
    with pytest.raises(ValueError, match=r"warm_start=True continues .* set warm_start=False"):
        classifier.fit(X[:, :3], y)
    with pytest.raises(ValueError, match=r"warm_start=True continues .* set warm_start=False"):
        classifier.fit(*three_classes())


@pytest.mark.parametrize("change", [{"hidden_layers": (3,)}, {"training": {"negative_slope": 0.2}}])
def test_warm_start_needs_the_same_kind_of_network(change: dict[str, Any]) -> None:
    X, y = two_classes()
    model = LCNClassifier(**FAST, warm_start=True).fit(X, y)
    with pytest.raises(
        ValueError, match=r"warm_start=True continues a network of .* is asked for; set warm_start=False"
    ):
        model.set_params(**change).fit(X, y)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_partial_fit_learns_from_pieces(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    is_classifier = estimator_class in CLASSIFIERS
    settings = {**FAST, "epochs": 30, "learning_rate": 0.02, "training": {"batch_size": 8, "temper": False}}
    estimator, twin = estimator_class(**settings), estimator_class(**settings)
    for number in range(6):
        piece = slice(number, None, 6)
        first = {"classes": ["no", "yes"]} if is_classifier and number == 0 else {}
        assert estimator.partial_fit(X[piece], y[piece], **first) is estimator
        twin.partial_fit(X[piece], y[piece], **first)
        assert np.array_equal(scores(estimator, X), scores(twin, X))
    assert estimator.n_passes_ == 6
    assert estimator.score(X, y) > estimator_class(**settings).fit(X, y).score(X, y) - 0.1


def test_partial_fit_after_fit_goes_on_as_relu() -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST).fit(X, y)
    before = classifier.decision_function(X)
    classifier.partial_fit(X, y)
    after = classifier.decision_function(X)
    assert not np.array_equal(before, after)
    assert np.corrcoef(before, after)[0, 1] > 0.5


def test_partial_fit_weighs_classes_in_every_piece() -> None:
    X, y = two_classes()
    class_weight = {"no": 1.0, "yes": 6.0}
    by_class, by_row = LCNClassifier(**FAST, class_weight=class_weight), LCNClassifier(**FAST)
    for piece in (slice(0, 60), slice(60, None)):
        by_class.partial_fit(X[piece], y[piece])
        by_row.partial_fit(X[piece], y[piece], sample_weight=compute_sample_weight(class_weight, y[piece]))
    assert np.array_equal(by_class.decision_function(X), by_row.decision_function(X))


def test_partial_fit_must_be_told_of_classes_to_come() -> None:
    X, y = two_classes()
    only = y == "no"
    with pytest.raises(ValueError, match="one class only"):
        LCNClassifier(**FAST).partial_fit(X[only], y[only])
    classifier = LCNClassifier(**FAST).partial_fit(X[only], y[only], classes=["yes", "no", "maybe"])
    assert classifier.classes_.tolist() == ["maybe", "no", "yes"]
    assert classifier.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(ValueError, match="label 'never', which is not among the classes"):
        classifier.partial_fit(X, np.full(len(X), "never"))


def test_fit_forgets_an_earlier_partial_fit() -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST).partial_fit(X, y, classes=["yes", "no", "maybe"])
    fresh = LCNClassifier(**FAST).fit(X, y)
    assert np.array_equal(classifier.fit(X, y).decision_function(X), fresh.decision_function(X))
    assert classifier.classes_.tolist() == ["no", "yes"]


def test_weight_decay_shrinks_the_weights() -> None:
    X, y = values()
    free, decayed = (LLNRegressor(**{**FAST, "epochs": 20}, weight_decay=decay).fit(X, y) for decay in (0.0, 5.0))
    assert np.ptp(decayed.predict(X)) < 0.8 * np.ptp(free.predict(X))
