"""The check of answers about random trees, in short, and the committed results of the long one."""

import json
from pathlib import Path

import pytest

from benchmarks.queries import balanced_tree, check_answers

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def test_a_short_check_finds_nothing_nearer() -> None:
    counts = check_answers(40, n_sampled=400, n_for_none=20_000, seed=5)
    assert counts["found"] + counts["none"] == counts["pairs"] == 40
    assert (counts["nearer_rows"], counts["wrong_answers"], counts["rows_in_none"]) == (0, 0, 0)


def test_the_long_check_found_nothing_either() -> None:
    path = RESULTS / "queries-check.json"
    if not path.exists():
        pytest.skip("python -m benchmarks.queries --check 10000 has not been run")
    counts = json.loads(path.read_text("utf-8"))
    assert counts["pairs"] >= 10_000
    assert (counts["nearer_rows"], counts["wrong_answers"], counts["rows_in_none"]) == (0, 0, 0)


def test_trees_of_the_benchmark_have_both_answers() -> None:
    import numpy as np

    tree = balanced_tree(np.random.default_rng(0), 8, 5, terms=2)
    assert tree.n_leaves == 8
    assert (np.count_nonzero(np.asarray(tree.weights), axis=1) == 2).all()
    assert tree.counterfactual(np.zeros(5))
