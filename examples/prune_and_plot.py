"""Prune a tree, know what stays exact, and draw it: as a picture, as a map of two features, for Graphviz, as a page."""

from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from treelu import LCNClassifier
from treelu.report import fit_cart, render, summarize
from treelu.view import plot_partition

FEATURES = ["worst radius", "worst texture", "worst concave points", "worst symmetry"]


def main() -> None:
    data = load_breast_cancer(as_frame=True)
    X, y = data.data[FEATURES], data.target_names[data.target]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = LCNClassifier(depth=6, drop_connect=0.25, random_state=0).fit(X_train, y_train)

    whole = model.tree_
    within = whole.prune(X_train)
    visited = whole.prune(X_train, unvisited=True)
    for name, tree in (("whole", whole), ("within the range of X", within), ("visited by X", visited)):
        same = (tree.predict(X_test) == whole.predict(X_test)).mean()
        print(f"{name:22} {tree.n_leaves:3} leaves, {same:.1%} of the test rows with the same class {tree.notes}")

    visited.plot(max_depth=3, scale=X_train.std()).figure.savefig("pruned.png", dpi=120)
    Path("pruned.dot").write_text(visited.export_graphviz(max_depth=3), encoding="utf-8")

    two = FEATURES[:2]
    small = LCNClassifier(depth=2, training={"n_init": 3}, random_state=0).fit(X_train[two], y_train)
    plot_partition(small.tree_, X=X_train[two], y=y_train).figure.savefig("map.png", dpi=120)

    baselines = {"CART": fit_cart(X_train, y_train, classifier=True)}
    summary = summarize(visited, X=X_test, y=y_test, estimator=model, name="LCN", baselines=baselines)
    Path("report.html").write_text(render(summary), encoding="utf-8")
    print("wrote pruned.png, pruned.dot, map.png and report.html")


if __name__ == "__main__":
    main()
