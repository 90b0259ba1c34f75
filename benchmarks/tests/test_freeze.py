"""The comparison of two checkouts: one changed bit is found, and a class with a new name is the same class."""

import numpy as np
import pytest

from benchmarks.freeze import compare, difference, with_new_names
from benchmarks.freeze_record import Names
from treelu import ELCNClassifier, LCNRegressor


def test_the_last_bit_counts() -> None:
    values = np.array([0.1, np.nan, 3.0])
    assert difference(values, values.copy()) is None
    other = values.copy()
    other[2] = np.nextafter(3.0, 4.0)
    assert difference(values, other) == "1 of 3 values, by up to 4.44e-16"
    assert difference(values, values.astype(np.float32)) == "float64 (3,) → float32 (3,)"
    assert difference(np.array([0.0]), np.array([-0.0])) == "the sign of a zero, or the bits of a NaN"
    assert difference(np.array(["a", "b"]), np.array(["a", "c"])) == "1 of 2 values"
    assert difference("same\nlong", "same\nlong\nlonger") == "2 lines → 3 lines"


def test_results_that_only_one_has_and_models_that_load_otherwise_differ() -> None:
    old = {"lcn/iris/0/predict": np.zeros(2), "gone": "text"}
    new = {"lcn/iris/0/predict": np.zeros(2), "loaded/lcn/iris/0/predict": np.ones(2), "added": "text"}
    assert compare(old, new) == {
        "added": "only in the newer one",
        "gone": "only in the older one",
        "loaded/lcn/iris/0/predict": "2 of 2 values, by up to 1",
    }


def test_new_names_of_classes_and_parameters() -> None:
    renamed = {
        "OldClassifier(stack)": {"class": "ELCNClassifier", "parameters": {"mix": "combine", "gone": None}},
        "OldRegressor": {"class": "LCNRegressor"},
    }
    names = Names(renamed)
    made = names.make("stack", "OldClassifier", mix="average", gone=3, n_estimators=2)
    assert type(made) is ELCNClassifier
    assert (made.combine, made.n_estimators) == ("average", 2)
    assert type(names.make("lcn", "OldRegressor")) is LCNRegressor
    with pytest.raises(LookupError, match="no class OldClassifier"):
        names.make("boost", "OldClassifier")
    texts = {"stack/iris/0/error": "OldClassifier", "boost/iris/0/error": "OldClassifier", "x/iris": "OldRegressor"}
    assert list(with_new_names(texts, renamed).values()) == ["ELCNClassifier", "OldClassifier", "LCNRegressor"]
