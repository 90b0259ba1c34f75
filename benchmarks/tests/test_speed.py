"""The speed benchmark runs on tiny sizes: ratios come out and the JSON has its fields. No time is judged."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

pytest.importorskip("lightgbm", reason="the bench extra is not installed")

from benchmarks import complexity, growth, limits, machine, prediction, small, speed, startup, training
from benchmarks.comparison import Comparison, Measure, Part
from benchmarks.page import ON_PAGE, refresh
from benchmarks.report import cells, fill, read_json, screen_table, write_json
from benchmarks.straightforward import StraightforwardNetwork
from benchmarks.tables import Data, random_data
from benchmarks.timing import interleaved
from treelu.nn import LocallyConstantNetwork

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run beside each other: a second thread would wait for a core."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for module in (training, prediction, limits):
        monkeypatch.setattr(module, "THREADS", 1)


@pytest.fixture(scope="module")
def data() -> Data:
    """Three hundred rows, forty features, four of them non-zero."""
    return random_data(300, 40, 4)


def check(part: Part) -> list[str]:
    """Every ratio is positive and survives JSON; returns the jobs."""
    for comparison in part.comparisons:
        assert math.isfinite(comparison.ratio)
        assert comparison.ratio > 0
        assert Comparison.from_dict(json.loads(json.dumps(comparison.to_dict()))) == comparison
    json.dumps(part.details)
    return [comparison.b.name for comparison in part.comparisons]


def test_small_trees() -> None:
    part = small.measure([small.SizedTable(60, 4)], trees=4, rounds=2)
    assert check(part) == ["random forest of 4"] * 2
    assert [comparison.a.name for comparison in part.comparisons] == ["ObliqueTreeClassifier()", "LCNClassifier()"]
    times = part.details["processor seconds"]["60 × 4"]
    assert [len(seconds) for seconds in times.values()] == [2, 2, 2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_fits() -> None:
    part = small.measure_memory([small.SizedTable(20_000, 10)])
    assert [comparison.b.name for comparison in part.comparisons] == ["ObliqueTreeClassifier()", "LCNClassifier()"]
    assert all(comparison.a.value == 0.8 for comparison in part.comparisons)
    assert all(0.1 < comparison.b.value < 1_000 for comparison in part.comparisons)  # in megabytes


def test_training(data: Data) -> None:
    part, forest = training.measure(data, 3, epochs=2, rounds=2, steps=2, trees=6)
    assert check(part) == ["straightforward form", "random forest of 6"]
    assert len(forest.estimators_) == 6
    # two of the five steps of an epoch were timed, and scaled
    assert all(
        epoch > taken
        for epoch, taken in zip(
            part.details["straightforward_epoch"], part.details["seconds"]["straightforward"], strict=True
        )
    )


def test_the_yardstick_computes_the_same_function(data: Data) -> None:
    X = torch.from_numpy(data.test.X.toarray())
    slow, ours = StraightforwardNetwork(40, 5, 0.75).eval(), LocallyConstantNetwork(40, 5, 1, dtype=np.float32)
    with torch.no_grad():
        ours.weight[:] = slow.weight.T.numpy()
        ours.connection[:] = slow.connection.tril(-1).numpy()
        ours.bias[:] = slow.bias.numpy()
        ours.head.weight[:] = slow.head.weight[:, : 5 * 40].reshape(1, 5, 40).numpy()
        ours.head.offset_weight[:] = slow.head.weight[:, 5 * 40 :].numpy()
        ours.head.bias[:] = slow.head.bias.numpy()
        for annealing in (0.3, 1.0):
            np.testing.assert_allclose(slow(X, annealing), ours(X.numpy(), annealing=annealing), rtol=1e-4, atol=1e-6)


def test_the_yardstick_learns(data: Data) -> None:
    torch.manual_seed(0)
    slow = training.StraightforwardTraining(data, 3)
    slow.network.drop_connect = 0.0
    for _ in range(60):
        slow.run(slow.steps_per_epoch)
    assert slow.validate() > 0.9


def test_prediction(data: Data) -> None:
    part = prediction.measure(data, depth=3, trees=4, epochs=1, batches=(20, 50), rounds=1)
    assert check(part) == ["LightGBM of 4", "random forest of 4", "CART"] * 2
    assert set(part.details["batches"]) == {"20", "50"}


def test_prediction_of_rows() -> None:
    part = prediction.measure_rows(rounds=1)
    assert check(part) == ["CART"] * 6
    assert set(part.details["seconds"]) == {"one row", "10,000 rows"}


def test_growth() -> None:
    together = growth.Size(rows=200, features=400, depth=4, batch_size=200)
    base = growth.Size(rows=300, features=30, nonzeros=4, depth=2)
    part = growth.measure({"rows": (200, 4_000)}, base, together, rounds=1)
    assert all(math.isfinite(comparison.b.value) for comparison in part.comparisons)
    assert part.comparisons[0].b.name == "rows 4,000"
    sweep = part.details["sweeps"]["rows"]
    assert sweep["time_expected"] == pytest.approx(1)
    assert sweep["memory_expected"] == pytest.approx(0)
    assert sweep["table_mb"][1] == pytest.approx(20 * sweep["table_mb"][0], rel=0.01)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_peak_memory_forgets_what_was_before_and_keeps_what_is_gone() -> None:
    from benchmarks.memory import PeakMemory

    np.ones(20_000_000).sum()  # 160 MB, given back
    peak = PeakMemory()
    assert peak.rise() < 20e6
    np.ones(10_000_000).sum()  # 80 MB
    assert 70e6 < peak.rise() < 120e6


def test_complexity() -> None:
    part = complexity.measure((1, 3, 5), rounds=1)
    assert check(part) == [complexity.PROGRAMME, complexity.PER_NEURON, complexity.PROGRAMME, complexity.PER_NEURON]
    assert part.details["largest_difference"] < 1e-4
    found = complexity.exponents([8, 16, 32, 64], {name: [1, 2, 4, 8] for name in part.details["seconds"]})
    assert found[complexity.PER_NEURON] == pytest.approx({"measured": 1, "by_count": 3})


def test_startup() -> None:
    names = ["import treelu", "treelu --help", startup.ESTIMATOR, "in a fresh copy", "treelu predict"]
    part = startup.measure(rounds=1)
    assert check(part) == names


def test_limits(data: Data) -> None:
    part = limits.measure(data, 3, rounds=1, epochs=1)
    assert check(part) == ["measured", "treelu, one thread"]
    assert set(part.details["rates"]) == {"flops", "flops_one_thread", "memory_bytes", "cache_bytes", "hashes"}
    assert min(part.details["step"]["measured"], *part.details["step"]["pieces"].values()) > 0


def test_counted_work_of_a_step() -> None:
    work = limits.Work(features=2_048, depth=12, nonzeros=60, batch=64)
    assert work.padded == 16
    assert work.hashes == 2 * 64 * (60 * 16 + 72)
    assert work.flops_of_step == 6 * 144 * 2_048 + 12 * 12 * 2_048


def test_tasks_are_taken_in_turn() -> None:
    calls: list[str] = []
    times = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3)
    assert calls == ["a", "b"] * 3
    assert [len(values) for values in times.values()] == [3, 3]
    calls.clear()
    assert len(interleaved({"a": lambda: calls.append("a")}, rounds=3, not_again_after=0.0)["a"]) == 1


def test_machine_tells_no_names() -> None:
    text = json.dumps(machine.facts())
    assert os.uname().nodename not in text
    assert str(Path.home()) not in text


@pytest.fixture
def results() -> dict:
    """What a run would write, with one part."""
    comparison = Comparison("a fit", Measure("this", 0.5), Measure("that", 60.0), "s", "≥ 80", True)
    return {"machine": machine.facts(), "parts": {"training": {"comparisons": [comparison.to_dict()], "details": {}}}}


def test_table_shows_the_ratio(results: dict) -> None:
    console = Console(width=150, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(screen_table(results))
    text = console.export_text()
    assert "120" in text
    assert "≥ 80 ✓" in text


def test_json_round_trip_and_page(results: dict, tmp_path: Path) -> None:
    write_json(results, tmp_path / "deep" / "speed.json")
    assert read_json(tmp_path / "deep" / "speed.json") == results
    assert read_json(tmp_path / "none.json") == {"parts": {}}
    page, notes = tmp_path / "speed.md", tmp_path / "notes.md"
    for path, committed in ((page, speed.PAGE), (notes, speed.NOTES)):
        path.write_text(committed.read_text(encoding="utf-8"), encoding="utf-8")
    refresh(page, notes, results)
    once = page.read_text(encoding="utf-8")
    assert "| a fit | this 500 ms | that 60.0 s | 120 |\n" in once  # no goal: readers have none
    refresh(page, notes, results)
    assert page.read_text(encoding="utf-8") == once


def test_the_committed_tables_are_those_of_the_results(tmp_path: Path) -> None:
    copies = [tmp_path / "speed.md", tmp_path / "notes.md"]
    for copy, committed in zip(copies, (speed.PAGE, speed.NOTES), strict=True):
        copy.write_text(committed.read_text(encoding="utf-8"), encoding="utf-8")
    refresh(*copies, read_json(speed.HERE / "results" / "speed.json"))
    for copy, committed in zip(copies, (speed.PAGE, speed.NOTES), strict=True):
        assert copy.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), (
            "run: python -m benchmarks.speed --docs"
        )


def test_page_has_a_place_for_every_part() -> None:
    details = ("growth details", "complexity details", "limits details")
    fill(speed.PAGE.read_text(encoding="utf-8"), dict.fromkeys(ON_PAGE, "x"))
    in_notes = {part for part in (*speed.PARTS, *details) if part not in ON_PAGE}
    fill(speed.NOTES.read_text(encoding="utf-8"), dict.fromkeys(in_notes, "x"))
    with pytest.raises(ValueError, match="no place for 'other'"):
        fill("", {"other": "x"})


def test_command_line_names_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        speed.main(["--only", "training,speed"])
    assert "'speed' is no part; take some of training, small, memory" in capsys.readouterr().err


def test_command_line_writes_and_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "speed.json"
    speed.main(["--quick", "--only", "complexity", "--results", str(path)])
    assert "B ÷ A" in capsys.readouterr().out
    written = read_json(path)
    assert written["quick"] is True
    assert written["machine"]["cores"] >= 1
    part = written["parts"]["complexity"]
    assert {"what", "a", "b", "ratio", "unit", "goal", "met"} == set(part["comparisons"][0])
    assert part["seconds"] >= 0
    assert all(len(cells(Comparison.from_dict(line))) == 5 for line in part["comparisons"])
