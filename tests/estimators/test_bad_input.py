"""Bad input gets an error that names the argument and the remedy, before any work is done."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier

import treelu
from experiments.baselines import TAOClassifier, TAORegressor
from tests.estimators.tables import CLASSIFIERS, ESTIMATORS, FAST, REGRESSORS, data_for, labels, two_classes, values
from treelu import (
    ALCNClassifier,
    ELCNClassifier,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
)
from treelu.tree import ObliqueTree


def quiet(record: Any, network: Any) -> None:
    pytest.fail("training began before the input was checked")


def strict(estimator_class: type, **settings: Any) -> Any:
    """An estimator that must not start to train."""
    return estimator_class(**{**FAST, "callbacks": [quiet], **settings})


# X


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
@pytest.mark.parametrize(
    ("wrong", "message"), [(np.nan, "Input X contains NaN"), (np.inf, "Input X contains infinity")]
)
def test_nan_and_infinity(estimator_class: type, wrong: float, message: str) -> None:
    X, y = data_for(estimator_class)
    fitted = estimator_class(**FAST).fit(X, y)
    X = X.copy()
    X[5, 2] = wrong
    for given in (X, sparse.csr_array(X), pd.DataFrame(X)):
        with pytest.raises(ValueError, match=message):
            strict(estimator_class, missing="error").fit(given, y)
        with pytest.raises(ValueError, match=message):
            fitted.predict(given if not isinstance(given, pd.DataFrame) else given.to_numpy())
    with pytest.raises(ValueError, match=message):
        strict(estimator_class).fit(data_for(estimator_class)[0], y, eval_set=(X, y))


def test_text_in_an_array() -> None:
    X, y = two_classes()
    with pytest.raises(ValueError, match="could not convert string to float: 'red'"):
        strict(LCNClassifier).fit(np.column_stack([X.astype(object), ["red"] * len(X)]), y)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_another_number_of_features_at_predict(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST).fit(X, y)
    name = estimator_class.__name__
    methods = [
        m for m in ("predict", "predict_proba", "decision_function", "apply", "decision_path") if hasattr(estimator, m)
    ]
    assert len(methods) >= 1
    for method in methods:
        with pytest.raises(ValueError, match=f"X has 3 features, but {name} is expecting 4 features as input"):
            getattr(estimator, method)(X[:, :3])
    with pytest.raises(ValueError, match="expecting 4 features"):
        estimator.partial_fit(X[:, :3], y)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_other_names_at_predict(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST).fit(pd.DataFrame(X, columns=list("abcd")), y)
    with pytest.raises(ValueError, match=r"feature names should match those that were passed during fit(.|\n)*- e\n"):
        estimator.predict(pd.DataFrame(X, columns=list("abce")))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        estimator.predict(pd.DataFrame(X, columns=list("bacd")))


# y


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_one_class_only(estimator_class: type) -> None:
    X, _ = two_classes()
    with pytest.raises(ValueError, match=r"y has one class only \('no'\); a classifier needs at least two classes"):
        strict(estimator_class).fit(X, np.full(len(X), "no"))


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_a_label_without_observed_values(estimator_class: type) -> None:
    X, y = labels()
    y[:, 1] = np.nan
    with pytest.raises(ValueError, match="y has no observed value in column 1; drop that label"):
        strict(estimator_class).fit(X, y)


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_a_label_of_one_class(estimator_class: type) -> None:
    X, y = labels()
    y[~np.isnan(y[:, 2]), 2] = 1
    with pytest.raises(ValueError, match=r"y has one class only in column 2 \(1\); drop that label"):
        strict(estimator_class).fit(X, y)


def test_labels_other_than_zero_and_one() -> None:
    X, y = labels()
    y[3, 0] = 2
    with pytest.raises(ValueError, match=r"y with several columns must hold 0, 1 or NaN \(missing\), got 2"):
        strict(LCNClassifier).fit(X, y)


def test_labels_that_are_text() -> None:
    X, y = labels()
    with pytest.raises(ValueError, match=r"y with several columns must hold 0, 1 or NaN \(missing\)"):
        strict(LCNClassifier).fit(X, np.where(y > 0, "yes", "no"))


@pytest.mark.parametrize("estimator_class", CLASSIFIERS)
def test_real_values_for_a_classifier(estimator_class: type) -> None:
    X, y = values()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        strict(estimator_class).fit(X, y)


@pytest.mark.parametrize("estimator_class", REGRESSORS)
@pytest.mark.parametrize(
    ("wrong", "message"), [(np.nan, "Input y contains NaN"), (np.inf, "Input y contains infinity")]
)
def test_nan_and_infinity_in_y(estimator_class: type, wrong: float, message: str) -> None:
    X, y = values()
    y[7] = wrong
    with pytest.raises(ValueError, match=message):
        strict(estimator_class).fit(X, y)


def test_text_targets_for_a_regressor() -> None:
    X, y = two_classes()
    with pytest.raises(ValueError, match="could not convert string to float"):
        strict(LCNRegressor).fit(X, y)


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_lengths_must_agree(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    with pytest.raises(ValueError, match=r"Found input variables with inconsistent numbers of samples: \[\d+, \d+\]"):
        strict(estimator_class).fit(X, y[:-1])


# Parameters


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
@pytest.mark.parametrize(
    ("parameter", "wrong", "expected"),
    [
        ("depth", 0, r"int in the range \[1, 256\]"),
        ("depth", -3, r"int in the range \[1, 256\]"),
        ("depth", 2.5, r"int in the range \[1, 256\]"),
        ("drop_connect", 1.0, r"float in the range \[0.0, 1.0\)"),
        ("drop_connect", -0.1, r"float in the range \[0.0, 1.0\)"),
        ("epochs", 0, r"int in the range \[1, inf\)"),
        ("learning_rate", 0.0, r"float in the range \(0.0, inf\)"),
        ("learning_rate", "fast", r"float in the range \(0.0, inf\)"),
        ("training", "sgd", "an instance of 'dict'"),
        ("weight_decay", -1.0, r"float in the range \[0.0, inf\)"),
        ("standardize", "yes", r"an instance of 'bool'"),
        ("early_stopping", 0.5, r"int in the range \[1, inf\)"),
        ("hidden_layers", 5, "an array-like"),
        ("random_state", "seed", "random_state|instance of"),
    ],
)
def test_parameters(estimator_class: type, parameter: str, wrong: Any, expected: str) -> None:
    X, y = data_for(estimator_class)
    name = estimator_class.__name__
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of {name} must be .*({expected})") as caught:
        strict(estimator_class, **{parameter: wrong}).fit(X, y)
    assert f"Got {wrong!r} instead" in str(caught.value)
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter"):
        strict(estimator_class, **{parameter: wrong}).partial_fit(X, y)


@pytest.mark.parametrize(
    ("setting", "wrong", "what"),
    [
        ("batch_size", 0, "an integer from 1, or 'auto'"),
        ("batch_size", True, "an integer from 1, or 'auto'"),
        ("optimizer", "lbfgs", "'amsgrad' or 'sgd'"),
        ("schedule", "linear", "'cosine', 'step', 'constant' or a callable"),
        ("annealing", 1.5, "a number from 0 to 1"),
        ("straight_through", 1, "True or False"),
        ("negative_slope", float("nan"), "a number"),
        ("n_init", 0, "an integer from 1"),
        ("feature_penalty", -1, "a number from 0"),
        ("refine_leaves", "yes", "True, False or a number from 0"),
        ("temper", None, "True or False"),
    ],
)
def test_settings_of_training(setting: str, wrong: Any, what: str) -> None:
    X, y = data_for(LCNClassifier)
    with pytest.raises(ValueError, match=f"training: '{setting}' must be {what}, got "):
        LCNClassifier(training={setting: wrong}).fit(X, y)
    with pytest.raises(ValueError, match="training has no setting 'momentum'; there are batch_size"):
        LCNClassifier(training={"momentum": 0.9}).fit(X, y)
    with pytest.raises(TypeError, match=f"has no parameter {setting}; write training="):
        LCNClassifier(**{setting: wrong})


@pytest.mark.parametrize("wrong", [(0,), (4, -1)])
def test_widths_of_hidden_layers(wrong: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="hidden_layers must be widths of at least 1, got"):
        strict(LCNClassifier, hidden_layers=wrong).fit(*two_classes())


@pytest.mark.parametrize("wrong", [(2.5,), ("wide",)])
def test_widths_that_are_no_whole_numbers(wrong: tuple[Any, ...]) -> None:
    with pytest.raises((ValueError, TypeError), match="hidden_layers"):
        strict(LCNClassifier, hidden_layers=wrong).fit(*two_classes())


@pytest.mark.parametrize("estimator_class", [LLNClassifier, LLNRegressor])
def test_a_network_without_a_head_has_no_hidden_layers(estimator_class: type) -> None:
    with pytest.raises(ValueError, match=r"hidden_layers must be \(\) for LLN\w+, which has no g_φ; got \(4,\)"):
        strict(estimator_class, hidden_layers=(4,)).fit(*data_for(estimator_class))


def test_a_smooth_network_has_no_negative_slope() -> None:
    with pytest.raises(ValueError, match=r"negative_slope is for activation='leaky_relu' only, got 0.1"):
        strict(ALCNClassifier, training={"negative_slope": 0.1}).fit(*two_classes())


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
@pytest.mark.parametrize("device", ["cuda:99", "nowhere"])
def test_a_device_that_is_not_there(estimator_class: type, device: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=rf"device='{device}' is not there \((.|\n)*\); use device='cpu'"):
        strict(estimator_class, device=device).fit(*data_for(estimator_class))


def test_class_weight_of_a_class_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="class"):
        strict(LCNClassifier, class_weight={"maybe": 2.0}).fit(*two_classes())


# sample_weight and eval_set


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (lambda n: np.zeros(n), "ample weight|sample_weight"),
        (lambda n: np.full(n, -1.0), "Negative values in data passed to `sample_weight`"),
        (lambda n: np.ones(n - 1), r"sample_weight.shape == \(\d+,\), expected \(\d+,\)"),
        (lambda n: np.full(n, np.nan), "Input sample_weight contains NaN"),
    ],
    ids=["all zero", "negative", "too few", "nan"],
)
def test_sample_weight(estimator_class: type, weight, message: str) -> None:
    X, y = data_for(estimator_class)
    with pytest.raises(ValueError, match=message):
        strict(estimator_class).fit(X, y, sample_weight=weight(len(X)))


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_an_eval_set_of_another_width(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    with pytest.raises(ValueError, match=r"eval_set: X has 3 features, but \w+ is expecting 4 features"):
        strict(estimator_class).fit(X, y, eval_set=(X[:, :3], y))


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_an_eval_set_that_is_no_pair(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    for wrong in (X, (X, y, y), (X,), "valid"):
        with pytest.raises(ValueError, match=r"eval_set must be a pair \(X_valid, y_valid\)"):
            strict(estimator_class).fit(X, y, eval_set=wrong)


def test_an_eval_set_of_other_classes() -> None:
    X, y = two_classes()
    with pytest.raises(
        ValueError, match=r"eval_set: y has the label 'maybe', which is not among the classes \['no', 'yes'\]"
    ):
        strict(LCNClassifier).fit(X, y, eval_set=(X, np.full(len(X), "maybe")))
    with pytest.raises(ValueError, match="eval_set has one class only; its AUC is not defined"):
        strict(LCNClassifier).fit(X, y, eval_set=(X, np.full(len(X), "no")))


def test_an_eval_set_of_other_lengths_and_columns() -> None:
    X, y = values(n_outputs=2)
    with pytest.raises(ValueError, match="eval_set: Found input variables with inconsistent numbers"):
        strict(LCNRegressor).fit(X, y, eval_set=(X, y[:5]))
    with pytest.raises(ValueError, match="eval_set: y must have 2 columns, got 1"):
        strict(LCNRegressor).fit(X, y, eval_set=(X, y[:, 0]))


def test_an_eval_set_for_several_labels() -> None:
    X, y = labels()
    with pytest.raises(ValueError, match=r"eval_set: X has 3 features, but \w+ is expecting 5 features"):
        strict(LCNClassifier).fit(X, y, eval_set=(X[:, :3], y))
    with pytest.raises(ValueError, match=r"eval_set.*3 (labels|columns)"):
        strict(LCNClassifier).fit(X, y, eval_set=(X, y[:, :2]))
    with pytest.raises(ValueError, match="eval_set: Found input variables with inconsistent numbers"):
        strict(LCNClassifier).fit(X, y, eval_set=(X[:10], y))
    unobserved = y.copy()
    unobserved[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"eval_set: .*column 1"):
        strict(LCNClassifier).fit(X, y, eval_set=(X, unobserved))


@pytest.mark.parametrize(
    "estimator", [LCNClassifier(**FAST), ELCNClassifier(LCNClassifier(**FAST), n_estimators=1, combine="average")]
)
def test_partial_fit_has_the_same_classes_in_all_pieces(estimator: Any) -> None:
    X, y = two_classes()
    estimator.partial_fit(X, y, classes=["no", "yes"]).partial_fit(X, y, classes=["yes", "no"])
    before = estimator.predict_proba(X)
    with pytest.raises(ValueError, match=r"classes must be those of the first piece or fit, \['no', 'yes'\], got \['m"):
        estimator.partial_fit(X, y, classes=["maybe", "no", "yes"])
    assert np.array_equal(estimator.predict_proba(X), before)


@pytest.mark.parametrize("classes", [["no"], ["no", "no"], [0.0, 1.0, np.nan]])
def test_partial_fit_needs_two_classes_that_are_known(classes: list[Any]) -> None:
    X, y = two_classes()
    with pytest.raises(ValueError, match="classes must be two labels or more, none of them missing, got"):
        LCNClassifier(**FAST).partial_fit(X, np.full(len(y), classes[0]), classes=classes)


@pytest.mark.parametrize("is_ensemble", [False, True])
def test_partial_fit_checks_the_weights_of_classes(is_ensemble: bool) -> None:
    estimator: Any = LCNClassifier(**FAST, class_weight={"no": -1.0, "yes": 1.0})
    estimator = ELCNClassifier(estimator, n_estimators=1, combine="average") if is_ensemble else estimator
    with pytest.raises(ValueError, match="class_weight must hold positive finite numbers, got -1"):
        estimator.partial_fit(*two_classes())


def test_partial_fit_takes_one_label() -> None:
    with pytest.raises(ValueError, match="partial_fit takes a vector y"):
        LCNClassifier(**FAST).partial_fit(*labels())


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (pd.period_range("2020", periods=40, freq="D"), "column 'b' of type .*, which is no number, text, category"),
        ([[1, 2]] * 40, "column 'b' of type list, which is no number, text, category or date; drop it"),
        ([f"name {i}" for i in range(40)], "column 'b' with 40 different texts in 40 rows.*drop it"),
        (np.arange(40) * 1j, "column 'b' of type .*, which is no number"),
    ],
)
@pytest.mark.parametrize("name", ["LCNClassifier", "ObliqueTreeClassifier"])
def test_objects_that_are_no_numbers_are_named(name: str, odd: Any, message: str) -> None:
    frame = pd.DataFrame({"a": np.arange(40.0), "b": odd})
    with pytest.raises(ValueError, match=message):
        getattr(treelu, name)().fit(frame, [0, 1] * 20)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("LCNClassifier", "missing='auto' fills and marks missing values"),
        ("ObliqueTreeClassifier", "missing='auto' fills and marks missing values"),
        ("HHCARTClassifier", "impute missing values first"),
    ],
)
def test_gaps_are_refused_with_a_remedy_of_this_library(name: str, remedy: str) -> None:
    from experiments import baselines

    estimator = baselines.HHCARTClassifier() if name.startswith("HHCART") else getattr(treelu, name)(missing="error")
    X = np.arange(12.0).reshape(6, 2)
    X[2, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN") as error:
        estimator.fit(X, [0, 1, 0, 1, 0, 1])
    assert remedy in str(error.value)
    assert "HistGradientBoosting" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "kind", "remedy"),
    [
        (lambda pa: pa.array([datetime.date(2020, 1, 1)] * 30), r"dates or times .*date32\[day\]", "days or years"),
        (lambda pa: pa.array(np.arange(30), pa.timestamp("s")), r"dates or times .*timestamp\[s\]", "days or years"),
        (lambda pa: pa.array(np.arange(30)).dictionary_encode(), "a category .*dictionary", "OneHotEncoder"),
        (lambda pa: pa.array(["a", "b"] * 15), "text .*string", "OneHotEncoder"),
    ],
)
def test_columns_of_an_arrow_table_that_are_no_numbers(column: Any, kind: str, remedy: str) -> None:
    pa = pytest.importorskip("pyarrow")
    table, y = pa.table({"x": np.arange(30.0), "odd": column(pa)}), np.arange(30) % 2
    numbers = pa.table({"x": np.arange(30.0), "odd": np.arange(30.0)})
    model = LCNClassifier(depth=1, epochs=1, drop_connect=0).fit(numbers, y)
    with pytest.raises(ValueError, match=r"column 'odd' of type .*the model was fitted to numbers alone"):
        model.predict(table)
    with pytest.raises(ValueError, match=kind) as error:
        model.tree_.predict(table)
    assert "column 'odd'" in str(error.value)
    assert remedy in str(error.value)
    assert (model.tree_.predict(numbers.to_pandas()) == model.predict(numbers)).all()


@pytest.mark.parametrize("kind", [TAOClassifier])
def test_a_category_of_numbers_is_no_number(kind: type) -> None:
    """The number of a category, such as a post code, is no amount."""
    frame = pd.DataFrame({"x": np.arange(30.0), "zip": pd.Series(np.arange(30) % 3 + 8000, dtype="category")})
    y = np.arange(30) % 3 == 1
    with pytest.raises(ValueError, match=r"a category in column 'zip' \(category of int64\); encode it first"):
        kind().fit(frame, y)
    cart = DecisionTreeClassifier(max_depth=3).fit(frame.astype(float), y)
    with pytest.raises(ValueError, match="a category in column 'zip'"):
        ObliqueTree.from_sklearn(cart).predict(frame)


ONE_OF_EACH = [LCNClassifier, LCNRegressor, ObliqueTreeClassifier, ObliqueTreeRegressor, TAOClassifier, TAORegressor]


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_what_is_under_a_mask_is_not_read(kind: type) -> None:
    X = np.ma.masked_less(np.random.default_rng(0).normal(size=(30, 2)), -1)
    y = np.arange(30) % 2
    with pytest.raises(ValueError, match="X has masked entries; fill them first"):
        kind().fit(X, y)
    with pytest.raises(ValueError, match="y has masked entries; leave out the rows that have them"):
        kind().fit(X.data, np.ma.array(y, mask=y > 0))
    with pytest.raises(ValueError, match="sample_weight has masked entries"):
        kind().fit(X.data, y, sample_weight=np.ma.array(y + 1, mask=y > 0))


@pytest.mark.parametrize("kind", ONE_OF_EACH)
@pytest.mark.parametrize(("dtype", "what"), [("M8[s]", "dates or times"), ("m8[D]", "durations")])
def test_arrays_of_dates_are_no_numbers(kind: type, dtype: str, what: str) -> None:
    """NumPy would make other numbers of the same dates in seconds and in days, and one of those that are missing."""
    X, y = np.arange(60).reshape(30, 2), np.arange(30) % 2
    fitted = kind(**({"n_updates": 5, "n_jobs": 1} if "Oblique" in kind.__name__ else {})).fit(X, y)
    for do in (lambda: kind().fit(X.astype(dtype), y), lambda: fitted.predict(X.astype(dtype))):
        with pytest.raises(ValueError, match=f"X has {what}; turn them into numbers first"):
            do()
    if "Regressor" in kind.__name__:
        with pytest.raises(ValueError, match=f"y has {what}; turn them into numbers first"):
            kind().fit(X, y.astype(dtype))


@pytest.mark.parametrize("kind", [LCNClassifier, ObliqueTreeClassifier, TAOClassifier])
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_classes_that_are_missing(kind: type, missing: Any) -> None:
    X = np.arange(60).reshape(30, 2)
    for two in (["no", "yes"], [0, 1]):
        y = np.array(two * 15, dtype=object)
        y[7] = missing
        for form in (y, y.tolist(), pd.Series(y), pd.Series(pd.array(y))):
            with pytest.raises(ValueError, match="y must have a label for each row, but row 7 has none"):
                kind().fit(X, form)


@pytest.mark.parametrize("estimator", [LCNClassifier(depth=2, epochs=1), ObliqueTreeClassifier(max_leaf_nodes=2)])
def test_texts_and_numbers_are_not_classes_of_one_target(estimator) -> None:
    y = np.array(["a", 1, 1, "a"] * 5, dtype=object)
    with pytest.raises(ValueError, match=r"y mixes texts and other labels: row 0 has 'a', row 1 has 1"):
        estimator.fit(np.zeros((20, 2)), y)
