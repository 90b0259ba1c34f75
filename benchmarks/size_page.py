"""The tables and pictures of docs/size.md and of the notes on it, from what `benchmarks.size` has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.stats import rankdata, studentized_range

from benchmarks.quality import PUBLISHED
from benchmarks.report import fill, markdown, read_json

ABALONE = {"DTSemNet, top-k": 2.126, "DGT": 2.15, "CART": 2.29}
SIZES = (2, 4, 8, 16, 32)
OTHERS = ("CART", "TAO", "STree", "YDF", "obliquetree")
# method → table → budget → the lists of a cell
Cells = dict[str, dict[str, dict[str, Any]]]


def refresh(results: Path, page: Path, notes: Path) -> None:
    """Write the blocks of the page and of the notes, and the pictures; a block without results says so."""
    on_page, in_notes = blocks(results)
    for path, found in ((page, on_page), (notes, in_notes)):
        path.write_text(fill(path.read_text(encoding="utf-8"), found), encoding="utf-8")
    tables = read_cells(results / "tables")
    matplotlib.rcParams["svg.hashsalt"] = "size"  # the same results, the same file
    ranks = rank_matrix(tables, "16 leaves")
    if ranks is not None:
        draw_ranks(*ranks, page.parent / "assets" / "size-ranks.svg")
    draw_curves(tables, page.parent / "assets" / "size-curves.svg")


def blocks(results: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The blocks of the page, and those of the notes."""
    uci, tables = read_cells(results / "uci"), read_cells(results / "tables")
    classes = read_classes(results / "tables")
    more = {path.name.removeprefix("uci-"): read_cells(path) for path in sorted(results.glob("uci-*"))}
    on_page = {
        "uci": uci_block(uci) + more_runs(more),
        "budgets": budget_block(tables, leaves=16),
        "defaults": defaults_block(tables, classes),
    }
    return on_page, {"all budgets": budget_block(tables), "run": run_block(tables) + failures(results / "tables")}


def read_cells(folder: Path) -> Cells:
    """All cells of a suite."""
    found: Cells = {}
    for path in sorted(folder.glob("*.json")):
        table, method = path.stem.rsplit("-", 1)
        found.setdefault(method, {})[table] = read_json(path)["parts"]
    return found


def read_classes(folder: Path) -> dict[str, int]:
    """Classes of each table that we have run, 0 where the target is a number."""
    found = {path.stem.rsplit("-", 1)[0]: read_json(path) for path in folder.glob("*-treelu.json")}
    return {table: read["classes"] for table, read in found.items() if "classes" in read}


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
        "our leaves, terms",
        "CART, here",
        "a forest of 500, here",
        *next(iter(PUBLISHED.values())),
    ]
    lines = []
    for table, published in PUBLISHED.items():
        shown = [_percent(mean_of(cells, name, table, "16 leaves, all terms")) for name in methods]
        one = _percent(mean_of(cells, "CART", table, "16 leaves, 1 terms"))
        many = _percent(mean_of(cells, "forest", table, "16 leaves, all terms"))
        size = _size(cells, [table], "16 leaves, all terms")
        lines.append([table, *shown, size, one, many, *(f"{value:.1f}" for value in published.values())])
    error = [_number(mean_of(cells, name, "abalone", "16 leaves, all terms", "rmse")) for name in methods]
    one = _number(mean_of(cells, "CART", "abalone", "16 leaves, 1 terms", "rmse"))
    published = ", ".join(f"{name} {value}" for name, value in ABALONE.items())
    runs = sorted({len(cell["score"]) for table in cells.get("treelu", {}).values() for cell in table.values()})
    ours = ", ".join(f"{name} {value}" for name, value in zip(methods, error, strict=True))
    linear = _number(mean_of(cells, "linear", "abalone", "16 leaves, all terms", "rmse"))
    many = _number(mean_of(cells, "forest", "abalone", "16 leaves, all terms", "rmse"))
    ours = f"{ours}, with linear leaves {linear}, CART {one}, the forest {many}"
    words = f"\n\nAbalone, RMSE: {ours}; published: {published}."
    return markdown(heads, lines) + words + f" Runs of a cell: {', '.join(map(str, runs)) or 'none yet'}."


def more_runs(suites: dict[str, Cells]) -> str:
    """Sentences on tables that have been run more often, by the number of runs."""
    sentences = []
    for runs, cells in suites.items():
        for table in sorted({table for tables in cells.values() for table in tables}):
            shown = []
            for name in cells:
                scores = 100 * np.array(cells[name].get(table, {}).get("16 leaves, all terms", {}).get("score", []))
                if len(scores):
                    shown.append(f"{name} {scores.mean():.1f} ± {scores.std(ddof=1) / np.sqrt(len(scores)):.1f}")
            sentences.append(f"Over {runs} runs (± standard error), {table}: {', '.join(shown)}.")
    return "\n\n" + " ".join(sentences) if sentences else ""


def budget_block(cells: Cells, leaves: int | None = None) -> str:
    """For each budget our mean beside each other method's, over the tables that both have; tables won and lost."""
    budgets = sorted({b for table in cells.get("treelu", {}).values() for b in table if b != "default"}, key=_order)
    others = [name for name in OTHERS if name in cells]
    lines = []
    for budget in budgets:
        if leaves is not None and not budget.startswith(f"{leaves} leaves"):
            continue
        line = [_beside(cells, budget, method) for method in others]
        if any(line):
            lines.append([_words(budget), _size(cells, cells["treelu"], budget), *line])
    heads = ["at most", "our leaves, terms", *(f"treelu : {name}" for name in others)]
    return markdown(heads, lines) if lines else "Not run yet."


def _size(cells: Cells, tables: Iterable[str], budget: str) -> str:
    """ "12.4, 5.5": the leaves of our trees, and the median of their splits' terms, in the mean over the tables."""
    shown = []
    for what in ("leaves", "terms"):
        found = [mean_of(cells, "treelu", table, budget, what) for table in tables]
        known = [value for value in found if value is not None]
        shown.append(f"{np.mean(known):.1f}" if known else "")
    return ", ".join(shown) if all(shown) else ""


def _beside(cells: Cells, budget: str, method: str) -> str:
    """ "0.736 : 0.697, 27 to 10 of 38", or nothing where a method cannot be held to the budget."""
    pairs = _score_pairs(cells, budget, method)
    if not len(pairs):
        return ""
    ours, other = pairs.T
    won, lost = int((ours > other + 1e-9).sum()), int((other > ours + 1e-9).sum())
    return f"{ours.mean():.3f} : {other.mean():.3f}, {won} to {lost} of {len(pairs)}"


def mean_scores(cells: Cells, budget: str, method: str) -> tuple[float, float, int]:
    """Our mean score at a budget and another method's, over the tables that both have, and the number of these."""
    pairs = _score_pairs(cells, budget, method)
    ours, other = pairs.mean(axis=0)
    return float(ours), float(other), len(pairs)


def _score_pairs(cells: Cells, budget: str, method: str) -> np.ndarray:
    theirs = budget if method != "CART" else f"{budget.split(' leaves')[0]} leaves, 1 terms"  # whatever is allowed
    pairs = [
        (ours, other)
        for table in cells["treelu"]
        if (ours := mean_of(cells, "treelu", table, budget)) is not None
        and (other := mean_of(cells, method, table, theirs)) is not None
    ]
    return np.array(pairs, float)


def defaults_block(cells: Cells, classes: dict[str, int]) -> str:
    """Sizes and scores of `ObliqueTreeClassifier()` and `ObliqueTreeRegressor()` over the tables."""
    ours = {table: cell["default"] for table, cell in cells.get("treelu", {}).items() if "default" in cell}
    if not ours:
        return "Not run yet."
    leaves = [np.median(cell["leaves"]) for cell in ours.values()]
    terms = [np.median(cell["terms"]) for cell in ours.values()]
    words = (
        f"{len(ours)} tables: a median of {np.median(leaves):g} leaves and of {np.median(terms):g} terms a split "
        f"(quarters {np.quantile(leaves, 0.25):g} to {np.quantile(leaves, 0.75):g} leaves, "
        f"{np.quantile(terms, 0.25):g} to {np.quantile(terms, 0.75):g} terms)."
    )
    for method, name in (("treelu", "the small tree"), ("LCN", "`LCN…()`")):
        words += _beside_constant(cells, method, name)
    best = _pairs(cells, ours, "treelu", "16 leaves, all terms")
    if len(best):
        small, large = best.mean(axis=0)
        words += (
            f' The price of the small size: {small:.4f} on {len(best)} tables, where `selection="best"` with at '
            f"most 16 leaves has {large:.4f}."
        )
    return words + "\n\n" + _large_tree_table(cells, {table: classes[table] for table in ours if table in classes})


def _beside_constant(cells: Cells, method: str, name: str) -> str:
    """A sentence on the table on which a method is furthest behind the majority class or the mean."""
    behind = {
        table: score - constant
        for table in cells.get(method, {})
        if (score := mean_of(cells, method, table, "default")) is not None
        and (constant := mean_of(cells, "constant", table, "default")) is not None
    }
    if not behind:
        return ""
    worst, below = min(behind, key=behind.__getitem__), sum(1 for value in behind.values() if value < -0.01)
    return (
        f" Beside the majority class or the mean, {name} is worst on {worst} ({100 * behind[worst]:+.1f} points); on "
        f"{below} of {len(behind)} tables it is more than a point below."
    )


def _large_tree_table(cells: Cells, classes: dict[str, int]) -> str:
    """The default small tree beside the large one, by kind of table."""
    kinds = {
        "up to four classes": [table for table, number in classes.items() if 0 < number <= 4],
        "more classes": [table for table, number in classes.items() if number > 4],
        "values (R²)": [table for table, number in classes.items() if number == 0],
    }
    lines = []
    for kind, among in kinds.items():
        pairs = _pairs(cells, among, "LCN", "default")
        if len(pairs):
            small, large = pairs.mean(axis=0)
            leaves = _median(cells, "treelu", among, "leaves")
            lines.append([kind, str(len(pairs)), f"{small:.4f}", leaves, f"{large:.4f}", f"{small - large:+.4f}"])
    if not lines:
        return ""
    heads = ["tables of", "number", "small tree", "its leaves", "`LCN…()`, up to 2^16 leaves", "difference"]
    return markdown(heads, lines)


def _pairs(cells: Cells, tables: Iterable[str], method: str, budget: str) -> np.ndarray:
    """Our default's score and another cell's, for the tables that have both."""
    found = [(mean_of(cells, "treelu", t, "default"), mean_of(cells, method, t, budget)) for t in tables]
    return np.array([pair for pair in found if None not in pair], float)


def _median(cells: Cells, method: str, tables: list[str], what: str) -> str:
    found = [value for table in tables if (value := mean_of(cells, method, table, "default", what)) is not None]
    return f"{np.median(found):,.0f}" if found else "–"


def run_block(cells: Cells) -> str:
    """How many tables of each method and budget have been run: a line for each number of terms, a column for leaves."""
    lines = []
    for method, found in cells.items():
        counts = Counter(budget for parts in found.values() for budget in parts)
        for terms in ("1 terms", "2 terms", "4 terms", "all terms", ""):
            names = [f"{leaves} leaves, {terms}" for leaves in SIZES] if terms else ["default"]
            if any(counts[name] for name in names):
                shown = [str(counts[name] or "") for name in names]
                line = ["", *shown] if terms else [*shown, *[""] * len(SIZES)]
                lines.append([method, _words(f" {terms}").strip(), *line])
    heads = ["method", "terms", "without arguments", *(f"{leaves} leaves" for leaves in SIZES)]
    return markdown(heads, lines) if lines else "Nothing has been run yet."


def failures(folder: Path) -> str:
    """A sentence on the cells of each method that could not be had, and why."""
    found: dict[str, Counter[str]] = {}
    for path in sorted(folder.glob("*.json")):
        words = read_json(path).get("failed", {}).values()
        found.setdefault(path.stem.rsplit("-", 1)[1], Counter()).update(words)
    told = [
        f"{method}: " + ", ".join(f"{count} cells {word}" for word, count in sorted(words.items()))
        for method, words in found.items()
        if words
    ]
    return f"\n\nNot to be had: {'; '.join(told)}." if told else ""


def rank_matrix(cells: Cells, leaves: str) -> tuple[list[str], np.ndarray] | None:
    """Ranks (tables, methods) at a number of leaves, on the tables that all methods have.

    A method with fewer than half as many tables as another is left out.
    """
    columns = {
        **{name: (name, f"{leaves}, all terms") for name in ("treelu", "TAO", "obliquetree", "STree", "YDF")},
        "CART": ("CART", f"{leaves}, 1 terms"),
        "treelu, 1 term": ("treelu", f"{leaves}, 1 terms"),
    }
    scores = {
        label: {table: value for table in cells.get(m, {}) if (value := mean_of(cells, m, table, b)) is not None}
        for label, (m, b) in columns.items()
    }
    most = max(map(len, scores.values()))
    scores = {label: found for label, found in scores.items() if len(found) >= max(5, most / 2)}
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
        # to the left, where the lines are shorter, so that none crosses the words
        words = f"{names[method]}  {mean[method]:.2f}"
        axes.text(mean[method] - 0.05, -place - 0.6, words, va="center", ha="right", fontsize=9)
    ends = {i: max(j for j in range(len(order)) if mean[order[j]] - mean[order[i]] <= gap) for i in range(len(order))}
    bars = [(i, j) for i, j in ends.items() if j > i and not any(a < i and b >= j for a, b in ends.items())]
    for level, (i, j) in enumerate(bars):
        height = 0.5 - 0.15 * level
        axes.plot([mean[order[i]] - 0.03, mean[order[j]] + 0.03], [height, height], color="black", lw=3)
    for side in ("left", "right", "bottom"):
        axes.spines[side].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def curves(cells: Cells) -> tuple[dict[str, dict[int, float]], int]:
    """Mean scores by leaves for each method, over the tables that all of them have, and the number of these tables.

    Sizes that a method has on no table are left out.
    """
    lines = {
        "treelu, all terms": ("treelu", "all"), "treelu, 2 terms": ("treelu", "2"), "treelu, 1 term": ("treelu", "1"),
        "CART": ("CART", "1"), "TAO": ("TAO", "all"), "YDF": ("YDF", "all"),
    }  # fmt: skip

    def score(name: str, table: str, n_leaves: int) -> float | None:
        method, terms = lines[name]
        return mean_of(cells, method, table, f"{n_leaves} leaves, {terms} terms")

    tables = list(cells.get("treelu", {}))
    sizes = [n for n in SIZES if all(any(score(name, t, n) is not None for t in tables) for name in lines)]
    shared = [t for t in tables if all(score(name, t, n) is not None for name in lines for n in sizes)]
    if not sizes or not shared:
        return {}, 0
    means = {name: {n: float(np.mean([score(name, t, n) for t in shared])) for n in sizes} for name in lines}
    return means, len(shared)


def draw_curves(cells: Cells, path: Path) -> None:
    """Mean score against leaves, a line for each method."""
    from matplotlib.figure import Figure

    found, n_tables = curves(cells)
    if not found:
        return
    figure = Figure(figsize=(7, 3.6))
    axes = figure.subplots()
    for name, line in found.items():
        axes.plot(list(line), list(line.values()), marker="o", ms=4, label=name, ls="-" if "treelu" in name else "--")
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(line), [str(n) for n in line])
    axes.set(xlabel="at most so many leaves", ylabel=f"mean accuracy or R² of {n_tables} tables")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def _order(budget: str) -> tuple[int, str]:
    return 0 if budget == "default" else int(budget.split()[0]), budget


def _words(budget: str) -> str:
    """A budget's name as a person writes it.

    Examples
    --------
    >>> _words("16 leaves, 1 terms")
    '16 leaves, 1 term'
    """
    return budget.replace(" 1 terms", " 1 term")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
