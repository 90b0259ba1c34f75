"""The charts of the pages on accuracy, speed and ensembles: ``python -m docs.charts`` from the project's root.

They are drawn from results in ``benchmarks/results`` and ``experiments/results``.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.stacked import means

ROOT = Path(__file__).resolve().parents[1]
IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "benchmarks" / "results"
EXPERIMENTS = ROOT / "experiments" / "results"
ACCENT, INK, PALE = "#4f46b8", "#1c2027", "#8a8f99"
METHODS = {
    "LCN": (ACCENT, "o"),
    "CART tuned": ("#b4623f", "s"),
    "random forest": ("#2b7a4b", "^"),
    "logistic regression": (PALE, "D"),
}


def accuracy(results: dict[str, Any]) -> Figure:
    """Test accuracy of each method on each table of classes, as dots on a line."""
    tables = [name for name, found in results.items() if any("accuracy" in scores for scores in found.values())]
    figure, axes = plt.subplots(figsize=(8.4, 0.5 * len(tables) + 1.3), layout="constrained")
    for row, name in enumerate(tables):
        means = {m: float(np.mean(results[name][m]["accuracy"])) for m in METHODS if m in results[name]}
        axes.plot([min(means.values()), max(means.values())], [row, row], color="#d8d5cd", lw=2, zorder=1)
        for method, mean in means.items():
            colour, marker = METHODS[method]
            shown = {"LCN": "LCN, one large tree"}.get(method, method)
            axes.scatter(mean, row, color=colour, marker=marker, s=62, zorder=2, label=None if row else shown)
    axes.set_yticks(range(len(tables)), tables)
    axes.invert_yaxis()
    axes.set_xlabel("test accuracy, %, mean over runs")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=4, frameon=False)
    return _plain(figure)


def speed(results: dict[str, Any]) -> Figure:
    """How many times as long as treelu others take, on a logarithmic scale."""
    lines = [
        (f"{found['what']}\n{found['a']['name'].replace('treelu', '')} beside {found['b']['name']}", found["ratio"])
        for part in ("training", "predict")
        for found in results["parts"][part]["comparisons"]
        if "1,000 rows" not in found["what"]
    ]
    figure, axes = plt.subplots(figsize=(8.4, 0.52 * len(lines) + 1), layout="constrained")
    names, ratios = zip(*lines, strict=True)
    axes.barh(
        range(len(lines)),
        [ratio - 1 for ratio in ratios],
        left=1,
        color=[ACCENT if ratio >= 1 else "#b4623f" for ratio in ratios],
        height=0.62,
    )
    for row, ratio in enumerate(ratios):
        axes.text(
            max(ratio, 1) * 1.1, row, f"{ratio:.2g} ×" if ratio < 100 else f"{ratio:.0f} ×", va="center", color=INK
        )
    axes.axvline(1, color=INK, lw=1)
    axes.set_xscale("log")
    axes.set_xlim(0.3, 1000)
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_yticks(range(len(lines)), names)
    axes.invert_yaxis()
    axes.set_xlabel("time of the other ÷ time of treelu; right of the line treelu is faster")
    return _plain(figure)


def ensembles(pairs: list[dict[str, Any]], tables: list[dict[str, Any]]) -> Figure:
    """The default ensemble less the forest, and less boosting, paired: means with standard errors."""
    forest, boosting = "#2b7a4b", "#b4623f"
    molecules = []
    for data, shown in (("bace", "Bace"), ("sider", "SIDER"), ("tox21", "Tox21"), ("hiv", "HIV")):
        by_seed: dict[int, list[float]] = {}
        for cell in pairs:
            if cell["data"] == data and {"elcn", "rf"} <= set(cell["auc"]):
                by_seed.setdefault(cell["seed"], []).append(cell["auc"]["elcn"] - cell["auc"]["rf"])
        if by_seed:
            count = f"{len(by_seed)} seed{'s' if len(by_seed) > 1 else ''}"
            molecules.append((f"{shown}, {count}", [float(np.mean(labels)) for labels in by_seed.values()], forest))
    others = []
    for kind, measure, shown in (("classification", "accuracy", "accuracy"), ("regression", "r2", "R²")):
        found = means(tables, kind, measure)
        for beside, colour, name in (("rf", forest, "forest"), ("hgb", boosting, "boosting")):
            apart = [100 * (one["elcn"] - one[beside]) for one in found.values()]
            others.append((f"{shown} of {len(apart)} tables\nless {name}'s", apart, colour))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    _differences(left, molecules, "AUC less the forest's, for each seed")
    _differences(right, others, "points of 100, for each table")
    return _plain(figure)


def _differences(axes: Any, rows: list[tuple[str, list[float], str]], what: str) -> None:
    """Rows of differences: each as a grey dot, and their mean with its standard error."""
    for place, (_, values, colour) in enumerate(rows):
        axes.scatter(values, [place] * len(values), color=PALE, s=14, alpha=0.5, linewidths=0, zorder=1)
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
        axes.errorbar(np.mean(values), place, xerr=error, fmt="o", color=colour, capsize=4, ms=7, zorder=2)
    axes.axvline(0, color=INK, lw=1)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(what)


def _plain(figure: Figure) -> Figure:
    for axes in figure.axes:
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.grid(axis="x", color="#e8e5de", lw=0.8)
        axes.set_axisbelow(True)
    return figure


def main() -> None:
    """Draw them."""
    plt.rcParams.update({"font.size": 10.5, "axes.edgecolor": PALE})
    quality = json.loads((RESULTS / "quality.json").read_text("utf-8"))
    accuracy(quality).savefig(IMAGES / "accuracy.png", dpi=130)
    speed(json.loads((RESULTS / "speed.json").read_text("utf-8"))).savefig(IMAGES / "speed.png", dpi=130)
    pairs, tables = (json.loads((EXPERIMENTS / f"{name}.json").read_text("utf-8")) for name in ("paired", "stacked"))
    ensembles(pairs, tables).savefig(IMAGES / "ensembles.png", dpi=130)


if __name__ == "__main__":
    main()
