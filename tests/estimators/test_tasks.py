"""Callbacks of scikit-learn, set on estimators and on what is around them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from treelu import ELCNClassifier, LCNClassifier, LCNRegressor, ObliqueTreeClassifier, StackedClassifier

callbacks = pytest.importorskip("sklearn.callback")

FAST: dict[str, Any] = {"depth": 2, "drop_connect": 0.0, "epochs": 3, "random_state": 0}
SMALL: dict[str, Any] = {"max_leaf_nodes": 3, "teacher": None, "n_updates": 20, "cv": 2, "random_state": 0}
X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0] > 0


class Log:
    """Keeps what is called; asks for a stop after some tasks."""

    max_propagation_depth = None

    def __init__(self, most: int = 1000) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.most = most
        self.scores: list[float] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.calls.append(("setup", context.estimator_name, context.task_name))

    def teardown(self, estimator: Any, context: Any) -> None:
        self.calls.append(("teardown", context.estimator_name, context.task_name))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.calls.append(("begin", context.estimator_name, context.task_name))

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any, y: Any, metadata: Any, fitted_estimator: Any
    ) -> bool:
        self.calls.append(("end", context.estimator_name, context.task_name))
        if hasattr(fitted_estimator, "score") and X is not None:
            self.scores.append(fitted_estimator.score(X, y, **(metadata or {})))
        return len([call for call in self.calls if call[0] == "end"]) >= self.most


MODELS = [
    (LCNClassifier(**FAST), "epoch", 3),
    (LCNRegressor(**FAST), "epoch", 3),
    (ELCNClassifier(LCNClassifier(**FAST), n_estimators=2, random_state=0), "member", 2),
    (StackedClassifier(n_estimators=2, n_trees=8, random_state=0), "member", 2),
    (ObliqueTreeClassifier(**SMALL), "", 0),
]


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")
@pytest.mark.parametrize(("model", "part", "n"), MODELS, ids=lambda value: type(value).__name__)
def test_a_fit_is_a_task_with_its_epochs_below(model: Any, part: str, n: int) -> None:
    log, name = Log(), type(model).__name__
    watched = clone(model).set_callbacks(log)
    watched.fit(X, Y.astype(float) if name == "LCNRegressor" else Y, sample_weight=np.ones(len(X)))
    parts = [("begin", name, part), ("end", name, part)] * n
    assert log.calls == [("setup", name, "fit"), ("begin", name, "fit"), *parts, ("end", name, "fit"),
                         ("teardown", name, "fit")]  # fmt: skip
    assert len(log.scores) == 1
    plain = clone(model).set_callbacks().fit(X, Y)
    if name != "LCNRegressor":
        np.testing.assert_array_equal(watched.predict_proba(X), plain.predict_proba(X))
    assert not {key for key in vars(watched) if key.startswith("_callback")}


def test_a_callback_may_end_training() -> None:
    model = LCNClassifier(**FAST).set_callbacks(Log(most=2)).fit(X, Y)
    assert (len(model.history_), model.history_.ended) == (2, "callback")


def test_callbacks_end_with_a_fit_that_fails() -> None:
    log = Log()
    model = LCNClassifier(**FAST).set_callbacks(log)
    with pytest.raises(ValueError, match="a label for each row"):
        model.fit(X, np.full(len(X), np.nan))
    assert log.calls[-1] == ("teardown", "LCNClassifier", "fit")
    assert not {key for key in vars(model) if key.startswith("_callback")}
    assert model.fit(X, Y).score(X, Y) > 0.5


def test_callbacks_of_a_pipeline_and_of_a_search_reach_the_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    steps = make_pipeline(StandardScaler(), LCNClassifier(**FAST))
    log = Log()
    search = GridSearchCV(steps, {"lcnclassifier__epochs": [1, 2]}, cv=2).set_callbacks(log).fit(X, Y)
    epochs = [call for call in log.calls if call == ("end", "LCNClassifier", "epoch")]
    assert len(epochs) == 2 * 1 + 2 * 2 + search.best_params_["lcnclassifier__epochs"]
    bar = LCNClassifier(**FAST).set_callbacks(callbacks.ProgressBar()).fit(X, Y)
    assert "LCNClassifier" in capsys.readouterr().out
    assert bar.predict(X).shape == (60,)


def test_our_own_callbacks_are_called_too() -> None:
    seen = []
    log = Log()
    model = LCNClassifier(**FAST, callbacks=[lambda record, network: seen.append(record.epoch)])
    model.set_callbacks(log).fit(X, Y)
    assert seen == [1, 2, 3]
    assert pickle.loads(pickle.dumps(clone(model).set_params(callbacks=None).set_callbacks().fit(X, Y))).depth_ == 2
