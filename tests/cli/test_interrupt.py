"""Ctrl-C on the command line: one ends the command with 130, and the old model stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import QUICK, Type, people
from treelu.cli import fit as fitting
from treelu.cli import interrupt
from treelu.cli import tune as tuning
from treelu.cli.pages import add_queries, pages, summarize_model
from treelu.cli.prepare import TableRows
from treelu.persistence import load_as_saved
from treelu.report.queries import OutOfTimeError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]


@pytest.fixture(autouse=True)
def heed_ctrl_c() -> Iterator[None]:
    """Processes in the background ignore Ctrl-C, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
@pytest.mark.parametrize("targets", ["survived", "survived,other"])
def test_in_any_training_it_ends_the_command_and_keeps_the_old_model(
    targets: str, moment: int, table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the last epoch, and in the first of two labels: 0.1 went on to the second and replaced the model."""
    import pandas as pd

    frame = pd.read_csv(table).assign(other=lambda frame: frame["survived"].iloc[::-1].to_numpy())
    frame.to_csv(tmp_path / "table.csv", index=False)
    words = ["fit", tmp_path / "table.csv", "--out", tmp_path / "m", *QUICK, "--quiet", "--no-cart"]
    assert type_(*words, "--target", "survived").code == 0
    before = content(tmp_path / "m")
    calls = 0

    def go_on(advance: object) -> None:
        nonlocal calls
        calls += 1
        if calls == moment:
            press_ctrl_c()

    monkeypatch.setattr("treelu.cli.train._go_on", go_on)
    typed = type_(*words, "--target", targets, "--force", "--no-refit")
    if moment == 4 and targets == "survived":  # there are three epochs
        assert typed.code == 0
        return
    assert (typed.code, calls) == (130, moment)
    assert typed.err.splitlines()[-1] == "treelu: stopped"
    assert content(tmp_path / "m") == before


def test_in_the_second_fit_too(table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def go_on(advance: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:  # each fit has three epochs
            press_ctrl_c()

    monkeypatch.setattr("treelu.cli.train._go_on", go_on)
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", *QUICK)
    assert (typed.code, calls) == (130, 4)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("where", ["summarize_model", "add_queries", "pages"])
@pytest.mark.parametrize("how", ["Ctrl-C", "error"])
def test_what_ends_the_report_costs_the_report_only(
    how: str, where: str, table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*arguments: object, **options: object) -> None:
        if how == "error":
            raise ZeroDivisionError("a defect of the report")
        press_ctrl_c()

    monkeypatch.setattr(f"treelu.cli.fit.{where}", end)
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", *QUICK, "--no-cart")
    words = "was interrupted" if how == "Ctrl-C" else "failed"
    command = f"treelu report {tmp_path / 'm'} {table}"
    *_, told, last = typed.err.splitlines()
    assert told == f"treelu: the report {words}; the model is saved in {tmp_path / 'm'}, for a report: {command}"
    assert typed.code == (130 if how == "Ctrl-C" else 1)
    assert last.startswith(
        "treelu: stopped" if how == "Ctrl-C" else "treelu: ZeroDivisionError: a defect of the report"
    )
    assert ("scores on 16 hold-out rows" in typed.out) == (where != "summarize_model")
    assert load_as_saved(tmp_path / "m").n_rows == 80
    assert not (tmp_path / "m" / "report.html").exists()
    monkeypatch.undo()
    assert type_("report", tmp_path / "m", table, "--out", tmp_path / "r.html").code == 0


def test_one_that_gets_lost_is_found_before_anything_is_written(
    table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception within a destructor goes no further."""

    class Swallows:
        def __del__(self) -> None:
            press_ctrl_c()

    train = fitting.train

    def swallowing(*arguments: object, **options: object) -> object:
        Swallows()
        return train(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fitting, "train", swallowing)
    monkeypatch.setattr("sys.unraisablehook", lambda error: None)
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", *QUICK, "--quiet", "--no-cart")
    assert typed.code == 130
    assert not (tmp_path / "m").exists()


def test_it_ends_a_search_too(table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter(range(9))

    def loss(*arguments: object, **options: object) -> float:
        if next(losses) == 2:
            press_ctrl_c()
        return 1.0

    monkeypatch.setattr(tuning, "fold_loss", loss)
    typed = type_("fit", table, "--target", "survived", "--out", tmp_path / "m", "--tune", "--folds", 2)
    assert typed.code == 130
    assert next(losses) == 3


def test_handlers_are_put_back_and_none_is_set_in_a_thread() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(interrupt.Interrupted), interrupt.one_interrupt_ends_all(last=False):
        press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is before
    interrupt.check_not_interrupted()  # it was that command's
    codes = []

    def in_a_thread() -> None:
        with interrupt.one_interrupt_ends_all(last=False):
            codes.append(signal.getsignal(signal.SIGINT) is before)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert codes == [True]


def test_a_process_ends_with_130_while_a_thread_works_on(table: Path, tmp_path: Path) -> None:
    code = (
        "import sys, threading, time\n"
        "import treelu.cli.interrupt as interrupt\n"
        "interrupt.PATIENCE = 0.2\n"
        "from treelu.cli import demo, main\n"
        "def run(options):\n"
        "    threading.Thread(target=time.sleep, args=(100,)).start()\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(100)\n"
        "demo.run_demo = run\n"
        "sys.argv = ['treelu', 'demo']\n"
        "sys.exit(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "treelu: stopped\n"


def test_a_time_limit_ends_what_takes_longer_and_is_gone_after_the_block() -> None:
    before = signal.getsignal(signal.SIGPROF)

    def endless() -> None:
        while True:
            pass

    with pytest.raises(OutOfTimeError), interrupt.time_limit(0.05):
        endless()
    with interrupt.time_limit(60):
        assert signal.getitimer(signal.ITIMER_PROF)[0] > 0
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
    assert signal.getsignal(signal.SIGPROF) is before


def test_answers_that_do_not_end_are_left_out_of_the_page(
    table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", table, "--target", "survived", "--leaves", 3, "--no-cart", "--quiet", "--out", tmp_path / "m"]
    assert type_(*words).code == 0

    def endless(*arguments: object, **options: object) -> None:
        while True:
            pass

    monkeypatch.setattr("treelu.report.queries.nearest", endless)
    loaded, people_ = load_as_saved(tmp_path / "m"), people()
    rows = TableRows(loaded.encoder.encode(people_).X, people_["survived"].to_numpy(), encoder=loaded.encoder)
    summaries = summarize_model(loaded, rows, title="people")
    add_queries(loaded, rows, summaries, seconds=0.5)
    answers = summaries["survived"]["questions"]
    assert answers["not_computed"] >= len(answers["rows"]) == 80
    assert not any("change" in row or "margin" in row for row in answers["rows"])
    assert "shares" in answers["rows"][0]  # what ends in time is there
    assert '"not_computed"' in pages(summaries)["report.html"].decode()
