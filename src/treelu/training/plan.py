"""How long to train and in how large batches, where the user leaves it open.

Training is planned in updates, not in passes: a small table is gone through many times, a large one seldom, and λ and
the learning rate still move in `EPOCHS` steps.
"""

from __future__ import annotations

from typing import NamedTuple

EPOCHS = 60
MIN_BATCH, MAX_BATCH = 32, 512
BATCHES_PER_PASS = 6  # aimed at between these bounds
MIN_UPDATES, PASSES = 2400, 12  # at least so many updates, and at least so many passes


class Plan(NamedTuple):
    """Epochs, rows in a batch, and updates in an epoch (None: one pass)."""

    epochs: int
    batch_size: int
    updates_per_epoch: int | None


def rows_in_batch(n_rows: int, batches_per_pass: int = BATCHES_PER_PASS) -> int:
    """A power of two that divides a table into so many batches, up to twice as many, as far as the bounds permit.

    Examples
    --------
    >>> [rows_in_batch(n_rows) for n_rows in (100, 1000, 10_000)]
    [32, 128, 512]
    >>> [rows_in_batch(n_rows, batches_per_pass=64) for n_rows in (1000, 10_000, 100_000)]
    [32, 128, 512]
    """
    size = MIN_BATCH
    while size < MAX_BATCH and n_rows / size > 2 * batches_per_pass:
        size *= 2
    return size


def plan_training(n_rows: int, epochs: int | str, batch_size: int | str) -> Plan:
    """Resolve "auto" for a table of `n_rows` rows.

    Examples
    --------
    >>> plan_training(1000, "auto", "auto")
    Plan(epochs=60, batch_size=128, updates_per_epoch=40)
    >>> plan_training(10_000, "auto", "auto")
    Plan(epochs=60, batch_size=512, updates_per_epoch=80)
    >>> plan_training(1_000_000, "auto", "auto")
    Plan(epochs=60, batch_size=512, updates_per_epoch=391)
    >>> plan_training(1000, 30, 64)
    Plan(epochs=30, batch_size=64, updates_per_epoch=None)
    """
    if isinstance(batch_size, str):
        batch_size = rows_in_batch(n_rows)
    if isinstance(epochs, str):
        # where batches cannot grow with the table, their number does
        at_least = 2 * MIN_UPDATES if n_rows > 2 * BATCHES_PER_PASS * MAX_BATCH else MIN_UPDATES
        updates = max(at_least, PASSES * n_rows / batch_size)
        return Plan(EPOCHS, int(batch_size), -(-int(updates) // EPOCHS))
    return Plan(int(epochs), int(batch_size), None)
