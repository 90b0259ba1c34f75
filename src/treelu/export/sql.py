"""A program as SQL: a whole query, or one expression an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from treelu.export.dialects import DIALECTS, NO_DATE, Dialect
from treelu.export.examples import Example, examples
from treelu.export.literals import header
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
    as_program,
    linear_splits,
    linear_terms,
)
from treelu.tree import ObliqueTree

DialectName: TypeAlias = Literal["sqlite", "duckdb", "postgresql", "plain"]
# Splits on a path within one expression of a query, and where all must be one: parsers allow few levels of nesting.
BLOCK, MAX_NESTING = 8, 14
_LARGEST = 1e308


def to_sql(
    model: ObliqueTree | Program,
    *,
    dialect: DialectName = "plain",
    table: str | Sequence[str] = "data",
    keep: Sequence[str] = (),
    self_test: bool = False,
    typed: bool = False,
    name: str | None = None,
    trained: str | None = None,
) -> str:
    """A tree or a program as one query that predicts for the rows of a table.

    The answers are columns named as in the output of ``treelu predict``: "prediction" and a probability for each class,
    or values. A missing value is NULL (or NaN); where the tree cannot do without it, the answers are NULL. In SQLite
    they are NULL, too, where a text is no number or no date; the other databases stop there.

    Parameters
    ----------
    model : ObliqueTree or Program
    dialect : {"plain", "sqlite", "duckdb", "postgresql"}
        SQLite 3.35, DuckDB 1.0 and PostgreSQL 12 or newer. "plain" keeps to the standard as far as it goes.
    table : str or sequence of str
        The table; several names for one in a schema.
    keep : sequence of str
        Columns of the table that stand before the answers, such as its key.
    self_test : bool
        Instead, a query on example rows: the number of those that are not answered as expected.
    typed : bool
        Columns of numbers hold numbers only (INTEGER, REAL), as they always do in the other databases. The query of
        SQLite is then as short as theirs; a text in such a column would count as the number that it begins with, or 0.
    name, trained : str, optional
        For the header: what it is called, and the day of training.

    Examples
    --------
    >>> import sqlite3
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> data = sqlite3.connect(":memory:")
    >>> _ = data.execute("CREATE TABLE people (id, height, age)")
    >>> _ = data.execute("INSERT INTO people VALUES (7, 2.0, 1.0), (8, 0.0, 2.0), (9, 0.0, NULL)")
    >>> data.execute(tree.to_sql(dialect="sqlite", table="people", keep=["id"])).fetchall()
    [(7, 4.0), (8, 0.25), (9, None)]
    >>> data.execute(tree.to_sql(dialect="sqlite", self_test=True)).fetchall()
    [(0,)]
    """
    whole = as_program(model, name, trained)
    program = whole.compacted()
    query = _Query(
        program,
        replace(_dialect(dialect), typed=typed and dialect == "sqlite"),
        {number: f"c{number}" for number in program.used_columns},
    )
    text = query.self_test() if self_test else query.select([table] if isinstance(table, str) else table, keep)
    return "\n".join([*(f"-- {line}" for line in header(whole)), text])


def sql_expressions(
    model: ObliqueTree | Program, *, dialect: DialectName = "plain", table: str | None = None
) -> dict[str, str]:
    """Each answer of a tree or a program as one SQL expression, to stand in a query of your own.

    Parameters
    ----------
    model : ObliqueTree or Program
        Classes only with constant leaves and one tree; others need the steps of :func:`to_sql`.
    dialect : {"plain", "sqlite", "duckdb", "postgresql"}
    table : str, optional
        The table or alias that columns belong to.

    Returns
    -------
    dict
        From the names of the answers to expressions.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, 0.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> print(sql_expressions(tree)["prediction"])
    CASE WHEN ABS(CAST("height" AS DOUBLE PRECISION)) <= 1.0000000000000000e+308 THEN
      CASE WHEN 1.0000000000000000e+00 * CAST("height" AS DOUBLE PRECISION) + 5.0000000000000000e-01 >= 0
      THEN 4.0000000000000000e+00
      ELSE 2.5000000000000000e-01 END
    END
    """
    program = as_program(model).compacted()
    chosen = _dialect(dialect)
    owner = "" if table is None else f"{chosen.identifier(table)}."
    columns = {number: program.columns[number] for number in program.used_columns}
    cells = {n: chosen.cell(column, owner + chosen.identifier(column.name)) for n, column in columns.items()}
    return _Expressions(program, chosen, cells).answers()


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {name!r}")
    return DIALECTS[name]


@dataclass(frozen=True)
class _Expressions:
    """Sums, splits and predictions as expressions; `cells` are the columns' values, NULL where one is missing."""

    program: Program
    dialect: Dialect
    cells: dict[int, str]

    def guard(self) -> str:
        """Whether all numbers are there and finite; those that may be missing only finite. Whether dates are read."""
        bare = [isinstance(feature, Number) and feature.fill is None for feature in self.program.features]
        filled = {feature.column for feature, is_bare in zip(self.program.features, bare, strict=True) if not is_bare}
        tests = []
        for number, cell in self.cells.items():
            if self.program.columns[number].kind == "number":
                cell = f"COALESCE({cell}, 0)" if number in filled else cell
                largest = f"{_LARGEST:g}" if self.dialect.typed else self.dialect.number(_LARGEST)
                tests.append(f"ABS({cell}) <= {largest}")
            elif self.program.columns[number].required:
                tests.append(f"{cell} IS NOT NULL")
            if self.program.columns[number].kind == "date" and self.dialect.name == "sqlite":
                tests.append(f"COALESCE({cell}, '') <> {self.dialect.string(NO_DATE)}")
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
        right, left = (
            self.route(splits, child, levels - 1, leaf, indent + "  ") for child in (split.right, split.left)
        )
        test = f"CASE WHEN {self.total(split.terms, split.bias)} >= 0"
        return f"{test}\n{indent}THEN {right}\n{indent}ELSE {left} END"

    def leaf_texts(self, part: Part) -> dict[str, list[str]]:
        """Where a leaf has its answer, by name what each leaf answers."""
        found, outputs = {}, part.leaf_outputs(part.trees[0])
        if part.classes is not None and part.leaf_labels is not None:
            found["prediction"] = [self.dialect.label(part.classes[label]) for label in part.leaf_labels]
        return found | {
            name: [self.dialect.number(leaf[output]) for leaf in outputs] for output, name in enumerate(part.outputs)
        }

    def leaf_scores(self, part: Part, tree: ObliqueTree, output: int) -> list[str]:
        """One score of each leaf of a tree."""
        values = part.leaf_values(tree)[:, output].tolist()
        linear = linear_terms(tree)
        if linear is None:
            return [self.dialect.number(value) for value in values]
        return [self.total(leaf[output], value) for leaf, value in zip(linear, values, strict=True)]

    def combined(self, part: Part, total: str) -> str:
        """The sum of a part's trees, or their mean."""
        return total if part.combine == "sum" else f"({total}) / {self.dialect.number(len(part.trees))}"

    def answers(self) -> dict[str, str]:
        """All answers by name, one expression each."""
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
                found |= {name: self._nested(part.trees[0], texts) for name, texts in self.leaf_texts(part).items()}
                continue
            for output, name in enumerate(part.outputs):
                sums = [self._nested(tree, self.leaf_scores(part, tree, output)) for tree in part.trees]
                total = sums[0] if len(sums) == 1 else " +\n  ".join(f"({text})" for text in sums)
                found[name] = self.combined(part, total)
        return {name: f"CASE WHEN {self.guard()} THEN\n  {text}\nEND" for name, text in found.items()}

    def _nested(self, tree: ObliqueTree, leaves: list[str]) -> str:
        return self.route(linear_splits(tree), 0, MAX_NESTING, lambda node: leaves[node - tree.n_splits])


Steps: TypeAlias = list[tuple[str, str]]  # names and texts of common table expressions


@dataclass(frozen=True)
class _Query(_Expressions):
    """A query in steps: cells, leaves, scores, exponentials, answers; each a common table expression."""

    def select(self, table: Sequence[str], keep: Sequence[str]) -> str:
        """The whole query on a table."""
        quote = self.dialect.identifier
        own = quote("treelu_source")
        cells = {number: f"{own}.{quote(self.program.columns[number].name)}" for number in self.cells}
        steps = self._steps(f"{'.'.join(map(quote, table))} AS {own}", cells, [f"{own}.{quote(name)}" for name in keep])
        answers = self._answers()
        taken = {name.lower() for name in answers}  # names in SQL know no case
        for name in keep:
            if name.lower() in taken:
                raise ValueError(f"keep: the output has a column {name!r} already; leave it out or rename it")
            taken.add(name.lower())
        names = [f"k{place} AS {quote(name)}" for place, name in enumerate(keep)]
        names += [f"{text} AS {quote(name)}" for name, text in answers.items()]
        return f"{self._with(steps)}\nSELECT {_columns(names)}\nFROM {steps[-1][0]}"

    def self_test(self) -> str:
        """A query that counts the example rows that are not answered as expected."""
        rows = examples(self.program)
        n_equal = len(self.program.trees) + self.program.has_label  # leaves and labels; the others are numbers
        n_found = n_equal + len(self.program.outputs)
        lines = "\n  UNION ALL\n".join(map(self._example_row, rows))
        own = {number: f"r{number}" for number in self.cells}
        steps = self._steps("treelu_rows", own, [f"e{place}" for place in range(n_found)])
        steps.insert(0, ("treelu_rows", lines))
        found = [f"leaf_{tree}" for tree in range(len(self.program.trees))] + list(self._answers().values())
        inner = ", ".join([f"k{place}" for place in range(n_found)])
        inner += "".join(f",\n    {text} AS a{place}" for place, text in enumerate(found))
        tests = [f"a{place} = k{place}" for place in range(n_equal)]
        tolerance = self.dialect.number(1e-9)
        tests += [f"ABS(a{n} - k{n}) <= {tolerance} * (1 + ABS(k{n}))" for n in range(n_equal, n_found)]
        return (
            f"{self._with(steps)}\nSELECT {len(rows)} - COUNT(*) AS failures\n"
            f"FROM (SELECT {inner}\n  FROM {steps[-1][0]}) AS answers\nWHERE {' AND '.join(tests)}"
        )

    def _example_row(self, example: Example) -> str:
        """An example's cells and what is expected of it: leaves, label, outputs."""
        kinds = {"number": self.dialect.double, "text": self.dialect.text, "date": self.dialect.timestamp}
        items = []
        for number in self.cells:
            cell = example.row[number]
            text = "NULL" if cell is None else self.dialect.label(cell)
            items.append(f"CAST({text} AS {kinds[self.program.columns[number].kind]}) AS r{number}")
        classes = self.program.parts[0].classes
        labels = [] if example.label is None or classes is None else [self.dialect.label(classes[example.label])]
        expected = [*map(str, example.leaves), *labels, *map(self.dialect.number, example.outputs)]
        items += [f"{text} AS e{place}" for place, text in enumerate(expected)]
        return f"  SELECT {', '.join(items)}"

    def _with(self, steps: Steps) -> str:
        return "WITH " + ",\n".join(f"{name} AS {self.dialect.fence}(\n{text}\n)" for name, text in steps)

    # Steps

    def _steps(self, source: str, own: dict[int, str], kept: list[str]) -> Steps:
        """The steps up to the answers; `own` are the source's columns."""
        carried = [f"k{place}" for place in range(len(kept))]
        items = [f"{text} AS {name}" for text, name in zip(kept, carried, strict=True)]
        for number, text in own.items():
            items.append(f"{self.dialect.cell(self.program.columns[number], text)} AS c{number}")
        steps = [("treelu_cells", f"  SELECT {_columns(items or ['1 AS nothing'])}\n  FROM {source}")]
        for names in self._route():
            steps.append(_step(f"treelu_leaves_{len(steps)}", [*carried, *self.cells.values(), *names], steps))
        carried += [f"leaf_{tree}" for tree in range(len(self.program.trees))]
        for names in self._score():
            steps.append(_step(f"treelu_scores_{len(steps)}", [*carried, *names], steps))
        return steps

    def _route(self) -> list[list[str]]:
        """For each step the columns with the node that a row has reached in each tree; NULL where it cannot go on."""
        deepest = max(tree.depth for tree in self.program.trees)
        return [
            [self._block(number, tree, level) for number, tree in enumerate(self.program.trees)]
            for level in range(0, max(1, deepest), BLOCK)
        ]

    def _block(self, number: int, tree: ObliqueTree, level: int) -> str:
        """The node that rows reach from those of a level on."""
        splits, depths = linear_splits(tree), tree.node_depths()
        if level == 0:
            nested = self.route(splits, 0, BLOCK, str)
            return f"CASE WHEN {self.guard()} THEN\n  {nested}\n  END AS leaf_{number}"
        roots = [node for node in range(tree.n_splits) if depths[node] == level]
        if not roots:
            return f"leaf_{number}"
        cases = "\n  ".join(f"WHEN {node} THEN {self.route(splits, node, BLOCK, str)}" for node in roots)
        return f"CASE leaf_{number} {cases}\n  ELSE leaf_{number} END AS leaf_{number}"

    def _score(self) -> list[list[str]]:
        """Steps for parts whose answers are computed: scores; the best class; exponentials below the best's."""
        scores, bests, powers = dict[str, str](), dict[str, str](), dict[str, str]()
        for number, first, part in self._parts():
            if part.is_lookup:
                continue
            columns, best = _score_columns(number, part), f"best_{number}"
            scores |= {name: self._score_text(part, first, output) for output, name in enumerate(columns)}
            if part.classes is not None or part.link in ("logistic", "softmax"):
                bests[best] = _best(columns)
            if part.link in ("logistic", "softmax"):
                largest = _case(best, dict(enumerate(columns)))
                powers |= {f"power_{number}_{k}": self._power(name, largest) for k, name in enumerate(columns)}
        steps = [_named(scores)] if scores else []
        if bests:
            steps.append([*scores, *_named(bests)])
        if powers:
            exponentials = {name: self.dialect.exponential(name) for name in powers}
            steps += [[*scores, *bests, *_named(step)] for step in (powers, exponentials)]
        return steps

    def _parts(self) -> Iterable[tuple[int, int, Part]]:
        """The parts with their numbers and those of their first trees."""
        first = 0
        for number, part in enumerate(self.program.parts):
            yield number, first, part
            first += len(part.trees)

    def _score_text(self, part: Part, first: int, output: int) -> str:
        """One score of a part: the sum or the mean over its trees."""
        if part.link == "logistic":  # the first class has the score 0
            if output == 0:
                return f"CASE WHEN leaf_{first} IS NULL THEN NULL ELSE {self.dialect.number(0.0)} END"
            output = 0
        sums = [
            _leaf_case(first + place, tree, self.leaf_scores(part, tree, output))
            for place, tree in enumerate(part.trees)
        ]
        return self.combined(part, " +\n  ".join(sums))

    def _power(self, name: str, largest: str) -> str:
        """How far a score is below the best, at most 80: e to the power of -80 is nothing beside 1."""
        lowest, below = self.dialect.number(-80.0), f"{name} - ({largest})"
        return f"CASE WHEN {below} < {lowest} THEN {lowest} ELSE {below} END"

    # Answers

    def _answers(self) -> dict[str, str]:
        """Names and expressions of the answers, on the columns of the last step."""
        found: dict[str, str] = {}
        for number, first, part in self._parts():
            if part.is_lookup:
                texts = self.leaf_texts(part).items()
                found |= {name: _leaf_case(first, part.trees[0], leaves) for name, leaves in texts}
            else:
                found |= self._computed(part, number)
        return found

    def _computed(self, part: Part, number: int) -> dict[str, str]:
        columns, found = _score_columns(number, part), {}
        if part.link in ("logistic", "softmax"):
            powers = [f"power_{number}_{k}" for k in range(len(columns))]
            columns = [f"{power} / ({' + '.join(powers)})" for power in powers]
        if part.classes is not None:
            labels = [self.dialect.label(label) for label in part.classes]
            found["prediction"] = _case(f"best_{number}", dict(enumerate(labels)))
            if part.threshold is not None:
                positive, least = part.threshold[0], self.dialect.number(part.threshold[1])
                p, yes, no = columns[positive], labels[positive], labels[1 - positive]
                found["prediction"] = f"CASE WHEN {p} >= {least} THEN {yes} WHEN {p} < {least} THEN {no} END"
        kept = columns if part.only is None else [columns[part.only]]
        return found | dict(zip(part.outputs, kept, strict=True))


def _score_columns(number: int, part: Part) -> list[str]:
    return [f"score_{number}_{k}" for k in range(2 if part.link == "logistic" else part.n_scores)]


def _best(columns: list[str]) -> str:
    """The number of the largest of some columns, of equal ones the first."""
    cases = [f"WHEN {columns[0]} IS NULL THEN NULL"]
    for k, name in enumerate(columns[:-1]):
        tests = " AND ".join(f"{name} >= {other}" for other in columns[k + 1 :])
        cases.append(f"WHEN {tests} THEN {k}")
    return f"CASE {' '.join(cases)} ELSE {len(columns) - 1} END"


def _case(column: str, cases: dict[int, str]) -> str:
    lines = "\n    ".join(f"WHEN {key} THEN {value}" for key, value in cases.items())
    return f"CASE {column}\n    {lines}\n  END"


def _leaf_case(number: int, tree: ObliqueTree, texts: list[str]) -> str:
    return _case(f"leaf_{number}", dict(enumerate(texts, tree.n_splits)))


def _columns(items: Sequence[str]) -> str:
    return ",\n  ".join(items)


def _named(items: dict[str, str]) -> list[str]:
    return [f"{text} AS {name}" for name, text in items.items()]


def _step(name: str, items: Sequence[str], before: Steps) -> tuple[str, str]:
    return name, f"  SELECT {_columns(items)}\n  FROM {before[-1][0]}"
