"""What an estimator was fitted to, and the checks of scikit-learn that these estimators do not pass."""

from __future__ import annotations

from typing import Any

_BATCHES = (
    "mini-batches are drawn at random, so that a row that is repeated and a row of double weight (or a row that is "
    "removed and one of weight 0) see different batches; with one batch of all rows they agree to rounding"
)

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": _BATCHES,
    "check_sample_weight_equivalence_on_sparse_data": _BATCHES,
}


def has_labels(estimator: Any) -> bool:
    """Whether an estimator was fitted to several 0/1 labels: it then holds an estimator for each."""
    return isinstance(getattr(estimator, "classes_", None), list)
