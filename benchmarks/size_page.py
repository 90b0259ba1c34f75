"""The tables and the picture of docs/size.md, from what `benchmarks.size` has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, studentized_range

from benchmarks.quality import PUBLISHED
from benchmarks.report import fill, markdown, read_json

ABALONE = {"DTSemNet, top-k": 2.126, "DGT": 2.15, "CART": 2.29}
N_TABLES = 75
# method → table → budget → the lists of a cell
Cells = dict[str, dict[str, dict[str, Any]]]


def refresh(results: Path, page: Path) -> None:
    """Write the blocks of the page; a block without results says so."""
    uci, tables = read_cells(results / "uci"), read_cells(results / "tables")
    blocks = {"uci": uci_block(uci), "budgets": budget_block(tables), "defaults": defaults_block(tables)}
    blocks["run"] = missing_block(tables, N_TABLES)
    page.write_text(fill(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    ranks = rank_matrix(tables, "16 leaves")
    if ranks is not None:
        draw_ranks(*ranks, page.parent / "assets" / "size-ranks.svg")


def read_cells(folder: Path) -> Cells:
    """All cells of a suite."""
    found: Cells = {}
    for path in sorted(folder.glob("*.json")):
        table, method = path.stem.rsplit("-", 1)
        found.setdefault(method, {})[table] = read_json(path)["parts"]
    return found


def mean_of(cells: Cells, method: str, table: str, budget: str, what: str = "score") -> float | None:
    """The mean of a cell, or None where it has not been run."""
    cell = cells.get(method, {}).get(table, {}).get(budget)
    return None if cell is None or what not in cell else float(np.mean(cell[what]))


def uci_block(cells: Cells) -> str:
    """Accuracy at 16 leaves beside the published means, and abalone's error."""
    methods = [name for name in ("treelu", "TAO", "obliquetree", "STree", "YDF") if name in cells]
    heads = [
        "at most 16 leaves, test %",
        *(f"{name}, here" for name in methods),
        "CART, here",
        *next(iter(PUBLISHED.values())),
    ]
    lines = []
    for table, published in PUBLISHED.items():
        shown = [_percent(mean_of(cells, name, table, "16 leaves, all terms")) for name in methods]
        one = _percent(mean_of(cells, "CART", table, "16 leaves, 1 terms"))
        lines.append([table, *shown, one, *(f"{value:.1f}" for value in published.values())])
    error = [_number(mean_of(cells, name, "abalone", "16 leaves, all terms", "rmse")) for name in methods]
    one = _number(mean_of(cells, "CART", "abalone", "16 leaves, 1 terms", "rmse"))
    published = ", ".join(f"{name} {value}" for name, value in ABALONE.items())
    runs = sorted({len(cell["score"]) for table in cells.get("treelu", {}).values() for cell in table.values()})
    ours = ", ".join(f"{name} {value}" for name, value in zip(methods, error, strict=True))
    slopes = _number(mean_of(cells, "linear", "abalone", "16 leaves, all terms", "rmse"))
    words = f"\n\nAbalone, RMSE: {ours}, with linear leaves {slopes}, CART {one}; published: {published}."
    return markdown(heads, lines) + words + f" Runs of a cell: {', '.join(map(str, runs)) or 'none yet'}."


def budget_block(cells: Cells) -> str:
    """For each budget: our mean beside each other method's, over the tables that both have."""
    budgets = sorted({b for table in cells.get("treelu", {}).values() for b in table if b != "default"}, key=_order)
    lines = []
    for budget in budgets:
        for method in [name for name in cells if name not in ("treelu", "linear", "LCN", "constant")]:
            # an ordinary tree has one term whatever is allowed
            theirs = budget if method != "CART" else f"{budget.split(' leaves')[0]} leaves, 1 terms"
            pairs = [
                (ours, other)
                for table in cells["treelu"]
                if (ours := mean_of(cells, "treelu", table, budget)) is not None
                and (other := mean_of(cells, method, table, theirs)) is not None
            ]
            if pairs:
                ours, other = np.array(pairs).T
                won, lost = int((ours > other + 1e-9).sum()), int((other > ours + 1e-9).sum())
                lines.append(
                    [budget, method, str(len(pairs)), f"{ours.mean():.4f}", f"{other.mean():.4f}", f"{won} : {lost}"]
                )
    if not lines:
        return "Not run yet."
    heads = ["at most", "beside", "tables", "treelu, mean score", "the other", "tables won : lost"]
    return markdown(heads, lines)


def defaults_block(cells: Cells) -> str:
    """Sizes and scores of `ObliqueTreeClassifier()` and `ObliqueTreeRegressor()` over the tables."""
    ours = {table: cell["default"] for table, cell in cells.get("treelu", {}).items() if "default" in cell}
    if not ours:
        return "Not run yet."
    leaves = [np.median(cell["leaves"]) for cell in ours.values()]
    terms = [np.median(cell["terms"]) for cell in ours.values()]
    behind = {
        table: mean_of(cells, "treelu", table, "default") - constant
        for table in ours
        if (constant := mean_of(cells, "constant", table, "default")) is not None
    }
    worst = min(behind, key=behind.__getitem__) if behind else None
    words = (
        f"{len(ours)} tables: a median of {np.median(leaves):g} leaves and of {np.median(terms):g} terms a question "
        f"(quarters {np.quantile(leaves, 0.25):g} to {np.quantile(leaves, 0.75):g} leaves, "
        f"{np.quantile(terms, 0.25):g} to {np.quantile(terms, 0.75):g} terms)."
    )
    if worst is not None:
        below = sum(1 for value in behind.values() if value < -0.01)
        words += (
            f" Beside the majority class or the mean: the worst table is {worst} ({100 * behind[worst]:+.1f} points); "
            f"{below} of {len(behind)} are more than one point below."
        )
    pairs = [
        (mean_of(cells, "treelu", table, "default"), large)
        for table in ours
        if (large := mean_of(cells, "LCN", table, "default")) is not None
    ]
    if pairs:
        small, large = np.array(pairs, float).T
        words += f" Beside `LCN…()` on {len(pairs)} tables: {small.mean():.4f} and {large.mean():.4f}."
    best = [
        (mean_of(cells, "treelu", table, "default"), score)
        for table in ours
        if (score := mean_of(cells, "treelu", table, "16 leaves, all terms")) is not None
    ]
    if best:
        small, large = np.array(best, float).T
        words += (
            f' The price of the small size: {small.mean():.4f} on {len(best)} tables, where `selection="best"` with at '
            f"most 16 leaves has {large.mean():.4f}."
        )
    return words


def missing_block(cells: Cells, n_tables: int) -> str:
    """How many tables of each method and budget have been run."""
    budgets = sorted({b for method in cells.values() for table in method.values() for b in table}, key=_order)
    lines = []
    for method, found in cells.items():
        counts = {budget: sum(budget in parts for parts in found.values()) for budget in budgets}
        lines += [[method, budget, f"{count} of {n_tables}"] for budget, count in counts.items() if count]
    return markdown(["method", "budget", "tables"], lines) if lines else "Nothing has been run yet."


def rank_matrix(cells: Cells, leaves: str) -> tuple[list[str], np.ndarray] | None:
    """Ranks (tables, methods) at a number of leaves, on the tables that all methods have."""
    columns = {
        **{name: (name, f"{leaves}, all terms") for name in ("treelu", "TAO", "obliquetree", "STree", "YDF")},
        "CART": ("CART", f"{leaves}, 1 terms"),
        "treelu, 1 term": ("treelu", f"{leaves}, 1 terms"),
    }
    scores = {
        label: {table: value for table in cells.get(m, {}) if (value := mean_of(cells, m, table, b)) is not None}
        for label, (m, b) in columns.items()
    }
    scores = {label: found for label, found in scores.items() if len(found) >= 5}
    shared = set.intersection(*map(set, scores.values())) if scores else set()
    if len(scores) < 3 or len(shared) < 5:
        return None
    matrix = np.array([[found[table] for found in scores.values()] for table in sorted(shared)])
    return list(scores), rankdata(-matrix, axis=1)


def critical_difference(n_methods: int, n_tables: int, level: float = 0.05) -> float:
    """Nemenyi's: how far mean ranks must be apart.

    Examples
    --------
    >>> round(critical_difference(4, 30), 2)
    0.86
    """
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_tables)))


def draw_ranks(names: list[str], ranks: np.ndarray, path: Path) -> None:
    """A critical-difference diagram: mean ranks on a line, methods that do not differ joined by bars."""
    from matplotlib.figure import Figure

    mean, gap = ranks.mean(axis=0), critical_difference(ranks.shape[1], ranks.shape[0])
    order = np.argsort(mean)
    figure = Figure(figsize=(7, 0.9 + 0.35 * len(names)))
    axes = figure.subplots()
    axes.set(xlim=(0.8, len(names) + 0.2), ylim=(-len(names) - 0.5, 1.5), yticks=[])
    axes.set_title(f"Mean rank at 16 leaves over {len(ranks)} tables; critical difference {gap:.2f}", fontsize=9)
    axes.xaxis.tick_top()
    for place, method in enumerate(order):
        axes.plot([mean[method], mean[method]], [0.6, -place - 0.6], color="0.4", lw=0.8)
        axes.text(mean[method] + 0.05, -place - 0.6, f"{names[method]}  {mean[method]:.2f}", va="center", fontsize=9)
    ends = {i: max(j for j in range(len(order)) if mean[order[j]] - mean[order[i]] <= gap) for i in range(len(order))}
    bars = [(i, j) for i, j in ends.items() if j > i and not any(a < i and b >= j for a, b in ends.items())]
    for level, (i, j) in enumerate(bars):
        height = 0.5 - 0.15 * level
        axes.plot([mean[order[i]] - 0.03, mean[order[j]] + 0.03], [height, height], color="black", lw=3)
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def _order(budget: str) -> tuple[int, str]:
    return 0 if budget == "default" else int(budget.split()[0]), budget


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
