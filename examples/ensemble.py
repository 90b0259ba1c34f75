"""An ensemble: boosted trees, how many of them help, and that they add up."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from treelu import ELCNRegressor, LCNRegressor


def main() -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

    single = LCNRegressor(depth=4, drop_connect=0.25, random_state=0).fit(X_train, y_train)
    ensemble = ELCNRegressor(n_estimators=12, depth=4, member="lcn", epochs=15, early_stopping=4, random_state=0)
    ensemble.fit(X_train, y_train)
    print(f"R² on test rows: one tree {single.score(X_test, y_test):.2f}, "
          f"{ensemble.n_estimators_} boosted trees {ensemble.score(X_test, y_test):.2f}")  # fmt: skip

    errors = [np.sqrt(np.mean((stage - y_test) ** 2)) for stage in ensemble.staged_predict(X_test)]
    print("RMSE by number of trees:", " ".join(f"{error:.1f}" for error in errors))

    total = sum(tree.predict(X_test) for tree in ensemble.trees_)
    assert np.allclose(total, ensemble.predict(X_test))
    print("the trees' predictions add up to the ensemble's")


if __name__ == "__main__":
    main()
