"""The speed benchmark: ``python -m benchmarks.speed [--only start,small,predict] [--quick] [--docs]``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import complexity, growth, limits, machine, prediction, small, startup, training
from benchmarks.comparison import Part
from benchmarks.page import refresh
from benchmarks.report import read_json, screen_table, write_json
from benchmarks.tables import Data, molecules

HERE = Path(__file__).resolve().parent
RESULTS, QUICK_RESULTS = HERE / "results" / "speed.json", HERE / "results" / "speed-quick.json"
PAGE = HERE.parent / "docs" / "speed.md"
NOTES = HERE / "results" / "notes" / "speed.md"
QUICK_ROWS = 2_000  # of HIV


class Run:
    """The parts of one run; tables are read once, and a forest that training grew serves prediction."""

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self.forests: dict[str, Any] = {}
        self.data: Callable[[str], Data] = cache(self._read)

    def _read(self, name: str) -> Data:
        return molecules(name, QUICK_ROWS if self.quick else None)

    def training(self) -> Part:
        """Bace at depth 12, HIV at depth 7 and beside a forest."""
        bace, hiv = self.data("bace"), self.data("hiv")
        settings: dict[str, Any] = {"epochs": 3, "rounds": 1, "steps": 2} if self.quick else {}
        trees = 20 if self.quick else 500
        bace_part, _ = training.measure(bace, 12, **settings)
        hiv_part, self.forests["hiv"] = training.measure(hiv, 7, trees=trees, **{"rounds": 4, **settings})
        return _joined({"bace": bace_part, "hiv": hiv_part})

    def small(self) -> Part:
        """Small trees on five tables."""
        return small.measure(small.TABLES[:1], trees=10, rounds=1) if self.quick else small.measure()

    def memory(self) -> Part:
        """Peak memory of fits."""
        return small.measure_memory(small.TABLES[:1]) if self.quick else small.measure_memory()

    def predict(self) -> Part:
        """A network of depth 12 on Bace and HIV, and single rows."""
        settings: dict[str, Any] = {"trees": 20, "epochs": 1, "batches": (500,), "rounds": 1} if self.quick else {}
        parts = {
            name: prediction.measure(self.data(name), forest=self.forests.get(name), **settings)
            for name in ("bace", "hiv")
        }
        parts["rows"] = prediction.measure_rows(rounds=1 if self.quick else 7)
        return _joined(parts)

    def growth(self) -> Part:
        """Sweeps of synthetic tables."""
        if not self.quick:
            return growth.measure()
        few = {name: values[:2] for name, values in growth.SWEEPS.items()}
        return growth.measure(few, together=growth.Size(rows=1_000, features=2_000, batch_size=512), rounds=1)

    def complexity(self) -> Part:
        """Three forms against depth."""
        return complexity.measure(complexity.DEPTHS[:4], rounds=1) if self.quick else complexity.measure()

    def start(self) -> Part:
        """Fresh processes."""
        return startup.measure(rounds=1) if self.quick else startup.measure()

    def limits(self) -> Part:
        """Roofline and pieces on Bace."""
        settings: dict[str, Any] = {"rounds": 1, "epochs": 2} if self.quick else {}
        return limits.measure(self.data("bace"), **settings)


PARTS = ("training", "small", "memory", "predict", "growth", "complexity", "start", "limits")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts asked for, write each as soon as it is done, and print the table."""
    options = _parser().parse_args(arguments)
    path = options.results or (QUICK_RESULTS if options.quick else RESULTS)
    if options.docs:
        refresh(options.page, options.notes, read_json(path))
        print(f"refreshed {_shown(options.page)} from {_shown(path)}")
        return
    console, run, results = _console(), Run(options.quick), read_json(path)
    results |= {"machine": machine.facts(), "quick": options.quick}
    started = time.perf_counter()
    for name in options.only:
        began = time.perf_counter()
        with console.status(f"{name} …"):
            part: Part = getattr(run, name)()
        seconds = time.perf_counter() - began
        done = {**results["parts"], name: _plain(part, seconds, judged=not options.quick)}
        results["parts"] = {part: done[part] for part in PARTS if part in done}
        write_json(results, path)
        console.print(f"{name}: {seconds:.0f} s")
    console.print(screen_table(results))
    console.print(f"{time.perf_counter() - started:.0f} s in all; written to {_shown(path)}")


def _console() -> Console:
    """The terminal, or a page wide enough for the table where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=150)


def _joined(parts: dict[str, Part]) -> Part:
    """Several tables' outcomes as one."""
    comparisons = [comparison for part in parts.values() for comparison in part.comparisons]
    return Part(comparisons, {name: part.details for name, part in parts.items()})


def _plain(part: Part, seconds: float, judged: bool) -> dict[str, Any]:
    """For JSON; goals are for the full sizes."""
    kept = part.comparisons if judged else [replace(comparison, met=None) for comparison in part.comparisons]
    comparisons = [comparison.to_dict() for comparison in kept]
    return {"comparisons": comparisons, "details": part.details, "seconds": round(seconds, 1)}


def _shown(path: Path) -> str:
    return os.path.relpath(path)


def _names(text: str) -> list[str]:
    """Names of parts from text such as "training,growth"."""
    asked = text.split(",")
    for name in asked:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"{name!r} is no part; take some of {', '.join(PARTS)}")
    return asked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description="Speed, side by side with peers in one run."
    )
    parser.add_argument("--only", type=_names, default=PARTS, help=f"some of {', '.join(PARTS)}, by commas")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, measures nothing")
    parser.add_argument("--docs", action="store_true", help="run nothing; write the results into page and notes")
    parser.add_argument("--results", type=Path, help="the JSON file; default benchmarks/results/speed.json")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that --docs fills")
    parser.add_argument("--notes", type=Path, default=NOTES, help="the notes that it fills")
    return parser


if __name__ == "__main__":
    main()
