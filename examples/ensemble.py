"""An ensemble: boosted trees, how many of them help, and that they add up."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from treelu import ELCNClassifier, LCNClassifier


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

    single = LCNClassifier(depth=6, drop_connect=0.25, random_state=0).fit(X_train, y_train)
    member = LCNClassifier(depth=6, drop_connect=0.25, epochs=10)
    ensemble = ELCNClassifier(member, n_estimators=12, combine="boost", shrinkage=0.5, random_state=0)
    ensemble.fit(X_train, y_train)
    print(f"accuracy on test rows: one tree {single.score(X_test, y_test):.3f}, "
          f"{ensemble.n_estimators_} boosted trees {ensemble.score(X_test, y_test):.3f}")  # fmt: skip

    scores = [np.mean(stage == y_test) for stage in ensemble.staged_predict(X_test)]
    print("by number of trees:", " ".join(f"{score:.3f}" for score in scores))

    total = sum(tree.decision_function(X_test) for tree in ensemble.trees_)
    assert np.allclose(total, ensemble.decision_function(X_test))
    print("the trees' scores add up to the ensemble's")


if __name__ == "__main__":
    main()
