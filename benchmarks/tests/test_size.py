"""The benchmark of accuracy at a size: cells are written once, budgets suit methods, the page is filled."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from benchmarks import size, size_page
from benchmarks.report import fill, read_json


def tiny_task() -> size.Task:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    rows = np.arange(60)
    return size.Task("tables", "tiny", True, X, (X[:, 0] > X[:, 1]).astype(int), [(rows[:40], rows[40:])] * 2)


def test_cells_are_written_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "RESULTS", tmp_path)
    budgets = [size.Budget(2, None), size.Budget(2, 1)]
    size.run(tiny_task(), ["CART"], budgets, Console(quiet=True))
    found = read_json(tmp_path / "tables" / "tiny-CART.json")
    assert list(found["parts"]) == ["2 leaves, 1 terms"]  # an ordinary tree has one term
    assert found["parts"]["2 leaves, 1 terms"]["leaves"] == [2, 2]
    monkeypatch.setattr(size, "run_cell", lambda *_: pytest.fail("a cell was run again"))
    size.run(tiny_task(), ["CART"], budgets, Console(quiet=True))


def crash(*_: Any) -> None:
    """As a library does that has overwritten its memory."""
    os.abort()


def sleep(*_: Any) -> None:
    """Longer than anybody waits."""
    time.sleep(60)


@pytest.mark.parametrize(("cell", "word"), [(crash, "ended the process"), (sleep, "took more than 0.5 s")])
def test_a_method_that_crashes_or_takes_too_long_loses_its_cell_only(
    cell: Any, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "RESULTS", tmp_path)
    monkeypatch.setattr(size, "APART", ("CART",))
    monkeypatch.setattr(size, "MOST_SECONDS", 60)
    budgets = [size.Budget(2, 1), size.Budget(4, 1)]
    size.run(tiny_task(), ["CART"], budgets[:1], Console(quiet=True))
    monkeypatch.setattr(size, "_send_cell", cell)
    monkeypatch.setattr(size, "MOST_SECONDS", 60 if cell is crash else 0.5)
    size.run(tiny_task(), ["CART"], budgets, Console(quiet=True))
    found = read_json(tmp_path / "tables" / "tiny-CART.json")
    assert found["parts"]["2 leaves, 1 terms"]["leaves"] == [2, 2]
    assert found["failed"] == {"4 leaves, 1 terms": word}
    monkeypatch.setattr(size, "run_apart", lambda *_: pytest.fail("a cell was run again"))
    size.run(tiny_task(), ["CART"], budgets, Console(quiet=True))


@pytest.mark.parametrize(
    "method", [name for name in size.METHODS if name not in ("LCN", "constant", "treelu", "linear", "forest")]
)
def test_each_peer_keeps_to_the_leaves(method: str) -> None:
    task = tiny_task()
    budget = size.Budget(4, 1 if method == "CART" else None)
    assert size.suits(method, budget, task)
    cell: dict[str, Any] = size.run_cell(task, method, budget)
    assert max(cell.get("leaves", [4])) <= 4
    assert ("leaves" in cell) == (method in ("CART", "TAO", "YDF"))
    assert min(cell["score"]) > 0.5


def test_the_page_is_filled(tmp_path: Path) -> None:
    page, notes = tmp_path / "size.md", tmp_path / "notes.md"
    for path, names in ((page, ("uci", "budgets", "defaults")), (notes, ("all budgets", "run"))):
        path.write_text("\n".join(f"<!-- begin: {name} --><!-- end: {name} -->" for name in names), encoding="utf-8")
    cell = {"score": [0.9, 0.8], "leaves": [4, 4], "terms": [2, 2], "seconds": [1, 1]}
    for table in range(6):
        for method, budget, gain in (("treelu", "16 leaves, all terms", 0.05), ("CART", "16 leaves, 1 terms", 0.0),
                                     ("TAO", "16 leaves, all terms", 0.01)):  # fmt: skip
            parts = {budget: {**cell, "score": [0.8 + gain]}, "default": cell}
            size.write_json({"parts": parts}, tmp_path / "results" / "tables" / f"t{table}-{method}.json")
    failed = {"2 leaves, all terms": "ended the process", "8 leaves, all terms": "ended the process"}
    size.write_json({"parts": {}, "failed": failed}, tmp_path / "results" / "tables" / "t0-STree.json")
    often = {"16 leaves, all terms": {"score": [0.5, 0.7]}}
    size.write_json({"parts": often}, tmp_path / "results" / "uci-2" / "wine-red-treelu.json")
    size_page.refresh(tmp_path / "results", page, notes)
    text = page.read_text(encoding="utf-8")
    more = notes.read_text(encoding="utf-8")
    assert "Not to be had: STree: 2 cells ended the process." in more
    assert "Over 2 runs (± standard error), wine-red: treelu 60.0 ± 10.0." in text
    assert "| 16 leaves, all terms | 4.0, 2.0 | 0.850 : 0.800, 6 to 0 of 6 | 0.850 : 0.810, 6 to 0 of 6 |" in text
    assert "6 tables: a median of 4 leaves and of 2 terms" in text
    assert "| TAO | all terms |  |  |  |  | 6 |  |\n| TAO |  | 6 |  |  |  |  |  |" in more
    assert (tmp_path / "assets" / "size-ranks.svg").exists()


def test_default_sizes_are_compared_by_kind_of_table() -> None:
    def cell(score: float, leaves: int) -> dict[str, Any]:
        return {"default": {"score": [score], "leaves": [leaves], "terms": [2]}}

    cells: size_page.Cells = {
        "treelu": {"two": cell(0.9, 4), "ten": cell(0.7, 18), "value": cell(0.5, 8)},
        "LCN": {"two": cell(0.91, 40), "ten": cell(0.75, 400), "value": cell(0.4, 90)},
        "constant": {"two": cell(0.95, 1), "ten": cell(0.1, 1), "value": cell(0.0, 1)},
    }
    text = size_page.defaults_block(cells, {"two": 2, "ten": 10, "value": 0})
    assert "the small tree is worst on two (-5.0 points); on 1 of 3 tables it is more than a point below" in text
    assert "| up to four classes | 1 | 0.9000 | 4 | 0.9100 | -0.0100 |" in text
    assert "| more classes | 1 | 0.7000 | 18 | 0.7500 | -0.0500 |" in text
    assert "| values (R²) | 1 | 0.5000 | 8 | 0.4000 | +0.1000 |" in text


def test_curves_are_of_the_tables_that_all_methods_have(tmp_path: Path) -> None:
    def cells(terms: str, score: float) -> dict[str, Any]:
        return {f"{n} leaves, {t} terms": {"score": [score]} for n in size_page.SIZES for t in terms.split()}

    some = {"a": cells("all", 0.6), "b": cells("all", 0.2)}
    found: size_page.Cells = {
        "treelu": {"a": cells("all 2 1", 0.8), "b": cells("all 2 1", 0.4)},
        "CART": {"a": cells("1", 0.5), "b": cells("1", 0.3)}, "TAO": some, "YDF": {"a": cells("all", 0.7)},
    }  # fmt: skip
    lines, n_tables = size_page.curves(found)
    assert n_tables == 1
    assert lines["treelu, 1 term"] == dict.fromkeys(size_page.SIZES, 0.8)
    assert lines["CART"] == dict.fromkeys(size_page.SIZES, 0.5)
    for table in found["treelu"].values():
        del table["32 leaves, 2 terms"]
    assert list(size_page.curves(found)[0]["CART"]) == [2, 4, 8, 16]
    size_page.draw_curves(found, tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").exists()


def test_critical_difference_of_the_literature() -> None:
    """Demšar (2006): q = 2.569 for four methods at 5 %."""
    assert size_page.critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)


def test_the_committed_tables_are_those_of_the_results() -> None:
    on_page, in_notes = size_page.blocks(size.RESULTS)
    page, notes = size.ROOT / "docs" / "size.md", size.RESULTS.parent / "notes" / "size.md"
    for path, found in ((page, on_page), (notes, in_notes)):
        text = path.read_text(encoding="utf-8")
        assert text == fill(text, found), "run: python -m benchmarks.size --report"
