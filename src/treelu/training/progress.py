"""Progress bars for long work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from treelu.nn import NeuronChain
from treelu.training.history import Callback, EpochRecord

if TYPE_CHECKING:
    from rich.progress import Progress

_lock = threading.Lock()
_bars: list[Progress] = []  # the one on the screen, as often as it is in use


@contextmanager
def _shared_bars() -> Iterator[Progress]:
    """The bars on the screen: trainings in several threads share them, since there can be one display only."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    with _lock:
        progress = _bars[0] if _bars else Progress(*columns)
        if not _bars:
            progress.start()
        _bars.append(progress)
    try:
        yield progress
    finally:
        with _lock:
            _bars.pop()
            if not _bars:
                progress.stop()


@contextmanager
def epoch_bar(title: str, epochs: int, unit: str = "epoch", done: int = 0) -> Iterator[Callback]:
    """A bar over epochs (or members) with loss and validation score; yields the callback that moves it."""
    with _shared_bars() as progress:
        task = progress.add_task(title, total=epochs, completed=done, state="")

        def show(record: EpochRecord, network: NeuronChain) -> None:
            state = f"{unit} {record.epoch}/{epochs}  loss {record.train_loss:.4f}"
            if record.valid_score is not None:
                state += f"  valid {record.valid_score:.4f}"
            progress.update(task, advance=1, state=state)

        yield show
