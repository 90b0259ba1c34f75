"""Numbers on pages: ``python -m docs.numbers`` writes them from the results in the repository.

They stand between marks such as ``<!-- begin: tables -->`` and ``<!-- end: tables -->``, in the README, on "When to use
it", on the pages about the league and about ensembles and in the notes to these. What was not run is left blank.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.league_goals import answer_block, goals_block
from benchmarks.league_page import BLOCKS
from benchmarks.quality import RESULTS as QUALITY
from benchmarks.size_page import mean_scores, read_cells
from experiments import ordinary, paired, paper, stacked
from experiments.choice import cell
from experiments.runs import RESULTS, Store
from experiments.tables import TITLES, markdown

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks" / "results"
METHODS = {
    "cart": "CART, one tree",
    "tao": "TAO, one oblique tree",
    "lcn": "**LCN**, one oblique tree",
    "alcn": "**ALCN**, smooth",
    "elcn": "**ELCN**, ensemble",
    "gbdt": "gradient boosting",
    "rf": "random forest",
}
DATASETS = ("bace", "hiv", "sider", "tox21")


def molecules(store: Store) -> str:
    """Test AUC of ours and the paper's, method by method."""
    rows = []
    for method, name in METHODS.items():
        cells = []
        for dataset in DATASETS:
            ours = cell(store.results(dataset, method))
            seeds = "" if ours is None else f" ({ours.n_seeds} seed{'' if ours.n_seeds == 1 else 's'})"
            here = "–" if ours is None else f"{ours.mean:.3f}{seeds}"
            cells.append(f"{here}<br>paper {paper.MAIN[method][dataset][0]:.3f}")
        rows.append([name, *cells])
    return markdown(["test AUC", *(TITLES[dataset] for dataset in DATASETS)], rows)


def tables(path: Path) -> str:
    """Test accuracy on small tables, mean over runs, of methods at their defaults."""
    if not path.exists():
        return "Not measured yet: run `make bench-quality`, then `python -m docs.numbers`."
    results = {
        name: found
        for name, found in json.loads(path.read_text("utf-8")).items()
        if any("accuracy" in scores for scores in found.values())
    }
    methods = list(dict.fromkeys(method for found in results.values() for method in found))
    rows = []
    for name, found in results.items():
        means = {method: float(np.mean(scores["accuracy"])) for method, scores in found.items()}
        best = max(means.values())
        cells = [_accuracy(means[method], best) if method in means else "–" for method in methods]
        n_runs = max(len(scores["accuracy"]) for scores in found.values())
        rows.append([name, *cells, str(n_runs)])
    return markdown(["accuracy, %", *methods, "runs"], rows)


def _accuracy(mean: float, best: float) -> str:
    return f"**{mean:.1f}**" if mean == best else f"{mean:.1f}"


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between the marks of a name.

    Examples
    --------
    >>> fill("a <!-- begin: x --> old <!-- end: x --> z", "x", "new").split()
    ['a', '<!--', 'begin:', 'x', '-->', 'new', '<!--', 'end:', 'x', '-->', 'z']
    """
    marks = re.compile(rf"(<!-- begin: {name} -->).*?(<!-- end: {name} -->)", re.DOTALL)
    return marks.sub(lambda match: f"{match[1]}\n{content}\n{match[2]}", text)


def readme() -> str:
    """The three numbers of the README: a small tree's accuracy, the stack's, and a fit of many rows."""
    cells = read_cells(BENCHMARKS / "size" / "tables")
    ours, cart, n_tables = mean_scores(cells, "16 leaves, all terms", "CART")
    scores = json.loads(stacked.RESULTS.read_text("utf-8"))
    classes, values = stacked.means(scores, "classification", "accuracy"), stacked.means(scores, "regression", "r2")
    accuracy, r2 = _ahead(classes), _ahead(values)
    large = json.loads((BENCHMARKS / "large.json").read_text("utf-8"))["files, 100,000,000 rows"]
    minutes, memory = large["lcn"]["seconds"] / 60, large["lcn"]["resident_mb"] / 1000
    return (
        f"- **{ours:.3f}**: mean accuracy or R² of a small tree of at most 16 leaves on {n_tables} public tables; an "
        f"ordinary tree (CART) of that size has {cart:.3f} ([accuracy at a size](docs/size.md)).\n"
        f"- **{accuracy}**: points of accuracy by which `StackedClassifier()` is ahead of a random forest of 500 on "
        f"{len(classes)} tables; in R², on {len(values)} tables, it is {r2} points "
        "([ensembles](docs/ensembles-study.md)).\n"
        f"- **{minutes:.0f} minutes**, {memory:.1f} GB of memory: an `LCNClassifier` fitted to {large['rows']:,} rows "
        f"in {large['bytes'] / 1e9:.0f} GB of files ([large data](docs/guides/large-data.md))."
    )


def _ahead(scores: dict[str, dict[str, float]]) -> str:
    return f"{100 * np.mean([row['elcn'] - row['rf'] for row in scores.values()]):+.1f}"


def pages() -> dict[Path, dict[str, Callable[[], str]]]:
    """For each page, what stands between its marks."""
    return {
        ROOT / "README.md": {"numbers": readme},
        ROOT / "docs" / "when.md": {
            "molecules": lambda: molecules(Store(RESULTS)),
            "tables": lambda: tables(QUALITY),
        },
        ROOT / "docs" / "results.md": {"answer": answer_block, **BLOCKS, "goals": goals_block},
        ROOT / "docs" / "ensembles-study.md": {
            "molecules": paired.default_table,
            "stacked": stacked.table,
            "losses": stacked.losses,
        },
        RESULTS / "notes" / "ensembles.md": {
            "paired": paired.table,
            "choice": stacked.choice,
            "ordinary": ordinary.table,
        },
    }


def filled(page: Path) -> str:
    """The text of a page with its numbers as the results have them."""
    text = page.read_text("utf-8")
    for name, content in pages()[page].items():
        text = fill(text, name, content())
    return text


def main() -> None:
    """Write all of them."""
    for page in pages():
        page.write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    main()
