"""The charts that open the pages on accuracy and speed: ``python -m docs.charts`` from the project's root.

Both are drawn from results in ``benchmarks/results``.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "benchmarks" / "results"
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
        (f"{found['what']}\nbeside {found['b']['name']}", found["ratio"])
        for part in ("training", "prediction")
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


def _plain(figure: Figure) -> Figure:
    for axes in figure.axes:
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        axes.grid(axis="x", color="#e8e5de", lw=0.8)
        axes.set_axisbelow(True)
    return figure


def main() -> None:
    """Draw both."""
    plt.rcParams.update({"font.size": 10.5, "axes.edgecolor": PALE})
    quality = json.loads((RESULTS / "quality.json").read_text("utf-8"))
    accuracy(quality).savefig(IMAGES / "accuracy.png", dpi=130)
    speed(json.loads((RESULTS / "speed.json").read_text("utf-8"))).savefig(IMAGES / "speed.png", dpi=130)


if __name__ == "__main__":
    main()
