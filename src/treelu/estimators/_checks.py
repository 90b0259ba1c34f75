"""The checks of scikit-learn that these estimators do not pass."""

_BATCHES = (
    "mini-batches are drawn at random, so that a row that is repeated and a row of double weight (or a row that is "
    "removed and one of weight 0) see different batches; with one batch of all rows they agree to rounding"
)

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": _BATCHES,
    "check_sample_weight_equivalence_on_sparse_data": _BATCHES,
}
