"""Many updates in one call of a kernel: passes, loss and the optimiser's step with no Python in between.

At a small batch Python costs more than the arithmetic of an update. The pieces are those that single updates are made
of: `treelu.nn.cpu`, `treelu.training.losses`, `treelu.training.optimizers`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treelu.nn.cpu.compile import entry, inline
from treelu.nn.cpu.kernels import constant_backward, constant_forward, neurons_backward, neurons_forward
from treelu.nn.cpu.layers import (
    collect_constant,
    collect_linear,
    outputs_backward,
    outputs_forward,
    prepare_constant,
    prepare_linear,
)
from treelu.nn.cpu.structs import Entries, Mask
from treelu.nn.drop_connect import WORD
from treelu.training.losses import loss
from treelu.training.optimizers import take_step

_WORD, _BITS = np.uint64(WORD), np.uint64(32)


class Batches(NamedTuple):
    """The row numbers of all batches in one array, where each begins and the last ends, and a key for each."""

    rows: Any
    starts: Any
    keys: Any


class Run(NamedTuple):
    """What updates of any network take.

    `out` and `grad_out` are (L, B). `sums` holds what `grad` adds up over rows, but for the weights' gradient, and is
    zeroed before each batch.
    """

    batches: Any
    entries: Any
    mask: Any
    neurons: Any
    state: Any
    wanted: Any
    out: Any
    grad_out: Any
    parameters: Any
    gradients: Any
    grad: Any
    sums: Any
    step: Any


@inline
def _batch(run: Any, number: int) -> Any:
    """A batch's rows, and their masks."""
    batches, entries, mask = run.batches, run.entries, run.mask
    index, key = batches.rows[batches.starts[number] : batches.starts[number + 1]], batches.keys[number]
    rows = Entries(entries.values, entries.features, entries.starts, entries.width, index)
    words = np.uint32(key & _WORD), np.uint32(key >> _BITS)
    return rows, Mask(mask.keys, mask.counters, words[0], words[1], mask.threshold, mask.scale)


@entry
def constant_updates(run: Any, layer: Any, paths: Any, grad_paths: Any, grad_layer: Any, by_neuron: Any) -> float:
    """Updates of a locally constant network; returns the sum of the rows' losses."""
    neurons, state, grad = run.neurons, run.state, run.grad
    total, first = 0.0, np.uint64(0)
    for number in range(len(run.batches.keys)):
        rows, mask = _batch(run, number)
        last = np.uint64(len(rows.index))
        prepare_constant(run.parameters, neurons.weight, by_neuron, layer.gram)
        constant_forward(rows, mask, neurons, state, layer, paths, run.out, first, last)
        total += len(rows.index) * loss(run.out, run.wanted.y, run.wanted, rows.index, run.grad_out)
        for i in range(len(run.sums)):
            run.sums[i] = 0
        constant_backward(
            rows, mask, neurons, state, layer, paths, run.grad_out, grad_paths, grad_layer, grad, first, last
        )
        collect_constant(run.parameters, grad, grad_layer, by_neuron, run.gradients)
        take_step(run.step, number)
    return total


@entry
def linear_updates(run: Any) -> float:
    """Updates of a locally linear network; returns the sum of the rows' losses."""
    neurons, state, grad = run.neurons, run.state, run.grad
    total, first = 0.0, np.uint64(0)
    for number in range(len(run.batches.keys)):
        rows, mask = _batch(run, number)
        count = np.uint64(len(rows.index))
        prepare_linear(run.parameters, neurons.weight)
        neurons_forward(rows, mask, neurons, state, first, count)
        outputs_forward(run.parameters, state, run.out, first, count)
        total += len(rows.index) * loss(run.out, run.wanted.y, run.wanted, rows.index, run.grad_out)
        for i in range(len(run.sums)):
            run.sums[i] = 0
        outputs_backward(run.parameters, run.grad_out, grad, count)
        neurons_backward(rows, mask, neurons, state, grad, first, count)
        collect_linear(state, run.grad_out, grad, run.gradients, count)
        take_step(run.step, number)
    return total
