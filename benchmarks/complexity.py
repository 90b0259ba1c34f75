"""The paper's complexity claim (§3.7): the same outputs by three forms, against depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.comparison import Measure, Part, times_faster
from benchmarks.tables import random_rows
from benchmarks.timing import growth_exponent, interleaved, medians
from benchmarks.training import torch_threads
from tests.nn.reference import autograd_per_neuron, dynamic_programme
from treelu.nn import LocallyConstantNetwork, Table
from treelu.nn.torch import LocallyConstantModule, to_torch

KERNEL, TORCH = "coefficient form, kernel", "coefficient form, torch"
PROGRAMME, PER_NEURON = "dynamic programme", "back-propagation per neuron"
ANNEALING = 0.5
BATCH, FEATURES, NONZEROS = 16, 512, 32
DEPTHS = (2, 4, 8, 16, 32, 64, 128)
LONG = 2.0  # seconds: what takes longer is not repeated


def measure(depths: Sequence[int] = DEPTHS, rounds: int = 3) -> Part:
    """Time the outputs of a batch by each form, at each depth, on one thread."""
    seconds: dict[str, list[float]] = {name: [] for name in (KERNEL, TORCH, PROGRAMME, PER_NEURON)}
    differences: list[float] = []
    with torch_threads(1):
        _forms(1, {})[KERNEL]()  # reads the kernels from the cache
        for depth in depths:
            outputs: dict[str, Tensor] = {}
            times = interleaved(_forms(depth, outputs), rounds, at_least=0.01, not_again_after=LONG)
            for name, value in medians(times).items():
                seconds[name].append(value)
            differences += [_difference(output, outputs[KERNEL]) for output in outputs.values()]
    part = Part(details={"depths": list(depths), "seconds": seconds, "largest_difference": max(differences)})
    part.details["sizes"] = {"batch": BATCH, "features": FEATURES, "nonzeros": NONZEROS}
    part.details["exponents"] = exponents(depths, seconds)
    job = f"depth {depths[-1]}: outputs of {BATCH} rows"
    for fast, slow in ((KERNEL, PROGRAMME), (KERNEL, PER_NEURON), (TORCH, PROGRAMME), (PROGRAMME, PER_NEURON)):
        a, b = Measure(fast, seconds[fast][-1]), Measure(slow, seconds[slow][-1])
        part.comparisons.append(times_faster(job, a, b, at_least=1))
    return part


def exponents(depths: Sequence[int], seconds: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Growth with depth over its upper half, beside that of the operations counted there.

    The paper counts vectors of D features: M²/2 additions for the dynamic programme, M³/6 for back-propagation.
    """
    half = len(depths) // 2
    upper = depths[half:]
    counts = {
        KERNEL: [m * NONZEROS + m**3 / 6 for m in upper],
        TORCH: [m * FEATURES + m**3 / 6 for m in upper],
        PROGRAMME: [m**2 / 2 for m in upper],
        PER_NEURON: [m**3 / 6 for m in upper],
    }
    return {
        name: {
            "measured": growth_exponent(upper, seconds[name][half:]),
            "by_count": growth_exponent(upper, counts[name]),
        }
        for name in counts
    }


def _forms(depth: int, outputs: dict[str, Tensor]) -> dict[str, Callable[[], None]]:
    """Each form as a task that leaves its outputs in `outputs`."""
    rows = Table(random_rows(BATCH, FEATURES, NONZEROS).X).rows()
    x, kernel = torch.from_numpy(rows.to_dense()).to(torch.float32), _network(depth)
    slow = to_torch(kernel)
    forms: dict[str, Callable[[], Tensor]] = {
        KERNEL: lambda: torch.from_numpy(kernel(rows, annealing=ANNEALING)),
        TORCH: torch.no_grad()(partial(slow, x, annealing=ANNEALING)),
        PROGRAMME: torch.no_grad()(partial(_by_jacobian, slow, x, dynamic_programme)),
        PER_NEURON: partial(_by_jacobian, slow, x, autograd_per_neuron),
    }
    return {name: partial(_keep, outputs, name, form) for name, form in forms.items()}


def _keep(outputs: dict[str, Tensor], name: str, form: Callable[[], Tensor]) -> None:
    outputs[name] = form().detach()


def _network(depth: int) -> LocallyConstantNetwork:
    return LocallyConstantNetwork(FEATURES, depth, 1, dtype=np.float32, seed=0)


def _by_jacobian(network: LocallyConstantModule, x: Tensor, jacobian: Callable[..., tuple[Tensor, Tensor]]) -> Tensor:
    parameters = network.weight, network.connection, network.bias
    return network.head(*jacobian(x, *parameters, network.activation, ANNEALING))


def _difference(output: Tensor, reference: Tensor) -> float:
    """The largest difference, relative to the largest output."""
    return float((output - reference).abs().max() / reference.abs().max())
