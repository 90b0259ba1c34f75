"""`treelu ask` and `treelu verify`: every answer in words, in the columns of the table, and true of the model."""

import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treelu
from tests.cli.conftest import Type
from tests.fixed import fixed_tree
from treelu.cli import ask as asking
from treelu.persistence.table_model import TableModel
from treelu.tables import TableEncoder
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed

LOANS = pd.DataFrame({"income": [30.0, 80.0, None], "debt": [5.0, 0.0, 2.0], "job": ["clerk", "nurse", "clerk"]})
FEATURES = ("income", "income=(missing)", "debt", "job=clerk", "job=nurse")


def loans(**options: object) -> TableModel:
    """Yes where income − debt reaches 50, or 40 for a nurse."""
    encoder = TableEncoder.learn(LOANS, note=lambda text: None)
    assert encoder.feature_names == FEATURES
    tree = ObliqueTree(
        [[1.0, 0, -1, 0, 10]], [-50.0], [[1, 2]], [[-1.0], [2.0]], link="logistic", classes=["no", "yes"],
        feature_names=FEATURES, spreads=[10.0, 1, 5, 1, 1],
    )  # fmt: skip
    tree = replace(tree, **options)  # type: ignore[arg-type]
    return TableModel(fixed_tree(tree, encoder), ("loan",))


@pytest.fixture
def lend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, type_: Type):
    """Types a command about the model of loans: ``lend("ask", "--want", "yes", rows=…)``."""

    def run(command: str, *words: object, rows: pd.DataFrame = LOANS, model: TableModel | None = None):
        saved = model or loans()
        monkeypatch.setattr("treelu.cli.ask.load_table_model", lambda folder: saved)
        monkeypatch.setattr("treelu.cli.verify.load_table_model", lambda folder: saved)
        rows.to_csv(tmp_path / "rows.csv", index=False)
        table = [tmp_path / "rows.csv"] if command == "ask" else []
        return type_(command, tmp_path, *table, *words)

    return run


# Asking


def test_the_nearest_change_of_each_row(lend) -> None:
    typed = lend("ask", "--want", "yes")
    assert (typed.code, typed.err) == (0, "")
    lines = typed.out.splitlines()
    assert lines[0] == "row 1: loan is predicted no; it would be yes if"
    assert lines[-2:] == ["row 2: loan is predicted yes, as asked for", "row 3: loan is predicted yes, as asked for"]


def test_what_stays_rises_and_lies_within(lend) -> None:
    one = LOANS.iloc[[0]]
    kept = lend("ask", "--want", "yes", "--keep", "job,debt", rows=one).out.splitlines()
    assert kept[0] == "row 1: loan is predicted no; it would be yes if"
    assert kept[1] == "  income were 25 higher (55 instead of 30)"
    nurse = lend("ask", "--keep", "debt", "--within", "income=0..45", rows=one).out.splitlines()
    assert nurse[1:] == ["  income were 15 higher (45 instead of 30) and", "  job were nurse instead of clerk"]
    clerk = lend("ask", "--rise", "income", "--keep", "debt", "--within", "job=clerk", rows=one).out.splitlines()
    assert clerk[1:] == ["  income were 25 higher (55 instead of 30)"]
    lower = lend("ask", "--fall", "debt", "--keep", "job", "--within", "debt=0..", "--within", "income=..52", rows=one)
    assert lower.out.splitlines()[1:] == [
        "  income were 22 higher (52 instead of 30) and",
        "  debt were 3 lower (2 instead of 5)",
    ]
    none = lend("ask", "--want", "yes", "--keep", "income,debt", rows=one)
    assert none.out == "row 1: loan is predicted no; no row within the limits is predicted yes (proved)\n"
    assert none.code == 0


def test_progress_is_shown_row_by_row(lend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    shown = []

    @contextmanager
    def bar(title: str, total: int, quiet: bool) -> Iterator[Callable[[], None]]:
        shown.append((title, total, quiet))
        yield lambda: shown.append(capsys.readouterr().out)

    monkeypatch.setattr(asking, "progress_bar", bar)
    assert lend("ask", "--want", "yes").code == 0
    assert shown[0] == ("asking", 3, False)
    assert [out.split(":")[0] for out in shown[1:]] == ["row 1", "row 2", "row 3"]  # each is out before the bar moves


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("gets_lost", [False, True])
def test_ctrl_c_ends_a_search_and_keeps_the_answers_so_far(
    gets_lost: bool, lend, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, ask, calls = signal.getsignal(signal.SIGINT), ObliqueTree.counterfactual, iter(range(9))

    def second_is_slow(*arguments: object, **options: object) -> object:
        if next(calls) == 1:
            with suppress(BaseException) if gets_lost else nullcontext():
                os.kill(os.getpid(), signal.SIGINT)
                while True:
                    pass
        return ask(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ObliqueTree, "counterfactual", second_is_slow)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored in the background
    try:
        typed = lend("ask", "--want", "yes")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (typed.code, typed.err) == (130, "treelu: stopped\n")
    assert typed.out.startswith("row 1: loan is predicted no; it would be yes if\n")
    assert "row 2" not in typed.out
    assert next(calls) == 2


def test_a_missing_number_stays_missing(lend) -> None:
    rows = pd.DataFrame({"income": [None, 20.0], "debt": [9.0, 1.0], "job": ["clerk", "nurse"]})
    typed = lend("ask", "--want", "no", "--keep", "job", rows=rows)
    first = typed.out.splitlines()
    assert "income" not in first[1]
    answer = json.loads(lend("ask", "--want", "yes", "--json", rows=rows).out.splitlines()[0])
    assert answer["found"]
    assert set(answer["changes"]) <= {"debt", "job"}


def test_probabilities_values_and_any_other_class(lend) -> None:
    one = LOANS.iloc[[0]]
    likely = lend("ask", "--want", "yes", "--at-least", 0.8, "--keep", "job,debt", rows=one)
    assert likely.out.splitlines()[0] == "row 1: loan is predicted no; it would be yes if"
    same = lend("ask", "--want", "no", "--at-most", 0.5, "--keep", "job,debt,income", rows=one)
    assert same.out == (
        "row 1: loan is predicted no; no row within the limits is predicted no with a probability of at most 0.5 "
        "(proved)\n"
    )
    other = lend("ask", "--keep", "job,debt,income", rows=one)
    assert "is predicted anything but no (proved)" in other.out
    numbers = loans(link="identity", classes=None)
    value = lend("ask", "--at-least", 1, "--keep", "job,debt", rows=one, model=numbers)
    assert value.out.splitlines()[0] == "row 1: loan is predicted -1; it would be 2 if"
    never = lend("ask", "--at-least", 1, "--at-most", 3, "--keep", "job,debt,income", rows=one, model=numbers)
    assert "is predicted at least 1 and at most 3 (proved)" in never.out


def test_a_model_with_a_threshold_answers_by_it(lend) -> None:
    tree = {"values": [[-1.0], [0.5]]}  # probabilities 0.27 and 0.62
    strict = replace(loans(**tree), threshold=0.7)
    one = LOANS.iloc[[1]]
    typed = lend("ask", "--want", "yes", rows=one, model=strict)
    assert typed.code == 2
    assert "no leaf of the tree has a probability of 'yes' of at least 0.7" in typed.err
    loose = replace(loans(**tree), threshold=0.2)
    assert lend("ask", "--want", "yes", rows=LOANS.iloc[[0]], model=loose).out.endswith("predicted yes, as asked for\n")


def test_json_lines(lend) -> None:
    typed = lend("ask", "--want", "yes", "--keep", "job,debt", "--json")
    first, second, _ = (json.loads(line) for line in typed.out.splitlines())
    assert first["changes"] == {"income": {"from": 30.0, "to": 55.0}}
    assert first["prediction"] == "no"
    assert first["new_prediction"] == "yes"
    assert first["distance"] == pytest.approx(2.5)
    assert second["found"]
    assert second["changes"] == {}


def test_several_changes_lead_into_different_leaves(lend) -> None:
    """Yes where income − debt reaches 50; where debt is 0 or less, also from 20 on."""
    more = loans(
        weights=[[1.0, 0, -1, 0, 0], [0, 0, -1.0, 0, 0], [1.0, 0, 0, 0, 0]], biases=[-50.0, 0.0, -20.0],
        children=[[1, 3], [4, 2], [5, 6]], values=[[2.0], [-1.0], [-1.0], [2.0]],
    )  # fmt: skip
    one = LOANS.iloc[[0]]
    typed = lend(
        "ask", "--want", "yes", "--keep", "job", "--within", "debt=0..", "--nearest", 3, "--rise", "income",
        rows=one, model=more,
    )  # fmt: skip
    assert typed.out.splitlines() == [
        "row 1: loan is predicted no; it would be yes if",
        "  debt were 5 lower (0 instead of 5)",
        "or it would be yes if",
        "  income were 25 higher (55 instead of 30)",
        "no other leaf within the limits is predicted yes (proved)",
    ]
    lines = lend("ask", "--keep", "job", "--nearest", 2, "--within", "debt=0..", "--json", rows=one, model=more)
    answer = json.loads(lines.out)
    assert answer["changes"] == {"debt": {"from": 5.0, "to": 0.0}}
    assert answer["others"][0]["changes"] == {"income": {"from": 30.0, "to": 55.0}}
    assert answer["distance"] <= answer["others"][0]["distance"]
    already = lend("ask", "--want", "no", "--nearest", 3, rows=one, model=more)
    assert already.out == "row 1: loan is predicted no, as asked for\n"
    assert lend("ask", "--nearest", 0, rows=one).code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--want", "maybe"], "--want maybe: loan is no or yes"),
        (["--keep", "incom"], "--keep: the table has no column 'incom'; did you mean 'income'?"),
        (["--rise", "job"], "--rise job: that column holds no numbers, so that it neither rises nor falls"),
        (["--within", "income"], "--within income: write COLUMN=LOW..HIGH, such as age=18..100, or COLUMN=TEXT|TEXT"),
        (["--within", "income=low..high"], "--within income=low..high: write COLUMN=LOW..HIGH, such as income=18..100"),
        (["--within", "income=9..1"], "--within income=9..1: the range is empty; give the smaller number first"),
        (["--within", "job=cook"], "--within job=cook: 'job' has no category 'cook'; it has clerk, nurse"),
        (["--within", "income=40..50", "--keep", "income"], "keep: 'income' is 30, outside its range 40 to 50; widen"),
        (["--at-least", "0.5"], "--at-least and --at-most need --want, the class whose probability is meant"),
    ],
)
def test_bad_questions(words: list[str], message: str, lend) -> None:
    typed = lend("ask", *words)
    assert typed.code == 2
    assert typed.err.startswith(f"treelu: {message}")
    assert typed.err.count("\n") == 1


def test_bad_questions_about_numbers(lend) -> None:
    numbers = loans(link="identity", classes=None)
    assert lend("ask", model=numbers).err == "treelu: loan is a number: give --at-least or --at-most\n"
    typed = lend("ask", "--want", "yes", model=numbers)
    assert typed.err == "treelu: --want yes: loan is a number; give --at-least or --at-most\n"
    many = pd.concat([LOANS] * 400)
    assert "has 1,200 rows; ask about at most 1,000 at a time" in lend("ask", rows=many).err


# Verifying


def test_properties_that_hold(lend) -> None:
    typed = lend("verify", "--rises", "income", "--falls", "debt", "--at-most", 0.9, "--at-least", "0.2")
    assert typed.code == 0
    among = ", for rows without missing values"
    assert typed.out.splitlines() == [
        f"proved: the probability of loan = yes never falls when income rises{among}",
        f"proved: the probability of loan = yes never rises when debt rises{among}",
        f"proved: the probability of loan = yes is at most 0.9{among}",
        f"proved: the probability of loan = yes is at least 0.2{among}",
    ]
    assert lend("verify", "--independent", "job", "--within", "income=100..", "--within", "debt=..50").code == 0


def test_properties_that_do_not(lend) -> None:
    typed = lend(
        "verify", "--independent", "job", "--rises", "income", "--within", "income=0..100", "--within", "debt=0..0"
    )
    assert typed.code == 1
    lines = typed.out.splitlines()
    assert lines[0].startswith("proved: the probability of loan = yes never falls when income rises")
    assert lines[1] == "refuted: the predicted loan never depends on job"
    assert lines[2].split() == ["job", "nurse", "clerk"]
    assert lines[-1].split() == ["predicted", "yes", "no"]
    limit = lend("verify", "--at-most", 0.5, "--want", "yes", "--json")
    (result,) = json.loads(limit.out)
    assert not result["proved"]
    assert result["claim"] == "the probability of loan = yes is at most 0.5"
    assert loans().estimator.predict(pd.DataFrame(result["rows"], dtype=object))[0] == "yes"
    falling = lend("verify", "--falls", "income", "--within", "debt=0..10").out.splitlines()
    assert falling[0] == "refuted: the probability of loan = yes never rises when income rises"


def test_bad_claims(lend) -> None:
    assert lend("verify").err == (
        "treelu: nothing to verify; give --rises, --falls, --independent, --at-most or --at-least\n"
    )
    assert lend("verify", "--rises", "job").err == (
        "treelu: --rises job: that column holds no numbers, so that it neither rises nor falls\n"
    )
    numbers = loans(link="identity", classes=None)
    assert lend("verify", "--rises", "debt", "--want", "yes", model=numbers).err == (
        "treelu: --want yes: loan is a number\n"
    )
    assert lend("verify", "--rises", "income", model=numbers).out.startswith("proved: loan never falls when income ris")


def test_a_threshold_moves_the_class_and_not_the_probability(lend) -> None:
    never = replace(loans(), threshold=0.95)
    assert lend("verify", "--independent", "job", "--within", "income=0..100", model=never).code == 0


def test_what_training_constrained_is_proved(lend) -> None:
    """`monotonic_cst` in training, `treelu verify` without bounds."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"income": rng.normal(50, 20, 150).round(1), "debt": rng.gamma(2, 5, 150).round(1)})
    rows["job"] = rng.choice(["clerk", "nurse"], 150)
    chance = rows["income"] - rows["debt"] + 10 * (rows["job"] == "nurse") + rng.normal(0, 10, 150)
    encoded = TableEncoder.learn(rows, note=lambda text: None).encode(rows)
    fitted = treelu.ObliqueTreeClassifier(
        max_leaf_nodes=5, n_updates=60, monotonic_cst={"income": 1, "debt": -1}, random_state=0
    ).fit(encoded, np.where(chance > 45, "yes", "no"))
    model = TableModel(fitted, ("loan",))
    typed = lend("verify", "--rises", "income", "--falls", "debt", model=model)
    assert [line.partition(", for rows within the training ranges")[0] for line in typed.out.splitlines()] == [
        "proved: the probability of loan = yes never falls when income rises",
        "proved: the probability of loan = yes never rises when debt rises",
    ]
    assert typed.code == 0
    assert lend("verify", "--falls", "income", model=model).code == 1


@pytest.mark.slow
def test_hostile_names_are_shown_on_one_line_and_cut(tmp_path: Path, type_: Type) -> None:
    """0.1 printed them as they are: colours, turned text and new lines in every note and answer."""
    red, turned, rows = "\x1b[31mred\x1b[0m", "\u202eevil", np.random.default_rng(0).standard_normal((60, 3))
    frame = pd.DataFrame(rows.round(2), columns=["two\nlines", red, "x" * 3000])
    frame[turned] = np.resize(["a\nb", red, "y" * 500], 60)
    frame["the\ntarget"] = np.where(rows[:, 0] + rows[:, 1] > 0, "ye\ns", "\x1b[32mno")
    data, model = tmp_path / "table.csv", tmp_path / "model"
    frame.to_csv(data, index=False)
    commands = [
        ("fit", data, "--target", "the\ntarget", "--out", model, "--method", "lcn", "--depth", 2, "--epochs", 3),
        ("ask", model, data),
        ("ask", model, data, "--want", "ye\ns", "--nearest", 2),
        ("ask", model, data, "--want", "\x1b[31m"),
        ("ask", model, data, "--keep", "no\nne\x1b"),
        ("verify", model, "--rises", red, "--independent", turned, "--at-most", 0.5),
        ("export", model, "--format", "text"),
    ]
    for words in commands:
        typed = type_(*words)
        lines = (typed.out + typed.err).split("\n")
        assert all(line.isprintable() for line in lines), words
        assert max(map(len, lines)) <= 620, words
        assert not {"lines", "target", "b", "s"} & set(lines), words  # what would follow a broken line
    tree = ObliqueTree([[1.0, -1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["\x1bno", "ye\ns"],
                       feature_names=["two\nlines", turned])  # fmt: skip
    found, verdict = tree.counterfactual([-1.0, 1.0]), tree.rises(1)
    for text in (str(found), str(verdict), found._repr_html_(), verdict._repr_html_()):
        assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.slow
def test_a_fitted_model(table: Path, type_: Type, tmp_path: Path) -> None:
    """What is answered about a model of `treelu fit` is true of what `treelu predict` says."""
    model = tmp_path / "model"
    words = ("--target", "survived", "--out", model, "--depth", 2, "--epochs", 30, "--quiet", "--no-cart")
    assert type_("fit", table, *words).code == 0
    typed = type_("ask", model, table, "--json")
    assert typed.code == 0
    answers = [json.loads(line) for line in typed.out.splitlines()]
    loaded = treelu.load(model)
    frame = pd.read_csv(table)
    changed = frame.copy()
    for answer in answers:
        for column, change in answer["changes"].items():
            changed.loc[answer["row"] - 1, column] = change["to"]
    predicted = loaded.predict(changed)
    for answer in answers:
        if answer["found"]:
            assert predicted[answer["row"] - 1] == answer["new_prediction"] != answer["prediction"]
    assert sum(answer["found"] for answer in answers) > 20
    assert type_("verify", model, "--independent", "name").err.startswith(
        "treelu: --independent name: that column was left out when"
    )


def test_an_ensemble_is_no_tree(table: Path, tmp_path: Path, type_: Type) -> None:
    folder = tmp_path / "many"
    words = ("--method", "elcn", "--members", "2", "--epochs", "1", "--depth", "2", "--quiet")
    assert type_("fit", table, "--target", "survived", "--out", folder, *words).code == 0
    typed = type_("ask", folder, table)
    assert typed.code == 2
    assert typed.err.startswith(
        "treelu: a model of --method elcn is not a single tree, so that queries about it have no"
    )


# Columns of 0 and 1


def switches() -> TableModel:
    """Yes where 0.4 · member + income reaches 10; `member` is a truth value, `paid` 0 or 1."""
    frame = pd.DataFrame({"income": [3.0, 12.0, 9.5], "member": ["TRUE", "false", "FALSE"], "paid": [0, 1, 1]})
    encoder = TableEncoder.learn(frame, note=lambda text: None)
    tree = ObliqueTree(
        [[1.0, 0.4, 0.3]], [-10.0], [[1, 2]], [[-1.0], [2.0]], link="logistic", classes=["no", "yes"],
        feature_names=encoder.feature_names,
    )  # fmt: skip
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder
    return TableModel(fixed_tree(tree, encoder), ("loan",))


def test_truth_values_stay_truth_values(lend) -> None:
    rows = pd.DataFrame({"income": [9.2], "member": ["false"], "paid": [0]})
    said = lend("ask", "--want", "yes", "--keep", "income", rows=rows, model=switches()).out.splitlines()
    assert said == ["row 1: loan is predicted no; no row within the limits is predicted yes (proved)"]
    rows["income"] = 9.65
    said = lend("ask", "--want", "yes", "--keep", "income", rows=rows, model=switches()).out.splitlines()
    assert said[1:] == ["  member were 1 higher (1 instead of 0)"]
    typed = lend("verify", "--independent", "member", "--within", "income=0..9", model=switches())
    assert typed.out.startswith("proved: ")


def test_two_rows_that_differ_are_shown_to_differ(lend) -> None:
    falling = loans(weights=np.array([[-1e-9, 0, 0, 0, 0]]), biases=np.array([1e-9 / 3]))
    lines = lend(
        "verify", "--rises", "income", "--within", "income=0.33333333..0.33333334", model=falling
    ).out.splitlines()
    assert lines[0].startswith("refuted")
    name, first, then = lines[1].split()
    assert name == "income"
    assert first != then


# Rows as training had them


def kept_loans(**options: object) -> TableModel:
    """`loans` whose tree knows its training rows: incomes of 20 to 45 and whole debts of 0 to 9."""
    encoder = TableEncoder.learn(LOANS, note=lambda text: None)
    rows = pd.DataFrame({"income": [20.0, 45.0, 33.3], "debt": [0.0, 9.0, 4.0], "job": ["clerk", "nurse", "clerk"]})
    return loans(observed=Observed.of(encoder.encode(rows).X), **options)


def test_answers_stay_within_what_training_held(lend) -> None:
    rows = pd.DataFrame({"income": [44.5], "debt": [4.0], "job": ["nurse"]})
    assert lend("ask", "--want", "yes", "--keep", "job", rows=rows).out.startswith("row 1: loan is predicted yes")
    rows["debt"] = 7.0  # 37.5 + 10 is not enough; debts are whole
    said = lend("ask", "--want", "yes", "--keep", "job,income", rows=rows, model=kept_loans()).out.splitlines()
    assert said == ["row 1: loan is predicted no; it would be yes if", "  debt were 3 lower (4 instead of 7)"]
    rows["job"] = "clerk"  # an income of 50 is needed, and none was seen
    said = lend("ask", "--want", "yes", "--keep", "job", rows=rows, model=kept_loans()).out.splitlines()
    assert said == [
        "row 1: loan is predicted no; no row within the limits is predicted yes (proved; --anywhere looks beyond what "
        "the training rows held)"
    ]
    said = lend("ask", "--want", "yes", "--keep", "job", "--anywhere", rows=rows, model=kept_loans()).out
    assert "income were" in said
    said = lend("ask", "--want", "yes", "--keep", "job", "--within", "income=0..90", rows=rows, model=kept_loans()).out
    assert "income were" in said


def test_proofs_name_the_rows_that_they_are_about(lend) -> None:
    within = lend("verify", "--at-most", 0.5, "--within", "job=clerk", model=kept_loans())
    assert within.code == 0
    assert ", for rows within the training ranges" in within.out
    assert lend("verify", "--at-most", 0.5, "--within", "job=clerk", "--anywhere", model=kept_loans()).code == 1


def test_a_counterexample_is_whole_rows_that_predict_reads(tmp_path: Path, type_: Type) -> None:
    """A German file with a date, whole numbers, gaps and a class that is no English yes."""
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame({
        "Betrag": np.round(rng.gamma(2, 1500, n), 2), "Alter": rng.integers(19, 75, n).astype(float),
        "Zweck": rng.choice(["Auto", "Möbel", "Reise"], n),
        "Antrag": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D"),
    })  # fmt: skip
    score = frame.Betrag / 1000 + 2 * (frame.Zweck == "Auto") + 2 * (frame.Antrag.dt.month > 8) - frame.Alter / 20
    frame["Kredit"] = np.where(score > score.median() - 1, "nein", "ja")
    frame.loc[::20, "Alter"] = np.nan
    frame["Antrag"] = frame.Antrag.dt.strftime("%d.%m.%Y")
    frame["Betrag"] = [f"{value:.2f}".replace(".", ",") for value in frame.Betrag]
    data, folder, pair = tmp_path / "kredit.csv", tmp_path / "model", tmp_path / "pair.csv"
    frame.to_csv(data, sep=";", index=False, encoding="cp1252")
    words = ("--leaves", 4, "--no-cart", "--quiet")
    assert type_("fit", data, "--target", "Kredit", "--out", folder, *words).code == 0
    for extra in ((), (data,)):  # rows of its own, or beginning at one of the table
        claims = ("--rises", "Betrag", "--rises", "Antrag", "--independent", "Zweck", "--out", pair, "--force")
        typed = type_("verify", folder, *extra, *claims, "--json")
        results = json.loads(typed.out)
        predicted = pd.read_csv(io.StringIO(type_("predict", folder, pair).out), dtype=str)
        predicted["probability_ja"] = predicted["probability_ja"].astype(float)
        read = pd.read_csv(pair, sep=";", dtype=str)
        place = 0
        for result in results:
            rows = result["rows"]
            assert read.iloc[place : place + len(rows)].to_dict("records") == [
                {name: cell or np.nan for name, cell in row.items()} for row in rows
            ]
            column = "prediction" if "depends" in result["claim"] else "probability_ja"
            assert predicted[column].iloc[place : place + len(rows)].tolist() == result["predictions"]
            place += len(rows)
            assert rows, result["claim"]
            first, second = rows
            differ = [name for name in first if first[name] != second[name]]
            assert len(differ) == 1
            if column == "probability_ja":
                assert result["predictions"][0] > result["predictions"][1]
            for row in rows:
                assert row["Zweck"] in ("Auto", "Möbel", "Reise")
                assert row["Alter"].isdigit()
                assert 19 <= int(row["Alter"]) <= 74
                day = pd.to_datetime(row["Antrag"], format="%d.%m.%Y")
                assert pd.Timestamp("2020-01-01") <= day <= pd.Timestamp("2022-09-27")
                if extra:
                    assert row["Betrag"] in set(frame.Betrag) or "Betrag" in differ


def page_data(path: Path) -> dict[str, Any]:
    """What a page carries."""
    found = re.search(r'id="report-data">(.*?)</script>', path.read_text("utf-8"))
    assert found
    return json.loads(found.group(1))


def test_changes_on_the_page_are_possible_values(tmp_path: Path, type_: Type) -> None:
    """A column of integers changes to integers, and no column to a value beyond those of training."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"history": rng.integers(1, 7, 400), "amount": rng.integers(5, 100, 400) * 250.5})
    frame["paid"] = np.where(9000 * frame.history - frame.amount + rng.normal(0, 2000, 400) > 15000, "yes", "no")
    frame.to_csv(tmp_path / "loans.csv", index=False)
    typed = type_("fit", tmp_path / "loans.csv", "--target", "paid", "--out", tmp_path / "m", "--leaves", 4, "--quiet")
    assert typed.code == 0
    asked = page_data(tmp_path / "m" / "report.html")["questions"]
    assert asked["within_training"]
    values = [
        (name, float(value.replace(",", "")))
        for row in asked["rows"]
        for name, value in re.findall(r"(history|amount) were .*?([-\d.,]+) instead of", row["change"])
    ]
    assert "history" in {name for name, _ in values}
    for name, value in values:
        assert frame[name].min() <= value <= frame[name].max()
        assert name == "amount" or value == round(value)


def test_the_positive_class_is_the_same_everywhere(table: Path, tmp_path: Path, type_: Type) -> None:
    frame = pd.read_csv(table)
    frame["survived"] = np.where(frame["survived"].astype(str).isin(["1", "yes", "True"]), "ja", "nein")
    data, folder = tmp_path / "ja.csv", tmp_path / "model"
    frame.to_csv(data, index=False)
    for given, positive in (((), "ja"), (("--positive", "nein"), "nein")):
        typed = type_("fit", data, "--target", "survived", "--out", folder, "--leaves", 3, "--force", *given)
        assert typed.code == 0
        assert f"survived = {positive}" in typed.out
        claim = type_("verify", folder, "--at-most", 1, "--json").out
        assert json.loads(claim)[0]["claim"] == f"the probability of survived = {positive} is at most 1"
        about = [one["words"] for one in page_data(folder / "report.html")["questions"]["properties"]]
        assert about
        assert all(f" the probability of {positive} " in words for words in about if words.startswith("proved"))
    assert type_("fit", data, "--target", "survived", "--out", folder, "--positive", "yes", "--force").err.endswith(
        "treelu: --positive yes: the classes are ja and nein\n"
    )
