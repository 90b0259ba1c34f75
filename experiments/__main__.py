"""The command line: ``python -m experiments [run|pack|report|check]``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from experiments.check import check
from experiments.data import DATASETS, load_dataset
from experiments.grids import METHODS, QUICK, Extent, runs
from experiments.runs import RESULTS, Store
from experiments.sweep import sweep, sweep_on_cluster

_EXTRA = {"bace": ("patterns",), "hiv": ("ablation", "picture")}  # behind Table 3, Figures 2 and 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the paper's experiments and write its tables and figures."""
    options = _parser().parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    store = Store(options.results)
    if options.what == "check":
        _check(options, store)
    if options.what in ("all", "run"):
        _run(options, store)
    if options.what in ("all", "pack"):
        for path in store.pack():
            print(f"packed {path}")
    if options.what in ("all", "report"):
        from experiments.report import write_report

        for path in write_report(store, options.docs):
            print(f"wrote {path}")


def _run(options: argparse.Namespace, store: Store) -> None:
    from experiments.methods import execute

    extent = QUICK if options.quick else Extent()
    given = {
        name: getattr(options, name) for name in ("depths", "drops", "hidden", "seeds", "members", "trees", "epochs")
    }
    extent = replace(extent, tuned=options.tuned, **{name: value for name, value in given.items() if value is not None})
    load = partial(load_dataset, data_home=options.data_home)
    todo = []
    for name in options.dataset or DATASETS:
        dataset = load(name)
        for method in options.method or ("statistics", *_applicable(name), *_EXTRA.get(name, ())):
            todo += runs(dataset, method, extent)
    if options.scheduler:
        made = sweep_on_cluster(todo, store, load, execute, options.scheduler)
    else:
        made = sweep(todo, store, load, execute)
    print(f"{made} runs made, {len(todo) - made} were there or made by others")


def _check(options: argparse.Namespace, store: Store) -> None:
    from experiments.methods import execute

    names = options.dataset or DATASETS
    groups = [(name, method) for name in names for method in options.method or _applicable(name)]
    load = partial(load_dataset, data_home=options.data_home)
    for found in check(store, groups, options.count, options.draw, load, execute):
        print(f"{found.run.key}: test score {found.stored:.4f} in the results, {found.again:.4f} again")


def _applicable(dataset: str) -> list[str]:
    """The methods of Table 2 on a data set; the PDBbind table has no molecules, so no graph network."""
    return [method for method in METHODS if not (dataset == "pdbbind" and method == "gcn")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="The paper's tables and figures. Without options: all of it (days).",
    )
    parser.add_argument("what", nargs="?", default="all", choices=("all", "run", "pack", "report", "check"))
    parser.add_argument("--quick", action="store_true", help="3 depths, 2 drop rates, 2 seeds, small ensembles")
    parser.add_argument("--tuned", action="store_true", help="the authors' settings where they fixed one, no grid")
    parser.add_argument("--dataset", action="append", choices=DATASETS, help="may be repeated; default: all")
    parser.add_argument("--method", action="append", help=f"may be repeated; of {', '.join(METHODS)}; default: all")
    parser.add_argument("--seeds", type=numbers, help="such as 1-10 or 1,2,3")
    parser.add_argument("--depths", type=numbers, help="such as 2-12")
    parser.add_argument("--drops", type=_floats, help="DropConnect rates such as 0,0.75")
    parser.add_argument("--hidden", type=numbers, help="hidden layers of g_φ for regression, such as 0,1")
    parser.add_argument("--members", type=int, help="largest ELCN")
    parser.add_argument("--trees", type=int, help="largest GBDT")
    parser.add_argument("--epochs", type=int, help="of the graph network")
    parser.add_argument("--count", type=int, default=1, help="of check: how many finished runs are run again")
    parser.add_argument("--draw", type=int, default=0, help="of check: seed of the draw")
    parser.add_argument("--scheduler", help="tcp://… of a Dask scheduler, or 'local'")
    parser.add_argument("--data-home", help="folder of the data; default: TREELU_DATA, else the user's cache")
    parser.add_argument("--results", default=RESULTS, help="folder of the results")
    parser.add_argument("--docs", default="docs", help="folder that paper.md and its pictures are written to")
    return parser


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers from text.

    Examples
    --------
    >>> numbers("1-3,7")
    (1, 2, 3, 7)
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _floats(text: str) -> tuple[Any, ...]:
    return tuple(float(part) for part in text.split(","))


if __name__ == "__main__":
    main()
