"""A tree on a few features: what it costs, and what its questions look like."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from treelu import LCNClassifier


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

    for wanted in (None, 4):
        model = LCNClassifier(depth=2, max_tree_features=wanted, random_state=0).fit(X_train, y_train)
        used = int((model.feature_importances_ > 0).sum())
        print(f"max_tree_features={wanted!s:4} uses {used:2} features, test accuracy {model.score(X_test, y_test):.3f}")

    print(model.tree_.export_text(top=4, scale=X_train.std()))


if __name__ == "__main__":
    main()
