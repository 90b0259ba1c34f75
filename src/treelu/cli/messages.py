"""Output of the command line: notes and errors on standard error, results on standard output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

LONGEST_LINE = 600  # characters of a note; names may be of any length
OUTPUT = "standard output"  # as errors name it
SHOWN_NOTES = 12  # of a wide table; the report has them all


class InputError(ValueError):
    """Something that whoever typed the command can put right: one line, exit code 2."""


class Notes:
    """Collects what is done with a table, and warnings about it, and prints each once."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.texts: list[str] = []
        self.warnings: list[str] = []
        self.quiet = quiet

    def __call__(self, text: str) -> None:
        text = _shown(text)
        if text in self.texts:
            return
        self.texts.append(text)
        # A note of several lines is a list that whoever reads must see.
        if not self.quiet and (len(self.texts) <= SHOWN_NOTES or "\n" in text):
            say("\n".join(f"  {line}" for line in text.splitlines()))

    def warn(self, text: str) -> None:
        """Print a warning now; the scores and the report repeat it."""
        text = _shown(text)
        if text in self.warnings:
            return
        self.warnings.append(text)
        if not self.quiet:
            say(f"  warning: {text}")

    def copy(self) -> Notes:
        """The same notes and warnings so far; what is added to the copy is not printed."""
        copied = Notes(quiet=True)
        copied.texts, copied.warnings = list(self.texts), list(self.warnings)
        return copied

    def finish(self) -> None:
        """Print how many notes were kept back."""
        more = sum("\n" not in text for text in self.texts[SHOWN_NOTES:])
        if not self.quiet and more > 0:
            say(f"  … and {more} more notes; the report lists them all")


def _shown(text: str) -> str:
    """A note without control characters, whatever the names in it, and without endless lines."""
    lines = text.split("\n")
    if all(line.isprintable() and len(line) <= LONGEST_LINE for line in lines):
        return text
    from treelu.tree.names import shown_name  # with the tree comes NumPy, which bad input is refused without

    return "\n".join(shown_name(line, LONGEST_LINE) for line in lines)


def say(text: str) -> None:
    """A line on standard error, where that is open."""
    if sys.stderr is not None:  # print() would take standard output instead
        print(_shown(text), file=sys.stderr, flush=True)


def tell(text: str) -> None:
    """A line on standard output."""
    with _naming_output():
        print(text)


def flush_output() -> None:
    """Bring what was printed to where it goes."""
    with _naming_output():
        sys.stdout.flush()


@contextmanager
def _naming_output() -> Iterator[None]:
    """Name standard output in errors of the system, such as that of a full disk, which name no file there."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or OUTPUT
        raise


def write_json(value: Any, indent: int | None = 2) -> None:
    """One JSON document on standard output."""
    tell(json.dumps(value, ensure_ascii=not writes_unicode(), allow_nan=False, indent=indent))


def writes_unicode() -> bool:
    """Whether standard output takes every character."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


@contextmanager
def open_terminal() -> Iterator[None]:
    """Within the block, characters that standard output does not have are escaped: text for readers never fails.

    Data do not take this way: see `treelu.cli.predict.open_output`.
    """
    stream = sys.stdout
    if stream is None:
        raise InputError("standard output is closed; send it to a file, or to /dev/null")
    before = getattr(stream, "errors", None)
    if before is not None and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        if before is not None and hasattr(stream, "reconfigure"):
            with suppress(OSError, ValueError):  # it flushes what is left, and whoever reads may have gone
                stream.reconfigure(errors=before)


@contextmanager
def step(what: str, quiet: bool) -> Iterator[None]:
    """Say what begins, and when it has ended how long it took."""
    if quiet:
        yield
        return
    say(what)
    started = time.monotonic()
    yield
    say(f"  took {duration(time.monotonic() - started)}")


def duration(seconds: float) -> str:
    """Seconds in words."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


@contextmanager
def progress_bar(title: str, total: int | None, quiet: bool) -> Iterator[Callable[..., None]]:
    """A bar on standard error where that is a terminal; yields a function that moves it by one, or by so many."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda steps=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Results go to standard output, and only where that is the same terminal may the bar make room for them.
    on_screen = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=on_screen) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps=1: progress.advance(task, steps)


def count(number: int, word: str) -> str:
    """A number with its noun."""
    plural = {"leaf": "leaves", "class": "classes"}.get(word, f"{word}s")
    return f"{number:,} {word if number == 1 else plural}"
