"""Properties of a whole tree, proved for all permitted rows or refuted by rows that break them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.tree.names import plain, shown_name
from treelu.tree.queries.counterfactual import answer
from treelu.tree.queries.pairs import Classes, Levels, PairSearch
from treelu.tree.queries.permitted import Permitted, find_features
from treelu.tree.queries.ranges import Output, centre
from treelu.tree.queries.search import Effort, NearestSearch
from treelu.tree.queries.wanted import NoLeafError, wanted_answer
from treelu.tree.queries.words import apart, count, html_table, html_text, number, text_table


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
    """

    claim: str
    holds: bool
    rows: np.ndarray
    outputs: tuple[Any, ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    n_solved: int
    decided: bool = True

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        if self.holds:
            return f"proved: {self.claim} ({count(self.n_solved, 'programme')})"
        if not self.decided:
            return f"not decided: {self.claim} ({count(self.n_solved, 'programme')}); narrower bounds may help"
        return "\n".join([f"refuted: {self.claim}", *text_table(self._cells())])

    def _cells(self) -> list[list[str]]:
        cells = [[shown_name(name), *apart(self.rows[:, place].tolist())]
                 for name, place in zip(self.names, self.places, strict=True)]  # fmt: skip
        return [*cells, ["predicted", *(answer(output) for output in self.outputs)]]

    def _repr_html_(self) -> str:
        if self.holds or not self.decided:
            return html_text(str(self))
        heads = ["", "a row"] if len(self.rows) == 1 else ["", "a row", "and one that differs"]
        return html_text(f"refuted: {self.claim}") + html_table(heads, self._cells())


# The properties


def monotone(
    rows: Permitted, feature: Any, sign: int, *, target: Any, output: int, budget_seconds: float | None = None
) -> Verdict:
    """Whether an output never falls (sign 1) or never rises (sign −1) when a feature rises."""
    tree, value = rows.tree, Output(rows.tree, target, output)
    (j,) = find_features(tree, [feature], "feature")
    if any(j in group for group in rows.named_groups):
        raise ValueError(
            f"feature: {tree.feature_name(j)!r} is in a one-hot group, where one rises only when another falls; "
            "ask whether the answer is independent of the group"
        )
    word = "falls" if sign > 0 else "rises"
    claim = f"{value.words} never {word} when {shown_name(tree.feature_name(j))} rises"
    # With the sign turned, "never rises" is "never falls".
    levels = Levels(tree, value, sign, permitted=rows)
    search = PairSearch(tree, rows, [j], ordered=True, levels=levels, budget_seconds=budget_seconds)
    return _verdict(search, claim, value.shown)


def independent(
    rows: Permitted,
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
    tree = rows.tree
    value = None if of == "answer" and tree.is_classifier else Output(tree, target, output)
    chosen = find_features(tree, features, "features")
    for group in rows.named_groups:  # a member that the ranges fix stands for its group too
        if set(chosen) & set(group):
            chosen += [j for j in group if j not in chosen]
    names = _listed([shown_name(tree.feature_name(j)) for j in chosen])
    if value is None:
        search = PairSearch(tree, rows, chosen, ordered=False, levels=Classes(tree), budget_seconds=budget_seconds)
        return _verdict(search, f"the predicted class never depends on {names}", tree.predict)
    within = f" by more than {number(tolerance)}" if tolerance else ""
    levels = Levels(tree, value, 1, tolerance, rows)
    search = PairSearch(tree, rows, chosen, ordered=False, levels=levels, budget_seconds=budget_seconds)
    return _verdict(search, f"{value.words} never depends on {names}{within}", value.shown)


def limited(
    rows: Permitted, limit: float, sign: int, *, target: Any, output: int, budget_seconds: float | None = None
) -> Verdict:
    """Whether an output is at most (sign 1) or at least (sign −1) the limit for all permitted rows, by `predict`."""
    tree, value = rows.tree, Output(rows.tree, target, output)
    claim = f"{value.words} is at {'most' if sign > 0 else 'least'} {number(limit)}"
    found, effort = _beyond(rows, value, limit, sign, budget_seconds)
    if found is None:
        proved = effort.n_undecided == 0
        return Verdict(claim, proved, np.zeros((0, tree.n_features)), (), (), (), effort.n_solved, proved)
    used = tree.used_features()
    names = tuple(tree.feature_name(j) for j in used.tolist())
    outputs = (float(value.of(found[None])[0]),)
    return Verdict(claim, False, found[None], outputs, names, tuple(used.tolist()), effort.n_solved)


def _beyond(
    permitted: Permitted, value: Output, limit: float, sign: int, budget_seconds: float | None
) -> tuple[np.ndarray | None, Effort]:
    """The permitted row nearest to the middle whose output is beyond a limit, and what the search took."""
    tree = permitted.tree
    beyond, effort = float(np.nextafter(limit, sign * np.inf)), Effort()
    ends = (0.0, 1.0) if value.k is not None else (-np.inf, np.inf)
    if np.isinf(beyond) or not ends[0] <= beyond <= ends[1]:
        every = bool(sign * limit >= sign * (ends[1] if sign > 0 else ends[0]))
        return (None, effort) if every or np.isinf(beyond) else (centre(permitted), effort)
    asked = {"at_least": beyond} if sign > 0 else {"at_most": beyond}
    target = None if value.k is None else tree.classes[value.k]  # type: ignore[index]
    try:
        wanted = wanted_answer(tree, target, output=value.output, **asked)
    except NoLeafError:  # no leaf is beyond it, wherever a row lies
        return None, effort
    start = centre(permitted)
    search = NearestSearch(tree, wanted, "l1", budget_seconds=budget_seconds)
    found = next(search.run(start, permitted.around(start), effort), None)
    return (None if found is None else found.row), effort


def _listed(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "")


def _verdict(search: PairSearch, claim: str, outputs: Callable[[np.ndarray], np.ndarray]) -> Verdict:
    """Search all pairs of rows and say what was found."""
    tree, pair = search.tree, search.find()
    if pair is None:
        decided = search.n_undecided == 0
        return Verdict(claim, decided, np.zeros((0, tree.n_features)), (), (), (), search.n_solved, decided)
    rows = np.stack(pair)
    shown = np.flatnonzero(search.place.splits.used | (rows[0] != rows[1]))
    order = [*[j for j in shown if rows[0, j] != rows[1, j]], *[j for j in shown if rows[0, j] == rows[1, j]]]
    names = tuple(tree.feature_name(int(j)) for j in order)
    said, places = tuple(map(plain, outputs(rows))), tuple(int(j) for j in order)
    return Verdict(claim, False, rows, said, names, places, search.n_solved)
