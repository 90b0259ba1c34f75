"""Several 0/1 labels with missing values: one network for each."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.metrics import roc_auc_score
from sklearn.utils.class_weight import compute_sample_weight

from tests.estimators.tables import CLASSIFIERS, FAST, labels, two_classes
from treelu import LCNClassifier
from treelu.estimators._networks import NetworkClassifier

FREE = {**FAST, "standardize": False}  # the scaling of all rows is not that of some


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_each_label_is_a_fit_of_its_own(estimator_class: type) -> None:
    """The estimator of a label is what a fit on the rows where it was observed gives, to the bit."""
    X, y = labels()
    several = estimator_class(**{**FREE, "drop_connect": 0.25}).fit(X, y)
    assert len(several.estimators_) == 3
    for label, member in enumerate(several.estimators_):
        observed = ~np.isnan(y[:, label])
        alone = estimator_class(**{**FREE, "random_state": member.random_state, "drop_connect": 0.25})
        alone.fit(X[observed], y[observed, label].astype(int))
        assert np.array_equal(alone.decision_function(X), member.decision_function(X))
    assert len({member.random_state for member in several.estimators_}) == 3


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_shapes_and_quality(estimator_class: type) -> None:
    X, y = labels(n=300)
    classifier = estimator_class(**{**FAST, "epochs": 80}).fit(X, y)
    chances = classifier.predict_proba(X)
    assert chances.shape == classifier.decision_function(X).shape == classifier.predict(X).shape == y.shape
    assert np.allclose(chances, 1 / (1 + np.exp(-classifier.decision_function(X))))
    assert np.array_equal(classifier.predict(X), chances >= 0.5)
    for label in range(3):
        observed = ~np.isnan(y[:, label])
        assert roc_auc_score(y[observed, label], chances[observed, label]) > 0.9
    assert [list(classes) for classes in classifier.classes_] == [[0, 1]] * 3


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_threads_change_nothing(form) -> None:
    X, y = labels()
    results = [LCNClassifier(**FAST, n_jobs=n_jobs).fit(form(X), y) for n_jobs in (None, 1, 2)]
    for other in results[1:]:
        assert np.array_equal(other.decision_function(form(X)), results[0].decision_function(form(X)))
        for member, alone in zip(other.estimators_, results[0].estimators_, strict=True):
            assert member.history_["train_loss"] == alone.history_["train_loss"]


def test_one_column_with_missing_values_is_a_label() -> None:
    X, y = labels(n_labels=1)
    classifier = LCNClassifier(**FAST).fit(X, y)
    assert len(classifier.estimators_) == 1
    assert classifier.predict_proba(X).shape == (len(X), 1)


def test_eval_set_and_early_stopping_by_label() -> None:
    X, y = labels()
    classifier = LCNClassifier(**FAST).fit(X, y, eval_set=(X, y))
    for member in classifier.estimators_:
        assert member.history_.metric == "auc"
        assert member.history_.best_epoch == 1 + int(np.argmax(member.history_["valid_score"]))
    stopped = LCNClassifier(**{**FAST, "epochs": 30, "learning_rate": 1e-9}, early_stopping=2).fit(X, y)
    assert all(member.history_.ended == "early" for member in stopped.estimators_)


def test_weights() -> None:
    X, y = labels()
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    first = LCNClassifier(**FAST).fit(X, y, sample_weight=weight)
    second = LCNClassifier(**FAST).fit(X, y, sample_weight=2 * weight)
    assert np.array_equal(first.decision_function(X), second.decision_function(X))
    assert not np.allclose(first.decision_function(X), LCNClassifier(**FAST).fit(X, y).decision_function(X))


def test_balanced_classes_by_label() -> None:
    X, y = labels()
    several = LCNClassifier(**FREE, class_weight="balanced").fit(X, y)
    member, observed = several.estimators_[1], ~np.isnan(y[:, 1])
    target = y[observed, 1].astype(int)
    alone = LCNClassifier(**{**FREE, "random_state": member.random_state})
    alone.fit(X[observed], target, sample_weight=compute_sample_weight("balanced", target))
    assert np.allclose(alone.decision_function(X), member.decision_function(X), atol=1e-3)


def test_trees_are_the_members() -> None:
    X, y = labels()
    classifier = LCNClassifier(**FAST).fit(X, y)
    with pytest.raises(AttributeError, match=r"one model per label: use estimators_\[label\].tree_"):
        _ = classifier.tree_
    for label, member in enumerate(classifier.estimators_):
        assert np.allclose(member.tree_.decision_function(X), classifier.decision_function(X)[:, label], atol=1e-9)
    assert classifier.feature_importances_.sum() == pytest.approx(1)


def test_names_and_pickle() -> None:
    import pandas as pd

    X, y = labels()
    frame = pd.DataFrame(X, columns=list("abcde"))
    classifier = LCNClassifier(**FAST).fit(frame, pd.DataFrame(y))
    assert classifier.estimators_[0].feature_names_in_.tolist() == list("abcde")
    twin = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(twin.predict_proba(frame), classifier.predict_proba(frame))


def test_an_estimator_can_change_between_labels_and_a_vector() -> None:
    X, y = labels()
    classifier = LCNClassifier(**FAST).fit(X, y)
    vector = (X[:, 0] > 0).astype(int)
    classifier.fit(X, vector)
    assert classifier.predict_proba(X).shape == (len(X), 2)
    assert not hasattr(classifier, "estimators_")
    classifier.fit(X, y)
    assert not hasattr(classifier, "network_")
    assert classifier.predict_proba(X).shape == y.shape
    classifier.partial_fit(X, vector)
    fresh = LCNClassifier(**FAST).partial_fit(X, vector)
    assert np.array_equal(classifier.decision_function(X), fresh.decision_function(X))


def test_warm_start() -> None:
    X, y = labels()
    classifier = LCNClassifier(**FAST, warm_start=True).fit(X, y)
    before = classifier.decision_function(X)
    classifier.set_params(learning_rate=1e-12).fit(X, y)
    assert np.allclose(classifier.decision_function(X), before, atol=1e-4)
    with pytest.raises(ValueError, match="warm_start=True continues 3 labels, but y has 2; set warm_start=False"):
        classifier.fit(X, y[:, :2])


def test_a_vector_of_two_classes_is_no_label_matrix() -> None:
    X, y = two_classes()
    assert not hasattr(LCNClassifier(**FAST).fit(X, y), "estimators_")


def test_what_there_is_one_of_for_each_label_says_so() -> None:
    X, y = labels()
    classifier = LCNClassifier(**FAST).fit(X, y)
    for name in ("to_tree", "apply", "decision_path"):
        with pytest.raises(AttributeError, match=rf"one model per label: use estimators_\[label\]\.{name}"):
            getattr(classifier, name)(**({} if name == "to_tree" else {"X": X}))
    with pytest.raises(AttributeError, match=r"one model per label: use estimators_\[label\]\.tree_"):
        _ = classifier.tree_
    assert not hasattr(classifier, "staged_predict")
    assert LCNClassifier.predict_proba.__doc__ == NetworkClassifier.predict_proba.__doc__


def test_a_fit_that_fails_leaves_the_labels_as_they_were() -> None:
    X, y = labels()
    classifier = LCNClassifier(**FAST, warm_start=True).fit(X, y)
    before, old = classifier.decision_function(X), classifier.estimators_[2].get_params()
    classifier.set_params(epochs=5, learning_rate=1e30)
    with pytest.raises(FloatingPointError):
        classifier.fit(X, y)
    assert np.array_equal(classifier.decision_function(X), before)
    assert classifier.estimators_[2].get_params() == old
    with pytest.raises(ValueError, match="not among the classes"):
        classifier.set_params(learning_rate=0.01).partial_fit(X, X[:, 0] > 0, classes=[2, 3])
    assert np.array_equal(classifier.decision_function(X), before)
    assert [classes.tolist() for classes in classifier.classes_] == [[0, 1]] * 3


def test_a_subclass_may_answer_for_each_label_in_its_own_way() -> None:
    class Bold(LCNClassifier):
        def predict_proba(self, X):
            return np.round(super().predict_proba(X))

    X, y = labels()
    classifier = Bold(**FAST).fit(X, y)
    assert classifier.predict_proba(X).shape == y.shape
    assert np.isin(classifier.predict_proba(X), [0, 1]).all()


def test_what_was_asked_of_scikit_learn_stays() -> None:
    """A request for metadata is an attribute of the estimator, but nothing that it learned."""
    X, y = labels()
    with config_context(enable_metadata_routing=True):
        classifier = LCNClassifier(**FAST).set_fit_request(sample_weight=True).fit(X, y)
        assert classifier.get_metadata_routing().fit.requests["sample_weight"] is True


def test_rows_without_weight_are_as_good_as_removed() -> None:
    X, y = labels()
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    wild = np.where(weight == 0, 1e6, 1.0)[:, None]
    weighted = LCNClassifier(**FAST).fit(X * wild, y, sample_weight=weight)
    removed = LCNClassifier(**FAST).fit(X[weight > 0], y[weight > 0])
    assert np.array_equal(weighted.predict_proba(X), removed.predict_proba(X))
    with pytest.raises(ValueError, match="one class only in column 0"):
        LCNClassifier(**FAST).fit(X, y, sample_weight=(y[:, 0] != 1).astype(float))
