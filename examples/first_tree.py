"""A first tree on a table: train, score beside CART, read, draw, explain one row."""

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from treelu import LCNClassifier


def main() -> None:
    wine = load_wine(as_frame=True)
    X, y = wine.data, wine.target_names[wine.target]
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

    model = LCNClassifier(depth=2, drop_connect=0.25, random_state=0).fit(X_train, y_train)
    cart = DecisionTreeClassifier(random_state=0).fit(X_train, y_train)
    print(f"accuracy on {len(y_test)} test rows: oblique tree {model.score(X_test, y_test):.3f}, "
          f"CART {cart.score(X_test, y_test):.3f}")  # fmt: skip

    tree, spread = model.tree_, X_train.std()
    print(tree.export_text(top=3, scale=spread), end="\n\n")
    print("Why is the first test row what it is?")
    print(tree.describe(X_test.iloc[[0]], top=3))

    tree.plot(top=4, scale=spread).figure.savefig("first_tree.png", dpi=120)
    print("\nwrote first_tree.png")


if __name__ == "__main__":
    main()
