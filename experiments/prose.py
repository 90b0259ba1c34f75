"""The paper's claims beside the results: held or not, and by how much."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.report import markdown
from experiments.choice import scores_by_seed
from experiments.data import DATASETS, Dataset
from experiments.grids import METHODS, Extent, runs
from experiments.runs import Store
from experiments.tables import ROWS, TITLES, row_name, table2_cell

_TREES = ("cart", "hhcart", "tao")
# (claim, method, those it is compared with)
_CLAIMS = (
    ("LCN is first among the trees", "lcn", _TREES),
    ("ALCN is above LCN", "alcn", ("lcn",)),
    ("ELCN is above GBDT", "elcn", ("gbdt",)),
)
_REVERSED = {"held": "**not held**", "**not held**": "held"}
_EPOCH = {"lcn": "last", "alcn": "last"}


def claims_matrix(store: Store) -> str:
    """A row for each claim, a column for each data set: the verdict and the difference."""
    verdicts: dict[str, dict[str, str]] = {}
    for claim, title, _, difference, word in _claims(store):
        verdicts.setdefault(claim, {})[title] = f"{word}<br>{difference}".removesuffix("<br>")
    titles = [TITLES[dataset] for dataset in DATASETS]
    return markdown(["", *titles], [[claim, *(row.get(t, "–") for t in titles)] for claim, row in verdicts.items()])


def claims_table(store: Store) -> str:
    """A row for each claim and data set: both scores, their difference over seeds, and the verdict."""
    return markdown(["", "data", "ours, last epochs", "difference ± standard error", ""], _claims(store))


def _claims(store: Store) -> list[list[str]]:
    """Claim, data set, both scores, difference, verdict."""
    rows = []
    for claim, method, others in _CLAIMS:
        for dataset in DATASETS:
            row = _compared(store, dataset, method, others)
            if row:
                rows.append([claim, TITLES[dataset], *row])
    for method, name in (("lcn", "depth"), ("cart", "max_depth"), ("tao", "max_depth")):
        for dataset in DATASETS:
            row = _with_depth(store, dataset, method, name)
            if row:
                falls = method != "lcn"
                claim = f"{method.upper()} {'falls' if falls else 'does not fall'} with depth"
                rows.append([claim, TITLES[dataset], *row[:2], _REVERSED.get(row[2], row[2]) if falls else row[2]])
    return rows


def _compared(store: Store, dataset: str, method: str, others: tuple[str, ...]) -> list[str]:
    """A method beside the best of some others."""
    ours = _scores(store, dataset, method)
    found = {other: scores for other in others if (scores := _scores(store, dataset, other))}
    if not ours or not found:
        return []
    sign = -1.0 if dataset == "pdbbind" else 1.0
    best = max(found, key=lambda other: sign * _mean(found[other]))
    scores = f"{method.upper()} {_mean(ours):.3f}, {best.upper()} {_mean(found[best]):.3f}"
    return [scores, *verdict([sign * difference for difference in _differences(ours, found[best])])]


def _scores(store: Store, dataset: str, method: str) -> dict[int, float]:
    """Scores by seed; on the PDBbind table, where the paper's training does not work, those of ours."""
    if dataset == "pdbbind":
        scaled = scores_by_seed(store.results(dataset, f"{method}@scaled"))
        return scaled or scores_by_seed(store.results(dataset, method))
    return scores_by_seed(store.results(dataset, method), _EPOCH.get(method, "best"))


def _mean(scores: dict[int, float]) -> float:
    return float(np.mean(list(scores.values())))


def _differences(first: dict[int, float], second: dict[int, float]) -> list[float]:
    """Differences for each seed that both have; of a method that draws nothing, from its one score."""
    if len(second) == 1:
        second = dict.fromkeys(first, _mean(second))
    return [first[seed] - second[seed] for seed in sorted(set(first) & set(second))]


def verdict(differences: list[float]) -> list[str]:
    """The mean difference with its standard error, and whether it is above 0 by more than two of them.

    Examples
    --------
    >>> verdict([0.05, 0.04, 0.06]), verdict([-0.03, -0.02])[1], verdict([0.01, -0.02])[1], verdict([0.1])
    (['+0.050 ± 0.006 (3)', 'held'], '**not held**', 'not decided', ['+0.100 (1)', 'not decided'])
    """
    mean, n = float(np.mean(differences)), len(differences)
    if n == 1:
        return [f"{mean:+.3f} (1)".replace("-", "−"), "not decided"]
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    text = f"{mean:+.3f} ± {error:.3f} ({n})".replace("-", "−")
    if abs(mean) <= 2 * error:
        return [text, "not decided"]
    return [text, "held" if mean > 0 else "**not held**"]


def _with_depth(store: Store, dataset: str, method: str, name: str) -> list[str]:
    """A method at the depth with the best mean on the test part, and at depth 12."""
    results = store.results(dataset, method)
    by_depth = {}
    for depth in sorted({result["setting"][name] for result in results if name in result["setting"]}):
        scores = scores_by_seed(
            [one for one in results if one["setting"].get(name) == depth], _EPOCH.get(method, "best")
        )
        if scores:
            by_depth[depth] = scores
    if len(by_depth) < 3 or 12 not in by_depth:
        return []
    sign = -1.0 if dataset == "pdbbind" else 1.0
    best = max(by_depth, key=lambda depth: sign * _mean(by_depth[depth]))
    if best == 12:
        return [f"best at depth 12, {_mean(by_depth[12]):.3f}", "", "held"]
    scores = f"{_mean(by_depth[best]):.3f} at depth {best}, {_mean(by_depth[12]):.3f} at 12"
    text, word = verdict([sign * difference for difference in _differences(by_depth[12], by_depth[best])])
    return [scores, text, word]


def outside_table(store: Store) -> str:
    """The cells of Table 2 that are outside two of the paper's deviations."""
    rows = []
    for section in ROWS:
        for method, epoch in section:
            for dataset in DATASETS:
                text = table2_cell(store, dataset, method, epoch)
                if "outside 2" in text:
                    ours, theirs, words = text.split("<br>")
                    better = words.removeprefix("outside 2, ")
                    rows.append([row_name(method, epoch), TITLES[dataset], ours, theirs.removeprefix("paper "), better])
    return markdown(["method", "data", "ours", "paper", "ours is"], rows)


def missing_table(store: Store) -> str:
    """Runs of the paper's grids that are not there: how many of how many, for each method and data set."""
    rows = []
    for method in METHODS:
        cells = [_missing(store, dataset, method) for dataset in DATASETS]
        rows.append([method.upper(), *cells])
    return markdown(["runs that are there", *(TITLES[name].removesuffix(" (RMSE)") for name in DATASETS)], rows)


def _missing(store: Store, name: str, method: str) -> str:
    if name == "pdbbind" and method == "gcn":
        return "no molecules"
    labels = tuple(sorted({result["label"] for result in store.results(name, "cart")}))
    outline = Dataset(name, "regression" if name == "pdbbind" else "classification", None, np.empty(0), labels, {})
    wanted = runs(outline, method, Extent())
    there = store.finished(wanted)
    return "all" if len(there) == len(wanted) else f"{len(there):,} of {len(wanted):,}"
