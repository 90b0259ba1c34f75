"""Compiling says so once, on a terminal, and leaves Python's garbage collector as it was."""

import gc
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from treelu.nn.cpu.compile import _Compiling


def event_of(module: str) -> Any:
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def compile_once(listener: _Compiling, module: str = "treelu.training.epochs") -> list[bool]:
    """An entry with a part within; whether garbage was collected before, within, between and after."""
    entry, part = event_of(module), event_of("treelu.nn.cpu.kernels")
    seen = [gc.isenabled()]
    listener.on_start(entry)
    listener.on_start(part)
    seen.append(gc.isenabled())
    listener.on_end(part)
    seen.append(gc.isenabled())
    listener.on_end(entry)
    return [*seen, gc.isenabled()]


def test_the_notice_comes_once_and_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = _Compiling()
    compile_once(listener)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    compile_once(listener)
    compile_once(listener)
    assert capsys.readouterr().err.count("compiling its kernels") == 1


def test_functions_of_others_are_left_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    listener, foreign = _Compiling(), event_of("somebody.else")
    listener.on_start(foreign)
    assert gc.isenabled()
    listener.on_end(foreign)
    assert capsys.readouterr().err == ""


def test_garbage_is_collected_again_afterwards() -> None:
    assert compile_once(_Compiling()) == [True, False, False, True]


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        assert compile_once(_Compiling()) == [False, False, False, False]
    finally:
        gc.enable()
