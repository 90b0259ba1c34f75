"""Prediction sets and intervals with MAPIE: for all rows, for each class, and for each leaf of the tree.

A promise such as "90 % of intervals hold the truth" can hold on average and fail for one class or in one leaf.
Calibrated for each by itself it holds there too, at the price of fewer rows to calibrate on.
"""

import warnings

import numpy as np
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split

from treelu import LCNClassifier, LCNRegressor

LEVEL = 0.9


def thirds(X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Rows to train on, to calibrate with and to try: X, X, X, y, y, y."""
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.66, random_state=0)
    X_held, X_new, y_held, y_new = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)
    return [X_train, X_held, X_new, y_train, y_held, y_new]


# Sets of classes: once for all rows, then for each class from its own rows.
X_train, X_held, X_new, y_train, y_held, y_new = thirds(*load_breast_cancer(return_X_y=True))
model = LCNClassifier(depth=3, random_state=0).fit(X_train, y_train)
together = SplitConformalClassifier(model, confidence_level=LEVEL, prefit=True).conformalize(X_held, y_held)
for_all = together.predict_set(X_new)[1][:, :, 0]
per_class = np.zeros_like(for_all)
warnings.filterwarnings("ignore", message=".*less labels")  # one class at a time is meant
for k in model.classes_:
    own = SplitConformalClassifier(model, confidence_level=LEVEL, prefit=True)
    own.conformalize(X_held[y_held == k], y_held[y_held == k])
    per_class[:, k] = own.predict_set(X_new)[1][:, k, 0]
for k in model.classes_:
    rows = y_new == k
    before, after = for_all[rows, k].mean(), per_class[rows, k].mean()
    print(f"class {k}: the set holds it for {before:.0%} of its rows, calibrated by class for {after:.0%}")

# Intervals: once for all rows, then for each leaf that has enough rows to calibrate with.
X_train, X_held, X_new, y_train, y_held, y_new = thirds(*load_diabetes(return_X_y=True))
regressor = LCNRegressor(depth=2, random_state=0).fit(X_train, y_train)
whole = SplitConformalRegressor(regressor, confidence_level=LEVEL, prefit=True).conformalize(X_held, y_held)
leaf_of_held, leaf_of_new = regressor.apply(X_held), regressor.apply(X_new)
for leaf in np.unique(leaf_of_new):
    held, new = leaf_of_held == leaf, leaf_of_new == leaf
    if held.sum() < 20:
        print(f"leaf {leaf}: {held.sum()} rows are too few to calibrate with")
        continue
    own = SplitConformalRegressor(regressor, confidence_level=LEVEL, prefit=True).conformalize(
        X_held[held], y_held[held]
    )
    width = {name: np.ptp(one.predict_interval(X_new[new])[1][0, :, 0]) for name, one in (("all", whole), ("own", own))}
    print(f"leaf {leaf}: intervals of width {width['all']:.0f} for all rows, {width['own']:.0f} from its own")
