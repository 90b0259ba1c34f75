"""Finished runs that are run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.check import check
from experiments.methods import execute
from experiments.runs import Store
from experiments.sweep import sweep
from experiments.tests.tiny import tiny_dataset, tiny_runs


def test_a_run_again_gives_the_stored_score_and_changes_nothing(tmp_path: Path) -> None:
    store, runs = Store(tmp_path), tiny_runs(2)
    sweep(runs, store, tiny_dataset, execute)
    before = store.results("bace", "cart")
    found = list(check(store, [("bace", "cart"), ("bace", "lcn")], 5, 0, tiny_dataset, execute))
    assert len({one.run.key for one in found}) > 1
    assert all(one.stored == one.again for one in found)
    assert store.results("bace", "cart") == before


def test_a_score_that_was_altered_is_seen(tmp_path: Path) -> None:
    store, runs = Store(tmp_path), tiny_runs(1)[:1]
    sweep(runs, store, tiny_dataset, execute)
    result = store.results("bace", "cart")[0]
    result["scores"]["last"]["test"] = 0.123
    store.write(runs[0], result)
    (found,) = check(store, [("bace", "cart")], 1, 0, tiny_dataset, execute)
    assert found.stored == 0.123
    assert found.again != 0.123


def test_nothing_finished_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finished runs"):
        list(check(Store(tmp_path), [("bace", "cart")], 1, 0, tiny_dataset, execute))
