"""What estimators say to those who come from other libraries, or with too little."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from treelu import (
    ALCNClassifier,
    ALCNRegressor,
    ELCNClassifier,
    LCNClassifier,
    LCNRegressor,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
)


@pytest.mark.parametrize(
    ("estimator_class", "given", "advice"),
    [
        (LCNClassifier, "max_depth", "LCNClassifier has no parameter max_depth; LCN calls this depth"),
        (LLNRegressor, "max_depth", "LLN calls this depth"),
        (ALCNRegressor, "max_iter", "ALCN calls this epochs"),
        (LCNClassifier, "seed", "calls this random_state"),
        (LCNRegressor, "max_leaf_nodes", "ObliqueTreeRegressor has it"),
    ],
)
def test_parameters_of_others_are_refused_with_the_own_word(estimator_class, given, advice):
    with pytest.raises(TypeError, match=advice):
        estimator_class(**{given: 3})
    with pytest.raises(ValueError, match=advice):
        estimator_class().set_params(**{given: 3})


def test_other_unknown_words_are_refused_as_ever():
    with pytest.raises(TypeError, match="unexpected keyword argument 'height'"):
        LCNClassifier(height=3)
    with pytest.raises(ValueError, match="Invalid parameter 'height'"):
        LCNClassifier().set_params(height=3)
    model = LCNClassifier(depth=3)
    for same in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same.get_params() == model.get_params()


@pytest.mark.parametrize("estimator_class", [ALCNClassifier, ALCNRegressor])
def test_smooth_networks_say_why_they_have_no_tree(estimator_class):
    with pytest.raises(AttributeError, match=r"has no tree_: its activation stays smooth.*LCN(Class|Regr)"):
        _ = estimator_class().tree_
    assert not hasattr(estimator_class(), "tree_")
    with pytest.raises(AttributeError, match="ELCNClassifier has no tree_: it is made of several models"):
        _ = ELCNClassifier().tree_


@pytest.mark.parametrize("estimator_class", [LCNClassifier, LCNRegressor, ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_three_rows_are_warned_of(estimator_class):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    options = {"depth": 1, "epochs": 1, "drop_connect": 0.0} if estimator_class.__name__.startswith("LCN") else {}
    with pytest.warns(UserWarning, match="fitted to 3 rows"):
        estimator_class(**options).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        LCNClassifier(depth=1, epochs=1, drop_connect=0.0).fit(np.tile(X, (4, 1)), np.tile(y, 4))


@pytest.mark.parametrize("estimator_class", [LCNClassifier, ObliqueTreeClassifier])
def test_names_of_columns_reach_the_tree(estimator_class):
    X, y = load_iris(return_X_y=True, as_frame=True)
    options = {"depth": 1, "epochs": 1, "drop_connect": 0.0} if estimator_class is LCNClassifier else {}
    model = estimator_class(**options).fit(X[:40:4], y[:40:4] + np.arange(10) % 2)
    assert model.tree_.feature_names == tuple(X.columns)


def test_verbose_shows_the_trials_of_the_defaults(capsys):
    X, y = load_iris(return_X_y=True)
    LCNClassifier(depth=2, epochs=2, verbose=True, random_state=0).fit(X, y)
    said = capsys.readouterr().out
    for rate in ("0.05", "0.3", "0.75"):
        assert f"LCNClassifier tries depth 2, drop_connect {rate}, weight_decay 0: loss " in said
    LCNClassifier(depth=2, epochs=2, random_state=0).fit(X, y)
    assert capsys.readouterr().out == ""


def test_verbose_shows_what_a_small_tree_compares(capsys):
    X, y = load_iris(return_X_y=True)
    options = {"max_leaf_nodes": 4, "n_updates": 20, "teacher": None, "leaves": "constant", "cv": 3, "random_state": 0}
    quiet = ObliqueTreeClassifier(**options).fit(X, y)
    assert capsys.readouterr().out == ""
    model = ObliqueTreeClassifier(**options, verbose=True).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ObliqueTreeClassifier ") for line in lines)
    for start in ("random", "cart", "linear", "scores"):
        assert any(f" tries start {start}, targets own" in line and line.endswith("on folds 1 to 1") for line in lines)
    # a race: fewer candidates on each fold, and then the sizes of a winner
    tried = [sum(line.endswith(f"on folds 1 to {fold}") for line in lines) for fold in (1, 2, 3)]
    assert tried[0] > tried[1] >= tried[2] >= 4
    assert sum(" goes on with start " in line for line in lines) == 2  # trained trees, linear models
    sizes = [line for line in lines if ": held-out loss " in line]
    assert len(sizes) == len(model.path_)
    assert sum("as good as the best" in line for line in sizes) == model.path_["eligible"].sum()
    assert f"takes leaves {model.tree_.n_leaves}, terms {model.tree_.max_terms}, " in lines[-1]
    assert model.tree_ == quiet.tree_


def test_verbose_without_a_comparison_shows_the_choice_only(capsys):
    X, y = load_iris(return_X_y=True)
    ObliqueTreeClassifier(selection="largest", n_updates=20, verbose=True, random_state=0).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) == 1
