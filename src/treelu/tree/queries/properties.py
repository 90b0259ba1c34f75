"""Properties of a whole tree, proved for all permitted rows or refuted by rows that break them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.tree.names import plain, shown_name
from treelu.tree.queries.columns import DAYS, ColumnFeatures
from treelu.tree.queries.counterfactual import answer
from treelu.tree.queries.dates import Broken, between_dates, with_real_dates
from treelu.tree.queries.goal import NoLeafError, Output, read_goal, read_output
from treelu.tree.queries.limits import Limits, find_features
from treelu.tree.queries.nearest import nearest
from treelu.tree.queries.pairs import Classes, Levels, PairSearch
from treelu.tree.queries.words import apart, html_table, html_text, number, text_table

_ROUNDED = 1e-9  # so far beyond 0 and 1 a limit of a probability is one of them, rounded


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
        Which rows the property was proved for, or looked among, in words: "within the training ranges", "without
        missing values"; empty for all rows.
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
    return ["(missing)" if value is None else _text(value) for value in values]


def _text(value: Any) -> str:
    """A value of a column; a moment without a time of day as its date."""
    if isinstance(value, np.datetime64):
        return str(value).removesuffix(".000000").removesuffix("T00:00:00")
    return answer(value) if isinstance(value, float) else shown_name(value)


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
    return _verdict(search, claim, value.shown, _goes(value, sign))


def _goes(value: Output, sign: int) -> Broken:
    """The second row has a lower value (sign 1), or a higher one (−1)."""
    return lambda first, second: sign * (value.score(first) - value.score(second)) > 0


def monotone_date(
    limits: Limits,
    columns: ColumnFeatures,
    name: str,
    sign: int,
    *,
    target: Any,
    output: int,
    budget_seconds: float | None = None,
) -> Verdict:
    """Whether an output never falls (sign 1) or never rises (sign −1) with a later date in a column."""
    value = read_output(limits.tree, target, output)
    claim = f"{value.words} never {'falls' if sign > 0 else 'rises'} when {shown_name(name)} rises"
    proved, bases, n_solved = search_dates(limits, columns, name, sign, value, budget_seconds)
    if proved:
        return _unbroken(claim, limits, n_solved, 0)
    rows = between_dates(bases, name, columns, limits, value.score, sign)
    if rows is not None:
        rows = with_real_dates(rows, columns, limits, _goes(value, sign), names=columns.dates.keys() - {name})
    if rows is None:
        return _unbroken(claim, limits, n_solved, 1)
    return _refuted(claim, rows, limits, value.shown, n_solved)


def search_dates(
    limits: Limits, columns: ColumnFeatures, name: str, sign: int, value: Output, budget_seconds: float | None = None
) -> tuple[bool, np.ndarray, int]:
    """Whether it is proved that an output goes with a date; rows to try with real dates; how many programmes it took.

    A later date has a higher year and more days, so it is enough that the output goes with both; other parts go up and
    down. Where that is not proved, each row is at a split on a part of the date.
    """
    parts, places, used = columns.dates[name].parts, columns.places[name], limits.splits.used
    reads = [(part, place) for part, place in zip(parts, places, strict=False) if used[place]]
    rows, proved, n_solved = [limits.centre()[None]], True, 0
    for part, place in reads:
        rising = part in ("year", DAYS)
        proved &= rising
        for way in (sign,) if rising else (sign, -sign):
            levels = Levels(limits, value, way)
            search = PairSearch(limits, [place], ordered=True, levels=levels, budget_seconds=budget_seconds)
            found = search.find()
            proved &= found is None and search.n_undecided == 0
            n_solved += search.budget.n_solved
            rows += [] if found is None else [found]
    return proved, np.concatenate(rows[::-1]), n_solved


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
    apart = () if owners is None else {owners[j] for j in chosen}
    if value is None:
        differ: Broken = lambda first, second: tree.predict(first) != tree.predict(second)  # noqa: E731
        return _verdict(search, f"the predicted class {depends}", tree.predict, differ, apart)
    within = f" by more than {number(tolerance)}" if tolerance else ""
    number_of = value.of if tolerance else value.score
    more: Broken = lambda first, second: np.abs(number_of(first) - number_of(second)) > tolerance  # noqa: E731
    return _verdict(search, f"{value.words} {depends}{within}", value.shown, more, apart)


def limited(
    limits: Limits, limit: float, sign: int, *, target: Any, output: int, budget_seconds: float | None = None
) -> Verdict:
    """Whether an output is at most (sign 1) or at least (sign −1) the limit for all permitted rows, by `predict`."""
    value = read_output(limits.tree, target, output)
    if value.k is not None and not -_ROUNDED <= limit <= 1 + _ROUNDED:
        raise ValueError(f"at_{'most' if sign > 0 else 'least'} of a probability must be from 0 to 1, got {limit}")
    claim = f"{value.words} is at {'most' if sign > 0 else 'least'} {number(limit)}"
    found, n_solved, n_undecided = _beyond(limits, value, limit, sign, budget_seconds)
    if found is None:
        return _unbroken(claim, limits, n_solved, n_undecided)
    beyond: Broken = lambda first, _: sign * (value.of(first) - limit) > 0  # noqa: E731
    rows = _with_real_dates(found[None], limits, beyond)
    return _unbroken(claim, limits, n_solved, 1) if rows is None else _refuted(claim, rows, limits, value.of, n_solved)


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
    found = nearest(start, goal, limits, budget_seconds=budget_seconds)
    return found.row if found else None, found.n_solved, found.n_undecided


def _verdict(
    search: PairSearch,
    claim: str,
    outputs: Callable[[np.ndarray], np.ndarray],
    broken: Broken,
    apart: Collection[str] = (),
) -> Verdict:
    """Search all pairs of rows and say what was found; `apart`: the columns in which two rows may differ."""
    rows, limits, n_solved = search.find(), search.limits, search.budget.n_solved
    if rows is None:
        return _unbroken(claim, limits, n_solved, search.n_undecided)
    rows = search.clearer(rows) if search.ordered else rows
    rows = _with_real_dates(rows, limits, broken, apart)
    return _unbroken(claim, limits, n_solved, 1) if rows is None else _refuted(claim, rows, limits, outputs, n_solved)


def _with_real_dates(
    rows: np.ndarray, limits: Limits, broken: Broken, apart: Collection[str] = ()
) -> np.ndarray | None:
    """Rows that a data frame can hold, where the tree was fitted to one; None where none was found."""
    if limits.tree.columns is None:
        return rows
    return with_real_dates(rows, ColumnFeatures(limits.tree.columns), limits, broken, apart)


def _refuted(
    claim: str, rows: np.ndarray, limits: Limits, outputs: Callable[[np.ndarray], np.ndarray], n_solved: int
) -> Verdict:
    """A property that one row breaks, or two."""
    differs = rows[0] != rows[-1]
    shown = np.flatnonzero(limits.splits.used | differs)
    places = tuple(shown[np.argsort(~differs[shown], kind="stable")].tolist())  # those that differ come first
    names = tuple(limits.tree.feature_name(j) for j in places)
    found = tuple(map(plain, outputs(rows)))
    return Verdict(claim, False, rows, found, names, places, n_solved, within=limits.words)


def _unbroken(claim: str, limits: Limits, n_solved: int, n_undecided: int) -> Verdict:
    """No row breaks the property, as far as the search went."""
    decided = n_undecided == 0
    none = np.zeros((0, limits.tree.n_features))
    return Verdict(claim, decided, none, (), (), (), n_solved, decided, limits.words)
