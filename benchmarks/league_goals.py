"""The goals of the league and what came out, from what `benchmarks.league` has run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.league_page import (
    ENSEMBLES,
    PUBLISHED,
    READABLE,
    TITLES,
    WORDS,
    Cells,
    Pair,
    behind,
    cells,
    earlier,
    pair,
    results,
    shapes,
    signed,
)
from benchmarks.report import digits, markdown

ALL, CLASSES = 75, 53
DIVERGED = "EBM", "monk3"  # scores of 10^27, so that one table would decide the mean
ROWS = 10_000  # of the tables of values that a goal is for
FEW_ROWS, FEW_FEATURES = 2_600, 60  # of the tables of classes that the goals of one term are for


class Goal(NamedTuple):
    """A goal, what came out, and whether that is what was wanted; None where it was not measured."""

    goal: str
    outcome: str
    reached: bool | None
    complete: bool = True  # measured on all of its tables

    @property
    def verdict(self) -> str:
        """In words."""
        return "reached so far" if self.reached and not self.complete else VERDICTS[self.reached]

    @property
    def line(self) -> list[str]:
        """As a line of a table."""
        return [
            self.goal,
            self.outcome,
            self.verdict,
        ]


VERDICTS = {True: "reached", False: "**not reached**", None: "not measured"}


def goals_block() -> str:
    """All goals."""
    return markdown(["goal", "what came out", ""], [goal.line for goal in goals()])


def goals() -> Iterator[Goal]:
    """Those of small trees, then those of ensembles."""
    yield from classes_goals()
    yield from values_goals()
    yield from literature_goals()
    yield from ensemble_goals()


def _measured(
    goal: str, one: Pair, reached: Callable[[Pair], bool], outcome: Callable[[Pair], str], wanted: int
) -> Goal:
    """A goal that two methods are compared for, on so many tables."""
    if not one.tables:
        return Goal(goal, "", None)
    return Goal(goal, f"{outcome(one)} ({_tables(one)})", reached(one), len(one.tables) >= wanted)


def _tables(one: Pair) -> str:
    return f"{len(one.tables)} table{'' if len(one.tables) == 1 else 's'}"


def _means(one: Pair) -> str:
    return f"{one.ours.mean():.3f} : {one.theirs.mean():.3f}, {signed(one.difference)} ± {one.error:.3f}"


def classes_goals() -> Iterator[Goal]:
    """Of the default small tree on tables of classes."""
    ours = cells("small tree")
    for other, name in (("linear", "logistic regression"), ("EBM", "EBM (without monk3, where it diverges)")):
        names = [table for table, shape in shapes().items() if shape.kind == "classes" and (other, table) != DIVERGED]
        one = pair(ours, cells(other), "log_loss", names=names)
        yield _measured(f"mean log-loss below that of {name}", one, lambda one: one.difference < 0, _means, len(names))
    one = pair(ours, cells("linear"), "auc", "classes")
    near = int(np.sum(one.ours > one.theirs - 0.005))
    yield _measured(
        "AUC at most 0.005 below logistic regression's on 48 of 53 tables",
        one,
        lambda one: near >= 48 / CLASSES * len(one.tables),
        lambda one: f"on {near} of {len(one.tables)}; mean {_means(one)}",
        CLASSES,
    )
    one = pair(ours, earlier("default"), "accuracy", "classes")
    yield _measured(
        "accuracy no lower than before linear leaves (0.847 over all 53)",
        one,
        lambda one: one.difference >= 0,
        _means,
        CLASSES,
    )
    one = pair(ours, ours, "numbers", "classes")
    yield _measured(
        "a median of at most 60 numbers to read",
        one,
        lambda one: float(np.median(one.ours)) <= 60,
        lambda one: f"{np.median(one.ours):.0f}",
        CLASSES,
    )


def values_goals() -> Iterator[Goal]:
    """Of the default small tree on tables of values."""
    ours, theirs = cells("small tree"), cells("Cubist")
    few = [name for name, shape in shapes().items() if shape.kind == "values" and shape.rows <= ROWS]
    one = pair(ours, theirs, "r2", names=few)
    goal = "R² ahead of Cubist's and at least 0.695 on the 16 tables of up to 10,000 rows"
    yield _measured(goal, one, lambda one: one.difference > 0 and one.ours.mean() >= 0.695, _means, len(few))
    one = pair(ours, theirs, "r2", "values")
    yield _measured(
        "ahead of Cubist on at least 15 of 22 tables",
        one,
        lambda one: one.won >= 15,
        lambda one: f"on {one.won} of {len(one.tables)}",
        ALL - CLASSES,
    )
    for name, least in (("fri_c3_1000_25", 0.93), ("pwlinear", 0.89)):
        one = pair(ours, theirs, "r2", names=[name])
        yield _measured(
            f"{name}: R² at least {least}",
            one,
            lambda one, least=least: one.ours[0] >= least,  # type: ignore[misc]
            lambda one: f"{one.ours[0]:.3f}, Cubist {one.theirs[0]:.3f}",
            1,
        )


def literature_goals() -> Iterator[Goal]:
    """Beside published numbers, and beside optimal trees."""
    found = {what: cells(f"literature, {what}").get("abalone") for what in ("default", "linear leaves")}
    errors = {what: float(np.mean(cell["rmse"])) for what, cell in found.items() if cell}
    words = ", ".join(f"{what} {error:.3f}" for what, error in errors.items())
    reached = None if not errors else min(errors.values()) < 2.07
    yield Goal("abalone: RMSE of the five shuffles below 2.07, by default or with linear leaves", words, reached)
    for name, (leaves, published, most) in PUBLISHED.items():
        cell = cells(f"literature, {most} leaves").get(name)
        goal = f"{name}: DTSemNet's {100 * published:.2f} % with {most} leaves in place of {leaves}, ten splits"
        if cell is None:
            yield Goal(goal, "", None)
        else:
            mean, runs = np.mean(cell["accuracy"]), len(cell["accuracy"])
            yield Goal(goal, f"{100 * mean:.2f} % ({runs} splits)", bool(mean >= published))
    small = [name for name, shape in shapes().items()
             if shape.kind == "classes" and shape.rows <= FEW_ROWS and shape.features <= FEW_FEATURES]  # fmt: skip
    for leaves, least in ((4, 0.670), (8, 0.712)):
        one = pair(cells(f"one term, {leaves} leaves"), cells(f"ConTree, {leaves} leaves"), "accuracy", names=small)
        goal = f"{leaves} leaves of one term: accuracy of at least {least:.3f} on 25 tables, beside ConTree"
        yield _measured(
            goal,
            one,
            lambda one, least=least: one.ours.mean() >= least,  # type: ignore[misc]
            _means,
            len(small),
        )
    now, before = cells("sixteen leaves"), earlier("16 leaves, all terms")
    both = [pair(now, before, measure, kind) for measure, kind in (("accuracy", "classes"), ("r2", "values"))]
    ours, theirs = (np.concatenate([getattr(one, side) for one in both]) for side in ("ours", "theirs"))
    one = Pair([name for one in both for name in one.tables], ours, theirs, 1)
    goal = "16 constant leaves, all terms: no lower than before (0.805 over all 75)"
    yield _measured(goal, one, lambda one: one.difference >= -0.001, _means, ALL)


def ensemble_goals() -> Iterator[Goal]:
    """Of the stack."""
    ours = cells("stack")
    for other in ("CatBoost", "LightGBM"):
        for measure, kind in (("log_loss", "classes"), ("r2", "values")):
            one = pair(ours, cells(other), measure, kind)
            goal = f"the stack ahead of {other} in {WORDS[measure]} by more than two standard errors"
            wanted = CLASSES if kind == "classes" else ALL - CLASSES
            yield _measured(goal, one, lambda one: one.sign * one.difference > 2 * one.error, _means, wanted)
    one = pair(ours, cells("forest"), "seconds")
    yield _measured(
        "at no more than the forest's time",
        one,
        lambda one: one.ours.sum() <= one.theirs.sum(),
        lambda one: f"{digits(one.ours.mean())} : {digits(one.theirs.mean())} seconds a fit",
        ALL,
    )
    one = pair(ours, cells("forest"), "accuracy", "classes")
    names = behind()
    yield _measured(
        "no table more than two points of accuracy behind the best of forest and boosting",
        one,
        lambda one: not names,
        lambda one: f"{len(names)}: {', '.join(names)}" if names else "none",
        CLASSES,
    )


def answer_block() -> str:
    """The results in words, and what they rest on."""
    tables = [item for found in results().values() for item in found["tables"].items() if item[0] in shapes()]
    run, folds = {name for name, _ in tables}, [len(cell["seconds"]) for _, cell in tables]
    most = max((shapes()[name].rows for name in run), default=0)
    sentences = [
        f"- **Run so far**: {len(run)} of {ALL} tables, of up to {most:,} rows; {np.median(folds or [0]):.0f} of five "
        "folds in the median. What is missing is not measured, and larger tables may say something else."
    ]
    ours = cells("small tree")
    for kind, measure in (("classes", "log_loss"), ("classes", "accuracy"), ("values", "r2")):
        words = [word for other in READABLE[1:] if (word := _beside(ours, other, measure, kind))]
        if words:
            sentences.append(f"- **One small tree, {WORDS[measure]}**: {'; '.join(words)}.")
    ours = cells("stack")
    for kind, measure in (("classes", "log_loss"), ("values", "r2")):
        words = [word for other in ENSEMBLES if (word := _beside(ours, other, measure, kind))]
        if words:
            sentences.append(f"- **The stack, {WORDS[measure]}**: {'; '.join(words)}.")
    found = [goal.verdict.strip("*") for goal in goals()]
    verdicts = ("reached", "reached so far", "not reached", "not measured")
    counts = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in verdicts)
    return "\n".join([*sentences, f"- **The goals that were set beforehand**: {counts} ([below](#goals))."])


def _beside(ours: Cells, other: str, measure: str, kind: str) -> str:
    """A difference in words: "better than CART by 0.100 ± 0.020 on 30 tables"."""
    one = pair(ours, cells(other), measure, kind)
    if len(one.tables) < 2:
        return ""
    name, lead = TITLES.get(other, other), one.sign * one.difference
    if abs(lead) <= 2 * one.error:
        return f"level with {name} ({signed(one.difference)} ± {one.error:.3f} on {_tables(one)})"
    word = "better" if lead > 0 else "worse"
    return f"{word} than {name} by {abs(lead):.3f} ± {one.error:.3f} on {_tables(one)}"
