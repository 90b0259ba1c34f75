"""Small trees on data that are hard on arithmetic: units, offsets, constant columns, huge weights."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.data.spread import spread

QUICK: dict[str, Any] = {"n_updates": 60, "max_leaf_nodes": 4, "selection": "largest", "random_state": 0}
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


def some_rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(200, 4))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


@FORMS
@pytest.mark.parametrize("size", [1e100, 1e30, 1e-13, 1e-30, 1e-100])
def test_large_and_small_units_are_fine(size: float, form: Any) -> None:
    """Columns with a spread below 1e-12 once counted as constant, whatever their unit, and the tree was one leaf."""
    X, y = some_rows()
    rows = form(X * size)
    assert ObliqueTreeClassifier(**QUICK).fit(rows, y).score(rows, y) > 0.9
    values = ObliqueTreeRegressor(**QUICK).fit(X, y * size).predict(X) / size
    assert ((values > 0.5) == y).mean() > 0.9


@FORMS
@pytest.mark.parametrize("size", [1e300, 1e160, 1e-160, 1e-320])
def test_units_beyond_arithmetic_are_refused(size: float, form: Any) -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match="X cannot be scaled: column 0 has values that are too large or too small"):
        ObliqueTreeClassifier(**QUICK).fit(form(X * size), y)
    with pytest.raises(ValueError, match="y cannot be scaled: column 1 has values that are too large or too small"):
        ObliqueTreeRegressor(**QUICK).fit(form(X), np.column_stack([y, y * size + X[:, 0] * size]))


def test_one_large_value_of_all_rows_is_refused_by_name() -> None:
    X, _ = some_rows()
    with pytest.raises(ValueError, match="y cannot be scaled: column 0"):
        ObliqueTreeRegressor(**QUICK).fit(X, np.full(200, 1e300))


@FORMS
@pytest.mark.parametrize("offset", [1e9, 1e12, 1.7e12])
def test_an_offset_far_larger_than_the_spread(offset: float, form: Any) -> None:
    """At 1e12 columns once counted as constant; of a sparse table the spread was lost at 1e9."""
    X, y = some_rows()
    rows = form(X + offset)
    assert ObliqueTreeClassifier(**QUICK).fit(rows, y).score(rows, y) > 0.9


@FORMS
@pytest.mark.parametrize("value", [1.7e18, 0.1, -1e-300])
def test_a_constant_column_has_no_weight(value: float, form: Any) -> None:
    X, y = some_rows()
    rows = np.column_stack([X, np.full(200, value)])
    with_it, without = ObliqueTreeClassifier(**QUICK).fit(form(rows), y), ObliqueTreeClassifier(**QUICK).fit(form(X), y)
    assert np.array_equal(with_it.predict_proba(form(rows)), without.predict_proba(form(X)))
    rows[:, 4] = -5
    assert np.array_equal(with_it.predict_proba(form(rows)), without.predict_proba(form(X)))


@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_huge_weights_of_rows(kind: Any) -> None:
    X, y = some_rows()
    weight = np.where(np.arange(200) % 2, 2.0**1023, 2.0**1022)
    huge = kind(**QUICK).fit(X, y, sample_weight=weight)
    small = kind(**QUICK).fit(X, y, sample_weight=weight / 2.0**1023)
    assert np.array_equal(huge.predict(X), small.predict(X))


def test_rows_without_weight_are_not_read() -> None:
    X, y = some_rows()
    weight = (np.arange(200) % 2).astype(float)
    values = np.where(weight == 0, 1e300, y)
    some = ObliqueTreeRegressor(**QUICK).fit(X, values, sample_weight=weight)
    assert np.array_equal(some.predict(X), ObliqueTreeRegressor(**QUICK).fit(X[1::2], y[1::2]).predict(X))


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan, np.inf, "much"])
def test_weights_of_classes_are_positive(weight: object) -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match=r"class_weight must hold positive finite numbers, got .* for the class 1"):
        ObliqueTreeClassifier(**QUICK, class_weight={0: 1.0, 1: weight}).fit(X, y)


def exact_spread(values: list[float], weights: list[int]) -> float:
    """By fractions."""
    exact = [Fraction(value) for value in values]
    total = sum(weights)
    mean = sum((w * x for w, x in zip(weights, exact, strict=True)), Fraction(0)) / total
    square = sum((w * (x - mean) ** 2 for w, x in zip(weights, exact, strict=True)), Fraction(0)) / total
    return float(square) ** 0.5


@pytest.mark.parametrize("offset", [0.0, 1e9, 1.7e12])
def test_spreads_by_fractions(offset: float) -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(-8, 9, size=(40, 5)) / 8 + offset
    table[rng.random((40, 5)) < 0.3] = 0
    table[:, 3], table[:, 4] = offset, 0.1
    weights = rng.integers(1, 4, size=40)
    exact = [exact_spread(column.tolist(), weights.tolist()) for column in table.T]
    halves = sparse.csr_array(table)  # every entry in two parts
    halves.data, halves.indices = np.repeat(halves.data / 2, 2), np.repeat(halves.indices, 2)
    halves.indptr = halves.indptr * 2
    halves.has_canonical_format = False
    for form in (table, sparse.csr_array(table), halves):
        np.testing.assert_allclose(spread(form, weights.astype(float)), exact, rtol=1e-9)
    assert spread(table, weights.astype(float))[3:].tolist() == [0, 0]


@pytest.mark.slow
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
