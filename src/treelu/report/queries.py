"""Queries on the page: the nearest change, margin and shares of listed rows, and properties of the tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from treelu.report.rows import Floats, tree_rows
from treelu.tree import ObliqueTree
from treelu.tree.columns import FrameColumns
from treelu.tree.names import shown_name
from treelu.tree.queries.columns import ColumnFeatures, short_numbers
from treelu.tree.queries.counterfactual import Counterfactual, answer, predicted
from treelu.tree.queries.goal import Goal, read_goal
from treelu.tree.queries.limits import Limits, read_limits
from treelu.tree.queries.nearest import nearest
from treelu.tree.queries.properties import Verdict
from treelu.tree.queries.words import number
from treelu.tree.rows import dense

Answer = TypeVar("Answer")
MAX_LEAVES = 64  # of a tree that is asked
MAX_USED = 100  # features
MAX_NUMBERS = 50_000_000  # of the table that it is asked about
MAX_ROWS = 200  # listed rows that are asked about
MAX_PROPERTIES = 6  # features whose direction is looked into
N_BACKGROUND = 10  # rows that shares are taken against
N_SHARES = 8  # largest shares shown of a row
SECONDS = 20.0  # of the processor, which all answers of a page may take together
ONE_ANSWER = 1 / 20  # of them, at most, for one
ROW_ANSWERS = ("shares", "change", "margin")  # of each listed row
Speak = Callable[[Floats, Floats], Sequence[str]]


class OutOfTimeError(BaseException):
    """An answer took too long; no handler of errors on the way takes it for one of its own."""


class TimeBudget:
    """Processor seconds that the answers of a page may take together, and a share of them that one may take.

    Processor time, so that a busy machine leaves out no answers.

    `interrupt` makes a context that raises `OutOfTimeError` after some seconds; without it an answer that has begun is
    finished.
    """

    def __init__(
        self, seconds: float = SECONDS, interrupt: Callable[[float], AbstractContextManager[None]] | None = None
    ) -> None:
        self.seconds, self.interrupt = seconds, interrupt or (lambda seconds: nullcontext())
        self.end = time.process_time() + seconds

    def of_one(self, share: float = 1.0) -> AbstractContextManager[None] | None:
        """The context of one answer; None where the time, or this share of it, is over."""
        left = self.end - time.process_time() - (1 - share) * self.seconds
        return None if left <= 0 else self.interrupt(min(left, ONE_ANSWER * self.seconds))

    def answer(self, what: Callable[[], Answer], share: float = 1.0) -> Answer | None:
        """The result of a function; None where there is no time for it."""
        context = self.of_one(share)
        if context is None:
            return None
        try:
            with context:
                return what()
        except OutOfTimeError:
            return None


@dataclass(frozen=True)
class Asking:
    """How a tree is asked on behalf of a table."""

    tree: ObliqueTree  # with all its leaves, not only those that some rows reach
    options: Mapping[str, Any]  # ``bounds``, ``whole`` and ``groups`` of :meth:`ObliqueTree.counterfactual`
    stay: Callable[[Floats], Sequence[int]]  # a row → the features that stay as they are
    speak: Speak  # two rows of features → what changes: ``"income were 2,100 lower (…)"``
    owners: Sequence[str]  # for each feature its column; a column's share is the sum over its features
    columns: Mapping[str, int]  # columns of numbers whose direction is looked into, and their features
    output: int = 0  # which value, in a regression of several
    decides: ObliqueTree | None = None  # the tree whose class is the answer, where a threshold decides
    positive: int = 1  # of two classes, the number of the one whose probability is meant
    present: Mapping[int, tuple[float, float]] = field(default_factory=dict)  # ranges of rows without missing values
    frame: FrameColumns | None = None  # the columns behind the features, so that rows that refute have real dates

    @property
    def answering(self) -> ObliqueTree:
        """The tree whose prediction is the answer."""
        return self.tree if self.decides is None else self.decides


def plain_asking(tree: ObliqueTree) -> Asking:
    """Queries of a tree without a table: in its own features."""

    def speak(before: Floats, after: Floats) -> list[str]:
        changed = np.flatnonzero(before != after).tolist()
        return [f"{shown_name(tree.feature_name(j))} were {after[j]:.6g} instead of {before[j]:.6g}" for j in changed]

    names = [tree.feature_name(j) for j in range(tree.n_features)]
    return Asking(tree, {}, lambda row: (), speak, names, {name: j for j, name in enumerate(names)})


def column_asking(
    tree: ObliqueTree, encoder: FrameColumns, *, output: int = 0, decides: ObliqueTree | None = None
) -> Asking:
    """Queries of a tree in the columns of the data frame that it was fitted to.

    `decides` is the tree whose class is the answer, where a threshold decides; by default the tree itself.
    """
    columns = ColumnFeatures(encoder)
    tree = replace(tree, columns=None, observed=columns.observed(tree.observed))
    decides = None if decides is None else replace(decides, columns=None)
    options = columns.limits(None, (), (), None)
    del options["scale"]
    options["bounds"] = dict.fromkeys(columns.truths, (0.0, 1.0))
    permitted = read_limits(tree, **options)

    def stay(row: Floats) -> list[int]:
        return [*columns.still, *columns.missing_in(row)]

    def speak(before: Floats, after: Floats) -> list[str]:
        around, same = permitted.around(before, stay(before)), _same_answer(decides or tree, output, before, after)
        row = short_numbers(before, after, np.flatnonzero(around.whole), lambda row: around.holds(row) and same(row))
        return [change.condition for change in columns.changes(before, row)]

    return Asking(
        tree,
        options,
        stay,
        speak,
        columns.owners,
        {name: columns.places[name][0] for name in columns.numbers},
        output,
        decides,
        present=dict.fromkeys(columns.marks, (0.0, 0.0)),
        frame=encoder,
    )


def _same_answer(tree: ObliqueTree, output: int, before: Floats, after: Floats) -> Callable[[Floats], bool]:
    """Whether a row may stand for ``after``: it has the same class, or a value that changed as much."""
    if tree.is_classifier:
        label = tree.predict(after[None])[0]
        return lambda row: bool(tree.predict(row[None])[0] == label)

    def value(row: Floats) -> float:
        return float(tree.decision_function(row[None])[0, output])

    there, change = value(after), value(after) - value(before)
    return lambda row: abs(value(row) - there) <= 1e-3 * abs(change)


def page_answers(
    asking: Asking, X: Any, summary: Mapping[str, Any], budget: TimeBudget | None = None
) -> dict[str, Any] | None:
    """Answers for the rows that a summary lists; None for a tree or a table that is too large."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    if _too_large(asking.tree) or X.shape[0] * X.shape[1] > MAX_NUMBERS:
        return None
    rows = dense(tree_rows(X, asking.tree))
    listed = np.tile(np.array(summary["features"]["typical"]), (len(summary["samples"]), 1))
    for row, sample in zip(listed, summary["samples"], strict=True):
        row[sample["features"]] = sample["values"]
    importances = [item["feature"] for item in summary["models"][0]["importances"] or ()]
    asking = replace(asking, positive=summary["positive"])
    return answer_queries(asking, listed, rows, importances, budget)


def _too_large(tree: ObliqueTree) -> bool:
    return tree.n_leaves > MAX_LEAVES or len(tree.used_features()) > MAX_USED


def answer_queries(
    asking: Asking, listed: Floats, X: Floats, importances: Sequence[int], budget: TimeBudget | None = None
) -> dict[str, Any] | None:
    """Answers about the listed rows and about the whole tree, as plain JSON values; None for too large a tree.

    Changes and properties stay within what the training rows held, where the tree knows it; else properties are about
    rows within the ranges of X. Some of X are the background of the shares. An answer that is not computed within the
    budget is absent from its row.
    """
    tree, budget = asking.tree, budget or TimeBudget()
    if _too_large(tree) or not len(X):
        return None
    step = None if tree.is_classifier else prediction_step(tree, X, asking.output)
    about = _RowAnswers(
        asking, X[np.random.default_rng(0).permutation(len(X))[:N_BACKGROUND]], step, ONE_ANSWER * budget.seconds
    )
    properties = _properties(asking, X, importances, budget)
    rows = _row_answers(about, listed[:MAX_ROWS], budget)
    return {
        "rows": rows,
        "step": step,
        "properties": [answer for answer in properties if answer],
        "not_computed": sum(name not in row for row in rows for name in ROW_ANSWERS) + properties.count(None),
        "seconds": budget.seconds,
        "within_training": tree.observed is not None,
        "without_missing": bool(asking.present) or tree.missing is not None,
    }


def _row_answers(about: _RowAnswers, listed: Floats, budget: TimeBudget) -> list[dict[str, Any]]:
    """Shares and changes of all rows, then margins: with categories a margin takes far longer than a change."""
    rows = [budget.answer(partial(about.shares, row)) or {} for row in listed]
    for row, answers in zip(listed, rows, strict=True):
        answers.update(budget.answer(partial(about.change, row)) or {})
    for row, answers in zip(listed, rows, strict=True):
        if "change" in answers and "margin" not in answers:
            answers.update(budget.answer(partial(about.margin, row)) or {})
    return rows


def prediction_step(tree: ObliqueTree, X: Floats, output: int = 0) -> float | None:
    """The difference of two predicted numbers that counts: half their spread, to two digits; None where that is 0."""
    half = float(tree.decision_function(X)[:, output].std()) / 2
    return float(f"{half:.2g}") if half > 0 else None


class _RowAnswers:
    """Answers about rows, one at a time; goals for the same answer are prepared once."""

    def __init__(
        self, asking: Asking, background: Floats, step: float | None, seconds: float = ONE_ANSWER * SECONDS
    ) -> None:
        self.asking, self.background, self.step, self.seconds = asking, background, step, seconds
        self.limits = read_limits(asking.answering, **asking.options)
        self.goals: dict[Any, list[Goal]] = {}

    def change(self, row: Floats) -> dict[str, Any]:
        """The nearest change of one row, in words; where there is none that was found, no margin either."""
        now = _now(self.asking, row)
        found = self._nearest(row, now, self._around(row), "l1")
        return {"change": self._words(row, now, found)} | ({} if found else {"margin": None})

    def margin(self, row: Floats) -> dict[str, Any]:
        """The distance within which no row has another answer."""
        found = self._nearest(row, _now(self.asking, row), self._around(row), "l2")
        return {"margin": min(found.bound, found.distance) if found else None}

    def _around(self, row: Floats) -> Limits:
        return self.limits.around(row, self.asking.stay(row))

    def _nearest(self, row: Floats, now: Any, around: Limits, norm: str) -> Counterfactual | None:
        """The nearest row with another answer; in regression, one that is a step higher or lower.

        None: there is none, which is proved. False as a truth value: none was found, and that is not decided.
        """
        if now not in self.goals:
            self.goals[now] = list(self._other_answers(now))
        found = [nearest(row, goal, around, norm=norm, budget_seconds=self.seconds) for goal in self.goals[now]]
        undecided = next((one for one in found if not one.decided), None)
        return min(filter(None, found), key=lambda one: one.distance, default=undecided)

    def _other_answers(self, now: Any) -> Iterator[Goal]:
        tree = self.asking.answering
        asked: list[dict[str, Any]] = [{"other_than": now}]
        if not tree.is_classifier:
            ends = [] if self.step is None else [{"at_least": now + self.step}, {"at_most": now - self.step}]
            asked = [{"output": self.asking.output} | end for end in ends]
        for question in asked:
            with suppress(ValueError):  # no leaf has that answer
                yield read_goal(tree, **question)

    def _words(self, row: Floats, now: Any, found: Counterfactual | None) -> str:
        """ "would be no if income were 2,100 lower (…)", or why there is no such change."""
        tree = self.asking.tree
        if found is not None and not found:
            return "has no change to another answer that was found; whether there is one is not decided"
        if found is not None:
            words = " and ".join(self.asking.speak(row, found.row))
            then = _now(self.asking, found.row)
            instead = "" if tree.is_classifier else f" instead of {_shown(now)}"
            return f"would be {_shown(then)}{instead} if {words}"
        change = "may change" if tree.observed is None else "changes within what the training rows held"
        where = f"whatever {change}" if self.goals[now] else "whatever its values"
        near = "" if tree.is_classifier or self.step is None else f"within {number(self.step)} of "
        return f"is predicted {near}{_shown(now)} {where}"

    def shares(self, row: Floats) -> dict[str, Any]:
        """The largest shares of the columns in the prediction of one row."""
        tree, output = self.asking.tree, self.asking.output
        target = _now(self.asking, row) if tree.is_classifier else None
        if tree.is_classifier and len(tree.classes) == 2:  # type: ignore[arg-type]
            target = tree.classes[self.asking.positive]  # type: ignore[index]
        shares = tree.shap_values(row[None], self.background, target=target, max_exact=10, n_permutations=2)
        one = shares.values.ndim == 2
        values = shares.values[0] if one else shares.values[0, :, output]
        sums: dict[str, float] = {}
        for name, share in zip(self.asking.owners, values.tolist(), strict=True):
            sums[name] = sums.get(name, 0.0) + share
        largest = sorted(sums, key=lambda name: -abs(sums[name]))[:N_SHARES]
        return {
            "base": float(shares.base_values[0] if one else shares.base_values[0, output]),
            "shares": [{"name": name, "share": sums[name]} for name in largest if sums[name]],
            "exact": shares.standard_errors is None,
        }


def _now(asking: Asking, row: Floats) -> Any:
    """The prediction for a row: a label, or the queried value."""
    prediction = predicted(asking.answering, row)
    return float(np.atleast_1d(prediction)[asking.output]) if not asking.tree.is_classifier else prediction


def _shown(prediction: Any) -> str:
    return shown_name(prediction) if isinstance(prediction, str) else answer(prediction)


# Properties


def _properties(
    asking: Asking, X: Floats, importances: Sequence[int], budget: TimeBudget
) -> list[dict[str, Any] | None]:
    """Which way the prediction goes with the most important columns of numbers, for rows as those of training.

    Empty where neither is proved nor refuted, None where there was no time; the rows have half of it.
    """
    tree, seen = asking.tree, asking.tree.observed
    if tree.is_classifier and len(tree.classes) != 2:  # type: ignore[arg-type]
        return []
    low, high = (X.min(axis=0), X.max(axis=0)) if seen is None else (seen.low, seen.high)
    names = {place: name for name, place in asking.columns.items()}
    chosen = [place for place in importances if place in names and low[place] < high[place]][:MAX_PROPERTIES]
    options: dict[str, Any] = {name: asking.options.get(name, ()) for name in ("whole", "groups")}
    options["bounds"] = (low, high) if seen is None else {**asking.options.get("bounds", {}), **asking.present}
    options |= {"output": asking.output, "budget_seconds": ONE_ANSWER * budget.seconds}
    what = "prediction"
    if tree.is_classifier:
        options["target"] = tree.classes[asking.positive]  # type: ignore[index]
        what = f"probability of {shown_name(options['target'])}"

    if asking.frame is not None and seen is not None:
        tree = replace(tree, columns=asking.frame)
        del options["groups"]  # which the columns know

    def direction(place: int) -> dict[str, Any]:
        rising: Verdict = tree.rises(place, **options)
        falling = tree.falls(place, **options)
        if not (rising or falling) and not (rising.decided and falling.decided):
            return {}
        words = property_words(what, shown_name(names[place]), bool(rising), bool(falling))
        return {"column": names[place], "proved": bool(rising) or bool(falling), "words": words}

    return [budget.answer(partial(direction, place), share=0.5) for place in chosen]


def property_words(what: str, column: str, rises: bool, falls: bool) -> str:
    """The proved property of a column, as a sentence."""
    if rises and falls:
        return f"proved: the {what} never depends on {column}"
    if rises or falls:
        return f"proved: the {what} never {'falls' if rises else 'rises'} when {column} rises"
    return f"refuted: the {what} goes one way with {column}; it rises for some rows and falls for others"
