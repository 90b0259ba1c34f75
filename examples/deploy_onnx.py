"""Deploy a tree with ONNX: export it, run it with onnxruntime, and count what single precision changes."""

from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from treelu import LCNClassifier
from treelu.export.onnx import compare_onnx


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = LCNClassifier(depth=5, drop_connect=0.25, random_state=0).fit(X_train, y_train)
    tree = model.tree_.prune(X_train)  # exact for all rows within the range of the training rows

    path = Path("tree.onnx")
    tree.to_onnx(path)
    print(f"wrote {path}: {path.stat().st_size:,} bytes, {tree}")

    # From here on treelu is not needed.
    session = onnxruntime.InferenceSession(path)
    label, probabilities = session.run(None, {"X": X_test.astype(np.float32)})
    print(f"accuracy of the ONNX model on test rows: {np.mean(label == y_test):.3f}")
    print(f"first row: class {label[0]}, probabilities {probabilities[0].round(3)}")

    comparison = compare_onnx(tree, path.read_bytes(), X_test)
    print(comparison)
    assert comparison.n_unexplained == 0, "onnxruntime and the tree disagree beyond rounding"


if __name__ == "__main__":
    main()
