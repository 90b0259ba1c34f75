"""Pipelines folded into their trees: the tree answers for raw rows what the pipeline does, or the step is named."""

from __future__ import annotations

import sqlite3
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import treelu
from treelu import LCNClassifier, LLNClassifier, ObliqueTree, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.report import summarize
from treelu.report.notebook import report_page
from treelu.tree.pipelines import NotAffineError

X, Y = load_iris(return_X_y=True, as_frame=True)
GAPS = X.mask(np.random.default_rng(0).random(X.shape) < 0.15)
FIRST, LAST = list(X.columns[:2]), list(X.columns[2:])


def by_columns() -> ColumnTransformer:
    """Columns in another order, one of them dropped, one passed through, one with a weight."""
    given = [("last", StandardScaler(), [3, 2]), ("none", "drop", [1]), ("empty", MinMaxScaler(), [])]
    return ColumnTransformer(given, remainder="passthrough", transformer_weights={"last": -2.5})


AFFINE = {
    "standard": [StandardScaler()],
    "centred": [StandardScaler(with_std=False)],
    "divided": [StandardScaler(with_mean=False)],
    "range": [MinMaxScaler((-3, 5))],
    "largest": [MaxAbsScaler()],
    "robust": [RobustScaler()],
    "robust centre": [RobustScaler(with_scaling=False)],
    "robust scale": [RobustScaler(with_centering=False)],
    "pca": [StandardScaler(), PCA(3)],
    "whitened": [PCA(whiten=True)],
    "incremental": [IncrementalPCA(2, whiten=True)],
    "svd": [TruncatedSVD(2, random_state=0)],
    "gaussian": [GaussianRandomProjection(3, random_state=0)],
    "sparse": [SparseRandomProjection(3, random_state=0)],
    "best": [SelectKBest(k=2), MinMaxScaler()],
    "variance": [VarianceThreshold(0.3)],
    "identity": [FunctionTransformer(), "passthrough", RobustScaler()],
    "columns": [by_columns()],
    "union": [FeatureUnion([("scaled", StandardScaler()), ("pca", PCA(2)), ("none", "drop")])],
    "nested": [make_pipeline(StandardScaler(), make_pipeline(PCA(3), MinMaxScaler()))],
}


@pytest.mark.parametrize("steps", AFFINE.values(), ids=AFFINE.keys())
@pytest.mark.parametrize("last", [DecisionTreeClassifier, ExtraTreeClassifier, DecisionTreeRegressor])
def test_the_tree_predicts_raw_rows_as_the_pipeline_does(steps, last):
    pipeline = make_pipeline(*steps, last(max_depth=4, random_state=0)).fit(X, Y)
    tree = ObliqueTree.from_sklearn(pipeline)
    assert tree.feature_names == tuple(X.columns)
    np.testing.assert_array_equal(tree.predict(X), pipeline.predict(X))
    np.testing.assert_array_equal(tree.n_samples, tree.with_counts(X).n_samples)
    assert "folded into the splits" in tree.notes[-1]


@pytest.mark.parametrize("steps", AFFINE.values(), ids=AFFINE.keys())
def test_oblique_splits_and_linear_leaves_are_folded(steps):
    """A tree of random weights on the transformed columns, against the steps themselves."""
    rng = np.random.default_rng(1)
    before = make_pipeline(*steps).fit(X.to_numpy(), Y)
    Z = before.transform(X.to_numpy())

    class Grown:
        tree_ = ObliqueTree(
            weights := rng.standard_normal((3, Z.shape[1])),
            -np.median(Z @ weights.T, axis=0) + 0.01,
            [[1, 2], [3, 4], [5, 6]],
            rng.standard_normal((4, 2)),
            leaf_weights=rng.standard_normal((4, 2, Z.shape[1])),
        )

    pipeline = make_pipeline(*steps, Grown())
    pipeline.steps[:-1] = before.steps
    tree = ObliqueTree.from_sklearn(pipeline)
    np.testing.assert_array_equal(tree.apply(X.to_numpy()), Grown.tree_.apply(Z))
    np.testing.assert_allclose(tree.predict(X.to_numpy()), Grown.tree_.predict(Z), rtol=1e-11, atol=1e-11)
    assert tree.feature_names is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        ObliqueTreeClassifier(max_leaf_nodes=4, n_updates=30, random_state=0),
        ObliqueTreeRegressor(max_leaf_nodes=3, n_updates=30, linear_leaves=True, random_state=0),
        LCNClassifier(depth=3, epochs=2, random_state=0),
        LLNClassifier(depth=2, epochs=2, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("missing", ["error", "indicator"])
def test_pipelines_that_end_in_an_estimator_of_ours(estimator, missing):
    rows = X if missing == "error" else GAPS
    pipeline = make_pipeline(StandardScaler(), estimator.set_params(missing=missing)).fit(rows, Y)
    tree = ObliqueTree.from_sklearn(pipeline)
    answer = "predict_proba" if hasattr(pipeline, "predict_proba") else "predict"
    of_last_step = getattr(pipeline[-1].tree_, answer)(pipeline[:-1].transform(rows))
    np.testing.assert_allclose(getattr(tree, answer)(rows), of_last_step, atol=1e-9)
    assert tree.feature_names[:4] == tuple(X.columns)
    np.testing.assert_allclose(tree.spreads[:4], rows.fillna(rows.median()).std(ddof=0), rtol=1e-3)
    assert (tree.missing is None) == (missing == "error")


def test_the_issue_of_scaled_features_under_raw_names():
    pipeline = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3, random_state=0)).fit(X, Y)
    tree = ObliqueTree.from_sklearn(pipeline)
    (model,) = summarize(tree, X=X, y=Y, estimator=pipeline)["models"]
    assert model["scores"]["accuracy"]["value"] == pipeline.score(X, Y)
    base = sqlite3.connect(":memory:")
    X.to_sql("iris", base)
    answers = base.execute(tree.to_sql(table="iris")).fetchall()
    assert [row[0] for row in answers] == pipeline.predict(X).tolist()
    alone = ObliqueTree.from_sklearn(DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y))
    np.testing.assert_allclose(tree.biases, alone.biases, rtol=1e-6)  # thresholds of the raw columns
    assert tree.weights.max() == 1


# Missing values

IMPUTED = {
    "mean": [SimpleImputer(), StandardScaler()],
    "median after scaling": [StandardScaler(), SimpleImputer(strategy="median"), PCA(3)],
    "constant": [MinMaxScaler(), SimpleImputer(strategy="constant", fill_value=-1.0)],
    "indicators": [RobustScaler(), SimpleImputer(add_indicator=True), StandardScaler()],
    "by columns": [
        ColumnTransformer(
            [("a", make_pipeline(SimpleImputer(), PCA(1)), FIRST), ("b", SimpleImputer(add_indicator=True), LAST)]
        ),
        MaxAbsScaler(),
    ],
    "none": [StandardScaler()],
}


@pytest.mark.parametrize("steps", IMPUTED.values(), ids=IMPUTED.keys())
@pytest.mark.parametrize("last", [DecisionTreeClassifier, DecisionTreeRegressor])
def test_missing_values_are_filled_as_by_the_pipeline(steps, last, tmp_path):
    pipeline = make_pipeline(*steps, last(max_depth=6, random_state=0)).fit(GAPS, Y)
    tree = ObliqueTree.from_sklearn(pipeline)
    np.testing.assert_array_equal(tree.predict(GAPS), pipeline.predict(GAPS))
    np.testing.assert_array_equal(tree.predict(X), pipeline.predict(X))
    treelu.persistence.save(tree, tmp_path / "tree")
    assert treelu.load(tmp_path / "tree") == tree
    namespace: dict = {}
    exec(tree.to_python(), namespace)
    found = [namespace["predict"](row)["prediction"] for row in GAPS.to_dict("records")]
    np.testing.assert_array_equal(found, pipeline.predict(GAPS))


def test_missing_values_of_columns_that_no_step_fills_stay_an_error():
    rows = pd.concat([GAPS[FIRST], X[LAST]], axis=1)
    columns = ColumnTransformer([("filled", SimpleImputer(), FIRST)], remainder=StandardScaler())
    pipeline = make_pipeline(columns, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(rows, Y)
    tree = ObliqueTree.from_sklearn(pipeline)
    np.testing.assert_array_equal(tree.predict(rows), pipeline.predict(rows))
    with pytest.raises(ValueError, match="NaN"):
        tree.predict(GAPS)


def test_a_column_without_values_is_dropped_as_by_the_imputer():
    rows = GAPS.assign(empty=np.nan)[["empty", *X.columns]]
    pipeline = make_pipeline(SimpleImputer(), DecisionTreeClassifier(max_depth=3, random_state=0))
    with pytest.warns(UserWarning, match="without any observed values"):
        expected = pipeline.fit(rows, Y).predict(rows)
    tree = ObliqueTree.from_sklearn(pipeline)
    np.testing.assert_array_equal(tree.predict(rows), expected)
    assert tree.feature_names[0] == "empty"


def test_columns_that_are_filled_in_two_ways_are_refused():
    two = FeatureUnion([("mean", SimpleImputer()), ("zero", SimpleImputer(strategy="constant", fill_value=0.0))])
    pipeline = make_pipeline(two, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(GAPS, Y)
    with pytest.raises(NotAffineError, match=r"step 'featureunion' cannot .* transformer 'zero' fills"):
        ObliqueTree.from_sklearn(pipeline)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
def test_a_tree_that_was_trained_with_missing_values_sends_nan_to_its_side(kind):
    rng = np.random.default_rng(3)
    for seed in range(20):
        rows = rng.standard_normal((200, 3)) * [1e-6, 1, 1e6] + [0, 50, 0]
        target = rows[:, 1] > 50
        rows = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
        others = np.where(rng.random(rows.shape) < 0.5, np.nan, rows)
        target = target ^ np.isnan(rows[:, 0])  # so that trees ask whether a value is missing
        cart = kind(max_depth=5, random_state=seed).fit(rows, target)
        tree = ObliqueTree.from_sklearn(cart)
        for given in (rows, others):
            np.testing.assert_array_equal(tree.predict_proba(given), cart.predict_proba(given))
        assert tree.n_leaves == cart.get_n_leaves()
    names = ObliqueTree.from_sklearn(kind(max_depth=5, random_state=0).fit(GAPS, Y)).feature_names
    assert "petal length (cm) is missing" in names


def test_trees_without_missing_values_keep_one_term_a_split():
    tree = ObliqueTree.from_sklearn(DecisionTreeClassifier(random_state=0).fit(X, Y))
    assert tree.missing is None
    assert tree.max_terms == 1
    with pytest.raises(ValueError, match="NaN"):
        tree.predict(GAPS)


# Refusals


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "where"),
    [
        (
            [StandardScaler(), QuantileTransformer(n_quantiles=20)],
            "step 'quantiletransformer' .QuantileTransf",
        ),
        ([Normalizer()], "step 'normalizer'"),
        ([MinMaxScaler(clip=True)], "step 'minmaxscaler'"),
        ([FunctionTransformer(np.log1p)], "step 'functiontransformer'"),
        ([SimpleImputer(missing_values=-1)], "step 'simpleimputer'"),
        ([ColumnTransformer([("a", Normalizer(), FIRST)])], "step 'columntransformer → a'"),
    ],
)
def test_other_steps_are_named_with_the_remedy(steps, where):
    pipeline = make_pipeline(*steps, DecisionTreeClassifier(max_depth=2, random_state=0)).fit(X, Y)
    with pytest.raises(NotAffineError, match=where) as raised:
        ObliqueTree.from_sklearn(pipeline)
    for remedy in ("ObliqueTree.from_sklearn(pipeline[-1])", "pipeline[:-1].transform(X)", "get_feature_names_out()"):
        assert remedy in str(raised.value)
    tree = ObliqueTree.from_sklearn(pipeline[-1])
    np.testing.assert_array_equal(tree.predict(np.asarray(pipeline[:-1].transform(X))), pipeline.predict(X))
    assert "DecisionTreeClassifier" in report_page(pipeline, X, Y).html


def test_a_scaler_of_ones_own_is_refused():
    class Logarithmic(StandardScaler):
        def transform(self, X, copy=None):
            return np.log1p(np.asarray(X))

    pipeline = make_pipeline(Logarithmic(), DecisionTreeClassifier(max_depth=2)).fit(X.to_numpy(), Y)
    with pytest.raises(NotAffineError, match="Logarithmic"):
        ObliqueTree.from_sklearn(pipeline)


def test_names_of_a_column_transformer_with_texts():
    frame = pd.DataFrame({"age": np.arange(60.0), "city": ["Rome", "Oslo", "Bonn"] * 20})
    y = ((frame["age"] > 30) ^ (frame["city"] == "Oslo")).astype(int)
    columns = ColumnTransformer([("number", StandardScaler(), ["age"]), ("text", OneHotEncoder(), ["city"])])
    pipeline = make_pipeline(columns, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(frame, y)
    np.testing.assert_array_equal(ObliqueTree.from_sklearn(pipeline).predict(frame), pipeline.predict(frame))
    names = pipeline[:-1].get_feature_names_out()
    tree = ObliqueTree.from_sklearn(pipeline[-1], feature_names=names)
    assert tree.feature_names == ("number__age", "text__city_Bonn", "text__city_Oslo", "text__city_Rome")
    np.testing.assert_array_equal(tree.predict(pipeline[:-1].transform(frame)), pipeline.predict(frame))
    assert "city=Oslo" in report_page(pipeline, frame, y).html
    alone = make_pipeline(DecisionTreeClassifier(max_depth=1)).fit(frame[["age"]], y)
    assert ObliqueTree.from_sklearn(alone).feature_names == ("age",)


# Categories


def _categories() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame({
        "age": rng.normal(40, 10, n),
        "colour": rng.choice(["red", "blue", "green"], n).astype(object),
        "size": rng.choice(["S", "M", "L"], n).astype(object),
        "zip": rng.integers(8000, 8004, n),
        "note": "not read",
    })  # fmt: skip
    y = ((frame["age"] > 38) ^ (frame["colour"] == "red") ^ (frame["size"] == "M")).to_numpy().astype(int)
    frame.loc[::9, "age"] = np.nan
    frame.loc[::11, "colour"] = None
    frame.loc[::13, "size"] = np.nan
    return frame, y


@pytest.mark.parametrize("drop", [None, "if_binary", "first"])
@pytest.mark.parametrize("constant", [False, True])
def test_a_pipeline_of_encoders_is_a_tree_of_the_data_frame(drop: str | None, constant: bool) -> None:
    frame, y = _categories()
    fill = {"strategy": "constant", "fill_value": "L"} if constant else {"strategy": "most_frequent"}
    ordinal = OrdinalEncoder(categories=[["S", "M", "L"]], handle_unknown="use_encoded_value", unknown_value=-1)
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), ["age"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop=drop), ["colour", "zip"]),
        (make_pipeline(SimpleImputer(**fill), ordinal), ["size"]),
    )
    model = make_pipeline(steps, DecisionTreeClassifier(max_depth=8, random_state=0)).fit(frame, y)
    tree = treelu.explain(model)
    assert sorted(tree.columns.places) == ["age", "colour", "size", "zip"]
    assert (tree.predict(frame) == model.predict(frame)).all()
    odd = frame.assign(colour=np.where(frame.index % 7 == 0, "pink", frame["colour"]), size="XL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of categories that are not known
        assert (tree.predict(odd) == model.predict(odd)).all()
    assert ObliqueTree.from_json(tree.to_json()) == tree
    found = tree.counterfactual(frame.iloc[[3]].drop(columns="note"))
    assert {change.feature for change in found.changes} <= {"age", "colour", "size", "zip"}
    assert tree.predict(pd.DataFrame([found.values]))[0] == found.prediction != model.predict(frame.iloc[[3]])[0]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((KBinsDiscretizer(quantile_method="averaged_inverted_cdf"), ["zip"]), "kbinsdiscretizer.*KBinsDiscretizer"),
        ((OrdinalEncoder(min_frequency=0.4), ["colour"]), "ordinalencoder.*OrdinalEncoder"),
        ((make_pipeline(OrdinalEncoder(), SimpleImputer()), ["colour"]), "ordinalencoder.*OrdinalEncoder"),
    ],
)
def test_steps_that_are_not_linear_in_categories_are_named(steps: tuple[Any, list[str]], message: str) -> None:
    frame, y = _categories()
    encode = make_column_transformer(steps, (OneHotEncoder(), ["zip"]))
    model = make_pipeline(encode, DecisionTreeClassifier(max_depth=3)).fit(frame, y)
    with pytest.raises(NotAffineError, match=message):
        treelu.explain(model)


def test_a_column_that_is_a_category_and_a_number() -> None:
    frame, y = _categories()
    encode = make_column_transformer((OneHotEncoder(), ["zip"]), ("passthrough", ["zip"]))
    model = make_pipeline(encode, DecisionTreeClassifier(max_depth=3)).fit(frame, y)
    with pytest.raises(NotAffineError, match="a column of categories reaches a step"):
        treelu.explain(model)


@pytest.mark.parametrize("unknown", ["ignore", "infrequent_if_exist"])
def test_infrequent_categories_are_one_column_together(unknown: str) -> None:
    frame, y = _categories()
    frame.loc[:6, "colour"], frame.loc[7:9, "colour"] = "pink", "white"
    y = y ^ frame["colour"].isin(["pink", "white"])
    encoder = OneHotEncoder(min_frequency=20, handle_unknown=unknown, sparse_output=False)
    steps = make_column_transformer((encoder, ["colour"]), (StandardScaler(), ["zip"]))
    model = make_pipeline(steps, DecisionTreeClassifier(max_depth=8, random_state=0)).fit(frame, y)
    assert "onehotencoder__colour_infrequent_sklearn" in steps.get_feature_names_out()
    tree = treelu.explain(model)
    new = frame.head(40).assign(colour=["violet", "pink", None, "red"] * 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for rows in (frame, new):
            np.testing.assert_array_equal(tree.predict(rows), model.predict(rows))


@pytest.mark.parametrize("drop", [None, "if_binary"])
def test_truth_values_that_are_one_hot_encoded_are_numbers(drop: str | None) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame, _ = _categories()
    frame = frame.assign(owner=frame["age"].rank() % 2 == 1)
    y = frame["owner"] ^ (frame["zip"] > 8001)
    steps = make_column_transformer(
        (OneHotEncoder(drop=drop, sparse_output=False), ["owner"]), ("passthrough", ["zip"])
    )
    model = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(frame, y)
    tree = treelu.explain(model)
    assert tree.feature_names == ("zip", "owner") or tree.feature_names == ("owner", "zip")
    np.testing.assert_array_equal(tree.predict(frame), model.predict(frame))
    with duckdb.connect() as database:
        database.register("shown", frame)
        found = database.sql(tree.to_sql(dialect="duckdb", table="shown")).df()["prediction"]
    np.testing.assert_array_equal(found, y)


def test_columns_that_the_pipeline_leaves_aside_need_not_be_numbers() -> None:
    frame, y = _categories()
    steps = make_column_transformer((SimpleImputer(add_indicator=True), ["age", "zip"]))
    model = make_pipeline(steps, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(frame, y)
    tree = treelu.explain(model)
    assert tree.feature_names == ("age", "zip", "age is missing")
    np.testing.assert_array_equal(tree.predict(frame), model.predict(frame))
    assert {change.feature for change in tree.counterfactual(frame.iloc[[1]]).changes} <= {"age", "zip"}


def test_blanks_around_categories() -> None:
    frame, y = _categories()
    steps = make_column_transformer((OneHotEncoder(sparse_output=False), ["colour"]), ("passthrough", ["zip"]))
    spaced = frame.assign(colour=" " + frame["colour"])
    model = make_pipeline(steps, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(spaced, y)
    np.testing.assert_array_equal(treelu.explain(model).predict(spaced), model.predict(spaced))
    both = frame.assign(colour=np.where(frame["zip"] > 8001, spaced["colour"], frame["colour"]))
    with pytest.raises(NotAffineError, match="two categories of column 1 are written alike"):
        treelu.explain(model.fit(both, y))
    with pytest.raises(NotAffineError, match="an empty text, or blanks alone"):
        treelu.explain(model.fit(frame.assign(colour=frame["colour"].replace("red", "")), y))


def test_an_estimator_that_encodes_the_columns_behind_steps() -> None:
    frame, y = _categories()
    frame = frame.drop(columns=["age", "note"])
    steps = make_column_transformer((StandardScaler(), ["zip"]), remainder="passthrough").set_output(transform="pandas")
    tree = treelu.ObliqueTreeClassifier(max_leaf_nodes=2, teacher=None, n_updates=5, cv=2, random_state=0)
    with pytest.raises(NotAffineError, match=r"step 'columntransformer' gives out a data frame.*without these steps"):
        treelu.explain(make_pipeline(steps, tree).fit(frame, y))
