"""Several labels, of which many are missing: one network per label, each trained on the rows where it is known."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from treelu import LCNClassifier

QUESTIONS = {"is it even?": lambda digit: digit % 2 == 0, "is it above four?": lambda digit: digit > 4}


def main() -> None:
    X, digit = load_digits(return_X_y=True)
    y = np.column_stack([ask(digit) for ask in QUESTIONS.values()]).astype(float)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    y_train[np.random.default_rng(0).random(y_train.shape) < 0.4] = np.nan  # nobody measured these

    model = LCNClassifier(depth=6, drop_connect=0.25, random_state=0).fit(X_train, y_train)
    chances = model.predict_proba(X_test)
    for label, question in enumerate(QUESTIONS):
        known = int((~np.isnan(y_train[:, label])).sum())
        auc = roc_auc_score(y_test[:, label], chances[:, label])
        print(
            f"{question:18} known for {known} of {len(y_train)} rows, AUC {auc:.3f}, {model.estimators_[label].tree_}"
        )


if __name__ == "__main__":
    main()
