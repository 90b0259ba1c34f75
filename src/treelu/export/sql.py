"""A program as SQL: a whole query, or one expression an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from treelu.export.dialects import DIALECTS, Dialect
from treelu.export.examples import Cell, Example, examples
from treelu.export.literals import header
from treelu.export.program import (
    Part,
    Program,
    as_program,
    linear_splits,
)
from treelu.export.sql_expressions import Expressions
from treelu.tree import ObliqueTree

DialectName: TypeAlias = Literal["sqlite", "duckdb", "postgresql", "plain"]
BLOCK = 8  # splits on a path within one expression of a query: parsers allow few levels of nesting


def to_sql(
    model: ObliqueTree | Program,
    *,
    dialect: DialectName = "plain",
    table: str | Sequence[str] = "data",
    keep: Sequence[str] = (),
    self_test: bool = False,
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
    query = _Query(whole.compacted(), _dialect(dialect))
    text = query.self_test() if self_test else query.select(table, keep)
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
    cells = {
        number: chosen.cell(program.columns[number], owner + chosen.identifier(program.columns[number].name))
        for number in program.used_columns
    }
    return Expressions(program, chosen, cells).answers()


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {name!r}")
    return DIALECTS[name]


@dataclass(frozen=True)
class _Query:
    """A query in steps: cells, leaves, scores, exponentials, answers; each a common table expression."""

    program: Program
    dialect: Dialect

    def select(self, table: str | Sequence[str], keep: Sequence[str]) -> str:
        """The whole query on a table."""
        quote = self.dialect.identifier
        parts = [table] if isinstance(table, str) else list(table)
        source = f"{'.'.join(map(quote, parts))} AS {quote('treelu_source')}"
        own = quote("treelu_source")
        kept = [f"{own}.{quote(name)}" for name in keep]
        columns = self.program.columns
        cells = {number: f"{own}.{quote(columns[number].name)}" for number in self.program.used_columns}
        steps, last = self._steps(source, cells, kept)
        answers = self._answers()
        taken = {name.lower() for name, _ in answers}  # names in SQL know no case
        for name in keep:
            if name.lower() in taken:
                raise ValueError(f"keep: the output has a column {name!r} already; leave it out or rename it")
            taken.add(name.lower())
        names = [f"k{place} AS {quote(name)}" for place, name in enumerate(keep)]
        names += [f"{text} AS {quote(name)}" for name, text in answers]
        return f"WITH {_joined(steps, self.dialect.fence)}\nSELECT {_columns(names)}\nFROM {last}"

    def self_test(self) -> str:
        """A query that counts the example rows that are not answered as expected."""
        rows = examples(self.program)
        n_trees, n_outputs = len(self.program.trees), len(self.program.outputs)
        expected = [f"e{place}" for place in range(n_trees + n_outputs + self.program.has_label)]
        lines = "\n  UNION ALL\n".join(self._example_row(row.row, self._expected(row)) for row in rows)
        cells = {number: f"r{number}" for number in self.program.used_columns}
        steps, last = self._steps("treelu_rows", cells, expected)
        steps.insert(0, ("treelu_rows", lines))
        found = [f"leaf_{tree}" for tree in range(n_trees)] + [text for _, text in self._answers()]
        inner = ", ".join([f"k{place}" for place in range(len(expected))])
        inner += "".join(f",\n    {text} AS a{place}" for place, text in enumerate(found))
        tests = [f"a{place} = k{place}" for place in range(n_trees + self.program.has_label)]
        tolerance = self.dialect.number(1e-9)
        for place in range(n_trees + self.program.has_label, len(expected)):
            tests.append(f"ABS(a{place} - k{place}) <= {tolerance} * (1 + ABS(k{place}))")
        return (
            f"WITH {_joined(steps, self.dialect.fence)}\nSELECT {len(rows)} - COUNT(*) AS failures\n"
            f"FROM (SELECT {inner}\n  FROM {last}) AS answers\nWHERE {' AND '.join(tests)}"
        )

    def _expected(self, row: Example) -> list[str]:
        classes = self.program.parts[0].classes
        labels = [] if row.label is None or classes is None else [self.dialect.label(classes[row.label])]
        return [*map(str, row.leaves), *labels, *map(self.dialect.number, row.outputs)]

    def _example_row(self, row: Sequence[Cell], expected: list[str]) -> str:
        cells = []
        for number in self.program.used_columns:
            column = self.program.columns[number]
            kinds = {"number": self.dialect.double, "text": self.dialect.text, "date": self.dialect.timestamp}
            cell = row[number]
            text = (
                "NULL"
                if cell is None
                else self.dialect.number(cell)
                if isinstance(cell, float)
                else self.dialect.string(cell)
            )
            cells.append(f"CAST({text} AS {kinds[column.kind]}) AS r{number}")
        cells += [f"{text} AS e{place}" for place, text in enumerate(expected)]
        return f"  SELECT {', '.join(cells)}"

    # Steps

    def _steps(self, source: str, own: dict[int, str], kept: list[str]) -> tuple[list[tuple[str, str]], str]:
        """Names and texts of the steps up to the answers, and the name of the last; `own` are the source's columns."""
        used = self.program.used_columns
        carried = [f"k{place}" for place in range(len(kept))]
        items = [f"{text} AS {name}" for text, name in zip(kept, carried, strict=True)]
        for number in used:
            items.append(f"{self.dialect.cell(self.program.columns[number], own[number])} AS c{number}")
        steps = [("treelu_cells", f"  SELECT {_columns(items or ['1 AS nothing'])}\n  FROM {source}")]
        expressions = Expressions(self.program, self.dialect, {number: f"c{number}" for number in used})
        cells = [f"c{number}" for number in used]
        for names in self._route(expressions):
            steps.append(_step(f"treelu_leaves_{len(steps)}", [*carried, *cells, *names], steps))
        carried += [f"leaf_{tree}" for tree in range(len(self.program.trees))]
        for names in self._score(expressions):
            steps.append(_step(f"treelu_scores_{len(steps)}", [*carried, *names], steps))
        return steps, steps[-1][0]

    def _route(self, expressions: Expressions) -> list[list[str]]:
        """For each step the columns with the node that a row has reached in each tree; NULL where it cannot go on."""
        trees = self.program.trees
        deepest = max(tree.depth for tree in trees)
        steps = [[self._first_block(expressions, number) for number in range(len(trees))]]
        for level in range(BLOCK, deepest, BLOCK):
            steps.append([self._next_block(expressions, number, level) for number in range(len(trees))])
        return steps

    def _first_block(self, expressions: Expressions, number: int) -> str:
        nested = expressions.route(linear_splits(self.program.trees[number]), 0, BLOCK, str)
        return f"CASE WHEN {expressions.guard()} THEN\n  {nested}\n  END AS leaf_{number}"

    def _next_block(self, expressions: Expressions, number: int, level: int) -> str:
        tree = self.program.trees[number]
        splits, depths = linear_splits(tree), tree.node_depths()
        roots = [node for node in range(tree.n_splits) if depths[node] == level]
        if not roots:
            return f"leaf_{number}"
        cases = "\n  ".join(f"WHEN {node} THEN {expressions.route(splits, node, BLOCK, str)}" for node in roots)
        return f"CASE leaf_{number} {cases}\n  ELSE leaf_{number} END AS leaf_{number}"

    def _score(self, expressions: Expressions) -> list[list[str]]:
        """Steps for parts whose answers are computed: scores; the best class; exponentials below the best's."""
        scores, shifts, powers = list[str](), list[str](), list[str]()
        first = 0
        for number, part in enumerate(self.program.parts):
            columns = _score_columns(number, part)
            for output, name in enumerate(columns if not part.is_lookup else ()):
                scores.append(f"{self._score_text(expressions, part, first, output)} AS {name}")
            if part.link in ("logistic", "softmax") and not part.is_lookup:
                best = f"best_{number}"
                largest = _case(best, {str(k): name for k, name in enumerate(columns)})
                shifts.append(f"{_best(columns)} AS {best}")
                for k, name in enumerate(columns):
                    powers.append(self._power(name, largest, f"power_{number}_{k}"))
            elif not part.is_lookup and part.classes is not None:
                shifts.append(f"{_best(columns)} AS best_{number}")
            first += len(part.trees)
        if not scores:
            return []
        names = [item.rsplit(" AS ", 1)[1] for item in scores]
        steps = [scores, [*names, *shifts]] if shifts else [scores]
        if powers:
            lowered = [power.rsplit(" AS ", 1)[1] for power in powers]
            bests = [item.rsplit(" AS ", 1)[1] for item in shifts]
            steps.append([*names, *bests, *powers])
            steps.append([*names, *bests, *(f"{self.dialect.exponential(name)} AS {name}" for name in lowered)])
        return steps

    def _score_text(self, expressions: Expressions, part: Part, first: int, output: int) -> str:
        """One score of a part: the sum or the mean over its trees."""
        if part.link == "logistic":  # the first class has the score 0
            if output == 0:
                return f"CASE WHEN leaf_{first} IS NULL THEN NULL ELSE {self.dialect.number(0.0)} END"
            output = 0
        sums = []
        for place, tree in enumerate(part.trees):
            values = expressions.leaf_outputs(part, tree, output)
            cases = {str(tree.n_splits + leaf): value for leaf, value in enumerate(values)}
            sums.append(_case(f"leaf_{first + place}", cases))
        total = " +\n  ".join(sums)
        return total if part.combine == "sum" else f"({total}) / {self.dialect.number(len(part.trees))}"

    def _power(self, name: str, largest: str, power: str) -> str:
        """How far a score is below the best, at most 80: e to the power of -80 is nothing beside 1."""
        lowest = self.dialect.number(-80.0)
        below = f"{name} - ({largest})"
        return f"CASE WHEN {below} < {lowest} THEN {lowest} ELSE {below} END AS {power}"

    # Answers

    def _answers(self) -> list[tuple[str, str]]:
        """Names and expressions of the answers, on the columns of the last step."""
        found: list[tuple[str, str]] = []
        first = 0
        for number, part in enumerate(self.program.parts):
            found += self._lookup(part, first) if part.is_lookup else self._computed(part, number)
            first += len(part.trees)
        return found

    def _lookup(self, part: Part, first: int) -> list[tuple[str, str]]:
        outputs, labels = part.leaf_answers()
        start = part.trees[0].n_splits
        found = []
        if part.classes is not None and labels is not None:
            cases = {str(start + leaf): self.dialect.label(part.classes[label]) for leaf, label in enumerate(labels)}
            found.append(("prediction", _case(f"leaf_{first}", cases)))
        for output, name in enumerate(part.outputs):
            values = {str(start + leaf): self.dialect.number(value[output]) for leaf, value in enumerate(outputs)}
            found.append((name, _case(f"leaf_{first}", values)))
        return found

    def _computed(self, part: Part, number: int) -> list[tuple[str, str]]:
        columns = _score_columns(number, part)
        found = []
        if part.classes is not None:
            cases = {str(k): self.dialect.label(label) for k, label in enumerate(part.classes)}
            found.append(("prediction", _case(f"best_{number}", cases)))
        if part.link in ("logistic", "softmax"):
            powers = [f"power_{number}_{k}" for k in range(len(columns))]
            whole = " + ".join(powers)
            columns = [f"{power} / ({whole})" for power in powers]
        if part.threshold is not None and part.classes is not None:
            p, least = columns[part.threshold[0]], self.dialect.number(part.threshold[1])
            yes, no = (self.dialect.label(part.classes[k]) for k in (part.threshold[0], 1 - part.threshold[0]))
            found = [("prediction", f"CASE WHEN {p} >= {least} THEN {yes} WHEN {p} < {least} THEN {no} END")]
        kept = columns if part.only is None else [columns[part.only]]
        return found + list(zip(part.outputs, kept, strict=True))


def _score_columns(number: int, part: Part) -> list[str]:
    return [f"score_{number}_{k}" for k in range(2 if part.link == "logistic" else part.n_scores)]


def _best(columns: list[str]) -> str:
    """The number of the largest of some columns, of equal ones the first."""
    cases = [f"WHEN {columns[0]} IS NULL THEN NULL"]
    for k, name in enumerate(columns[:-1]):
        tests = " AND ".join(f"{name} >= {other}" for other in columns[k + 1 :])
        cases.append(f"WHEN {tests} THEN {k}")
    return f"CASE {' '.join(cases)} ELSE {len(columns) - 1} END"


def _case(column: str, cases: dict[str, str]) -> str:
    lines = "\n    ".join(f"WHEN {key} THEN {value}" for key, value in cases.items())
    return f"CASE {column}\n    {lines}\n  END"


def _columns(items: Sequence[str]) -> str:
    return ",\n  ".join(items)


def _step(name: str, items: Sequence[str], before: Sequence[tuple[str, str]]) -> tuple[str, str]:
    return name, f"  SELECT {_columns(items)}\n  FROM {before[-1][0]}"


def _joined(steps: Sequence[tuple[str, str]], fence: str) -> str:
    return ",\n".join(f"{name} AS {fence}(\n{text}\n)" for name, text in steps)
