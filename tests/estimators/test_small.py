"""ObliqueTreeClassifier and ObliqueTreeRegressor: budgets, the path, inputs."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from tests.estimators.tables import three_classes, two_classes, values
from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor, load
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields
from treelu.training.small.rows import in_given_order
from treelu.training.small.selection import COLUMNS
from treelu.training.small.starts import first_splits

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"n_updates": 40, "max_leaf_nodes": 4, "random_state": 0}


@pytest.mark.parametrize("max_terms", [1, 2, None])
@pytest.mark.parametrize("selection", ["smallest", "best", "largest"])
def test_budgets_are_kept(max_terms: int | None, selection: str) -> None:
    X, y = three_classes()
    limits: dict[str, Any] = {"max_leaf_nodes": 5, "max_depth": 3, "min_samples_leaf": 7}
    model = ObliqueTreeClassifier(**limits, max_terms=max_terms, selection=selection, n_updates=60, random_state=0).fit(
        X, y
    )
    for tree in model.path_trees_:
        assert tree.n_leaves <= 5
        assert tree.depth <= 3
        assert tree.n_samples is not None
        assert tree.n_samples.min() >= 7
        assert tree.max_terms <= (max_terms or 4)
    assert model.score(X, y) > 0.85


def test_the_path_says_what_was_chosen() -> None:
    X = two_classes(600)[0]
    y = X[:, 0] > X[:, 1]
    model = ObliqueTreeClassifier(random_state=0).fit(X, y)
    path = model.path_
    assert list(path.columns) == COLUMNS
    assert path.chosen.sum() == 1
    assert not path.duplicated(["leaves", "terms", "leaf_terms", "numbers"]).any()
    assert [tree.n_leaves for tree in model.path_trees_] == path.leaves.tolist()
    assert [tree.max_terms for tree in model.path_trees_] == path.terms.tolist()
    assert model.path_trees_[int(path.chosen.argmax())] is model.tree_
    # an oblique line: two leaves with two terms do, one term does not
    assert (model.tree_.n_leaves, model.tree_.max_terms) == (2, 2)
    assert model.score(X, y) > 0.93


def by_the_documented_rule(path: pd.DataFrame, selection: str, are_classes: bool) -> int:
    """The row of `path_` that the documentation says is chosen, from the table's numbers alone."""
    numbers, guarded = path.numbers, path.index[path.score >= path.score.max() - (0.02 if are_classes else np.inf)]
    best = min(guarded, key=lambda row: (path.loss[row], numbers[row]))
    if selection == "best":
        return best
    of_trees = (1, 0.005, np.inf, 0) if are_classes else (1, 0.002, 0.003, 0.01)
    of_constant = (1, 0.003, 0.005, 0.02) if are_classes else (2, 0.005, 0.01, 0.1)

    def tolerance(row: int) -> float:
        is_constant = path.leaves[row] == 1 and path.leaf_terms[row] == 0
        errors, least, most, share = of_constant if is_constant else of_trees
        return min(max(errors * path.difference_std_error[row], least), max(most, share * path.loss[best]))

    eligible = [row for row in guarded if path.loss_difference[row] <= tolerance(row)]
    assert eligible == path.index[path.eligible].tolist()
    constant = [row for row in eligible if path.leaves[row] == 1 and path.leaf_terms[row] == 0]
    return min(constant or eligible, key=lambda row: (path.loss[row] + 0.02 * np.log2(numbers[row]), numbers[row]))


@pytest.mark.parametrize("selection", ["smallest", "best"])
@pytest.mark.parametrize("table", ["iris", "two", "three", "values", "linear leaves", "several"])
def test_the_choice_follows_from_the_table(table: str, selection: str) -> None:
    tables: dict[str, Any] = {
        "iris": lambda: load_iris(return_X_y=True), "two": two_classes, "three": three_classes, "values": values,
        "linear leaves": values, "several": lambda: values(n_outputs=2),
    }  # fmt: skip
    X, y = tables[table]()
    kind: Any = ObliqueTreeClassifier if table in ("iris", "two", "three") else ObliqueTreeRegressor
    options = {"linear_leaves": True} if table == "linear leaves" else {}
    settings: dict[str, Any] = {"max_leaf_nodes": 8, "n_updates": 60, "random_state": 0, **options}
    model = kind(selection=selection, **settings).fit(X, y)
    path = model.path_
    are_classes = kind is ObliqueTreeClassifier
    chosen = by_the_documented_rule(path, selection, are_classes)
    assert path.index[path.chosen].tolist() == [chosen]
    assert model.path_trees_[chosen] is model.tree_
    best = by_the_documented_rule(path, "best", are_classes)
    np.testing.assert_allclose(path.loss_difference, path.loss - path.loss[best])
    if kind is ObliqueTreeRegressor:
        np.testing.assert_allclose(path.score, 1 - path.loss)


def test_what_was_not_compared_has_no_loss() -> None:
    model = ObliqueTreeClassifier(**QUICK, selection="largest").fit(*two_classes())
    assert len(model.path_) == 1
    assert model.path_.loss.isna().all()
    assert model.path_.chosen.all()
    with pytest.raises(ValueError, match="held-out losses"):
        model.plot_path()


def test_the_plot_draws_what_decides() -> None:
    model = ObliqueTreeClassifier(**QUICK).fit(*three_classes())
    ax = model.plot_path()
    bars = np.concatenate([container.lines[0].get_xydata() for container in ax.containers])
    drawn = model.path_.loc[model.path_.groupby(["leaves", "terms"]).loss_difference.idxmin()]
    assert len(drawn) < len(model.path_)  # leaves with formulas and without
    assert sorted(bars[:, 1]) == sorted(drawn.loss_difference)
    hollow = [line.get_ydata() for line in ax.lines if line.get_markerfacecolor() == "white"]
    assert sorted(np.concatenate(hollow)) == sorted(drawn.loss_difference[~drawn.eligible])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"selection": "largest"}, {"max_terms": 1}, {"class_weight": "balanced"}])
def test_names_of_classes_do_not_matter(n_classes: int, options: dict[str, Any]) -> None:
    """The order of the names is reversed: the same splits to the bit, the same values in the other order."""
    X, y = two_classes() if n_classes == 2 else three_classes()
    labels = np.unique(y)
    other = labels[::-1][np.searchsorted(labels, y)]
    one, two = (ObliqueTreeClassifier(**QUICK, **options).fit(X, target) for target in (y, other))
    pd.testing.assert_frame_equal(one.path_, two.path_)
    for first, second in zip(one.path_trees_, two.path_trees_, strict=True):
        assert in_given_order(second, np.arange(n_classes)[::-1]) == first
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X)[:, ::-1], rtol=1e-12)


def test_names_of_classes_do_not_matter_to_a_monotonic_tree() -> None:
    X, y = rising()
    target = (y > 0.5).astype(int)
    one = ObliqueTreeClassifier(**QUICK, leaves="constant", monotonic_cst=[1, -1, 0]).fit(X, target)
    two = ObliqueTreeClassifier(**QUICK, leaves="constant", monotonic_cst=[-1, 1, 0]).fit(X, 1 - target)
    assert one.tree_.n_leaves > 1
    assert replace(two.tree_, values=two.tree_.values[:, ::-1]) == one.tree_


@pytest.mark.parametrize("options", [{}, {"round_weights": 0.05}, {"max_terms": 1}])
def test_no_leaf_has_a_single_row_by_default(options: dict[str, Any]) -> None:
    X, y = three_classes(60)
    settings: dict[str, Any] = {"max_leaf_nodes": 16, "n_updates": 100, "leaves": "constant", "random_state": 0}
    model = ObliqueTreeClassifier(**settings, **options).fit(X, y)
    assert max(tree.n_leaves for tree in model.path_trees_) > 3
    for tree in model.path_trees_:
        assert np.bincount(tree.apply(X))[tree.n_splits :].min() >= 2


def test_noise_gives_one_leaf() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(2, size=300)
    assert ObliqueTreeClassifier(random_state=0, n_updates=100).fit(X, y).tree_.n_leaves == 1
    assert ObliqueTreeRegressor(random_state=0, n_updates=100).fit(X, rng.normal(size=300)).tree_.n_leaves == 1


@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_threads_change_nothing(kind: Any) -> None:
    X, y = two_classes() if kind is ObliqueTreeClassifier else values()
    one, two = (kind(**QUICK, n_jobs=n).fit(X, y) for n in (1, 2))
    assert one.tree_ == two.tree_
    pd.testing.assert_frame_equal(one.path_, two.path_)


@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_kinds_of_rows(kind: Any, tmp_path: Any) -> None:
    """Sparse, a DataFrame, saved and loaded, pickled, cloned: the same predictions."""
    X, y = two_classes() if kind is ObliqueTreeClassifier else values()
    X = np.where(np.abs(X) < 1, 0, X)
    model = kind(**QUICK).fit(X, y)
    wanted = model.predict(X)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    named = clone(model).fit(frame, y)
    assert named.tree_.feature_names == ("a", "b", "c", "d")
    assert (named.predict(frame) == wanted).all()
    assert (model.tree_.predict(X) == wanted).all()
    thin = clone(model).fit(sparse.csr_array(X), y)
    assert sparse.issparse(thin.tree_.weights)
    found = thin.predict(sparse.csr_array(X))
    same = found == wanted if kind is ObliqueTreeClassifier else np.isclose(found, wanted, rtol=1e-9)
    assert same.mean() > 0.9
    model.save(tmp_path / "model")
    for copy in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert (copy.predict(X) == wanted).all()
        assert copy.tree_ == model.tree_
        pd.testing.assert_frame_equal(copy.path_, model.path_)


def test_a_path_saved_without_losses_is_read() -> None:
    """As version 0.1 wrote it."""
    model = ObliqueTreeClassifier(**QUICK).fit(*two_classes())
    later = ["loss", "loss_difference", "difference_std_error", "eligible"]
    arrays = ArrayWriter()
    state = model._state(arrays, None)
    for name in later:
        del state["path"][name]
    copy = ObliqueTreeClassifier(**QUICK)
    copy.n_features_in_ = 4
    copy._load_state(Fields(state, "state"), ArrayReader(arrays.arrays), None)
    pd.testing.assert_frame_equal(copy.path_.drop(columns=later), model.path_.drop(columns=later))
    assert copy.path_[later[:3]].isna().all(axis=None)
    assert copy.path_.eligible.equals(copy.path_.chosen.rename("eligible"))


def test_missing_values_are_an_indicator(tmp_path: Any) -> None:
    X, y = two_classes(200)
    X[::3, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ObliqueTreeClassifier(**QUICK, missing="error").fit(X, y)
    model = ObliqueTreeClassifier(**QUICK, missing="indicator").fit(X, y)
    assert model.tree_.feature_names == ("x0", "x1", "x2", "x3", "x0 is missing")
    model.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == model.predict(X)).all()


def test_several_targets() -> None:
    X, y = values(n_outputs=2)
    model = ObliqueTreeRegressor(n_updates=200, random_state=0).fit(X, y)
    assert model.predict(X).shape == y.shape
    assert model.score(X, y) > 0.5


def test_weights_stand_for_rows() -> None:
    """Rows of weight 0 are not there, and class_weight is a relative weight (integers in sample_weight repeat rows)."""
    X, y = two_classes(200)
    weight = np.where(np.arange(200) < 150, 1.0, 0.0)
    model = ObliqueTreeClassifier(**QUICK)
    assert clone(model).fit(X, y, weight).tree_ == clone(model).fit(X[:150], y[:150]).tree_
    heavy = clone(model).set_params(class_weight={"yes": 4.5}).fit(X, y)
    assert heavy.tree_ == clone(model).fit(X, y, np.where(y == "yes", 4.5, 1.0)).tree_


@pytest.mark.parametrize("options", [{}, {"linear_leaves": True}])
def test_trees_count_rows_and_tell_their_weight_apart(options: dict[str, Any], tmp_path: Path) -> None:
    X, y = values()
    weight = np.random.default_rng(0).exponential(size=len(y)) * (np.arange(len(y)) % 5 > 0)
    model = ObliqueTreeRegressor(n_updates=50, selection="largest", max_leaf_nodes=3, random_state=0, **options)
    tree = model.fit(X, y, weight).tree_
    leaf, of_leaves = model.apply(X), slice(tree.n_splits, None)
    assert tree.n_samples is not None
    assert tree.weighted_n_samples is not None
    np.testing.assert_array_equal(tree.n_samples[of_leaves], np.bincount(leaf[weight > 0])[of_leaves])
    np.testing.assert_allclose(tree.weighted_n_samples[of_leaves], np.bincount(leaf, weight)[of_leaves])
    assert f"[{np.count_nonzero(weight)} rows, weight {weight.sum():.4g}]" in tree.export_text()
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").tree_ == tree
    assert clone(model).fit(X, y).tree_.weighted_n_samples is None


def test_a_saved_tree_whose_counts_are_weights_still_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions saved the weight of the rows as their number."""
    X, y = two_classes(200)
    model = ObliqueTreeClassifier(**QUICK, leaves="constant", class_weight="balanced").fit(X, y)
    put = ArrayWriter.put
    monkeypatch.setattr(
        ArrayWriter, "put", lambda self, name, array: None if name == "n_samples" else put(
            self, name.replace("weighted_n_samples", "n_samples"), array
        ),
    )  # fmt: skip
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.tree_.n_samples is None
    np.testing.assert_array_equal(loaded.tree_.weighted_n_samples, model.tree_.weighted_n_samples)
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    assert "rows" not in loaded.tree_.export_text()


def test_rounded_weights_send_rows_the_same_way() -> None:
    X, y = two_classes(200)
    short = ObliqueTreeClassifier(**QUICK, selection="best").fit(X, y)
    model = clone(short).set_params(round_weights=None).fit(X, y)
    assert (model.predict(X) == short.predict(X)).all()
    assert (model.apply(X) == short.apply(X)).all()
    assert any("no training row comes to another leaf" in note for tree in short.path_trees_ for note in tree.notes)
    assert not any("rounded" in note for tree in model.path_trees_ for note in tree.notes)
    for weight in short.tree_.weights[short.tree_.weights != 0]:
        assert len(f"{weight:.15g}".replace(".", "").replace("-", "").strip("0")) <= 12


def test_a_yes_no_column_is_one_term() -> None:
    rng = np.random.default_rng(0)
    yes, amount = rng.integers(2, size=300), rng.normal(size=300)
    X = np.column_stack([1 - yes, yes, amount])
    y = amount + 1.5 * yes + 0.3 * rng.normal(size=300) > 0.7
    tree = ObliqueTreeClassifier(**QUICK, leaves="constant", selection="best").fit(X, y).tree_
    assert (np.count_nonzero(tree.weights[:, :2], axis=1) <= 1).all()
    assert tree.weights[:, 1].any()


def test_the_first_splits_are_the_tree_of_fewer_leaves() -> None:
    X, y = three_classes()
    large = DecisionTreeClassifier(max_leaf_nodes=9, random_state=0).fit(X, y)
    for size in range(2, 10):
        small = DecisionTreeClassifier(max_leaf_nodes=size, random_state=0).fit(X, y).tree_
        children, feature, threshold = first_splits(large.tree_, size)
        inner = small.children_left >= 0
        assert sorted(zip(feature, threshold, strict=True)) == sorted(
            zip(small.feature[inner], small.threshold[inner], strict=True)
        )
        assert sorted(children.ravel()) == list(range(1, 2 * len(feature) + 1))
        assert (children > np.arange(len(feature))[:, None]).all()


def test_many_columns_are_screened() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((150, 700), density=0.05, rng=rng, format="csr")
    y = (np.asarray(X[:, :30].sum(axis=1)).ravel() > 0.5).astype(int)
    model = ObliqueTreeClassifier(selection="largest", max_leaf_nodes=2, n_updates=50, random_state=0).fit(X, y)
    assert model.tree_.n_features == 700
    assert 2 <= model.tree_.max_terms <= 512


def rising(n: int = 250) -> tuple[np.ndarray, np.ndarray]:
    """A target that rises with x0 and falls with x1, with enough noise to break that in a free tree."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(n, 3))
    return X, 2 * X[:, 0] - X[:, 1] + np.sin(4 * X[:, 2]) + 1.5 * rng.normal(size=n)


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("max_terms", [1, 2, None])
@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_monotonic_trees_rise_and_fall_as_asked(kind: Any, max_terms: int | None, leaves: str) -> None:
    """Every tree of the path, on pairs of rows that differ in one feature; a free tree breaks it."""
    X, y = rising()
    target = y if kind is ObliqueTreeRegressor else (y > 0).astype(int)
    settings: dict[str, Any] = {"max_leaf_nodes": 8, "max_terms": max_terms, "n_updates": 100, "random_state": 0}
    model = kind(**settings, leaves=leaves, monotonic_cst=[1, -1, 0]).fit(X, target)
    free = kind(**settings, leaves=leaves).fit(X, target)
    rng = np.random.default_rng(0)
    base = rng.uniform(-1, 1, size=(400, 3))
    broken = []
    for trees in (model.path_trees_, free.path_trees_):
        broken.append(0)
        for tree in trees:
            for feature, sign in ((0, 1), (1, -1)):
                steps = np.repeat(base, 9, axis=0)
                steps[:, feature] = np.tile(np.linspace(-1.2, 1.2, 9), len(base))
                outputs = tree.decision_function(steps).reshape(len(steps), -1)[:, -1].reshape(-1, 9)
                broken[-1] += int((sign * np.diff(outputs, axis=1) < -1e-12).sum())
    assert broken[0] == 0
    assert broken[1] > 0 or max_terms == 1 or leaves == "linear"
    assert model.score(X, target) > (0.6 if kind is ObliqueTreeClassifier else 0.2)


def test_monotonic_by_name_and_what_is_refused() -> None:
    X, y = rising()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = ObliqueTreeRegressor(**QUICK, monotonic_cst={"a": 1, "b": -1}).fit(frame, y)
    assert by_name.tree_.prune().values.tolist() == (
        ObliqueTreeRegressor(**QUICK, monotonic_cst=[1, -1, 0]).fit(X, y).tree_.prune().values.tolist()
    )
    with pytest.raises(ValueError, match="names 'z'"):
        ObliqueTreeRegressor(**QUICK, monotonic_cst={"z": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="-1, 0 or 1 for each of 3"):
        ObliqueTreeRegressor(**QUICK, monotonic_cst=[2, 0, 0]).fit(X, y)
    with pytest.raises(ValueError, match="two classes or one target"):
        ObliqueTreeClassifier(**QUICK, monotonic_cst=[1, 0, 0, 0]).fit(*three_classes())


def test_questions_of_linear_leaves_leave_the_trend_to_the_leaves() -> None:
    """A steep trend and a small step across it: one question, at the step."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = 10 * X[:, 0] + np.where(X[:, 1] > 0.3, 1.0, 0.0)
    settings: dict[str, Any] = {"linear_leaves": True, "max_leaf_nodes": 2, "selection": "best", "teacher": None}
    model = ObliqueTreeRegressor(**settings, random_state=0).fit(X, y)
    weights = np.asarray(model.tree_.weights)[0]
    assert abs(weights[1]) > 10 * abs(weights[0])
    assert model.score(X, y) > 0.999


def test_linear_leaves_are_ridge_regressions_of_their_rows(tmp_path: Any) -> None:
    """A kink: two leaves with linear functions are nearly exact; one leaf is ridge regression."""
    X, y = values(200)
    model = ObliqueTreeRegressor(linear_leaves=True, n_updates=150, random_state=0).fit(X, y)
    assert model.tree_.leaf_weights is not None
    assert model.score(X, y) > 0.97
    assert (model.tree_.predict(X) == model.predict(X)).all()
    shrunk = ObliqueTreeRegressor(linear_leaves=True, shrinkage=100.0, selection="best", teacher=None, **QUICK).fit(
        X, y
    )
    of_one_leaf = shrunk.path_.leaf_terms[(shrunk.path_.leaves == 1) & (shrunk.path_.leaf_terms > 0)]
    line = shrunk.path_trees_[int(of_one_leaf.idxmax())]
    assert line.leaf_weights is not None
    used = np.flatnonzero(line.leaf_weights[0, 0])
    ridge = Ridge(alpha=100.0).fit(StandardScaler().fit_transform(X[:, used]), y)
    np.testing.assert_allclose(line.leaf_weights[0, 0, used], ridge.coef_ / X[:, used].std(axis=0), rtol=1e-4)
    model.save(tmp_path / "model")
    assert (load(tmp_path / "model").predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("selection", ["smallest", "largest"])
@pytest.mark.parametrize("max_terms", [1, None])
def test_very_many_classes_get_an_ordinary_tree_and_a_word(
    max_terms: int | None, selection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand classes would train for hours: an update costs leaves times classes for each row."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 24
    X = rng.normal(size=(240, 2)) / 20 + np.column_stack([y % 5, y // 5])

    def refuse(*arguments: object) -> None:
        raise AssertionError("a training by gradients")

    monkeypatch.setattr("treelu.training.small.config.MOST_SCORES", 24 * 47)
    monkeypatch.setattr("treelu.training.small.path.trained", refuse)
    settings: dict[str, Any] = {"max_terms": max_terms, "selection": selection, "random_state": 0}
    with pytest.warns(UserWarning, match="48 leaves of 24 outputs each would take long to train: only ordinary trees"):
        model = ObliqueTreeClassifier(**settings).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.tree_.n_leaves >= 24
    monkeypatch.setattr("treelu.training.small.config.MOST_SCORES", 24 * 48)
    with pytest.raises(AssertionError, match="a training by gradients"):
        ObliqueTreeClassifier(**settings, n_jobs=1).fit(X, y)
