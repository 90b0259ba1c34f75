"""The page of the league: pairs on shared tables and folds, means on common tables, goals as they came out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import league, league_goals, league_page
from benchmarks.league_page import pair, pairs_block


def cell(log_loss: list[float], **more: list[float]) -> dict[str, list[float]]:
    return {"log_loss": log_loss, "auc": [0.9] * len(log_loss), "accuracy": [0.8] * len(log_loss),
            "numbers": [7.0] * len(log_loss), "seconds": [0.5] * len(log_loss), **more}  # fmt: skip


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Cells of two methods on three tables, of which they share two."""
    for module in (league, league_page):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(league_page, "SIZES", tmp_path)
    (tmp_path / "tables.txt").write_text("a classes 100 3 2\nb classes 200 3 2\nc classes 300 3 2\n")
    ours = {"a": cell([0.1, 0.3]), "b": cell([0.5]), "c": cell([9.0])}
    theirs = {"a": cell([0.3, 0.3, 0.9]), "b": cell([0.6], accuracy=[0.9])}
    for method, tables in (("small tree", ours), ("linear", theirs), ("stack", ours), ("forest", theirs)):
        league.write_results({"method": method, "tables": tables, "failed": {}})
    for cached in (league_page.shapes, league_page.results):
        cached.cache_clear()
    yield tmp_path
    for cached in (league_page.shapes, league_page.results):
        cached.cache_clear()


def test_pairs_are_of_shared_tables_and_folds(written: Path) -> None:
    one = pair(league_page.cells("small tree"), league_page.cells("linear"), "log_loss", "classes")
    assert one.tables == ["a", "b"]
    differences = np.array([0.2 - 0.3, 0.5 - 0.6])
    assert one.difference == pytest.approx(differences.mean())
    assert one.error == pytest.approx(differences.std(ddof=1) / 2**0.5, abs=1e-12)
    assert (one.won, one.lost) == (2, 0)


def test_blocks_show_them(written: Path) -> None:
    (line,) = pairs_block("small tree", ["linear", "EBM"], "classes").splitlines()[2:]
    assert "| 2 | 0.350 : 0.450<br>−0.100 ± 0.000, 2 to 0 |" in line
    assert "7 : 7 | 0.500 : 0.500 |" in line
    assert league_page.means_block("values") == league_page.NOT_RUN
    means = league_page.means_block("classes")
    assert "3 tables of classes of up to 300 rows; 1 of five folds" in means
    assert "logistic" not in means, "it has less than three quarters of the tables"


def test_tables_far_behind_are_named(written: Path) -> None:
    assert league_page.behind() == {"b": ("forest", pytest.approx(0.1))}
    assert "| b | 0.800 | random forest of 500 | −0.100 |" in league_page.behind_block()


def test_goals_are_judged_by_the_cells(written: Path) -> None:
    reached = {goal.goal: goal.reached for goal in league_goals.goals()}
    assert reached["mean log-loss below that of logistic regression"] is True
    assert reached["mean log-loss below that of EBM (without monk3, where it diverges)"] is None
    assert reached["a median of at most 60 numbers to read"] is True
    assert reached["no table more than two points of accuracy behind the best of forest and boosting"] is False
    words = league_goals.answer_block()
    assert "better than logistic or ridge regression by 0.100 ± 0.000 on 2 tables" in words
    assert f"{sum(one is None for one in reached.values())} not measured" in words
