"""Sums, splits and predictions of a program as SQL expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treelu.export.dialects import NO_DATE, Dialect
from treelu.export.program import (
    Category,
    DatePart,
    Feature,
    LinearSplit,
    Missing,
    Number,
    Other,
    Part,
    Program,
    Term,
    linear_splits,
    linear_terms,
)
from treelu.tree import ObliqueTree

MAX_NESTING = 14  # splits on a path where all must be one expression: parsers allow few levels of nesting
_LARGEST = 1e308


@dataclass(frozen=True)
class Expressions:
    """Sums, splits and predictions as expressions; `cells` are the columns' values, NULL where one is missing."""

    program: Program
    dialect: Dialect
    cells: dict[int, str]

    def guard(self) -> str:
        """Whether all numbers are there and finite; those that may be missing only finite. Whether dates are read."""
        filled = {feature.column for feature in self.program.features if not _is_bare(feature)}
        tests = []
        for number in self.program.used_columns:
            if self.program.columns[number].kind == "number":
                cell = f"COALESCE({self.cells[number]}, 0)" if number in filled else self.cells[number]
                tests.append(f"ABS({cell}) <= {self.dialect.number(_LARGEST)}")
            elif self.program.columns[number].kind == "date" and self.dialect.name == "sqlite":
                tests.append(f"COALESCE({self.cells[number]}, '') <> {self.dialect.string(NO_DATE)}")
        return " AND ".join(tests) or "1 = 1"

    def term(self, feature: Feature, weight: float) -> str:
        """A weight times a feature."""
        cell, factor = self.cells[feature.column], self.dialect.number(weight)
        match feature:
            case Number(_, fill):
                return f"{factor} * {cell if fill is None else f'COALESCE({cell}, {self.dialect.number(fill)})'}"
            case DatePart(_, part, fill):
                found = self.dialect.date_part(part, cell)
                return f"{factor} * COALESCE({found}, {self.dialect.number(fill)})"
            case Missing():
                test = f"{cell} IS NULL"
            case Category(_, text):
                test = f"{cell} = {self.dialect.string(text)}"
            case Other(_, ()):
                test = f"{cell} IS NOT NULL"
            case Other(_, known):
                test = f"{cell} NOT IN ({', '.join(map(self.dialect.string, known))})"
        return f"CASE WHEN {test} THEN {factor} ELSE {self.dialect.number(0.0)} END"

    def total(self, terms: list[Term], last: float) -> str:
        """A sum from left to right."""
        if len(terms) > self.dialect.max_terms:
            raise ValueError(
                f"a sum of {len(terms)} terms is more than the dialect {self.dialect.name!r} takes "
                f"({self.dialect.max_terms}); fit with max_tree_features, prune the tree, or export another format"
            )
        parts = [self.term(self.program.features[feature], weight) for feature, weight in terms]
        return " + ".join([*parts, self.dialect.number(last)])

    def route(
        self, splits: list[LinearSplit], node: int, levels: int, leaf: Callable[[int], str], indent: str = "  "
    ) -> str:
        """Nested splits from a node on, as many levels as given; below them `leaf(node)`."""
        if node >= len(splits) or levels == 0:
            return leaf(node)
        split = splits[node]
        inner = indent + "  "
        right = self.route(splits, split.right, levels - 1, leaf, inner)
        left = self.route(splits, split.left, levels - 1, leaf, inner)
        test = f"CASE WHEN {self.total(split.terms, split.bias)} >= 0"
        return f"{test}\n{indent}THEN {right}\n{indent}ELSE {left} END"

    # One expression an answer

    def answers(self) -> dict[str, str]:
        """All answers by name."""
        found: dict[str, str] = {}
        for part in self.program.parts:
            if not part.is_lookup and part.link != "identity":
                raise ValueError(
                    "classes from linear leaves or from several trees take more than one expression; use to_sql"
                )
            deepest = max(tree.depth for tree in part.trees)
            if deepest > MAX_NESTING:
                raise ValueError(
                    f"a tree of depth {deepest} is too deep for one expression ({MAX_NESTING}); use to_sql"
                )
            if part.is_lookup:
                found |= self._lookups(part)
            else:
                found |= {name: self._sum_of_trees(part, output) for output, name in enumerate(part.outputs)}
        return {name: f"CASE WHEN {self.guard()} THEN\n  {text}\nEND" for name, text in found.items()}

    def _lookups(self, part: Part) -> dict[str, str]:
        tree = part.trees[0]
        splits = linear_splits(tree)
        outputs, labels = part.leaf_answers()
        found = {}
        if part.classes is not None and labels is not None:
            texts = [self.dialect.label(part.classes[label]) for label in labels]
            found["prediction"] = self.route(splits, 0, MAX_NESTING, lambda node: texts[node - len(splits)])
        for output, name in enumerate(part.outputs):
            values = [self.dialect.number(leaf[output]) for leaf in outputs]
            found[name] = self.route(splits, 0, MAX_NESTING, lambda node, values=values: values[node - len(splits)])  # type: ignore[misc]
        return found

    def _sum_of_trees(self, part: Part, output: int) -> str:
        sums = []
        for tree in part.trees:
            splits = linear_splits(tree)
            values = self.leaf_outputs(part, tree, output)
            sums.append(self.route(splits, 0, MAX_NESTING, lambda node, a=splits, v=values: v[node - len(a)]))  # type: ignore[misc]
        total = sums[0] if len(sums) == 1 else " +\n  ".join(f"({text})" for text in sums)
        return total if part.combine == "sum" else f"({total}) / {self.dialect.number(len(part.trees))}"

    def leaf_outputs(self, part: Part, tree: ObliqueTree, output: int) -> list[str]:
        """One output of each leaf of a tree."""
        values = part.leaf_values(tree)[:, output].tolist()
        linear = linear_terms(tree)
        if linear is None:
            return [self.dialect.number(value) for value in values]
        return [self.total(leaf[output], value) for leaf, value in zip(linear, values, strict=True)]


def _is_bare(feature: Feature) -> bool:
    return isinstance(feature, Number) and feature.fill is None
