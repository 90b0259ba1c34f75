"""Names of classes decide nothing: networks and ensembles fitted to renamed classes are the same models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from treelu import ALCNClassifier, ELCNClassifier, LCNClassifier, LLNClassifier, StackedClassifier, load

QUICK: dict[str, Any] = {"epochs": 4, "random_state": 0}
FIXED: dict[str, Any] = {**QUICK, "depth": 3, "drop_connect": 0.1}
# the first names sort in the order of the frequencies, the second do not
NAMES = {2: (["a", "b"], ["b", "a"]), 3: (["a", "b", "c"], ["c", "a", "b"]), 4: ([0, 1, 2, 3], [2, 3, 0, 1])}

SINGLE = {
    "LCN": LCNClassifier(**QUICK),
    "ALCN": ALCNClassifier(**QUICK),
    "LLN": LLNClassifier(**QUICK),
    "balanced": LCNClassifier(**FIXED, class_weight="balanced"),
    "refined": LCNClassifier(**FIXED, training={"refine_leaves": True, "n_init": 2}),
    "early stopping": LCNClassifier(**FIXED, early_stopping=2),
    "few features": LCNClassifier(**FIXED, max_tree_features=2),
}
MEMBER = LCNClassifier(depth=3, drop_connect=0.1, epochs=4)
ENSEMBLES = {
    "stack": StackedClassifier(MEMBER, n_estimators=5, n_trees=30, random_state=0),
    "average": ELCNClassifier(MEMBER, n_estimators=2, combine="average", random_state=0),
    "boost": ELCNClassifier(MEMBER, n_estimators=2, combine="boost", random_state=0),
}


def rows_of(n_classes: int, n_rows: int = 150) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows and class numbers, which say nothing about frequencies or first rows."""
    rng = np.random.default_rng(n_classes)
    X = rng.standard_normal((n_rows, 4))
    scores = X @ rng.standard_normal((4, n_classes)) + rng.permutation(n_classes)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def places(names: list[Any]) -> NDArray[np.int64]:
    """The place of each class among the sorted names."""
    return np.argsort(np.argsort(names))


def scores_by_class(model: Any, X: NDArray[Any], names: list[Any]) -> NDArray[np.float64]:
    """Raw scores with columns in the order of the class numbers; of two classes the score of the second."""
    scores = model.decision_function(X)
    if len(names) == 2:
        return scores if places(names)[1] == 1 else -scores
    return scores[:, places(names)]


def arrays_by_class(model: Any, names: list[Any]) -> dict[str, NDArray[Any]]:
    """The network's parameters, outputs in the order of the class numbers."""
    network = model.network_.copy()
    network.reorder_classes(places(names))
    return network.arrays()


def numbers(model: Any, X: NDArray[Any], names: list[Any]) -> NDArray[np.int64]:
    """The predicted class numbers."""
    return np.argsort(names)[np.searchsorted(model.classes_, model.predict(X))]


def assert_alike(one: Any, other: Any, X: NDArray[Any], first: list[Any], second: list[Any]) -> None:
    np.testing.assert_array_equal(numbers(one, X, first), numbers(other, X, second))
    # sums over classes are in the order of their names
    np.testing.assert_allclose(scores_by_class(one, X, first), scores_by_class(other, X, second), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_classes", NAMES)
@pytest.mark.parametrize("kind", SINGLE)
def test_networks(kind: str, n_classes: int) -> None:
    X, y = rows_of(n_classes)
    one, other = (clone(SINGLE[kind]).fit(X, np.array(names)[y]) for names in NAMES[n_classes])
    first, second = NAMES[n_classes]
    for name, array in arrays_by_class(one, first).items():
        np.testing.assert_array_equal(array, arrays_by_class(other, second)[name])
    assert_alike(one, other, X, first, second)


@pytest.mark.parametrize("n_classes", NAMES)
@pytest.mark.parametrize("kind", ENSEMBLES)
def test_ensembles(kind: str, n_classes: int) -> None:
    X, y = rows_of(n_classes)
    one, other = (clone(ENSEMBLES[kind]).fit(X, np.array(names)[y]) for names in NAMES[n_classes])
    assert_alike(one, other, X, *NAMES[n_classes])


@pytest.mark.parametrize("n_classes", NAMES)
@pytest.mark.parametrize("kind", ["LCN", "LLN", *ENSEMBLES])
def test_classes_are_not_exchanged(kind: str, n_classes: int) -> None:
    """Far apart, each class is found."""
    names = np.array(NAMES[n_classes][1])
    y = np.repeat(np.arange(n_classes), [20, 60, 40, 80][:n_classes])
    X = 10 * np.eye(4)[y] + np.random.default_rng(0).standard_normal((len(y), 4))
    model = {"LCN": LCNClassifier(depth=6), "LLN": LLNClassifier(depth=6), **ENSEMBLES}[kind]
    if kind in ENSEMBLES:
        model = clone(model).set_params(estimator__epochs=50)
    assert clone(model).set_params(random_state=0).fit(X, names[y]).score(X, names[y]) > 0.8


@pytest.mark.parametrize("n_classes", NAMES)
@pytest.mark.parametrize("model", [LCNClassifier(**FIXED), ENSEMBLES["boost"]], ids=["LCN", "boost"])
def test_pieces_and_warm_starts(model: Any, n_classes: int, tmp_path: Path) -> None:
    X, y = rows_of(n_classes)
    fitted = []
    for number, names in enumerate(NAMES[n_classes]):
        labels = np.array(names)[y]
        pieces = clone(model).partial_fit(X[:100], labels[:100], classes=names)
        pieces.save(tmp_path / str(number))
        pieces = load(tmp_path / str(number)).partial_fit(X[100:], labels[100:])
        further = clone(model).fit(X[::-1], labels[::-1]).set_params(warm_start=True)
        if isinstance(model, ELCNClassifier):
            further.set_params(n_estimators=3)
        fitted.append((pieces, further.fit(X, labels)))
    for one, other in zip(*fitted, strict=True):
        assert_alike(one, other, X, *NAMES[n_classes])


def test_a_saved_model_keeps_the_order_of_training(tmp_path: Path) -> None:
    X, y = rows_of(3)
    model = LCNClassifier(**FIXED).fit(X, np.array(NAMES[3][1])[y])
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.class_order_, model.class_order_)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(model.tree_.predict_proba(X), model.predict_proba(X), atol=1e-9)


def forget_order(model: Any) -> None:
    reading = model.fitted_.reading
    model.fitted_ = replace(model.fitted_, reading=replace(reading, encoding=replace(reading.encoding, order=None)))


def test_a_model_without_an_order_of_training_goes_on() -> None:
    """As those of version 0.1 are."""
    X, y = rows_of(3)
    labels = np.array(NAMES[3][1])[y]
    model = LCNClassifier(**FIXED).fit(X, labels)
    before = model.decision_function(X)
    forget_order(model)
    np.testing.assert_array_equal(model.decision_function(X), before)
    model.set_params(epochs=1, learning_rate=1e-9, warm_start=True).fit(X, labels)
    np.testing.assert_allclose(model.decision_function(X), before, atol=1e-3)
    forget_order(model)
    model.set_params(learning_rate=1e-9).partial_fit(X, labels)
    np.testing.assert_allclose(model.decision_function(X), before, atol=1e-3)
