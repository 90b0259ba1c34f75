"""Properties of a whole tree, proved for all permitted rows or refuted by rows that break them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.tree.names import plain, shown_name
from treelu.tree.queries.columns import ColumnFeatures
from treelu.tree.queries.counterfactual import answer
from treelu.tree.queries.goal import NoLeafError, Output, read_goal, read_output
from treelu.tree.queries.limits import Limits, find_features
from treelu.tree.queries.nearest import nearest
from treelu.tree.queries.pairs import Classes, Levels, PairSearch
from treelu.tree.queries.words import apart, html_table, html_text, number, text_table


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether a property holds for all permitted rows; true where it does.

    Attributes
    ----------
    claim : str
        The property in words.
    holds : bool
        True: proved, by certificates that were checked in exact arithmetic or by looking at every point. False:
        refuted by ``rows``, or not decided.
    decided : bool
        False: neither proved nor refuted, as where rounding decides or a search was given up.
    rows : array of shape (0, 1 or 2, n_features)
        Rows that break the property.
    outputs : tuple
        What the tree predicts for them.
    names : tuple of str
        Names of the features in which two rows differ, or of all features that the tree uses for one row.
    n_solved : int
        Programmes that were solved.
    within : str
        Which rows the property was proved for, or looked among, in words: "within the training ranges"; empty where
        these were no limit.
    values : tuple of dict
        Of a tree that was fitted to a data frame: the rows in its columns.
    """

    claim: str
    holds: bool
    rows: np.ndarray
    outputs: tuple[Any, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    n_solved: int
    decided: bool = True
    within: str = ""
    values: tuple[dict[str, Any], ...] = ()

    def in_columns(self, columns: ColumnFeatures) -> Verdict:
        """The same in the columns of the data frame that the tree was fitted to."""
        values = tuple(columns.values(row) for row in self.rows)
        used = dict.fromkeys(columns.owners[place] for place in self.places)
        return replace(self, names=tuple(used), values=values)

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        among = f", for rows {self.within}" if self.within else ""
        if self.holds:
            return f"proved: {self.claim}{among}"
        if not self.decided:
            return f"not decided: {self.claim}{among}; narrower bounds may help"
        return "\n".join([f"refuted: {self.claim}", *text_table(self._cells())])

    def _cells(self) -> list[list[str]]:
        numbers = all(isinstance(output, float) for output in self.outputs)
        outputs = apart(self.outputs) if numbers else [answer(output) for output in self.outputs]
        if self.values:
            cells = [[shown_name(name), *_texts([row.get(name) for row in self.values])] for name in self.names]
            return [*cells, ["predicted", *outputs]]
        cells = [[shown_name(name), *apart(self.rows[:, place].tolist())]
                 for name, place in zip(self.names, self.places, strict=True)]  # fmt: skip
        return [*cells, ["predicted", *outputs]]

    def _repr_html_(self) -> str:
        if self.holds or not self.decided:
            return html_text(str(self))
        heads = ["", "a row"] if len(self.rows) == 1 else ["", "a row", "and one that differs"]
        return html_text(f"refuted: {self.claim}") + html_table(heads, self._cells())


def _texts(values: list[Any]) -> list[str]:
    """The values of a column as texts, numbers with as many digits as tell them apart."""
    if all(isinstance(value, float) for value in values):
        return apart(values)
    return [
        "(missing)" if value is None else answer(value) if isinstance(value, float) else shown_name(value)
        for value in values
    ]


# The properties


def monotone(
    limits: Limits, feature: Any, sign: int, *, target: Any, output: int, budget_seconds: float | None = None
) -> Verdict:
    """Whether an output never falls (sign 1) or never rises (sign −1) when a feature rises."""
    tree, value = limits.tree, read_output(limits.tree, target, output)
    (j,) = find_features(tree, [feature], "feature")
    if any(j in group for group in limits.named_groups):
        raise ValueError(
            f"feature: {tree.feature_name(j)!r} is in a one-hot group, where one rises only when another falls; "
            "ask whether the answer is independent of the group"
        )
    word = "falls" if sign > 0 else "rises"
    claim = f"{value.words} never {word} when {shown_name(tree.feature_name(j))} rises"
    # With the sign turned, "never rises" is "never falls".
    search = PairSearch(limits, [j], ordered=True, levels=Levels(limits, value, sign), budget_seconds=budget_seconds)
    return _verdict(search, claim, value.shown)


def independent(
    limits: Limits,
    features: Any,
    of: str,
    tolerance: float,
    *,
    target: Any,
    output: int,
    budget_seconds: float | None = None,
) -> Verdict:
    """Whether the predicted class (of "answer") or an output (of "value") is the same whatever some features are."""
    if of not in ("answer", "value"):
        raise ValueError(f'of must be "answer" or "value", got {of!r}')
    tree = limits.tree
    value = None if of == "answer" and tree.is_classifier else read_output(tree, target, output)
    chosen = find_features(tree, features, "features")
    for group in limits.named_groups:  # a member that the ranges fix stands for its group too
        if set(chosen) & set(group):
            chosen += [j for j in group if j not in chosen]
    owners = None if tree.columns is None else ColumnFeatures(tree.columns).owners
    names = [tree.feature_name(j) if owners is None else owners[j] for j in chosen]
    names = [shown_name(name) for name in dict.fromkeys(names)]
    depends = f"never depends on {', '.join(names[:6])}{', …' if len(names) > 6 else ''}"
    levels: Levels | Classes = Classes(tree) if value is None else Levels(limits, value, tolerance=tolerance)
    search = PairSearch(limits, chosen, ordered=False, levels=levels, budget_seconds=budget_seconds)
    if value is None:
        return _verdict(search, f"the predicted class {depends}", tree.predict)
    within = f" by more than {number(tolerance)}" if tolerance else ""
    return _verdict(search, f"{value.words} {depends}{within}", value.shown)


def limited(
    limits: Limits, limit: float, sign: int, *, target: Any, output: int, budget_seconds: float | None = None
) -> Verdict:
    """Whether an output is at most (sign 1) or at least (sign −1) the limit for all permitted rows, by `predict`."""
    tree, value = limits.tree, read_output(limits.tree, target, output)
    claim = f"{value.words} is at {'most' if sign > 0 else 'least'} {number(limit)}"
    found, n_solved, n_undecided = _beyond(limits, value, limit, sign, budget_seconds)
    if found is None:
        return _unbroken(claim, limits, n_solved, n_undecided)
    used = tree.used_features().tolist()
    names = tuple(tree.feature_name(j) for j in used)
    return Verdict(
        claim, False, found[None], (float(value.of(found[None])[0]),), names, tuple(used), n_solved, within=limits.words
    )


def _beyond(
    limits: Limits, value: Output, limit: float, sign: int, budget_seconds: float | None
) -> tuple[np.ndarray | None, int, int]:
    """The permitted row nearest to the middle whose output is beyond a limit; programmes solved, leaves undecided."""
    tree, start = limits.tree, limits.centre()
    beyond = float(np.nextafter(limit, sign * np.inf))
    low, high = (0.0, 1.0) if value.k is not None else (-np.inf, np.inf)
    if np.isinf(beyond) or not low <= beyond <= high:
        every = np.isinf(beyond) or sign * limit >= sign * (high if sign > 0 else low)
        return None if every else start, 0, 0
    target = None if value.k is None else tree.classes[value.k]  # type: ignore[index]
    asked = {"at_least" if sign > 0 else "at_most": beyond}
    try:
        goal = read_goal(tree, target, output=value.output, **asked)
    except NoLeafError:  # no leaf is beyond it, wherever a row lies
        return None, 0, 0
    found = nearest(start, goal, limits.around(start), budget_seconds=budget_seconds)
    return found.row if found else None, found.n_solved, found.n_undecided


def _verdict(search: PairSearch, claim: str, outputs: Callable[[np.ndarray], np.ndarray]) -> Verdict:
    """Search all pairs of rows and say what was found."""
    tree, rows = search.tree, search.find()
    if rows is None:
        return _unbroken(claim, search.limits, search.budget.n_solved, search.n_undecided)
    rows = search.clearer(rows) if search.ordered else rows
    differs = rows[0] != rows[1]
    shown = np.flatnonzero(search.limits.splits.used | differs)
    places = tuple(shown[np.argsort(~differs[shown], kind="stable")].tolist())  # those that differ come first
    names = tuple(tree.feature_name(j) for j in places)
    shown_outputs, within = tuple(map(plain, outputs(rows))), search.limits.words
    return Verdict(claim, False, rows, shown_outputs, names, places, search.budget.n_solved, within=within)


def _unbroken(claim: str, limits: Limits, n_solved: int, n_undecided: int) -> Verdict:
    """No row breaks the property, as far as the search went."""
    decided = n_undecided == 0
    none = np.zeros((0, limits.tree.n_features))
    return Verdict(claim, decided, none, (), (), (), n_solved, decided, limits.words)
