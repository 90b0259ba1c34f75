"""Trees and rows for the tests of the report."""

import numpy as np

from treelu.tree import ObliqueTree

HOSTILE = "<script>alert(1)</script>"


def complete_tree(depth, n_features, *, seed=0, outputs=1, **fields):
    """A complete tree with random weights; two classes by one score unless `fields` say otherwise."""
    rng = np.random.default_rng(seed)
    n_splits = 2**depth - 1
    children = np.arange(1, 2 * n_splits + 1).reshape(n_splits, 2)
    fields = {"link": "logistic", "classes": ["no", "yes"]} | fields
    return ObliqueTree(
        rng.normal(size=(n_splits, n_features)),
        rng.normal(size=n_splits) / 4,
        children,
        rng.normal(size=(n_splits + 1, outputs)),
        **fields,
    )


def rows_for(tree, n_rows, *, seed=1):
    """Rows, and targets drawn from what the tree predicts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, tree.n_features))
    if tree.classes is None:
        return X, tree.predict(X) + rng.normal(size=n_rows) / 3
    chance = tree.predict_proba(X)
    return X, np.array([rng.choice(tree.classes, p=p) for p in chance])
