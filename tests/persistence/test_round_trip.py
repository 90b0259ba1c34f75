"""Every model comes back as it was."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import treelu
from tests.persistence.models import CLASSES, ROWS, SCORE, SMALL, every_model, outputs
from treelu import LCNClassifier, LCNRegressor, ObliqueTreeClassifier
from treelu.estimators._path_trees import KnownTrees
from treelu.persistence import dumps, loads
from treelu.tree import ObliqueTree


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return every_model()


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal to the last bit, not only in value."""
    if first.dtype.kind == "f":
        return first.dtype == second.dtype and first.tobytes() == second.tobytes()
    return first.dtype.kind == second.dtype.kind and first.tolist() == second.tolist()


@pytest.mark.slow
def test_predictions_are_the_same_bit_for_bit(models: dict[str, Any]) -> None:
    for name, model in models.items():
        loaded = loads(*dumps(model))
        assert type(loaded) is type(model), name
        for before, after in zip(outputs(model), outputs(loaded), strict=True):
            assert same_bits(before, after), name


def test_saving_what_was_loaded_gives_the_same_files(models: dict[str, Any]) -> None:
    for name, model in models.items():
        files = dumps(model)
        assert dumps(loads(*files)) == files, name


def test_trees_importances_and_history_come_back(models: dict[str, Any]) -> None:
    for name in ("lcn_two_classes", "lcn_words", "lln", "lln_two_values"):
        model, loaded = models[name], loads(*dumps(models[name]))
        assert loaded.tree_ == model.tree_
        assert np.array_equal(loaded.feature_importances_, model.feature_importances_)
        assert loaded.history_ == model.history_
        assert loaded.get_params() == model.get_params()
    trees, loaded_trees = models["elcn"].trees_, loads(*dumps(models["elcn"])).trees_
    assert all(first == second for first, second in zip(trees, loaded_trees, strict=True))
    for name in ("tree", "tree_sparse", "tree_one_leaf", "tree_linear"):
        loaded = loads(*dumps(models[name]))
        assert loaded == models[name]
        assert loaded.notes == models[name].notes
    assert loads(*dumps(models["tao"])).training_losses_.tolist() == models["tao"].training_losses_.tolist()
    table, loaded = models["table"], loads(*dumps(models["table"]))
    assert (loaded.encoder, loaded.targets, loaded.notes) == (table.encoder, table.targets, table.notes)
    assert (loaded.trees, loaded.baselines) == (table.trees, table.baselines)


def test_what_was_learned_besides_weights_comes_back(models: dict[str, Any]) -> None:
    for name in ("lcn_refined", "lln_refined", "lcn_tempered", "lcn_gaps", "lcn_auto", "lcn_few", "lcn_stopped"):
        model, loaded = models[name], loads(*dumps(models[name]))
        assert loaded.get_params() == model.get_params()
        assert loaded.fitted_.chosen == model.fitted_.chosen
        assert loaded.history_ == model.history_
        assert np.array_equal(loaded.spread_, model.spread_)
        assert loaded.tree_ == model.tree_
    assert models["lcn_auto"].drop_connect == "auto"
    for name in ("lcn_refined", "lln_refined", "lcn_tempered"):
        before, after = (m.network_.leaf_corrections for m in (models[name], loads(*dumps(models[name]))))
        assert before is not None
        assert np.array_equal(before.codes, after.codes)
        assert np.array_equal(before.values, after.values)
    gaps = np.array([[np.nan, np.nan, 1.0], [0.0, np.nan, 2.0]])
    assert np.array_equal(loads(*dumps(models["lcn_gaps"])).predict_proba(gaps), models["lcn_gaps"].predict_proba(gaps))
    few = loads(*dumps(models["lcn_few"])).feature_importances_
    assert (few > 0).sum() <= 2


def test_training_goes_on_where_it_was() -> None:
    model = LCNRegressor(**SMALL, warm_start=True).fit(ROWS, SCORE)
    loaded = loads(*dumps(model))
    assert np.array_equal(loaded.fit(ROWS, SCORE).predict(ROWS), model.fit(ROWS, SCORE).predict(ROWS))
    assert loaded.partial_fit(ROWS, SCORE).n_passes_ == SMALL["epochs"] + 1


def test_loading_leaves_the_random_generators_alone() -> None:
    files = dumps(LCNClassifier(**SMALL).fit(ROWS, CLASSES))
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    loads(*files)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("parameter", "value", "default"),
    [
        ("callbacks", [lambda record, network: None], None),
        ("training", {"schedule": lambda epoch, epochs: 1.0}, None),
        ("random_state", np.random.RandomState(0), None),
    ],
)
def test_code_and_moving_state_are_left_out_with_a_warning(parameter: str, value: Any, default: Any) -> None:
    model = LCNRegressor(**{**SMALL, parameter: value}).fit(ROWS, SCORE)
    with pytest.warns(UserWarning, match=f"{parameter} holds code or moving state and cannot be saved"):
        files = dumps(model)
    loaded = loads(*files)
    assert loaded.get_params()[parameter] == default
    assert np.array_equal(loaded.predict(ROWS), model.predict(ROWS))


def test_plain_parameters_of_other_types_are_kept() -> None:
    settings: dict[str, Any] = {"depth": np.int64(2), "hidden_layers": [4]}
    loaded = loads(*dumps(LCNRegressor(epochs=1, random_state=0, **settings).fit(ROWS, SCORE)))
    assert (loaded.depth, loaded.hidden_layers) == (2, (4,))


def test_what_cannot_be_saved_says_so() -> None:
    with pytest.raises(NotFittedError):
        dumps(LCNClassifier())
    with pytest.raises(TypeError, match="cannot save a dict; what can be saved: ObliqueTree, LCNClassifier"):
        dumps({})

    class Own(LCNClassifier):
        pass

    with pytest.raises(TypeError, match="cannot save a Own"):
        dumps(Own(**SMALL).fit(ROWS, CLASSES))
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    tree = ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]], link="logistic", classes=dates)
    with pytest.raises(TypeError, match="classes must be numbers, strings or booleans to be saved"):
        dumps(tree)


def test_save_methods_and_lazy_load(models: dict[str, Any], tmp_path: Any) -> None:
    for name in ("lcn_words", "tao", "tree"):
        models[name].save(tmp_path / name)
        assert type(treelu.load(tmp_path / name)) is type(models[name])


def test_a_path_with_some_of_its_trees() -> None:
    X, y = load_iris(return_X_y=True)
    model = ObliqueTreeClassifier(max_leaf_nodes=4, teacher=None, random_state=0).fit(X, y)
    chosen = int(model.path_.chosen.argmax())
    model.path_trees_ = KnownTrees(len(model.path_), {chosen: model.tree_})
    loaded = loads(*dumps(model))
    pd.testing.assert_frame_equal(loaded.path_, model.path_)
    assert loaded.path_trees_[chosen] is loaded.tree_
    assert loaded.tree_ == model.tree_
    assert len(loaded.path_trees_) == len(model.path_) > 1
    with pytest.raises(AttributeError, match="was not trained; `treelu fit` trains the chosen one"):
        loaded.path_trees_[0 if chosen else 1]
