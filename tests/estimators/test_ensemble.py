"""ELCN estimators: scikit-learn's contract, exact trees, staged predictions, sizes, warm starts."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_regression
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.utils.estimator_checks import parametrize_with_checks

from treelu import ELCNClassifier, ELCNRegressor, LCNClassifier
from treelu.tree import ObliqueTree

QUICK = {"n_estimators": 4, "depth": 3, "drop_connect": 0.25, "epochs": 5, "batch_size": 64, "random_state": 0}
# Batches are drawn from the rows there are: a row of weight 2 is not the same as a row given twice.
BATCHES = {
    "check_sample_weight_equivalence_on_dense_data": "rows are drawn in batches",
    "check_sample_weight_equivalence_on_sparse_data": "rows are drawn in batches",
}


@parametrize_with_checks(
    [
        ELCNClassifier(n_estimators=4, random_state=0),
        ELCNRegressor(n_estimators=2, depth=4, random_state=0),
    ],
    expected_failed_checks=lambda estimator: BATCHES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


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
        return ELCNClassifier(member="lcn", **QUICK, **options).fit(X, y), X
    X, y = make_regression(200, 5, n_targets=1 if task == "regression" else 2, random_state=0)
    return ELCNRegressor(member="lcn", **QUICK, **options).fit(X, y * 10 + 1000), X


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
    model = ELCNClassifier(member="lcn", **QUICK).fit(frame, np.where(y, "benign", "malignant"))
    tree = model.trees_[0]
    assert tree.feature_names == tuple(frame.columns)
    assert list(tree.classes) == ["benign", "malignant"]
    assert set(model.predict(frame)) == {"benign", "malignant"}


def test_smooth_members_are_no_trees(binary):
    model = ELCNClassifier(**QUICK).fit(*binary)
    with pytest.raises(AttributeError, match="use member='lcn'"):
        _ = model.trees_
    assert not hasattr(model, "feature_importances_")


def test_deep_members_give_trees_for_given_rows(binary):
    X, y = binary
    model = ELCNClassifier(member="lcn", **{**QUICK, "depth": 20, "n_estimators": 2}).fit(X, y)
    with pytest.raises(AttributeError, match=r"to_trees\(visited_by=X\)"):
        _ = model.trees_
    total = sum(tree.decision_function(X) for tree in model.to_trees(visited_by=X))
    np.testing.assert_allclose(total, model.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("combine", ["boost", "average"])
def test_stages_are_the_ensembles_of_that_size(binary, combine):
    X, y = binary
    model = ELCNClassifier(combine=combine, **QUICK).fit(X, y)
    scores = list(model.staged_decision_function(X))
    chances = list(model.staged_predict_proba(X))
    classes = list(model.staged_predict(X))
    assert len(scores) == len(chances) == len(classes) == model.n_estimators_ == 4
    np.testing.assert_array_equal(scores[-1], model.decision_function(X))
    np.testing.assert_array_equal(chances[-1], model.predict_proba(X))
    np.testing.assert_array_equal(classes[-1], model.predict(X))
    small = ELCNClassifier(combine=combine, **{**QUICK, "n_estimators": 2}).fit(X, y)
    np.testing.assert_allclose(scores[1], small.decision_function(X))


@pytest.mark.parametrize("n_targets", [1, 3])
def test_stages_of_a_regressor(n_targets):
    X, y = make_regression(100, 4, n_targets=n_targets, random_state=0)
    model = ELCNRegressor(**QUICK).fit(X, y)
    stages = list(model.staged_predict(X))
    assert [stage.shape for stage in stages] == [y.shape] * 4
    np.testing.assert_array_equal(stages[-1], model.predict(X))


def test_size_is_the_best_on_the_eval_set():
    X, y = make_classification(300, 20, n_informative=4, flip_y=0.2, random_state=0)
    y_valid = 1 - y[200:]  # the better the fit, the worse the score
    whole = ELCNClassifier(**QUICK).fit(X[:200], y[:200])
    chosen = ELCNClassifier(**QUICK).fit(X[:200], y[:200], eval_set=(X[200:], y_valid))
    scores = [roc_auc_score(y_valid, stage) for stage in whole.staged_decision_function(X[200:])]
    np.testing.assert_allclose(chosen.history_["valid_score"], scores, atol=1e-3)
    assert chosen.n_estimators_ == 1 + int(np.argmax(scores)) < 4
    np.testing.assert_allclose(roc_auc_score(y_valid, chosen.decision_function(X[200:])), max(scores), atol=1e-3)


def test_size_of_a_regressor_is_judged_in_the_units_of_y():
    X, y = make_regression(200, 5, noise=20, random_state=0)
    y = 1000 + 30 * y
    model = ELCNRegressor(**QUICK).fit(X[:150], y[:150], eval_set=(X[150:], y[150:]))
    staged = [root_mean_squared_error(y[150:], stage) for stage in model.staged_predict(X[150:])]
    np.testing.assert_allclose(model.history_["valid_score"][: len(staged)], staged, rtol=1e-3)


def test_early_stopping_holds_rows_out(binary):
    model = ELCNClassifier(early_stopping=2, **{**QUICK, "n_estimators": 30}).fit(*binary)
    assert model.history_.ended == "early"
    assert len(model.history_) == model.n_estimators_ + 2 < 30


def test_warm_start_adds_members(binary):
    X, y = binary
    once = ELCNClassifier(**QUICK).fit(X, y)
    twice = ELCNClassifier(warm_start=True, **{**QUICK, "n_estimators": 2}).fit(X, y)
    first = twice.ensemble_.members[0]
    twice.set_params(n_estimators=4).fit(X, y)
    assert twice.ensemble_.members[0] is first
    np.testing.assert_array_equal(twice.decision_function(X), once.decision_function(X))
    assert twice.history_["epoch"] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="n_estimators=3 with warm_start=True must be at least 4"):
        twice.set_params(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="set warm_start=False"):
        twice.set_params(n_estimators=6, member="lcn").fit(X, y)


def test_warm_start_on_other_rows_and_units():
    X, y = make_regression(200, 5, random_state=0)
    model = ELCNRegressor(warm_start=True, **{**QUICK, "n_estimators": 2}).fit(X[:100], y[:100])
    before = model.predict(X)
    model.set_params(n_estimators=3).fit(X[100:] * 1.5, y[100:] + 50)
    stages = list(model.staged_predict(X))
    np.testing.assert_allclose(stages[1], before)


def test_partial_fit_adds_a_member(binary):
    X, y = binary
    model = ELCNClassifier(**QUICK)
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
        model = ELCNClassifier(callbacks=[interrupt], **QUICK).fit(X, y)
    assert model.history_.ended == "interrupted"
    two = ELCNClassifier(**{**QUICK, "n_estimators": 2}).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), two.decision_function(X))


def test_several_labels_with_missing_values(labels):
    X, y = labels
    settings = {**QUICK, "epochs": 15}
    model = ELCNClassifier(**settings).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == model.predict_proba(X).shape == y.shape
    seen = ~np.isnan(y)
    assert min(roc_auc_score(y[seen[:, i], i], scores[seen[:, i], i]) for i in range(3)) > 0.9
    stages = list(model.staged_predict_proba(X))
    assert len(stages) == 4
    np.testing.assert_allclose(stages[-1], model.predict_proba(X))
    assert list(model.staged_predict(X))[-1].tolist() == model.predict(X).tolist()
    in_parallel = ELCNClassifier(n_jobs=2, **settings).fit(X, y)
    np.testing.assert_array_equal(in_parallel.decision_function(X), scores)
    with pytest.raises(AttributeError, match="one ensemble per label"):
        _ = model.n_estimators_


def test_labels_of_different_sizes_stay_at_their_last_stage(labels):
    X, y = labels
    model = ELCNClassifier(**QUICK).fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    del model.estimators_[1].ensemble_.members[1:]
    stages = list(model.staged_decision_function(X))
    assert len(stages) == max(member.n_estimators_ for member in model.estimators_)
    for stage in stages:
        np.testing.assert_array_equal(stage[:, 1], model.decision_function(X)[:, 1])


def test_warm_start_of_several_labels(labels):
    X, y = labels
    once = ELCNClassifier(**QUICK).fit(X, y)
    twice = ELCNClassifier(warm_start=True, **{**QUICK, "n_estimators": 1}).fit(X, y)
    twice.set_params(n_estimators=4).fit(X, y)
    np.testing.assert_array_equal(twice.decision_function(X), once.decision_function(X))


def test_weights_move_the_prediction():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    right = (X[:, 0] > 0).astype(int)
    y = np.concatenate([right[:200], 1 - right[200:]])
    weight = np.concatenate([np.ones(200), np.zeros(200)])
    settings = {**QUICK, "epochs": 15}
    assert ELCNClassifier(**settings).fit(X, y, sample_weight=weight).score(X, right) > 0.85
    assert ELCNClassifier(**settings).fit(X, y, sample_weight=1 - weight).score(X, right) < 0.15


def test_class_weight_raises_the_rare_class():
    X, y = make_classification(500, 10, weights=[0.95], random_state=0)
    plain = ELCNClassifier(**QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    balanced = ELCNClassifier(class_weight="balanced", **QUICK).fit(X, y).predict_proba(X)[:, 1].mean()
    assert balanced > plain + 0.05


def test_sparse_rows_are_the_same_rows():
    rng = np.random.default_rng(0)
    X = (rng.random((200, 30)) < 0.2).astype(float)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    settings = {**QUICK, "feature_fraction": 0.5, "bootstrap": True}
    dense = ELCNClassifier(**settings).fit(X, y)
    sparse = ELCNClassifier(**settings).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.decision_function(scipy.sparse.csc_array(X)), dense.decision_function(X))
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-3)


def test_boosting_lowers_the_training_loss():
    X, y = load_iris(return_X_y=True)
    model = ELCNClassifier(**{**QUICK, "n_estimators": 8, "drop_connect": 0.0}).fit(X, y)
    losses = model.history_["train_loss"]
    assert all(after < before for before, after in itertools.pairwise(losses))
    np.testing.assert_allclose(losses[-1], log_loss(y, model.predict_proba(X)), rtol=1e-4)


@pytest.mark.parametrize("first", [1.0, 0.25])
def test_first_member_of_a_regressor_counts_as_told(first):
    X = np.linspace(-1, 1, 60).reshape(-1, 1)
    settings = {"depth": 3, "epochs": 5, "batch_size": 16, "n_estimators": 1, "member": "lcn", "random_state": 0}
    y = np.abs(X[:, 0])
    full = ELCNRegressor(**settings).fit(X, y)
    model = ELCNRegressor(**settings, first_shrinkage=first).fit(X, y)
    np.testing.assert_allclose(model.predict(X) - y.mean(), first * (full.predict(X) - y.mean()), atol=1e-9)


def test_progress_over_members(binary, capsys):
    ELCNClassifier(verbose=True, **{**QUICK, "n_estimators": 2}).fit(*binary)
    assert "member 2/2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value"), [("member", "tree"), ("combine", "sum"), ("shrinkage", 0), ("feature_fraction", 1.5)]
)
def test_errors_name_the_parameter(binary, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of ELCNClassifier must be"):
        ELCNClassifier(**{name: value}).fit(*binary)


def test_the_paper_is_the_default():
    settings = ELCNClassifier().get_params()
    paper = {
        "depth": 12, "drop_connect": 0.75, "epochs": 30, "batch_size": 256, "learning_rate": 0.01,
        "optimizer": "amsgrad", "schedule": "constant", "shrinkage": 0.1, "member": "alcn", "combine": "boost",
    }  # fmt: skip
    assert {name: settings[name] for name in paper} == paper


def test_few_members_are_good_on_bace(shared_data):
    pytest.importorskip("rdkit")
    from treelu.chem import MorganFingerprint, load_moleculenet

    table = load_moleculenet("bace", shared_data)
    rows = json.loads((shared_data / "splits" / "bace.json").read_text())
    X = MorganFingerprint().transform(table.smiles)
    model = ELCNClassifier(n_estimators=4, random_state=0).fit(X[rows["train"]], table.y[rows["train"]])
    auc = roc_auc_score(table.y[rows["test"]], model.decision_function(X[rows["test"]]))
    single = LCNClassifier(depth=4, epochs=5, random_state=0).fit(X[rows["train"]], table.y[rows["train"]])
    assert auc > 0.85
    assert auc > roc_auc_score(table.y[rows["test"]], single.decision_function(X[rows["test"]]))
