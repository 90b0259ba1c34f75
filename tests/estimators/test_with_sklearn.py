"""The estimators inside scikit-learn's tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tests.estimators.tables import CLASSIFIERS, ESTIMATORS, FAST, data_for, labels, three_classes, two_classes, values
from treelu import LCNClassifier, LCNRegressor, LLNRegressor, ObliqueTreeClassifier


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_pipeline(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    pipeline = make_pipeline(StandardScaler(), estimator_class(**FAST)).fit(X, y)
    assert pipeline.predict(X).shape == y.shape
    alone = estimator_class(**FAST).fit(StandardScaler().fit_transform(X), y)
    assert np.array_equal(pipeline.predict(X), alone.predict(StandardScaler().fit_transform(X)))


def test_pipeline_from_text_columns() -> None:
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(colour=np.where(np.arange(len(X)) % 2, "red", "blue"))
    encode: ColumnTransformer = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    pipeline = make_pipeline(encode.set_output(transform="default"), LCNClassifier(**FAST)).fit(frame, y)
    assert pipeline.predict(frame).shape == y.shape


def test_names_flow_through_a_pipeline() -> None:
    X, y = two_classes()
    pipeline = make_pipeline(StandardScaler(), LCNClassifier(**FAST)).set_output(transform="pandas")
    pipeline.fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert pipeline[-1].tree_.feature_names == ("a", "b", "c", "d")


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_grid_search(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    grid = {"depth": [1, 3], "drop_connect": np.array([0.0, 0.5])}
    search = GridSearchCV(estimator_class(**{**FAST, "epochs": 2}), grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_.depth == search.best_params_["depth"]


def test_grid_search_over_numpy_booleans() -> None:
    X, y = values()
    grid = {"standardize": np.array([True, False]), "early_stopping": np.array([False, True])}
    search = GridSearchCV(LCNRegressor(**FAST), grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 4


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_cross_val_predict(estimator_class: type, method: str) -> None:
    X, y = three_classes()
    out = cross_val_predict(estimator_class(**FAST), X, y, cv=3, method=method)
    assert out.shape == ((150,) if method == "predict" else (150, 3))


@pytest.mark.slow
@pytest.mark.parametrize("model", [LCNClassifier(**FAST), ObliqueTreeClassifier(n_updates=20, random_state=0)])
def test_logarithms_of_probabilities_as_of_a_soft_vote(model: Any) -> None:
    X, y = three_classes()
    logarithms = clone(model).fit(X, y).predict_log_proba(X)
    vote = VotingClassifier([("one", model)], voting="soft").fit(X, y)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logarithms, np.log(vote.predict_proba(X)))


def test_sample_weight_in_cross_validation() -> None:
    X, y = two_classes()
    weight = np.random.default_rng(0).random(len(X))
    scores = cross_val_score(LCNClassifier(**FAST), X, y, cv=2, params={"sample_weight": weight})
    assert not np.isnan(scores).any()


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_calibration(estimator_class: type) -> None:
    X, y = two_classes()
    calibrated = CalibratedClassifierCV(estimator_class(**FAST), cv=2).fit(X, y)
    chances = calibrated.predict_proba(X)
    assert np.allclose(chances.sum(axis=1), 1)
    assert len(calibrated.calibrated_classifiers_) == 2


def test_stacking_selection_importance_and_chains() -> None:
    X, y = two_classes()
    stack = StackingClassifier([("lcn", LCNClassifier(**FAST))], LogisticRegression(), cv=2).fit(X, y)
    assert stack.predict(X).shape == y.shape
    chosen = SelectFromModel(LCNClassifier(**FAST), max_features=2, threshold=-np.inf).fit(X, y)
    assert chosen.get_support().sum() == 2
    fitted = LCNClassifier(**FAST).fit(X, y)
    assert permutation_importance(fitted, X, y, n_repeats=2, random_state=0).importances.shape == (4, 2)
    X, many = labels()
    chain = ClassifierChain(LCNClassifier(**FAST)).fit(X, np.nan_to_num(many).astype(int))
    assert chain.predict(X).shape == many.shape


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_parameters_round_trip(estimator_class: type) -> None:
    """`__init__` only assigns; every parameter can be read, set, cloned and shown."""
    estimator = estimator_class(**{**FAST, "drop_connect": 0.5, "learning_rate": 0.3})
    parameters = estimator.get_params()
    assert clone(estimator).get_params() == parameters
    assert estimator_class(**estimator.get_params(deep=False)).get_params() == parameters
    nested = estimator.set_params(training__optimizer="amsgrad", training__batch_size=7)
    assert nested.get_params()["training__batch_size"] == 7
    with pytest.raises(ValueError, match="speed"):
        estimator.set_params(training__speed=1)
    assert "drop_connect=0.5" in repr(estimator)
    with pytest.raises(ValueError, match="Invalid parameter 'width' for estimator"):
        estimator.set_params(width=3)


def test_html_and_pickle_of_a_fitted_pipeline() -> None:
    X, y = values()
    pipeline = make_pipeline(StandardScaler(), LLNRegressor(**FAST)).fit(X, y)
    assert "LLNRegressor" in pipeline._repr_html_()
    twin = pickle.loads(pickle.dumps(pipeline))
    assert np.array_equal(twin.predict(X), pipeline.predict(X))


def test_tags() -> None:
    tags = LCNClassifier().__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.classifier_tags.multi_label
    assert LCNRegressor().__sklearn_tags__().target_tags.multi_output
