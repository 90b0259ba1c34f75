"""ELCN estimators: scikit-learn's contract, exact trees, staged predictions, sizes, warm starts."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_regression
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

from treelu import (
    ALCNClassifier,
    ALCNRegressor,
    ELCNClassifier,
    ELCNRegressor,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
)
from treelu.training.settings import nested
from treelu.tree import ObliqueTree

QUICK = {
    "n_estimators": 4, "depth": 3, "drop_connect": 0.25, "epochs": 5, "batch_size": 64, "schedule": "constant",
    "random_state": 0,
}  # fmt: skip
PAPER = {
    "depth": 12, "drop_connect": 0.75, "epochs": 30, "batch_size": 256, "schedule": "constant", "annealing": 1.0,
    "straight_through": False,
}  # fmt: skip
OWN = set(ELCNRegressor().get_params(deep=False))


def classifier(*, trees=False, combine="boost", **settings):
    """An ensemble of classifiers; settings that are not its own are its members'."""
    own = {name: settings.pop(name) for name in OWN & set(settings)}
    member = LCNClassifier if trees else ALCNClassifier
    return ELCNClassifier(member(**nested(settings)), combine=combine, **own)


def regressor(*, trees=False, combine="boost", **settings):
    own = {name: settings.pop(name) for name in OWN & set(settings)}
    member = LCNRegressor if trees else ALCNRegressor
    return ELCNRegressor(member(**nested(settings)), combine=combine, **own)


@pytest.fixture(scope="module")
def binary():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, :3] + X[:, 3:] > 0).astype(float)
    y[rng.random(y.shape) < 0.2] = np.nan
    return X, y


def fit_trees(task, **options):
    """Tree members on some data of a task."""
    if task in ("binary", "multiclass"):
        X, y = load_breast_cancer(return_X_y=True) if task == "binary" else load_iris(return_X_y=True)
        return classifier(trees=True, **QUICK, **options).fit(X, y), X
    X, y = make_regression(200, 5, n_targets=1 if task == "regression" else 2, random_state=0)
    return regressor(trees=True, **QUICK, **options).fit(X, y * 10 + 1000), X


@pytest.mark.parametrize(
    "options", [{}, {"bootstrap": True, "feature_fraction": 0.4}, {"negative_slope": 0.1}], ids=str
)
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression", "multi-output"])
def test_boosted_trees_add_up_to_the_ensemble(task, options):
    model, X = fit_trees(task, **options)
    trees = model.trees_
    assert len(trees) == 4
    assert all(isinstance(tree, ObliqueTree) for tree in trees)
    total = sum(tree.decision_function(X) for tree in trees)
    expected = model.decision_function(X) if task in ("binary", "multiclass") else model.predict(X).reshape(len(X), -1)
    np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-6)
    visited = model.to_trees(visited_by=X)
    np.testing.assert_allclose(sum(tree.decision_function(X) for tree in visited), expected, rtol=1e-9, atol=1e-6)
    assert trees[-1].n_samples[0] == len(X)
    assert len(trees[1:3]) == 2
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression", "multi-output"])
def test_averaged_trees_are_models_by_themselves(task):
    model, X = fit_trees(task, combine="average", bootstrap=True)
    if task in ("binary", "multiclass"):
        mean = np.mean([tree.predict_proba(X) for tree in model.trees_], axis=0)
        np.testing.assert_allclose(model.predict_proba(X), mean, atol=1e-9)
    else:
        np.testing.assert_allclose(model.predict(X), np.mean([tree.predict(X) for tree in model.trees_], axis=0))


def test_names_and_classes_reach_the_trees(binary):
    X, y = binary
    frame = pd.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    model = classifier(trees=True, **QUICK).fit(frame, np.where(y, "benign", "malignant"))
    tree = model.trees_[0]
    assert tree.feature_names == tuple(frame.columns)
    assert list(tree.classes) == ["benign", "malignant"]
    assert set(model.predict(frame)) == {"benign", "malignant"}


def test_smooth_members_are_no_trees(binary):
    model = classifier(**QUICK).fit(*binary)
    with pytest.raises(AttributeError, match="use estimator=LCNClassifier"):
        _ = model.trees_
    assert not hasattr(model, "feature_importances_")


def test_deep_members_give_trees_for_given_rows(binary):
    X, y = binary
    model = classifier(trees=True, **{**QUICK, "depth": 20, "n_estimators": 2}).fit(X, y)
    with pytest.raises(AttributeError, match=r"to_trees\(visited_by=X\)"):
        _ = model.trees_
    total = sum(tree.decision_function(X) for tree in model.to_trees(visited_by=X))
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("combine", ["boost", "average"])
def test_stages_are_the_ensembles_of_that_size(binary, combine):
    X, y = binary
    model = classifier(combine=combine, **QUICK).fit(X, y)
    scores = list(model.staged_decision_function(X))
    chances = list(model.staged_predict_proba(X))
    classes = list(model.staged_predict(X))
    assert len(scores) == len(chances) == len(classes) == model.n_estimators_ == 4
    np.testing.assert_array_equal(scores[-1], model.decision_function(X))
    np.testing.assert_array_equal(chances[-1], model.predict_proba(X))
    np.testing.assert_array_equal(classes[-1], model.predict(X))
    small = classifier(combine=combine, **{**QUICK, "n_estimators": 2}).fit(X, y)
    np.testing.assert_allclose(scores[1], small.decision_function(X))


@pytest.mark.parametrize("n_targets", [1, 3])
def test_stages_of_a_regressor(n_targets):
    X, y = make_regression(100, 4, n_targets=n_targets, random_state=0)
    model = regressor(**QUICK).fit(X, y)
    stages = list(model.staged_predict(X))
    assert [stage.shape for stage in stages] == [y.shape] * 4
    np.testing.assert_array_equal(stages[-1], model.predict(X))


def test_size_is_the_best_on_the_eval_set():
    X, y = make_classification(300, 20, n_informative=4, flip_y=0.2, random_state=0)
    y_valid = 1 - y[200:]  # the better the fit, the worse the score
    whole = classifier(**QUICK).fit(X[:200], y[:200])
    chosen = classifier(**QUICK).fit(X[:200], y[:200], eval_set=(X[200:], y_valid))
    scores = [roc_auc_score(y_valid, stage) for stage in whole.staged_decision_function(X[200:])]
    np.testing.assert_allclose(chosen.history_["valid_score"], scores, atol=1e-3)
    assert chosen.n_estimators_ == 1 + int(np.argmax(scores)) < 4
    np.testing.assert_allclose(roc_auc_score(y_valid, chosen.decision_function(X[200:])), max(scores), atol=1e-3)


def test_size_of_a_regressor_is_judged_in_the_units_of_y():
    X, y = make_regression(200, 5, noise=20, random_state=0)
    y = 1000 + 30 * y
    model = regressor(**QUICK).fit(X[:150], y[:150], eval_set=(X[150:], y[150:]))
    staged = [root_mean_squared_error(y[150:], stage) for stage in model.staged_predict(X[150:])]
    np.testing.assert_allclose(model.history_["valid_score"][: len(staged)], staged, rtol=1e-3)


def test_early_stopping_holds_rows_out(binary):
    model = classifier(early_stopping=2, **{**QUICK, "n_estimators": 30}).fit(*binary)
    assert model.history_.ended == "early"
    assert len(model.history_) == model.n_estimators_ + 2 < 30


def test_warm_start_adds_members(binary):
    X, y = binary
    once = classifier(**QUICK).fit(X, y)
    twice = classifier(warm_start=True, **{**QUICK, "n_estimators": 2}).fit(X, y)
    first = twice.ensemble_.members[0]
    twice.set_params(n_estimators=4).fit(X, y)
    assert twice.ensemble_.members[0] is first
    np.testing.assert_array_equal(twice.decision_function(X), once.decision_function(X))
    assert twice.history_["epoch"] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="n_estimators=3 with warm_start=True must be at least 4"):
        twice.set_params(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="set warm_start=False"):
        twice.set_params(n_estimators=6, estimator=LCNClassifier(depth=3, drop_connect=0.25)).fit(X, y)


def test_warm_start_on_other_rows_and_units():
    X, y = make_regression(200, 5, random_state=0)
    model = regressor(warm_start=True, **{**QUICK, "n_estimators": 2}).fit(X[:100], y[:100])
    before = model.predict(X)
    model.set_params(n_estimators=3).fit(X[100:] * 1.5, y[100:] + 50)
    stages = list(model.staged_predict(X))
    np.testing.assert_allclose(stages[1], before)


def test_partial_fit_adds_a_member(binary):
    X, y = binary
    model = classifier(**QUICK)
    for start in (0, 200, 400):
        model.partial_fit(X[start : start + 200], y[start : start + 200], classes=[0, 1])
    assert model.n_estimators_ == 3
    assert roc_auc_score(y, model.decision_function(X)) > 0.95


def test_interrupt_keeps_finished_members(binary):
    X, y = binary

    def interrupt(record, network):
        if record.epoch == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="2 of 4 members are kept"):
        model = classifier(callbacks=[interrupt], **QUICK).fit(X, y)
    assert model.history_.ended == "interrupted"
    two = classifier(**{**QUICK, "n_estimators": 2}).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), two.decision_function(X))


def test_several_labels_with_missing_values(labels):
    X, y = labels
    settings = {**QUICK, "epochs": 15}
    model = classifier(**settings).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == model.predict_proba(X).shape == y.shape
    seen = ~np.isnan(y)
    assert min(roc_auc_score(y[seen[:, i], i], scores[seen[:, i], i]) for i in range(3)) > 0.9
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == 4
    np.testing.assert_allclose(stages[-1], model.predict_proba(X))
    assert list(model.staged_predict(X))[-1].tolist() == model.predict(X).tolist()
    in_parallel = classifier(n_jobs=2, **settings).fit(X, y)
    np.testing.assert_array_equal(in_parallel.decision_function(X), scores)
    with pytest.raises(AttributeError, match="one model per label"):
        _ = model.n_estimators_


def test_labels_of_different_sizes_stay_at_their_last_stage(labels):
    X, y = labels
    model = classifier(**QUICK).fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    del model.estimators_[1].ensemble_.members[1:]
    stages = list(model.staged_decision_function(X))
    assert len(stages) == max(member.n_estimators_ for member in model.estimators_)
    for stage in stages:
        np.testing.assert_array_equal(stage[:, 1], model.decision_function(X)[:, 1])


def test_warm_start_of_several_labels(labels):
    X, y = labels
    once = classifier(**QUICK).fit(X, y)
    twice = classifier(warm_start=True, **{**QUICK, "n_estimators": 1}).fit(X, y)
    twice.set_params(n_estimators=4).fit(X, y)
    np.testing.assert_array_equal(twice.decision_function(X), once.decision_function(X))


def test_weights_move_the_prediction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    right = (X[:, 0] > 0).astype(int)
    y = np.concatenate([right[:200], 1 - right[200:]])
    weight = np.concatenate([np.ones(200), np.zeros(200)])
    settings = {**QUICK, "epochs": 30}  # rows of weight 0 make no batches
    assert classifier(**settings).fit(X, y, sample_weight=weight).score(X, right) > 0.85
    assert classifier(**settings).fit(X, y, sample_weight=1 - weight).score(X, right) < 0.15


def test_class_weight_raises_the_rare_class():
    X, y = make_classification(500, 10, weights=[0.95], random_state=0)
    plain = classifier(**QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    balanced = classifier(class_weight="balanced", **QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    assert balanced > plain + 0.05


def test_sparse_rows_are_the_same_rows():
    rng = np.random.default_rng(0)
    X = (rng.random((200, 30)) < 0.2).astype(float)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    settings = {**QUICK, "feature_fraction": 0.5, "bootstrap": True}
    dense = classifier(**settings).fit(X, y)
    sparse = classifier(**settings).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.decision_function(scipy.sparse.csc_array(X)), dense.decision_function(X))
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-3)


def test_boosting_lowers_the_training_loss():
    X, y = load_iris(return_X_y=True)
    model = classifier(**{**QUICK, "n_estimators": 8, "drop_connect": 0.0}).fit(X, y)
    losses = model.history_["train_loss"]
    assert all(after < before for before, after in itertools.pairwise(losses))
    np.testing.assert_allclose(losses[-1], log_loss(y, model.predict_proba(X)), rtol=1e-4)


@pytest.mark.parametrize("first", [1.0, 0.25])
def test_first_member_of_a_regressor_counts_as_told(first):
    X = np.linspace(-1, 1, 60).reshape(-1, 1)
    settings = {"depth": 3, "epochs": 5, "batch_size": 16, "n_estimators": 1, "trees": True, "random_state": 0}
    y = np.abs(X[:, 0])
    full = regressor(**settings).fit(X, y)
    model = regressor(**settings, first_shrinkage=first).fit(X, y)
    np.testing.assert_allclose(model.predict(X) - y.mean(), first * (full.predict(X) - y.mean()), atol=1e-9)


def test_progress_over_members(binary, capsys):
    classifier(verbose=True, **{**QUICK, "n_estimators": 2}).fit(*binary)
    assert "member 2/2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value"), [("estimator", "tree"), ("combine", "sum"), ("shrinkage", 0), ("feature_fraction", 1.5)]
)
def test_errors_name_the_parameter(binary, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of ELCNClassifier must be"):
        ELCNClassifier(**{name: value}).fit(*binary)


def test_members_must_be_of_the_task_and_locally_constant(binary):
    for member in (ALCNRegressor(), LLNClassifier(), ELCNClassifier()):
        with pytest.raises(ValueError, match="estimator must be an ALCNClassifier or LCNClassifier"):
            ELCNClassifier(member).fit(*binary)
    with pytest.raises(TypeError, match=r"has no parameter depth; write estimator=ALCNClassifier\(depth=…\)"):
        ELCNClassifier(depth=3)


def test_parameters_of_members_are_nested():
    model = ELCNClassifier(ALCNClassifier(depth=3))
    assert model.get_params()["estimator__depth"] == 3
    assert clone(model.set_params(estimator__depth=5)).estimator.depth == 5


def test_a_member_is_what_the_estimator_would_be(binary):
    """Averaged members choose and calibrate for themselves; as estimators they predict what the ensemble averages."""
    X, y = binary
    member = LCNClassifier(depth=3, epochs=4)
    model = ELCNClassifier(member, n_estimators=2, combine="average", random_state=0).fit(X, y)
    assert all(isinstance(member, LCNClassifier) for member in model.estimators_)
    assert {member.drop_connect_ for member in model.estimators_} <= {0.05, 0.3, 0.75}
    mean = np.mean([member.predict_proba(X) for member in model.estimators_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean, atol=1e-9)
    np.testing.assert_allclose(model.estimators_[1].tree_.predict_proba(X), model.trees_[1].predict_proba(X))


def test_members_see_filled_gaps(binary):
    X, y = binary
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    settings = {**QUICK, "missing": "indicator", "trees": True}
    model = classifier(**settings, combine="average").fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.trees_[0].n_features == 2 * X.shape[1]


def test_few_members_are_good_on_bace(shared_data):
    pytest.importorskip("rdkit")
    from experiments.datasets import load_moleculenet
    from treelu.chem import MorganFingerprint

    table = load_moleculenet("bace", shared_data)
    rows = json.loads((shared_data / "splits" / "bace.json").read_text())
    X = MorganFingerprint().transform(table.smiles)
    model = classifier(**PAPER, n_estimators=4, random_state=0).fit(X[rows["train"]], table.y[rows["train"]])
    auc = roc_auc_score(table.y[rows["test"]], model.decision_function(X[rows["test"]]))
    single = LCNClassifier(depth=4, epochs=5, random_state=0).fit(X[rows["train"]], table.y[rows["train"]])
    assert auc > 0.85
    assert auc > roc_auc_score(table.y[rows["test"]], single.decision_function(X[rows["test"]]))
