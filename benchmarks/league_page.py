"""The tables of docs/results.md, from what `benchmarks.league` has run; `python -m docs.numbers` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.league import LITERATURE, RESULTS
from benchmarks.report import digits, markdown, read_json
from benchmarks.size import RESULTS as SIZES

TITLES = {
    "small tree": "**small tree**", "small tree, constant leaves": "**small tree**, `leaves=\"constant\"`",
    "CART": "CART, size by log-loss or squared error", "CART by accuracy": "CART, size by accuracy",
    "linear": "logistic or ridge regression", "YDF tree": "YDF, one tree", "LCN": "**LCN**", "LLN": "**LLN**",
    "stack": "**stack**", "stack without networks": "the stack without networks", "ELCN": "**ELCN**",
    "forest": "random forest of 500",
}  # fmt: skip
READABLE = ("small tree, constant leaves", "linear", "EBM", "CART", "CART by accuracy", "YDF tree", "STree", "Cubist")
ENSEMBLES = ("stack without networks", "forest", "LightGBM", "CatBoost", "ELCN", "RealMLP", "TabM")
GROUPS = {"readable": ("small tree", *READABLE), "large": ("LCN", "LLN"), "ensembles": ("stack", *ENSEMBLES)}
BOOSTING = ("forest", "LightGBM", "CatBoost")  # with the forest
LOWER = ("log_loss", "rmse", "numbers", "seconds")  # where less is better
WORDS = {"log_loss": "log-loss", "auc": "AUC", "accuracy": "accuracy", "r2": "R²", "rmse": "RMSE"}
SHOWN = {"classes": ("log_loss", "auc", "accuracy"), "values": ("r2",)}
NOT_RUN = "Not measured yet: run `python -m benchmarks.league`, then `python -m docs.numbers`."


class Table(NamedTuple):
    """The shape of a table; `classes` is 0 where the target is a number."""

    kind: str
    rows: int
    features: int
    classes: int


class Pair(NamedTuple):
    """Two methods on the tables, and their folds, that both have."""

    tables: list[str]
    ours: np.ndarray  # mean over folds by table
    theirs: np.ndarray
    sign: int  # -1 where less is better

    @property
    def difference(self) -> float:
        """Mean over tables, ours less theirs."""
        return float(np.mean(self.ours - self.theirs))

    @property
    def error(self) -> float:
        """Standard error of the difference over tables."""
        if len(self.tables) < 2:
            return float("nan")
        return float(np.std(self.ours - self.theirs, ddof=1) / len(self.tables) ** 0.5)

    @property
    def won(self) -> int:
        """Tables on which ours is ahead."""
        return int(np.sum(self.sign * (self.ours - self.theirs) > 0))

    @property
    def lost(self) -> int:
        """Tables on which theirs is ahead."""
        return int(np.sum(self.sign * (self.ours - self.theirs) < 0))


# Cells


@cache
def shapes() -> dict[str, Table]:
    """The tables by name, those of fewer rows first."""
    lines = [line.split() for line in (RESULTS / "tables.txt").read_text("utf-8").splitlines()]
    return {name: Table(kind, *map(int, numbers)) for name, kind, *numbers in lines}


@cache
def results() -> dict[str, dict[str, Any]]:
    """By method, what stands in its file."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    return {one["method"]: one for one in found}


def cells(method: str) -> dict[str, dict[str, list[float]]]:
    """The cells of a method by table."""
    return results().get(method, {}).get("tables", {})


def earlier(budget: str) -> dict[str, dict[str, list[float]]]:
    """Cells of `benchmarks.size`, on the same folds: our tree before its leaves could be linear."""
    found = {}
    for name, shape in shapes().items():
        cell = read_json(SIZES / "tables" / f"{name}-treelu.json")["parts"].get(budget)
        if cell:
            found[name] = {"accuracy" if shape.kind == "classes" else "r2": cell["score"], **cell}
    return found


Cells = dict[str, dict[str, list[float]]]


def pair(ours: Cells, theirs: Cells, measure: str, kind: str | None = None, names: Iterable[str] = ()) -> Pair:
    """Two methods by a measure on the tables that both have, of a kind or by name."""
    wanted = list(names) or [name for name, shape in shapes().items() if kind in (None, shape.kind)]
    both = [name for name in wanted if measure in ours.get(name, {}) and measure in theirs.get(name, {})]
    means: tuple[list[float], list[float]] = ([], [])
    for name in both:
        values = ours[name][measure], theirs[name][measure]
        shared = min(map(len, values))
        for mean, one in zip(means, values, strict=True):
            mean.append(float(np.mean(one[:shared])))
    return Pair(both, np.array(means[0]), np.array(means[1]), -1 if measure in LOWER else 1)


# Blocks


def signed(value: float, after: int = 3) -> str:
    """A number with its sign.

    Examples
    --------
    >>> signed(-0.0123), signed(0.2)
    ('−0.012', '+0.200')
    """
    return f"{value:+.{after}f}".replace("-", "−")


def pairs_block(first: str, others: Iterable[str], kind: str) -> str:
    """A method beside others, each on the tables that both have."""
    ours, lines, of_trees = cells(first), [], first != "stack"
    for other in others:
        if not pair(ours, cells(other), "seconds", kind).tables:
            continue
        by_measure = [pair(ours, cells(other), measure, kind) for measure in SHOWN[kind]]
        seconds, numbers = (pair(ours, cells(other), what, kind) for what in ("seconds", "numbers"))
        sizes = [_middle(numbers)] if of_trees else []
        time = f"{digits(seconds.ours.mean())} : {digits(seconds.theirs.mean())}"
        shown = [_scores(one) for one in by_measure]
        lines.append([TITLES.get(other, other), str(len(seconds.tables)), *shown, *sizes, time])
    heads = [f"{TITLES[first]} beside", "tables", *(WORDS[measure] for measure in SHOWN[kind])]
    return markdown([*heads, *(["numbers to read"] if of_trees else []), "seconds a fit"], lines) if lines else NOT_RUN


def _scores(one: Pair) -> str:
    if not one.tables:
        return ""
    means = f"{one.ours.mean():.3f} : {one.theirs.mean():.3f}"
    return f"{means}<br>{signed(one.difference)} ± {one.error:.3f}, {one.won} to {one.lost}"


def _middle(one: Pair) -> str:
    return f"{np.median(one.ours):.0f} : {np.median(one.theirs):.0f}" if one.tables else ""


def means_block(kind: str) -> str:
    """Means of all methods over the tables that nearly all of them have; the others are left out."""
    has = {
        method: {name for name in cells(method) if shapes()[name].kind == kind}
        for group in GROUPS.values()
        for method in group
    }
    most = max(map(len, has.values()), default=0)
    complete = [method for method in has if len(has[method]) >= 0.75 * most > 0]
    if not complete:
        return NOT_RUN
    common = [name for name in shapes() if all(name in has[method] for method in complete)]
    n_folds = min(len(cells(method)[name]["seconds"]) for method in complete for name in common)
    lines = []
    for group, methods in GROUPS.items():
        for method in filter(complete.__contains__, methods):
            found = cells(method)
            means = [_mean(found, common, measure, n_folds) for measure in SHOWN[kind]]
            shown = ["" if mean is None else f"{mean:.3f}" for mean in means]
            size = ""
            if group == "readable" and all("numbers" in found[name] for name in common):
                size = f"{np.median([np.mean(found[name]['numbers'][:n_folds]) for name in common]):.0f}"
            seconds = _mean(found, common, "seconds", n_folds)
            lines.append([group, TITLES.get(method, method), *shown, size, digits(seconds or 0.0)])
    heads = ["", "", *(WORDS[measure] for measure in SHOWN[kind]), "numbers to read (median)", "seconds a fit"]
    rows = max(shapes()[name].rows for name in common)
    what = f"{len(common)} tables of {kind} of up to {rows:,} rows; {n_folds} of five folds as test parts.\n\n"
    return what + markdown(heads, lines)


def _mean(found: Cells, names: list[str], measure: str, n_folds: int) -> float | None:
    if not all(measure in found[name] for name in names):
        return None
    return float(np.mean([np.mean(found[name][measure][:n_folds]) for name in names]))


def behind() -> dict[str, tuple[str, float]]:
    """Tables where the stack is over two points of accuracy behind the best of forest and boosting, and by how much."""
    found: dict[str, tuple[str, float]] = {}
    for other in BOOSTING:
        one = pair(cells("stack"), cells(other), "accuracy", "classes")
        for name, ours, theirs in zip(one.tables, one.ours, one.theirs, strict=True):
            if theirs - ours > max(0.02, found.get(name, ("", 0.0))[1]):
                found[name] = other, float(theirs - ours)
    return found


def behind_block() -> str:
    """Those tables."""
    lines = [
        [name, f"{np.mean(cells('stack')[name]['accuracy']):.3f}", TITLES.get(other, other), signed(-gap)]
        for name, (other, gap) in sorted(behind().items(), key=lambda one: -one[1][1])
    ]
    if not cells("stack"):
        return NOT_RUN
    return markdown(["table", "stack", "best of forest and boosting", "difference"], lines) if lines else "None."


def one_term_block() -> str:
    """Trees of one term beside CART and optimal trees."""
    lines = []
    for leaves in (4, 8):
        found = [cells(f"{name}, {leaves} leaves") for name in ("one term", "CART", "ConTree")]
        common = [name for name in shapes() if all(name in one for one in found)]
        if common:
            means = [np.mean([np.mean(one[name]["accuracy"]) for name in common]) for one in found]
            seconds = [np.mean([np.mean(one[name]["seconds"]) for name in common]) for one in found]
            lines.append(
                [f"{leaves} leaves", str(len(common)), *(f"{mean:.3f}" for mean in means), *map(digits, seconds)]
            )
    names = ("treelu", "CART", "ConTree")
    heads = ["accuracy", "tables", *names, *(f"{name}, seconds" for name in names)]
    return markdown(heads, lines) if lines else NOT_RUN


PUBLISHED = {"satimage": (64, 0.8755, 8), "pendigits": (256, 0.9702, 32), "connect_4": (256, 0.8203, 32)}


def literature_block() -> str:
    """Abalone, and DTSemNet's larger trees."""
    lines = []
    for what, title in (("default", "default"), ("linear leaves", '`leaves="linear"`')):
        cell = cells(f"literature, {what}").get("abalone")
        if cell:
            scores = f"RMSE {np.mean(cell['rmse']):.3f} ({len(cell['rmse'])} shuffles)"
            lines.append([f"abalone, {title}", f"{np.mean(cell['leaves']):.1f}", scores, "TAO with linear leaves 2.07"])
    for name, n_train, _ in LITERATURE:
        leaves, published, most = PUBLISHED[name]
        cell = cells(f"literature, {most} leaves").get(name)
        if cell:
            mean, error = np.mean(cell["accuracy"]), np.std(cell["accuracy"], ddof=1) / len(cell["accuracy"]) ** 0.5
            scores = f"{100 * mean:.2f} ± {100 * error:.2f} % ({len(cell['accuracy'])} splits, {n_train:,} rows)"
            theirs = f"DTSemNet, {leaves} leaves: {100 * published:.2f} %"
            lines.append([f"{name}, at most {most} leaves", f"{np.mean(cell['leaves']):.1f}", scores, theirs])
    return markdown(["", "leaves", "here", "published"], lines) if lines else NOT_RUN


def failures_block() -> str:
    """What has been run, and what took too long."""
    lines = []
    for method, found in results().items():
        folds = [len(cell["seconds"]) for cell in found["tables"].values()]
        by_reason: dict[str, list[str]] = {}
        for name, why in found["failed"].items():
            by_reason.setdefault(why, []).append(name)
        failed = [f"{why}: {', '.join(names)}" for why, names in by_reason.items()]
        lines.append([method, str(len(folds)), str(sum(folds)), "; ".join(failed)])
    return markdown(["method", "tables", "folds", "not to be had"], lines) if lines else NOT_RUN


BLOCKS: dict[str, Callable[[], str]] = {
    "means of classes": lambda: means_block("classes"),
    "means of values": lambda: means_block("values"),
    "readable, classes": lambda: pairs_block("small tree", (*READABLE, "LCN", "LLN", "forest"), "classes"),
    "readable, values": lambda: pairs_block("small tree", (*READABLE, "LCN", "LLN", "forest"), "values"),
    "ensembles, classes": lambda: pairs_block("stack", ENSEMBLES, "classes"),
    "ensembles, values": lambda: pairs_block("stack", ENSEMBLES, "values"),
    "behind": behind_block,
    "one term": one_term_block,
    "literature": literature_block,
    "run": failures_block,
}
