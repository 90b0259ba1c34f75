"""Stacked ensembles: scikit-learn's contract, parts that have not seen the rows they are judged by, refusals."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from treelu import ALCNClassifier, ALCNRegressor, LCNClassifier, StackedClassifier, StackedRegressor
from treelu.data.scaling import Scaling
from treelu.data.targets import Targets, cross_entropies
from treelu.nn import LocallyConstantNetwork, Table
from treelu.persistence import load
from treelu.training import Dataset, EpochRecord, History, stack_fit
from treelu.training.boosting import Ensemble, Member
from treelu.training.config import Plan, draw_seeds, plan_training
from treelu.training.forest import boosted_trees, grow_boosted, grow_forest, random_forest
from treelu.training.stack_fit import CrossFit, HeldOut, Kind
from treelu.training.stacking import PENALTY, combined, find_weights

FEW: dict[str, Any] = {"n_estimators": 4, "n_trees": 30, "random_state": 0}


@pytest.fixture(scope="module")
def binary() -> tuple[np.ndarray, np.ndarray]:
    return load_breast_cancer(return_X_y=True)


# The trees


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_a_forest_in_arrays_is_the_forest(kind: Any) -> None:
    """On every side of every threshold; a regressor also with two targets."""
    X, y = load_iris(return_X_y=True)
    y = np.column_stack([y, X[:, 0]]) if kind is RandomForestRegressor else y
    model = kind(15, random_state=0).fit(X, y)
    forest = random_forest(model)
    edges = np.concatenate([tree.tree_.threshold[tree.tree_.feature >= 0] for tree in model.estimators_])
    near = np.random.default_rng(0).choice(np.concatenate([edges, np.nextafter(edges, 9), edges + 1e-7]), (2000, 4))
    expected = model.predict_proba if kind is RandomForestClassifier else model.predict
    np.testing.assert_allclose(forest.scores(Table(near)), expected(near), atol=1e-12)
    np.testing.assert_allclose(forest.scores(Table(scipy.sparse.csr_array(near))), expected(near), atol=1e-12)


def test_boosted_trees_in_arrays_are_the_boosted_trees() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = HistGradientBoostingRegressor(max_iter=20).fit(X, y)
    forest = boosted_trees(model)
    edges = forest.thresholds
    near = np.random.default_rng(0).choice(np.concatenate([edges, np.nextafter(edges, -9)]), (2000, X.shape[1]))
    scores = forest.scores(Table(near))[:, 0] + model._baseline_prediction.item()
    np.testing.assert_allclose(scores, model.predict(near), rtol=1e-9)


def test_rows_that_all_trees_have_seen_are_not_held_out() -> None:
    """scikit-learn says 0 of them."""
    X, y = load_diabetes(return_X_y=True)
    sample = Dataset(Table(X.astype(np.float32)), Targets("regression", y[:, None].astype(np.float32), 1))
    model = RandomForestRegressor(4, max_features=1 / 3, oob_score=True, random_state=0)
    with pytest.warns(UserWarning, match="Some inputs do not have OOB scores"):
        held_out = grow_forest(sample, 4, 0, None).held_out[:, 0]
    with pytest.warns(UserWarning, match="Some inputs do not have OOB scores"):
        model.fit(X.astype(np.float32), y)
    seen = model.oob_prediction_ == 0
    assert seen.any()
    assert np.array_equal(np.isnan(held_out), seen)
    np.testing.assert_allclose(held_out[~seen], model.oob_prediction_[~seen], rtol=1e-6)


def test_a_target_of_one_value_is_that_value() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    member = ALCNRegressor(depth=2, drop_connect=0.0, epochs=2)
    model = StackedRegressor(member, n_estimators=5, n_trees=30, random_state=0).fit(X, np.full(60, 3.3))
    np.testing.assert_allclose(model.predict(X), 3.3, rtol=1e-6)


def test_one_row_of_each_class() -> None:
    X, y = np.array([[0.0, 1.0], [1.0, 0.0]]), ["no", "yes"]
    member = ALCNClassifier(depth=2, drop_connect=0.0, epochs=2)
    with pytest.warns(UserWarning, match="fitted to 2 rows"):
        model = StackedClassifier(member, n_estimators=2, n_trees=5, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def noise(n: int = 150) -> Dataset:
    """Rows that say nothing of their labels: what has seen a label knows it, what has not is right half of the time."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % 2).astype(np.float32)
    return Dataset(Table(rng.normal(size=(n, 5)).astype(np.float32)), Targets("binary", y[:, None], 1))


def parts(fold: np.ndarray, n_folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def test_trees_are_judged_on_rows_they_have_not_seen() -> None:
    sample = noise()
    y, folds = sample.targets.y[:, 0], parts(np.arange(150) % 5, 5)
    grown_ones = (
        grow_forest(sample, 100, 0, None),
        grow_forest(sample, 100, 0, None, folds),
        grow_boosted(sample, folds, 0),
    )
    for grown in grown_ones:
        assert grown is not None
        of_seen = grown.trees.outputs(sample.table, "binary")[:, 1]
        assert np.mean((of_seen > 0.5) == y) > 0.8
        assert np.mean((grown.held_out[:, 1] > 0.5) == y) < 0.65
        np.testing.assert_allclose(grown.held_out.sum(axis=1), 1)


def test_networks_are_judged_on_rows_they_have_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that leave a fold out are counted for that fold's rows only."""
    kept: list[HeldOut] = []

    class Watched(HeldOut):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr(stack_fit, "HeldOut", Watched)
    sample = noise()
    X, y = np.array(sample.table.values).reshape(150, 5), sample.targets.y[:, 0]
    member = ALCNClassifier(depth=12, drop_connect=0.0, epochs=300)
    model = StackedClassifier(member, n_estimators=10, n_trees=0, random_state=0).fit(X, y)
    (held_out,) = kept
    assert (held_out.means.count == 2).all()  # ten members, five folds
    chances = held_out.outputs()
    assert np.mean((chances[:, 1] > 0.5) == y) < 0.65
    assert np.mean([np.mean((one.predict_proba(X)[:, 1] > 0.5) == y) for one in model.estimators_]) > 0.75


def test_networks_of_a_stack_take_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of what a network by itself takes, unless there are many features."""
    sizes: list[int] = []

    def watched(*arguments: Any) -> Plan:
        sizes.append(plan_training(*arguments).batch_size)
        return Plan(epochs=1, batch_size=64, updates_per_epoch=1)

    monkeypatch.setattr("treelu.training.fit.plan_training", watched)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = (X[:, 0] > 0).astype(int)
    StackedClassifier(n_estimators=1, n_trees=0, random_state=0).fit(X, y)  # a network of each drop rate
    ALCNClassifier(depth=2, drop_connect=0.1, training={"temper": False}, random_state=0).fit(X[:3200], y[:3200])
    assert sizes == [32, 32, 512]
    sizes.clear()
    wide = np.hstack([X[:100], np.zeros((100, stack_fit.WIDE))])
    StackedClassifier(n_estimators=1, n_trees=0, random_state=0).fit(wide, y[:100])
    assert sizes == [256]


# The weights


def test_weights_of_classes_are_the_best() -> None:
    """No other weights have a lower cross entropy; a part that knows nothing counts for nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    good = 0.4 * np.eye(3)[y] + 0.6 * rng.dirichlet(np.ones(3), 400)
    poor = 0.2 * np.eye(3)[y] + 0.8 * rng.dirichlet(np.ones(3), 400)
    none = rng.dirichlet(np.ones(3), 400)
    targets, rows, constant = Targets("multiclass", y, 3), np.arange(400), np.log(np.full(3, 1 / 3))
    weights = find_weights([good, poor, none], targets, rows, constant)

    def loss(b: np.ndarray) -> float:
        entropy = cross_entropies(y, combined([good, poor, none], b, constant, "multiclass")).mean()
        return float(entropy + PENALTY / 400 * ((b - np.array([0, 1, 1, 1]) / 3) ** 2).sum())

    assert (weights >= 0).all()
    assert weights[3] < 0.2 < weights[2] < weights[1]
    for _ in range(50):
        assert loss(weights) <= loss(np.maximum(0, weights + rng.normal(0, 0.1, 4))) + 1e-6


def test_rows_that_a_part_has_seen_do_not_count() -> None:
    y = np.array([0.0, 1, 2, 3, 4, 5])[:, None]
    right, wrong = y.copy(), -y
    right[3:] = np.nan
    wrong[:3] = 100  # rows 0 to 2 are the only ones that all parts have
    targets = Targets("regression", y, 1)
    weights = find_weights([right, wrong], targets, np.arange(6), np.array([0.0]))
    np.testing.assert_allclose(weights, [0, *np.linalg.lstsq(np.hstack([right, wrong])[:3], y[:3])[0][:, 0]], atol=1e-9)
    nothing = find_weights([right * np.nan, wrong], targets, np.arange(6), np.array([0.0]))
    np.testing.assert_allclose(nothing, [0, 0.5, 0.5])


def test_one_value_far_out_does_not_take_a_part_its_weight() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(200, 1))
    part = y + 0.1 * rng.normal(size=(200, 1))
    part[0] = 1e4
    weights = find_weights([part], Targets("regression", y, 1), np.arange(200), np.array([0.0]))
    assert weights[1] == pytest.approx(1.0, abs=0.1)


def test_row_weights_decide() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.5).astype(np.float32)
    first = np.column_stack([1 - y, y]) * 0.6 + 0.2
    here = np.arange(200) < 100
    parts = [np.where(here[:, None], first, 1 - first), np.where(here[:, None], 1 - first, first)]
    for weight, best in ((here, 0), (~here, 1)):
        targets = Targets("binary", y[:, None], 1, weight.astype(np.float32))
        weights = find_weights(parts, targets, np.arange(200), np.log([0.5, 0.5]))
        assert weights[1 + best] > 0.5 > weights[2 - best]


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_kind_that_does_best_on_rows_left_out_makes_the_members(task: Any) -> None:
    """Of two networks that say the same of all rows; both leave the same rows out, later members the next fold."""
    y = np.array([1.0, 1, 1, 0] * 5, np.float32)
    n_outputs = 2 if task == "multiclass" else 1
    sample = Dataset(Table(np.zeros((20, 1), np.float32)), Targets(task, y[:, None], n_outputs))
    folds, trained = np.arange(20) // 4, []

    def kind(said: float) -> Kind:
        def train(part: Dataset, rng: np.random.Generator) -> tuple[LocallyConstantNetwork, History]:
            trained.append((said, np.setdiff1d(np.arange(20), part.rows).tolist()))
            network = LocallyConstantNetwork(1, 1, n_outputs)
            network.head.bias[-1] = said
            return network, History(records=[EpochRecord(1, 1.0, 0.1, 0.0, None, 0.0)])

        return Kind(train)

    identity = Scaling.identity(n_outputs)
    recipe, ensemble = CrossFit([kind(-1.0), kind(1.0)]), Ensemble(np.zeros(n_outputs), "average")
    held_out = HeldOut(sample, identity, identity, parts(folds, 5))
    for number in (1, 2):
        member, network, _ = recipe.make(number, ensemble, held_out)
        held_out.add(member, network)
    assert trained == [(-1.0, [0, 1, 2, 3]), (1.0, [0, 1, 2, 3]), (1.0, [4, 5, 6, 7])]
    said = held_out.outputs()[:, -1]
    np.testing.assert_allclose(said[:8], 1 if task == "regression" else 1 / (1 + np.exp(-1)))
    assert np.isnan(said[8:]).all()


def test_no_row_left_out_to_choose_by() -> None:
    sample = noise(4)
    identity = Scaling.identity(1)
    held_out = HeldOut(sample, identity, identity, [])
    network = LocallyConstantNetwork(5, 1, 1)
    assert held_out.loss_as_part(Member(network, identity, np.ones(1), None), network, 1) == np.inf


# The estimators


def test_a_stack_is_not_behind_its_parts(binary: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = binary
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = StackedClassifier(random_state=0).fit(X_train, y_train)
    assert model.n_estimators_ == 5
    assert model.stack_ is not None
    assert len(model.stack_.trees) == 2
    parts = model.stack_.parts(Table(X_test))
    own = log_loss(y_test, model.predict_proba(X_test))
    assert own <= min(log_loss(y_test, np.clip(part, 0, 1)) for part in parts) + 0.02
    np.testing.assert_allclose(model.predict_proba(X_test).sum(axis=1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["binary", "words", "labels", "value", "values"])
def test_the_same_for_any_number_of_threads_and_after_saving(task: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    score = X @ [1, -1, 2, 0.5]
    labels = np.column_stack([score > 0, X[:, 0] > 0]).astype(float)
    labels[::7, 1] = np.nan
    y = {
        "binary": score > 0,
        "words": np.array(["low", "middle", "high"])[np.digitize(score, [-1, 1])],
        "labels": labels,
        "value": score,
        "values": np.column_stack([score, score**2 + 100]),
    }[task]
    kind: Any = StackedRegressor if task.startswith("value") else StackedClassifier
    models = [kind(**FEW, n_jobs=n_jobs).fit(X, y) for n_jobs in (None, 2)]
    models[0].save(tmp_path / "model")
    models.append(load(tmp_path / "model"))
    said = [model.predict_proba(X) if kind is StackedClassifier else model.predict(X) for model in models]
    np.testing.assert_allclose(said[1], said[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(said[2], said[0], rtol=1e-9)
    if kind is StackedClassifier:
        answers = models[0].predict(X)
        assert (answers == np.nan_to_num(y) if task == "labels" else answers == y).mean() > 0.8
    else:
        assert models[0].score(X, y) > 0.8


def test_values_are_in_the_units_of_y() -> None:
    X, y = load_diabetes(return_X_y=True)
    plain = StackedRegressor(**FEW).fit(X, y).predict(X)
    shifted = StackedRegressor(**FEW).fit(X, 1000 + 10 * y).predict(X)
    np.testing.assert_allclose((shifted - 1000) / 10, plain, rtol=0.02)


def test_raw_features_of_any_unit() -> None:
    """Trees are grown on scaled features and read raw ones."""
    X, y = load_iris(return_X_y=True)
    far = X * [1e-6, 1e6, 1, 1] + [0, 1e7, 0, -5]
    model = StackedClassifier(**FEW).fit(far, y)
    assert model.stack_ is not None
    chances = model.stack_.trees[0].outputs(Table(far), "multiclass")
    plain = RandomForestClassifier(30, random_state=draw_seeds(model.random_state, 1)[0]).fit(far, y).predict_proba(far)
    assert np.abs(chances - plain).mean() < 0.02
    assert model.score(far, y) > 0.95


def test_weights_come_from_an_eval_set(binary: tuple[np.ndarray, np.ndarray]) -> None:
    """Where its labels are reversed, no part is of use."""
    X, y = binary
    model = StackedClassifier(**FEW).fit(X[:300], y[:300], eval_set=(X[300:], 1 - y[300:]))
    assert model.stack_ is not None
    assert model.stack_.weights[1:].max() < 0.05
    right = StackedClassifier(**FEW).fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    assert right.stack_ is not None
    assert right.stack_.weights[1:].sum() > 0.5


@pytest.mark.slow
def test_class_weight_raises_the_rare_class() -> None:
    X, y = make_classification(500, 10, weights=[0.9], flip_y=0.1, random_state=0)
    plain = StackedClassifier(ALCNClassifier(depth=3, drop_connect=0.1, epochs=10), **FEW).fit(X, y)
    member = ALCNClassifier(depth=3, drop_connect=0.1, epochs=10, class_weight="balanced")
    balanced = StackedClassifier(member, **FEW).fit(X, y)
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_sparse_and_named_rows(binary: tuple[np.ndarray, np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((200, 600)) < 0.1).astype(float)
    y = X[:, :3].any(axis=1).astype(int)
    dense, sparse = StackedClassifier(**FEW).fit(X, y), StackedClassifier(**FEW).fit(scipy.sparse.csr_array(X), y)
    assert dense.stack_ is not None
    assert len(dense.stack_.trees) == 1  # nothing is boosted on so many features
    assert [len(member.features) for member in dense.ensemble_.members] == [300] * 4
    np.testing.assert_allclose(dense.predict_proba(scipy.sparse.csc_array(X)), dense.predict_proba(X))
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=0.15)
    frame = pd.DataFrame(binary[0]).add_prefix("column ")
    named = StackedClassifier(**FEW).fit(frame, binary[1])
    assert list(named.feature_names_in_) == list(frame.columns)


@pytest.mark.filterwarnings("ignore:.*rows? to fit")
def test_few_rows() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    assert np.isfinite(StackedRegressor(**FEW).fit(X[:1], [3.0]).predict(X)).all()
    assert np.isfinite(StackedRegressor(**FEW).fit(X, X[:, 0]).predict(X)).all()
    model = StackedClassifier(**FEW).fit(X, ["a", "a", "b", "b", "c"])  # a class with one row
    assert np.isfinite(model.predict_proba(X)).all()


def test_interrupt_keeps_finished_members(binary: tuple[np.ndarray, np.ndarray]) -> None:
    def interrupt(record: Any, network: Any) -> None:
        if record.epoch == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="3 of 5 members are kept"):
        model = StackedClassifier(n_trees=30, callbacks=[interrupt], random_state=0).fit(*binary)
    assert model.n_estimators_ == 3
    assert model.score(*binary) > 0.9


def test_what_a_stack_has_not(binary: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = binary
    model = StackedClassifier(LCNClassifier(depth=2, drop_connect=0.1, epochs=3), **FEW).fit(X, y)
    for name in ("partial_fit", "trees_", "staged_predict", "feature_importances_"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="StackedClassifier has no tree_"):
        _ = model.tree_
    assert model.estimators_[0].tree_.n_features == X.shape[1]  # its networks are trees by themselves
