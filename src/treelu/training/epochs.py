"""Many updates in one call of a kernel: passes, loss and the optimiser's step with no Python in between.

At a small batch Python costs more than the arithmetic of an update. The pieces are those that single updates are made
of: `treelu.nn.kernels`, `treelu.nn.layers`, `treelu.training.losses`, `treelu.training.updates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from treelu.nn import Rows
from treelu.nn.activations import Activation
from treelu.nn.arguments import Entries, Head, Mask
from treelu.nn.drop_connect import WORD, DropConnect
from treelu.nn.kernels import constant_backward, constant_forward, neurons_backward, neurons_forward
from treelu.nn.layers import (
    collect_constant,
    collect_linear,
    linear_outputs,
    linear_outputs_backward,
    prepare_constant,
    prepare_linear,
)
from treelu.nn.passes import LocallyConstantPass, Pass
from treelu.training.losses import logistic, softmax, squared
from treelu.training.targets import NO_WEIGHT, Targets
from treelu.training.updates import Update, take_step

_kernel = njit(cache=True, nogil=True, error_model="numpy")
_part = njit(cache=True, nogil=True, error_model="numpy", inline="always")
_NO_OFFSET = np.empty((0, 1), np.float32)
_WORD, _BITS = np.uint64(WORD), np.uint64(32)


class Batches(NamedTuple):
    """The row numbers of all batches one behind the other, where each begins and the last ends, and a key for each."""

    rows: Any
    starts: Any
    keys: Any


class Goal(NamedTuple):
    """Whether the loss is the logistic one; weights of rows and scores that are added, empty where there are none."""

    is_binary: bool
    weight: Any
    offset: Any


class Room(NamedTuple):
    """Outputs (L, B) and their gradient."""

    out: Any
    grad: Any


class Job(NamedTuple):
    """What updates of any network take: rows, neurons, loss, parameters and their gradients, the optimiser.

    `sums` holds what `grad` adds up over rows, but for the weights' gradient, and is zeroed before each batch.
    """

    batches: Any
    entries: Any
    mask: Any
    chain: Any
    state: Any
    y: Any
    goal: Any
    room: Any
    parameters: Any
    grad: Any
    sums: Any
    gradients: Any
    step: Any


def train_on(
    layer: Pass,
    update: Update,
    largest: Rows,
    targets: Targets,
    batches: Sequence[NDArray[np.int64]],
    keys: NDArray[np.int64],
    annealing: float,
    activation: Activation,
    drop_rate: float,
) -> float:
    """One update on each batch, in one thread, with masks drawn by its key; returns the sum of the rows' losses.

    `largest` are the rows of the largest batch.
    """
    layer.start(largest, annealing, activation, DropConnect(drop_rate, 0) if drop_rate > 0 else None)
    rows = Batches(np.concatenate(batches), np.cumsum([0, *map(len, batches)]), keys.astype(np.uint64))
    weight, offset = (
        none if tensor is None else tensor.numpy()
        for tensor, none in ((targets.weight, NO_WEIGHT), (targets.offset, _NO_OFFSET))
    )
    goal = Goal(targets.task == "binary", weight, offset)
    room = Room(*np.empty((2, targets.n_outputs, len(largest.index)), layer.dtype))
    job = Job(
        rows,
        *layer.arguments,
        targets.y.numpy(),
        goal,
        room,
        layer.parameters,
        layer.grads[0],
        layer.grad_others[0],
        layer.targets(),
        update.steps(len(keys)),
    )
    if isinstance(layer, LocallyConstantPass):
        return constant_updates(
            job, layer.head, layer.paths, layer.grad_paths, Head(*layer.grads_above[0]), layer.product
        )
    return linear_updates(job)


@_part
def _batch(job: Any, number: int) -> Any:
    """A batch's rows, and their masks."""
    batches, entries, mask = job.batches, job.entries, job.mask
    index, key = batches.rows[batches.starts[number] : batches.starts[number + 1]], batches.keys[number]
    rows = Entries(entries.values, entries.features, entries.starts, entries.width, index)
    return rows, Mask(mask.keys, np.uint32(key & _WORD), np.uint32(key >> _BITS), mask.threshold, mask.scale)


@_kernel
def _loss(y: Any, goal: Any, room: Any, index: Any) -> Any:
    """The sum of the rows' losses; fills room.grad."""
    if goal.offset.shape[0]:
        for k in range(room.out.shape[0]):
            for r in range(len(index)):
                room.out[k, r] += goal.offset[index[r], k]
    if y.ndim == 1:
        loss = softmax(room.out, y, goal.weight, index, room.grad)
    elif goal.is_binary:
        loss = logistic(room.out, y, goal.weight, index, room.grad)
    else:
        loss = squared(room.out, y, goal.weight, index, room.grad)
    return len(index) * loss


@_kernel
def constant_updates(job: Any, head: Any, paths: Any, grad_paths: Any, grad_head: Any, product: Any) -> float:
    """Updates of a `LocallyConstantPass`; returns the sum of the rows' losses."""
    chain, state, room, grad = job.chain, job.state, job.room, job.grad
    total, first = 0.0, np.uint64(0)
    for number in range(len(job.batches.keys)):
        rows, mask = _batch(job, number)
        last = np.uint64(len(rows.index))
        prepare_constant(job.parameters, chain.weight, head.gram)
        constant_forward(rows, mask, chain, state, head, paths, room.out, first, last)
        total += _loss(job.y, job.goal, room, rows.index)
        job.sums[:] = 0
        constant_backward(rows, mask, chain, state, head, paths, room.grad, grad_paths, grad_head, grad, first, last)
        collect_constant(job.parameters, chain.weight, grad, grad_head, product, job.gradients)
        take_step(job.step, number)
    return total


@_kernel
def linear_updates(job: Any) -> float:
    """Updates of a `LocallyLinearPass`; returns the sum of the rows' losses."""
    chain, state, room, grad = job.chain, job.state, job.room, job.grad
    total, first = 0.0, np.uint64(0)
    for number in range(len(job.batches.keys)):
        rows, mask = _batch(job, number)
        count = len(rows.index)
        prepare_linear(job.parameters, chain.weight)
        neurons_forward(rows, mask, chain, state, first, np.uint64(count))
        linear_outputs(job.parameters, state, room.out, count)
        total += _loss(job.y, job.goal, room, rows.index)
        job.sums[:] = 0
        linear_outputs_backward(job.parameters, room.grad, grad, count)
        neurons_backward(rows, mask, chain, state, grad, first, np.uint64(count))
        collect_linear(state, room.grad, grad, job.gradients, count)
        take_step(job.step, number)
    return total
