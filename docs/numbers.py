"""The tables of the page "When to use it": ``python -m docs.numbers`` writes them from results in the repository.

Molecules come from ``experiments/results`` (``make paper``) with the paper's numbers beside them, tables from
``benchmarks/results/quality.json`` (``make bench-quality``). What was not run is left blank.
"""

import json
import re
from pathlib import Path

import numpy as np

from benchmarks.quality import RESULTS as QUALITY
from experiments import paper
from experiments.choice import cell
from experiments.runs import RESULTS, Store
from experiments.tables import TITLES, markdown

PAGE = Path(__file__).parent / "when.md"
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


def main() -> None:
    """Write both tables."""
    text = PAGE.read_text("utf-8")
    text = fill(text, "molecules", molecules(Store(RESULTS)))
    text = fill(text, "tables", tables(QUALITY))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
