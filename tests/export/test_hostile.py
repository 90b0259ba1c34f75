"""Names and categories that try to break out of literals, identifiers and comments: none of them is ever run."""

from __future__ import annotations

import math
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks import engines
from tests.tree.trees import random_tree
from treelu.export.c import to_c
from treelu.export.dialects import DIALECTS
from treelu.export.javascript import to_javascript
from treelu.export.literals import comment, digits, identifier
from treelu.export.program import Category, Column, Missing, Number, Other, Part, Program, tree_program
from treelu.export.python import to_python
from treelu.export.sql import sql_expressions, to_sql
from treelu.tree import ObliqueTree

NASTY = (
    "'; DROP TABLE data; --",
    '"; DROP TABLE data; --',
    "`; DROP TABLE data; --",
    "*/ int main(void) { return 7; } /*",
    "*/ abort(); //",
    "${process.exit(7)}",
    "`${process.exit(7)}`",
    "\\",
    "\\'",
    '\\"',
    "??/",
    "??/\n#error broken",
    "\n#error broken",
    "\r\nraise SystemExit(7)",
    "'''\nraise SystemExit(7)\n'''",
    '"""\nraise SystemExit(7)\n"""',
    "</script><script>alert(1)</script>",
    "\u2028process.exit(7)\u2029",
    "__proto__",
    "constructor",
    "@COLUMNS@",
    "%s %n %d {} {0}",
    "$$; SELECT 1; $$",
    "E'\\x41",
    "naïve café 東京 🌳 \u202egnp",
    "\x01\x1b[31m\x7f",
    "x" * 10_000,
    "é" * 5_000 + "'" * 5_000,
)


def program_with(names: list[str], categories: list[str]) -> Program:
    """A text column and number columns of these names; a tree that asks about all categories."""
    columns = [Column(name) for name in names[1:]] + [Column(names[0], "text", missing=("NA",))]
    last = len(columns) - 1
    features = [Number(place, 0.5) for place in range(last)]
    features += [Category(last, text) for text in categories] + [Other(last, tuple(categories)), Missing(last)]  # type: ignore[arg-type]
    n = len(features)
    weights = np.zeros((n, n))
    weights[np.arange(n), np.arange(n)] = 1.0
    # A chain: the first feature that is above 1/2 decides.
    children = [[node + 1 if node + 1 < n else n, n + 1 + node] for node in range(n)]
    classes = np.array([f"{text} {place}" for place, text in enumerate((names + categories) * 2)][: n + 1])
    values = np.eye(n + 1)
    tree = ObliqueTree(weights, np.full(n, -0.75), children, values, link="probability", classes=classes)
    outputs = tuple(f"probability_{label}" for label in classes.tolist())
    return Program(tuple(columns), tuple(features), (Part((tree,), outputs),), name=names[0], trained=names[-1])


def rows_of(program: Program, categories: list[str]) -> list[list[object]]:
    cells = [*categories, "unknown", None, " ", *(f"\t{text} " for text in categories)]
    return [[0.25] * (len(program.columns) - 1) + [cell] for cell in cells]


def wanted(program: Program, categories: list[str]) -> list[str]:
    """The class of each row, from what the tree was made for."""
    classes = program.parts[0].classes
    assert classes is not None
    first = len(program.columns) - 1
    leaf = [first + place for place in range(len(categories))]
    other, missing = first + len(categories), first + len(categories) + 1
    return [classes[1 + place] for place in (*leaf, other, missing, missing, *leaf)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "postgresql", "c", "javascript", "python", "onnx"])
def test_nasty_names_and_categories_change_nothing(engine: str, request: pytest.FixtureRequest) -> None:
    reason = engines.absent(engine)
    if reason is not None:
        pytest.skip(reason)
    categories = [text for text in NASTY if text == text.strip()]
    names = [text for text in NASTY if engine != "postgresql" or len(text.encode()) <= 63]  # its longest name
    program = program_with(names, categories)
    if engine == "postgresql":
        run = request.getfixturevalue("server").run(program, rows_of(program, categories))
    else:
        run = getattr(engines, f"run_{engine}")(program, rows_of(program, categories))
    assert run.failures == 0
    assert [row[0] for row in run.answers] == wanted(program, categories)


texts = st.one_of(
    st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
)


@given(
    names=st.lists(texts, min_size=2, max_size=4, unique=True),
    categories=st.lists(texts.map(str.strip), max_size=3, unique=True),
)
@example(names=["a", "b"], categories=["NA"])
@settings(max_examples=25)
def test_any_text_stays_a_text_in_python_and_sqlite(names: list[str], categories: list[str]) -> None:
    folded = {name.upper().lower() for name in names}
    categories = [text for text in categories if text not in ("", "NA", "unknown")]
    program = program_with(names, categories)
    rows, classes = rows_of(program, categories), wanted(program, categories)
    module: dict = {"__name__": "model"}
    exec(compile(to_python(program), "model", "exec"), module)
    keys = [column.name for column in program.columns]
    assert [module["predict"](dict(zip(keys, row, strict=True)))["prediction"] for row in rows] == classes
    if len(folded) == len(names):  # names in SQLite know no case
        assert [row[0] for row in engines.run_sqlite(program, rows).answers] == classes


@given(text=texts)
def test_comments_are_plain(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9 _.,:()+\\-]*", comment(text))
    assert len(comment(text)) < 1000
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", identifier(text))


@given(text=texts)
@settings(max_examples=40)
def test_sources_are_plain_ascii_outside_sql(text: str) -> None:
    """Whatever the names, C is printable ASCII without trigraphs, and JavaScript has nothing that ends a script."""
    program = program_with([text, text + "2"], [text.strip()] if text.strip() not in ("", "NA") else [])
    c, javascript, python = to_c(program), to_javascript(program), to_python(program)
    for source in (c, javascript, python):
        assert re.fullmatch(r"[\n -~]*", source)
    assert "??" not in c
    assert "</" not in javascript.replace("// ", "")


# Numbers


@given(value=st.floats(allow_nan=False, allow_infinity=False))
@example(value=5e-324)
@example(value=1.7976931348623157e308)
def test_numbers_read_back_to_the_last_bit(value: float) -> None:
    assert float(digits(value)) == value
    found = sqlite3.connect(":memory:").execute(f"SELECT {DIALECTS['sqlite'].number(value)}").fetchone()[0]
    assert found == value


@given(value=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=50)
def test_numbers_read_back_in_duckdb(value: float) -> None:
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.execute(f"SELECT {DIALECTS['duckdb'].number(value)}").fetchone()[0] == value


@pytest.mark.parametrize("value", [0.0, -1e-9, -0.5, -math.log(2), -1.0, -37.7, -80.0])
def test_exponentials_without_a_function(value: float) -> None:
    dialect = DIALECTS["sqlite"]
    text = f"SELECT {dialect.exponential('x')} FROM (SELECT {dialect.number(value)} AS x)"
    assert "EXP" not in text
    assert sqlite3.connect(":memory:").execute(text).fetchone()[0] == pytest.approx(math.exp(value), rel=1e-13)


# What is refused


def stump(name: str = "a", n: int = 1) -> ObliqueTree:
    names = [name, *(f"{name}{place}" for place in range(1, n))]
    return ObliqueTree(np.ones((1, n)), [0], [[1, 2]], [[0], [1]], feature_names=names)


def test_what_a_language_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be the name of a column in SQL"):
        to_sql(stump("a\0b"))
    with pytest.raises(ValueError, match="holds half a character"):
        to_python(stump("\ud800"))
    with pytest.raises(ValueError, match="holds the character NUL"):
        to_sql(program_with(["a", "b"], ["x\0y"]))
    with pytest.raises(ValueError, match="dialect must be one of sqlite, duckdb, postgresql, plain, got 'oracle'"):
        to_sql(stump(), dialect="oracle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype must be 'double' or 'float', got 'half'"):
        to_c(stump(), dtype="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too large for dtype='float'"):
        to_c(ObliqueTree([[1e300]], [0], [[1, 2]], [[0], [1]]), dtype="float")
    with pytest.raises(ValueError, match=r"a sum of 901 terms is more than the dialect 'sqlite' takes \(900\)"):
        to_sql(stump(n=901), dialect="sqlite")


@pytest.mark.parametrize("keep", [["id", "prediction"], ["Prediction"], ["id", "ID"]])
def test_two_columns_of_one_name_are_refused_in_sql(keep: list[str]) -> None:
    """Whoever reads such an output by name gets one of them."""
    with pytest.raises(ValueError, match=f"keep: the output has a column '{keep[-1]}' already"):
        to_sql(stump(), dialect="sqlite", keep=keep)


def test_weights_that_overflow_still_have_a_self_test() -> None:
    for weight, bias in ((1e308, 0.0), (1e-308, 0.0), (0.0, 1.0)):
        tree = ObliqueTree([[weight]], [bias], [[1, 2]], [[0], [1]])
        module: dict = {"__name__": "model"}
        exec(to_python(tree), module)
        assert module["EXAMPLES"]
        assert module["self_test"]() == 0
        assert sqlite3.connect(":memory:").execute(to_sql(tree, dialect="sqlite", self_test=True)).fetchone() == (0,)


def test_expressions_that_would_be_too_much_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="take more than one expression; use to_sql"):
        sql_expressions(random_tree(rng, 3, 2, "linear softmax"))
    children = [[20 + k, k + 1 if k < 19 else 40] for k in range(20)]
    chain = ObliqueTree(np.ones((20, 1)), np.arange(20), children, np.zeros((21, 1)))
    with pytest.raises(ValueError, match=r"a tree of depth 20 is too deep for one expression \(14\); use to_sql"):
        sql_expressions(chain)


@pytest.mark.parametrize("kind", ["identity", "identity2", "linear", "logistic", "softmax", "probability"])
def test_one_expression_an_answer(kind: str) -> None:
    tree = random_tree(np.random.default_rng(1), 9, 3, kind, feature_names=["a b", 'c"', "it's"])
    X = np.random.default_rng(2).standard_normal((300, 3))
    data = sqlite3.connect(":memory:")
    data.execute("CREATE TABLE t (`a b`, `c\"`, `it's`)")
    data.executemany("INSERT INTO t VALUES (?, ?, ?)", X.tolist())
    found = sql_expressions(tree, dialect="sqlite", table="t")
    outputs = tree.link_outputs(tree.decision_function(X))
    rows = np.array(data.execute(f"SELECT {', '.join(found.values())} FROM t").fetchall(), dtype=object)
    assert list(found)[-outputs.shape[1] :] == list(tree_program(tree).outputs)
    np.testing.assert_allclose(rows[:, -outputs.shape[1] :].astype(float), outputs, rtol=1e-12)
    if tree.is_classifier:
        assert rows[:, 0].tolist() == tree.predict(X).tolist()


def test_a_misspelt_column_is_an_error_in_sqlite(tmp_path: Path) -> None:
    """SQLite takes an unknown name in double quotes for a text."""
    data = sqlite3.connect(tmp_path / "data.db")
    data.execute("CREATE TABLE data (ag)")
    for query in (
        to_sql(stump("age"), dialect="sqlite"),
        f"SELECT {sql_expressions(stump('age'), dialect='sqlite')['prediction']} FROM data",
    ):
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            data.execute(query)


def test_texts_that_look_like_numbers_are_read_in_sqlite() -> None:
    """As after the import of a CSV file, where all columns are texts."""
    data = sqlite3.connect(":memory:")
    data.execute("CREATE TABLE data (a TEXT)")
    data.executemany("INSERT INTO data VALUES (?)", [("1.5",), (" -2e0 ",), ("",), ("?",), (None,), ("inf",)])
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0], [1]], feature_names=["a"])
    found = data.execute(to_sql(tree, dialect="sqlite")).fetchall()
    assert [row[0] for row in found] == [1.0, 0.0, None, None, None, None]
