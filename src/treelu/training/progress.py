"""Progress bars for long work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from treelu.nn import NeuronChain
from treelu.training.loop import Callback, EpochRecord


@contextmanager
def epoch_bar(title: str, epochs: int, unit: str = "epoch", done: int = 0) -> Iterator[Callback]:
    """A bar over epochs (or members) with loss and validation score; yields the callback that moves it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=epochs, completed=done, state="")

        def show(record: EpochRecord, network: NeuronChain) -> None:
            state = f"{unit} {record.epoch}/{epochs}  loss {record.train_loss:.4f}"
            if record.valid_score is not None:
                state += f"  valid {record.valid_score:.4f}"
            progress.update(task, advance=1, state=state)

        yield show
