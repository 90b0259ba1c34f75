"""The path of one row through a tree: each split, its answer and the contributions of its terms; as text and HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name
from treelu.tree.numbers import shown_number, signed_number
from treelu.tree.one_hot import categories, group_name
from treelu.tree.rows import dense_row, node_scores, one_row_table
from treelu.view.labels import FEW, Top, feature_label, leaf_words, listed, set_words, strongest_terms

_NAMED = 5  # contributions named of a split with more than six


@dataclass(frozen=True)
class PathStep:
    """One split on the way: its score, and the parts that add up to it with the words for each.

    A split by a set of levels has words instead of parts, and the row's own level in words.
    """

    node: int
    score: float
    parts: list[tuple[float, str]]
    of_set: tuple[str, str] | None = None

    def question(self, digits: int, at_least: str = ">=") -> str:
        """The split in words."""
        return f"{shown_number(self.score, digits)} {at_least} 0" if self.of_set is None else self.of_set[0]

    @property
    def answer(self) -> str:
        """Whether the score is at least 0."""
        return "yes" if self.score >= 0 else "no"


class DescribedPath(str):
    """Text that a notebook shows as a table; otherwise a string like any other."""

    html: str

    def __new__(cls, text: str, html: str) -> DescribedPath:
        path = super().__new__(cls, text)
        path.html = html
        return path

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # for pickle and copy
        return str(self), self.html

    def _repr_html_(self) -> str:
        return self.html

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def describe_path(tree: ObliqueTree, x: Any, *, top: Top = None, digits: int = 4) -> DescribedPath:
    """The path of one row; see :meth:`treelu.tree.ObliqueTree.describe`."""
    row = _one_row(tree, x)
    node, steps = 0, []
    while node < tree.n_splits:
        score = float(node_scores(row[None, :], np.array([0]), tree.weights, tree.biases, node)[0])
        words = set_words(tree, node)
        if words is None:
            steps.append(PathStep(node, score, _parts(tree, node, row, top, digits)))
        else:
            steps.append(PathStep(node, score, [], (words, _level(tree, node, row))))
        node = int(tree.children[node, int(score >= 0)])
    end = f"leaf {node}: {leaf_words(tree, node - tree.n_splits, top, digits)}"
    here = _linear_output(tree, row, digits)
    return DescribedPath(_as_text(steps, end, here, digits), _as_html(steps, end, here, digits))


def _one_row(tree: ObliqueTree, x: Any) -> np.ndarray:
    rows = tree.read_rows(one_row_table(x, tree.feature_names))
    if rows.shape[0] != 1:
        raise ValueError(f"x must be one row, got {rows.shape[0]} rows")
    return dense_row(rows, 0).astype(np.float64)


def _parts(tree: ObliqueTree, node: int, row: np.ndarray, top: Top, digits: int) -> list[tuple[float, str]]:
    """The parts of a node's score: the largest contributions (weight times value), the others' sum, the bias.

    A split of at most six terms is shown whole; of a longer one, terms that contribute nothing are left out.
    """
    weights = tree.node_weights(node)
    parts = weights * row
    if np.count_nonzero(weights) <= FEW:
        named = strongest_terms(weights, np.abs(row), top)
    else:
        most = _NAMED if top is None and np.count_nonzero(parts) > FEW else top
        named = strongest_terms(parts, np.ones(len(row)), most)
    entries = [
        (float(parts[i]), f"{feature_label(tree, i)} = {shown_number(row[i], digits)} "
         f"(weight {shown_number(weights[i], digits)})")
        for i in named
    ]  # fmt: skip
    others = np.setdiff1d(np.flatnonzero(parts), named)
    if others.size:
        words = "1 other feature" if others.size == 1 else f"{others.size:,} other features"
        entries.append((float(parts[others].sum()), words))
    return [*entries, (float(tree.biases[node]), "bias")]


def _level(tree: ObliqueTree, node: int, row: np.ndarray) -> str:
    """The row's level of the category that a node splits."""
    used = np.flatnonzero(tree.node_weights(node))[0]
    group = next(group for group in categories(tree) if used in group)
    column, levels = group_name([tree.feature_name(j) for j in group]) or ("", [])
    present = [level for j, level in zip(group, levels, strict=True) if row[j]]
    return f"{shown_name(column)} is {shown_name(present[0]) if present else 'another one'}"


def _linear_output(tree: ObliqueTree, row: np.ndarray, digits: int) -> str:
    """The prediction of a linear leaf for this row; nothing for constant leaves, which show it themselves."""
    if tree.leaf_weights is None:
        return ""
    output = tree.link_outputs(tree.decision_function(row[None, :]).reshape(1, -1))[0]
    kind = "value" if tree.classes is None else "probabilities"
    return f"here: {kind} " + listed(output.tolist(), digits)


def _as_text(steps: list[PathStep], end: str, here: str, digits: int) -> str:
    lines = []
    for step in steps:
        lines.append(f"node {step.node}: {step.question(digits)}? {step.answer}")
        if step.of_set is not None:
            lines.append(f"    {step.of_set[1]}")
            continue
        numbers = [signed_number(value, digits) for value, _ in step.parts]
        width = max(len(text) for text in numbers)
        lines += [f"    {text:<{width}}  {words}" for text, (_, words) in zip(numbers, step.parts, strict=True)]
    return "\n".join([*lines, end, *([f"    {here}"] if here else [])])


# The same as a table, without scripts and style sheets: notebooks keep only plain elements and their styles.
_CELL = 'style="text-align: {}; padding: 1px 8px; border: 0"'
_PLUS, _MINUS = "#c2502e", "#2f62a8"
_BAR = 120  # pixels of the largest contribution of a split


def _as_html(steps: list[PathStep], end: str, here: str, digits: int) -> str:
    left, right = _CELL.format("left"), _CELL.format("right")
    rows = []
    for step in steps:
        split = f"node {step.node}: {escape(step.question(digits, '≥'))}? <b>{step.answer}</b>"
        rows.append(f'<tr style="background: none"><td {left} colspan="3">{split}</td></tr>')
        if step.of_set is not None:
            rows.append(
                f'<tr style="background: none"><td {right}></td><td {left}></td>'
                f"<td {left}>{escape(step.of_set[1])}</td></tr>"
            )
            continue
        longest = max(abs(value) for value, _ in step.parts) or 1.0
        for value, words in step.parts:
            color = _PLUS if value > 0 else _MINUS
            bar = (
                f'<div style="width: {round(_BAR * (abs(value) / longest))}px; height: 9px; background: {color}"></div>'
            )
            rows.append(
                f'<tr style="background: none"><td {right}>{signed_number(value, digits)}</td><td {left}>{bar}</td>'
                f"<td {left}>{escape(words)}</td></tr>"
            )
    rows.append(f'<tr style="background: none"><td {left} colspan="3"><b>{escape(end)}</b></td></tr>')
    if here:
        rows.append(f'<tr style="background: none"><td {left} colspan="3">{escape(here)}</td></tr>')
    return f'<table style="border-collapse: collapse">{"".join(rows)}</table>'
