"""The summary: plain JSON, the same each time, and true to the tree."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from tests.report.trees import complete_tree, rows_for
from treelu.report import fit_cart, summarize
from treelu.report.nodes import bin_edges
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed


@pytest.fixture(scope="module")
def tree():
    return complete_tree(3, 5, feature_names=["a", "b", "c", "d", "e"])


@pytest.fixture(scope="module")
def hold_out(tree):
    return rows_for(tree, 300)


@pytest.fixture(scope="module")
def summary(tree, hold_out):
    X, y = hold_out
    return summarize(tree, X=X, y=y, baselines={"CART": fit_cart(X[:150], y[:150], classifier=True)}, max_rows=40)


def _dense_weights(part, n_features):
    """The weights that a summary carries, back as a matrix."""
    matrix = np.zeros((len(part["counts"]), n_features))
    for i, (start, end) in enumerate(zip(part["offsets"], part["offsets"][1:], strict=False)):
        matrix[i, part["features"][start:end]] = part["values"][start:end]
    return matrix


def test_summary_is_plain_json_and_the_same_each_time(tree, hold_out, summary):
    X, y = hold_out
    again = summarize(tree, X=X, y=y, baselines={"CART": fit_cart(X[:150], y[:150], classifier=True)}, max_rows=40)
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert json.dumps(again) == text


def test_summary_carries_the_tree_exactly(tree, summary):
    part = summary["models"][0]["tree"]
    assert part["complete"]
    assert (_dense_weights(part["weights"], 5) == tree.weights).all()
    assert part["biases"] == tree.biases.tolist()
    assert part["children"] == tree.children.tolist()
    assert part["values"] == tree.values.tolist()


def test_weights_come_strongest_first(hold_out, summary):
    spread = hold_out[0].std(axis=0)
    assert summary["features"]["scale"] == pytest.approx(spread.tolist())
    weights = summary["models"][0]["tree"]["weights"]
    for start, end in zip(weights["offsets"], weights["offsets"][1:], strict=False):
        strength = np.abs(weights["values"][start:end]) * spread[weights["features"][start:end]]
        assert (np.diff(strength) <= 0).all()


def test_rows_and_classes_of_each_node(tree, hold_out, summary):
    X, y = hold_out
    part = summary["models"][0]["tree"]
    path = tree.decision_path(X).toarray().astype(bool)
    assert part["n"] == path.sum(axis=0).tolist()
    for node in range(tree.n_nodes):
        assert part["mix"][node] == [int(((y == label) & path[:, node]).sum()) for label in tree.classes]
        if node < tree.n_splits:
            histogram = part["histograms"][node]
            assert np.sum(histogram["counts"], axis=1).tolist() == part["mix"][node]
            left = round(-histogram["low"] / histogram["width"])  # bins below the threshold
            assert np.sum(histogram["counts"], axis=0)[:left].sum() == part["n"][tree.children[node, 0]]


@pytest.mark.parametrize("span", [(-3.0, 5.0), (0.0, 2.0), (-2.0, 0.0), (0.0, 0.0), (1e-9, 1e9), (-7.1, -7.0)])
def test_bins_cover_the_span_and_have_an_edge_at_zero(span):
    edges = bin_edges(*span)
    assert edges[0] <= span[0]
    assert edges[-1] >= span[1]
    assert 0.0 in edges
    assert 2 <= len(edges) <= 27
    assert np.diff(edges) == pytest.approx(edges[1] - edges[0])


def test_leaves_state_what_the_tree_predicts(tree, hold_out, summary):
    X, _ = hold_out
    leaves = summary["models"][0]["tree"]["leaves"]
    assert [leaf["node"] for leaf in leaves] == list(range(tree.n_splits, tree.n_nodes))
    of_leaf = {leaf["node"]: leaf["prediction"] for leaf in leaves}
    assert tree.predict_proba(X) == pytest.approx(np.array([of_leaf[node] for node in tree.apply(X)]))
    assert sum(leaf["share"] for leaf in leaves) == pytest.approx(1.0)


def test_listed_rows_are_rows_of_the_table(tree, hold_out, summary):
    X, y = hold_out
    usual = np.array(summary["features"]["typical"])
    path, leaves = tree.decision_path(X).toarray(), tree.apply(X)
    listed = [sample["row"] for sample in summary["samples"]]
    assert len(listed) == 40
    assert set(leaves[listed]) == set(leaves)  # some of every leaf
    for i, sample in enumerate(summary["samples"]):
        x = usual.copy()
        x[sample["features"]] = sample["values"]
        assert (x == X[sample["row"]]).all()
        assert summary["classes"][sample["target"]] == y[sample["row"]]
        way = summary["models"][0]["tree"]["paths"][i]
        assert way["nodes"] == np.flatnonzero(path[sample["row"]]).tolist()
        scores = [tree.weights[node] @ x + tree.biases[node] for node in way["nodes"][:-1]]
        assert way["scores"] == pytest.approx(scores)


def test_importances_are_those_of_the_tree(tree, hold_out, summary):
    X, _ = hold_out
    wanted = tree.with_counts(X).feature_importances(X.std(axis=0))
    found = {item["feature"]: item["share"] for item in summary["models"][0]["importances"]}
    assert [found[j] for j in range(5)] == pytest.approx(wanted.tolist())
    assert list(found) == np.argsort(-wanted).tolist()


def test_cart_stands_beside_with_its_own_tree(summary):
    main, cart = summary["models"]
    assert (main["name"], cart["name"]) == ("Tree", "CART")
    assert main["lead"] is None
    lead = cart["lead"]["auc"]["value"]
    assert lead == pytest.approx(main["scores"]["auc"]["value"] - cart["scores"]["auc"]["value"])
    assert cart["tree"]["n_weights"] == cart["tree"]["n_splits"]  # one feature a split
    assert cart["kind"] == "DecisionTreeClassifier"
    assert cart["parameters"]["max_leaf_nodes"] >= 2


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.coo_array, sparse.csc_matrix, lambda X: X.tolist()])
def test_sparse_rows_and_lists_give_the_same_summary(make):
    tree = complete_tree(2, 6)
    X, y = rows_for(tree, 60)
    X[np.random.default_rng(2).random(X.shape) < 0.6] = 0.0
    dense, other = summarize(tree, X=X, y=y), summarize(tree, X=make(X), y=y)
    assert other["samples"] == dense["samples"]
    assert other["models"][0]["scores"] == dense["models"][0]["scores"]
    assert other["features"]["scale"] == pytest.approx(dense["features"]["scale"])
    assert other["features"]["typical"] == dense["features"]["typical"]


def test_frames_keep_their_names_and_missing_targets_are_left_out(tree, hold_out):
    X, y = hold_out
    y = y.astype(object)
    y[[3, 7]] = None, np.nan
    frame = pd.DataFrame(X, columns=list("abcde"))
    summary = summarize(tree, X=frame, y=y, row_names=[f"name {i}" for i in range(300)], max_rows=300)
    assert summary["n_rows"] == 298
    assert [s["row"] for s in summary["samples"]] == [i for i in range(300) if i not in (3, 7)]
    assert all(s["name"] == f"name {s['row']}" for s in summary["samples"])
    wanted = np.mean(np.delete(tree.predict(X) == y, [3, 7]))
    assert summary["models"][0]["scores"]["accuracy"]["value"] == pytest.approx(wanted)


@pytest.mark.parametrize(("classifier", "n_rows"), [(True, 200), (False, 200), (True, 3)])
def test_cart_keeps_to_the_leaves(classifier: bool, n_rows: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = X[:, 0] * X[:, 1]
    cart = fit_cart(X, (y > np.median(y)) if classifier else y, classifier=classifier, max_leaf_nodes=5)
    assert 2 <= cart.get_n_leaves() <= 5


def test_regression_has_residuals_and_means():
    X, y = load_diabetes(return_X_y=True)
    cart = fit_cart(X[::2], y[::2], classifier=False)
    summary = summarize(ObliqueTree.from_sklearn(cart), X=X[1::2], y=y[1::2], name="CART")
    (model,) = summary["models"]
    assert summary["classes"] is None
    assert model["points"]["predicted"] == pytest.approx(
        cart.predict(X[1::2])[np.random.default_rng(0).permutation(221)].tolist()
    )
    tree = model["tree"]
    assert tree["mix"][0] == pytest.approx(y[1::2].mean())
    assert [metric["key"] for metric in summary["metrics"]] == ["rmse", "r2", "mae"]


def test_linear_leaves_are_carried_and_described_by_their_mean():
    rng = np.random.default_rng(0)
    tree = complete_tree(2, 4, outputs=3, link="softmax", classes=["a", "b", "c"])
    tree = ObliqueTree(
        tree.weights,
        tree.biases,
        tree.children,
        tree.values,
        leaf_weights=rng.normal(size=(4, 3, 4)),
        link="softmax",
        classes=["a", "b", "c"],
    )
    X, y = rows_for(tree, 50)
    part = summarize(tree, X=X, y=y)["models"][0]["tree"]
    assert (_dense_weights(part["leaf_weights"], 4) == tree.leaf_weights.reshape(12, 4)).all()
    leaf = part["leaves"][0]
    at = tree.apply(X) == leaf["node"]
    assert leaf["prediction"] == pytest.approx(tree.predict_proba(X[at]).mean(axis=0).tolist())


def test_an_estimator_that_is_no_tree_still_has_scores():
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X[::2], y[::2])
    summary = summarize(None, estimator=forest, X=X[1::2], y=y[1::2])
    (model,) = summary["models"]
    assert model["name"] == "RandomForestClassifier"
    assert model["tree"] is None
    assert model["scores"]["accuracy"]["value"] == pytest.approx(forest.score(X[1::2], y[1::2]))
    assert model["importances"][0]["share"] == pytest.approx(forest.feature_importances_.max())


def test_a_tree_is_scored_itself_and_named_after_its_estimator():
    """A pruned tree may predict otherwise than the model it came from; scores and picture must agree."""
    X, y = load_iris(return_X_y=True)
    deep = DecisionTreeClassifier(random_state=0).fit(X[::2], y[::2])
    stump = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X[::2], y[::2])
    (model,) = summarize(ObliqueTree.from_sklearn(stump), estimator=deep, X=X[1::2], y=y[1::2])["models"]
    assert model["scores"]["accuracy"]["value"] == pytest.approx(stump.score(X[1::2], y[1::2]))
    assert (model["name"], model["kind"]) == ("DecisionTreeClassifier", "DecisionTreeClassifier")
    assert model["parameters"]["max_depth"] is None


def test_a_baseline_that_met_fewer_classes_is_scored_but_not_drawn():
    X, y = load_iris(return_X_y=True)
    full = DecisionTreeClassifier(random_state=0).fit(X, y)
    partial = DecisionTreeClassifier(random_state=0).fit(X[:100], y[:100])
    summary = summarize(ObliqueTree.from_sklearn(full), X=X, y=y, baselines={"partial": partial})
    assert summary["models"][1]["tree"] is None
    assert summary["models"][1]["scores"]["accuracy"]["value"] == pytest.approx(partial.score(X, y))


def test_a_tree_alone_needs_no_rows(tree):
    summary = summarize(tree)
    part = summary["models"][0]["tree"]
    assert summary["n_rows"] is None
    assert part["n"] is None
    assert summary["samples"] == summary["metrics"] == []
    assert summarize(tree.with_counts(np.eye(5)))["models"][0]["tree"]["n"][0] == 5
    weighted = summarize(tree.with_counts(np.eye(5), sample_weight=np.full(5, 0.5)))["models"][0]
    assert (weighted["tree"]["n"][0], weighted["tree"]["weight"][0]) == (5, 2.5)
    assert weighted["importances"]


def test_one_leaf():
    tree = ObliqueTree(np.zeros((0, 2)), [], np.zeros((0, 2), dtype=int), [[1.5]])
    summary = summarize(tree, X=np.eye(2), y=[1.0, 2.0])
    assert summary["models"][0]["tree"]["leaves"][0]["prediction"] == [1.5]
    json.dumps(summary, allow_nan=False)


def test_a_large_tree_carries_its_strongest_weights(hold_out):
    tree = complete_tree(5, 40)
    X, y = rows_for(tree, 30)
    part = summarize(tree, X=X, y=y, max_weights=400)["models"][0]["tree"]
    assert not part["complete"]
    assert part["n_weights"] == 31 * 40
    assert part["weights"]["counts"] == [40] * 31
    assert np.diff(part["weights"]["offsets"]).tolist() == [12] * 31  # 400 // 31
    strength = np.abs(tree.weights) * X.std(axis=0)
    carried = _dense_weights(part["weights"], 40) != 0
    for i in range(31):
        assert strength[i, carried[i]].min() >= strength[i, ~carried[i]].max()
    assert part["paths"][0]["nodes"][-1] == tree.apply(X)[0]  # paths come from the whole tree


def test_history_of_an_estimator_or_of_mappings(tree):
    class Fitted:
        classes_ = np.array(["no", "yes"])
        history_ = None

    epochs = [{"epoch": 1, "train_loss": 0.7, "valid_score": None}, {"epoch": np.int64(2), "train_loss": float("nan")}]
    assert summarize(tree, history=epochs)["history"]["epochs"] == [{"epoch": 1.0, "train_loss": 0.7}, {"epoch": 2.0}]
    assert summarize(tree, estimator=Fitted())["history"]["epochs"] == []


def test_history_of_a_training_run(tree):
    training = pytest.importorskip("treelu.training")
    history = training.History(metric="auc", best_epoch=2)
    history.records += [training.EpochRecord(e, 1.0, 0.1, 0.7 / e, 0.5 + e / 10, 0.1) for e in (1, 2)]
    found = summarize(tree, history=history)["history"]
    assert (found["metric"], found["best_epoch"]) == ("auc", 2)
    assert found["epochs"][1]["train_loss"] == 0.35


def test_drawings_of_features_and_rows(tree, hold_out):
    X, y = hold_out
    summary = summarize(
        tree,
        X=X,
        y=y,
        draw_feature=lambda j: None if j == 2 else f"<svg>{j}</svg>",
        draw_row=lambda i: f"<svg>row {i}</svg>",
        max_rows=5,
    )
    assert summary["features"]["drawings"] == {str(j): f"<svg>{j}</svg>" for j in (0, 1, 3, 4)}
    assert [s["drawing"] for s in summary["samples"]] == [f"<svg>row {s['row']}</svg>" for s in summary["samples"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree": None}, "tree and estimator are both None"),
        ({"tree": "tree"}, "tree must be an ObliqueTree, got str"),
        ({"y": [0, 1]}, "y was given without X"),
        ({"X": np.zeros((0, 5))}, "X has no rows"),
        ({"X": np.zeros((2, 4))}, "5 features, got 4"),
        ({"X": np.full((1, 5), np.nan)}, "X must be finite"),
        ({"X": np.eye(5), "y": ["yes"]}, r"y must have shape \(5,\).*got \(1,\)"),
        ({"X": np.eye(5), "y": ["yes", "no", "maybe", "yes", "no"]}, "does not know: maybe"),
        ({"X": np.eye(5), "y": [None] * 5}, "no known target"),
        ({"X": np.eye(5), "row_names": ["one"]}, "row_names must have 5 names"),
        ({"name": "CART", "baselines": {"CART": complete_tree(1, 5)}}, "model named 'CART'"),
    ],
)
def test_mistakes_are_named(tree, arguments, message):
    arguments = {"tree": tree} | arguments
    with pytest.raises((ValueError, TypeError), match=message):
        summarize(arguments.pop("tree"), **arguments)


def test_splits_by_sets_have_words_and_no_histogram():
    X = np.column_stack([np.eye(3)[np.arange(30) % 3], np.arange(30)])
    tree = ObliqueTree(
        [[-1.0, 0, -1, 0], [0, 0, 0, 1]], [0.5, -9], [[1, 2], [3, 4]], [[0.0], [1], [2]],
        feature_names=["colour=red", "colour=blue", "colour=green", "age"], observed=Observed.of(X),
    )  # fmt: skip
    described = summarize(tree, X=X, y=tree.predict(X))["models"][0]["tree"]
    assert described["sets"] == {"0": ["colour", "not in {red, green}"]}
    assert [bins is None for bins in described["histograms"]] == [True, False]
    assert summarize(complete_tree(3, 5), X=rows_for(complete_tree(3, 5), 30)[0])["models"][0]["tree"]["sets"] == {}
