"""Teachers of small trees: who teaches, when, and what the tree keeps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.svm import LinearSVC

import treelu
from treelu import ALCNClassifier, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.training.calibration import Tempering
from treelu.training.small.distillation import fitted_teacher, soft_targets, tempered
from treelu.training.small.rows import TrainingRows

pytestmark = pytest.mark.slow


def flipped(n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """TrainingRows, classes of which a quarter are flipped, and the true ones."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    truth = (X[:, 0] + X[:, 1] > 0).astype(int)
    return X, np.where(rng.random(n) < 0.25, 1 - truth, truth), truth


class Knowing(DummyClassifier):
    """A teacher that knows the truth, and counts its fits."""

    fits: list[tuple[int, Any]] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        Knowing.fits.append((len(X), sample_weight))
        return super().fit(X, y)

    def predict_proba(self, X: Any) -> Any:
        yes = 0.25 + 0.5 * (X[:, 0] + X[:, 1] > 0)
        return np.column_stack([1 - yes, yes])


class KnowingCorners(DummyClassifier):
    """A teacher that knows the truth of `corners`."""

    def predict_proba(self, X: Any) -> Any:
        yes = 0.25 + 0.5 * ((X[:, 0] > 0) ^ (X[:, 1] > 0))
        return np.column_stack([1 - yes, yes])


def test_a_tree_learns_from_a_teacher_that_knows() -> None:
    """Two opposite corners are one class, and a quarter of the rows have the other class."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(240, 4))
    X -= X.mean(axis=0)  # the teacher's rows are scaled
    truth = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    y = truth ^ (rng.random(240) < 0.25)

    def right(teacher: Any, seed: int) -> float:
        model = ObliqueTreeClassifier(teacher=teacher, selection="best", random_state=seed).fit(X, y)
        return float(np.mean(model.predict(X) == truth))

    with_teacher, alone = (np.mean([right(teacher, seed) for seed in range(3)]) for teacher in (KnowingCorners(), None))
    assert with_teacher > alone + 0.02


def test_leaf_values_come_from_the_rows_not_from_the_teacher() -> None:
    X, y, _ = flipped()
    model = ObliqueTreeClassifier(teacher=Knowing(), shrinkage=0.0, random_state=0).fit(X, y)
    leaf = model.tree_.apply(X)
    for node in np.unique(leaf):
        share = y[leaf == node].mean()
        assert model.tree_.values[node - model.tree_.n_splits, 1] == pytest.approx(share)


def test_a_teacher_never_sees_rows_held_out_and_gets_the_weights() -> None:
    X, y, _ = flipped()
    weight = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    Knowing.fits = []
    ObliqueTreeClassifier(teacher=Knowing(), random_state=0).fit(X, y, sample_weight=weight)
    sizes, weights = zip(*Knowing.fits, strict=True)
    assert len(sizes) == 5  # one for each fold
    assert sum(sizes) == 4 * len(y)
    assert set(np.concatenate(weights)) <= set((weight / weight.mean()).astype(np.float32).astype(np.float64))


def test_a_network_that_is_no_better_than_a_constant_teaches_nothing() -> None:
    """What holds in one half of the rows is wrong in the other."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0) ^ (np.arange(200) < 100)
    table = np.column_stack([X, np.ones(200)]).astype(np.float32)
    rows = TrainingRows(table, np.eye(2, dtype=np.float32)[y.astype(int)], np.ones(200, np.float32), is_classifier=True)
    halves = np.arange(100), np.arange(100, 200)
    parts = [rows.part(half) for half in halves]
    assert soft_targets(rows, rows, [halves, halves[::-1]], parts, None, seed=0, n_jobs=1) is None


def test_classes_that_a_fold_lacks_have_chance_zero() -> None:
    X, y, _ = flipped()
    y[0] = 2  # one row only
    model = ObliqueTreeClassifier(random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (len(y), 3)
    rows = TrainingRows(
        np.column_stack([X[1:], np.ones(len(X) - 1)]).astype(np.float32), np.eye(3, dtype=np.float32)[y[1:]],
        np.ones(len(X) - 1, np.float32), is_classifier=True,
    )  # fmt: skip
    predicted = fitted_teacher(rows, RandomForestClassifier(10, random_state=0), 0)(rows)
    assert (predicted[:, 2] == 0).all()
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-5)


def test_several_targets_are_taught() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.column_stack([X[:, 0], X[:, 1] * 100]) + rng.normal(size=(150, 2))
    model = ObliqueTreeRegressor(teacher=RandomForestRegressor(20, random_state=0), random_state=0).fit(X, y)
    assert model.predict(X).shape == (150, 2)
    assert ObliqueTreeRegressor(random_state=0).fit(X, y).score(X, y) > 0.5


def test_tempering_draws_chances_together_and_keeps_their_order() -> None:
    probabilities = np.array([[0.01, 0.09, 0.9]])
    target = np.repeat(np.eye(3, dtype=np.float32), [6, 3, 1], axis=0)
    rows = TrainingRows(np.ones((10, 2), np.float32), target, np.ones(10, np.float32), is_classifier=True)
    drawn = tempered(probabilities, Tempering(3.0), rows)
    np.testing.assert_allclose(drawn, np.cbrt(probabilities) / np.cbrt(probabilities).sum())
    np.testing.assert_allclose(tempered(probabilities, Tempering(1.0), rows), probabilities)
    to_shares = np.cbrt(probabilities) * np.array([0.6, 0.3, 0.1]) ** (2 / 3)
    found = tempered(probabilities, Tempering(3.0, to_shares=True), rows)
    np.testing.assert_allclose(found, to_shares / to_shares.sum(), rtol=1e-6)


def test_a_teacher_without_chances_is_refused() -> None:
    X, y, _ = flipped()
    with pytest.raises(ValueError, match="teacher must have predict_proba, which LinearSVC"):
        ObliqueTreeClassifier(teacher=LinearSVC()).fit(X, y)


class Broken(RandomForestRegressor):
    """A teacher whose answers are not numbers."""

    def predict(self, X: Any) -> Any:
        return np.full(len(X), np.nan)


def test_a_teacher_whose_answers_are_no_numbers_is_refused() -> None:
    X, y, _ = flipped()
    with pytest.raises(ValueError, match="teacher must give 1 finite numbers for each row, which Broken"):
        ObliqueTreeRegressor(teacher=Broken(5)).fit(X, y + 0.0)


def test_a_given_network_keeps_its_seed() -> None:
    X, y, _ = flipped()
    rows = TrainingRows(
        np.column_stack([X, np.ones(len(X))]).astype(np.float32), np.eye(2, dtype=np.float32)[y],
        np.ones(len(X), np.float32), is_classifier=True,
    )  # fmt: skip
    given = ALCNClassifier(depth=3, drop_connect=0.1, epochs=5, random_state=7)
    np.testing.assert_array_equal(fitted_teacher(rows, given, 0)(rows), fitted_teacher(rows, given, 1)(rows))
    free = ALCNClassifier(depth=3, drop_connect=0.1, epochs=5)
    assert (fitted_teacher(rows, free, 0)(rows) != fitted_teacher(rows, free, 1)(rows)).any()
    np.testing.assert_array_equal(fitted_teacher(rows, free, 0)(rows), fitted_teacher(rows, free, 0)(rows))


def test_targets_of_a_fold_come_from_a_model_that_has_not_seen_the_rows_held_out() -> None:
    """Those of all rows are the mean of the folds' models; scikit-learn's forests are the oracle."""
    X, y, _ = flipped()
    rows = TrainingRows(
        np.column_stack([X, np.ones(len(X))]).astype(np.float32), np.eye(2, dtype=np.float32)[y],
        np.ones(len(X), np.float32), is_classifier=True,
    )  # fmt: skip
    folds = [(np.arange(120), np.arange(120, 240)), (np.arange(120, 240), np.arange(120))]
    forest = RandomForestClassifier(10, random_state=0)
    found = soft_targets(rows, rows, folds, [rows.part(train) for train, _ in folds], forest, seed=0, n_jobs=1)
    assert found is not None
    of_folds, of_all = found
    X = rows.X[:, :-1].astype(np.float64)
    alone = [clone(forest).fit(X[train], y[train], np.ones(len(train))).predict_proba(X) for train, _ in folds]
    for (train, _), part, expected in zip(folds, of_folds, alone, strict=True):
        np.testing.assert_allclose(part.target, expected[train], rtol=1e-6)
    np.testing.assert_allclose(of_all.target, np.mean(alone, axis=0), rtol=1e-6)


def test_ctrl_c_while_a_network_teaches_ends_the_fit() -> None:
    """A network by itself keeps what it has learned; here nothing of it would be the user's."""
    X, y, _ = flipped()

    def press(record: Any, network: Any) -> None:
        raise KeyboardInterrupt

    model = ObliqueTreeClassifier(teacher=ALCNClassifier(depth=3, drop_connect=0.1, callbacks=[press]))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "tree_")


def test_a_model_is_saved_with_its_teacher_where_that_is_a_network(tmp_path: Path) -> None:
    X, y, _ = flipped()
    own = ObliqueTreeClassifier(teacher=ALCNClassifier(depth=3, drop_connect=0.1), random_state=0).fit(X, y)
    own.save(tmp_path / "own")
    assert treelu.load(tmp_path / "own").teacher.depth == 3
    other = ObliqueTreeClassifier(teacher=RandomForestClassifier(10, random_state=0), random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="teacher"):
        other.save(tmp_path / "other")
    loaded = treelu.load(tmp_path / "other")
    assert loaded.teacher == "auto"
    np.testing.assert_array_equal(loaded.predict_proba(X), other.predict_proba(X))
