"""Exports in their engines: do all rows reach the tree's leaf, how large are they, how long does a row take.

    python -m benchmarks.exports [--rows 100000] [--only NAME] [--no-save] [--frame]

Two programs of 16 leaves × 5 terms: one on 20 numbers; one on the columns of a table, with missing values, unknown
categories and dates. In both, half of the rows lie on boundaries. A third is the tree of an estimator that was fitted
to a data frame of such a table; --frame runs this one alone. Results go to benchmarks/results/exports.json and into
docs/guides/deploying.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import engines
from benchmarks.export_cases import Case, frame_case, number_case, table_case
from benchmarks.machine import facts
from docs.numbers import fill
from treelu.export.onnx import rows_in_doubt
from treelu.export.program import tree_program

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "exports.json"
PAGE = ROOT / "docs" / "guides" / "deploying.md"
NAMES = {
    "sqlite": "SQL, SQLite",
    "duckdb": "SQL, DuckDB",
    "postgresql": "SQL, PostgreSQL",
    "c": "C, double",
    "c-float": "C, float",
    "javascript": "JavaScript, Node",
    "python": "Python, `python -I`",
    "onnx": "ONNX, float64",
    "onnx-float": "ONNX, float32",
}


def runners(server: engines.Postgres | None) -> dict[str, Callable[[Any, Any], engines.Run]]:
    """How each format is run, of those whose engine is here."""
    found: dict[str, Callable[[Any, Any], engines.Run]] = {
        "sqlite": engines.run_sqlite,
        "duckdb": engines.run_duckdb,
        "c": engines.run_c,
        "c-float": partial(engines.run_c, dtype="float"),
        "javascript": engines.run_javascript,
        "python": engines.run_python,
        "onnx": engines.run_onnx,
        "onnx-float": partial(engines.run_onnx, dtype="float32"),
    }
    if server is not None:
        found["postgresql"] = server.run
    return {name: found[name] for name in NAMES if name in found and engines.absent(name.split("-")[0]) is None}


def measure(case: Case, run: Callable[[Any, Any], engines.Run], *, single: bool) -> dict[str, Any]:
    """Rows that reach the tree's leaf, whose value is its number; in single precision, how many rows are in doubt."""
    tree = case.program.trees[0]
    done = run(case.program, case.rows)
    other = np.array([row[0] for row in done.answers], dtype=np.float64) != tree.predict(case.X)
    found = {
        "rows": len(case.rows),
        "same_leaf": int((~other).sum()),
        "self_test_failures": done.failures,
        "bytes": done.n_bytes,
        "microseconds_a_row": 1e6 * done.seconds / len(case.rows),
    }
    if single:
        doubt = rows_in_doubt(tree, case.X)
        found |= {"in_doubt": int(doubt.sum()), "unexplained": int((other & ~doubt).sum())}
    return found


def tree_time(case: Case) -> float:
    """Microseconds a row of `tree.predict` on the encoded rows, the best of five."""
    tree, times = case.program.trees[0], []
    for _ in range(5):
        start = time.perf_counter()
        tree.predict(case.X)
        times.append(time.perf_counter() - start)
    return 1e6 * min(times) / len(case.X)


def leaf_case(n_rows: int) -> Case:
    """The tree of a fitted data frame, with the numbers of its leaves for values, and `n_rows` of such a frame."""
    model, _, case = frame_case(np.random.default_rng(0), n_rows)
    values = np.arange(model.tree_.n_leaves, dtype=np.float64)[:, None]
    tree = replace(model.tree_, values=values, leaf_weights=None, classes=None, link="identity")
    return replace(case, program=tree_program(tree))


def run_all(n_rows: int, only: str, *, frame_alone: bool = False) -> dict[str, Any]:
    """All formats on all programs, or those whose name begins with `only`, added to the saved results."""
    cases = {"frame": leaf_case(n_rows)}
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if only or frame_alone else {"machine": facts()}
    if not frame_alone:
        cases |= {
            "numbers": number_case(np.random.default_rng(0), n_rows),
            "table": table_case(np.random.default_rng(1), n_rows),
        }
        results["tree_predict"] = {name: tree_time(case) for name, case in cases.items()}
    has_server = engines.absent("postgresql") is None and "postgresql".startswith(only)
    with engines.postgres() if has_server else nullcontext() as server:
        for name, run in runners(server).items():
            if not name.startswith(only):
                continue
            single = name.endswith("-float")
            for kind, case in cases.items():
                if single and kind != "numbers":  # dates are refused in single precision
                    continue
                results.setdefault(kind, {})[name] = measure(case, run, single=single)
                print(name, kind, results[kind][name], flush=True)
    return results


def table(results: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| format | same leaf: numbers | same leaf: table | same leaf: data frame | kB: numbers | table "
        "| µs per row: numbers | table |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    both = (results["numbers"], results["table"])
    for name, title in NAMES.items():
        found = [kind.get(name) for kind in both]
        cells = [_agreement(one) for one in (*found, results.get("frame", {}).get(name))]
        cells += ["" if one is None else f"{one['bytes'] / 1000:.0f}" for one in found]
        cells += ["" if one is None else f"{one['microseconds_a_row']:.2g}" for one in found]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    times = [f"{results['tree_predict'][kind]:.2g}" for kind in ("numbers", "table")]
    lines.append(f"| `tree.predict`, encoded rows | | | | | | {' | '.join(times)} |")
    return "\n".join(lines)


def _agreement(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    text = f"{found['same_leaf']:,} of {found['rows']:,}"
    return (
        text
        if "in_doubt" not in found
        else f"{text}; {found['in_doubt']:,} in doubt, {found['unexplained']} unexplained"
    )


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--only", default="", help="formats whose name begins so")
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--frame", action="store_true", help="run the tree of a fitted data frame alone")
    options = parser.parse_args()
    results = run_all(options.rows, options.only, frame_alone=options.frame)
    print(table(results))
    if not options.no_save:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        if PAGE.exists():
            PAGE.write_text(fill(PAGE.read_text("utf-8"), "exports", table(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
