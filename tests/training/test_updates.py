"""The kernels of the optimisers' updates against `torch.optim` itself."""

from __future__ import annotations

import copy

import pytest
import torch

from treelu.training.updates import Update

OPTIMISERS = {
    "sgd": lambda vector, decay: torch.optim.SGD(
        [vector], lr=0.1, momentum=0.9, nesterov=True, weight_decay=decay, fused=True
    ),
    "amsgrad": lambda vector, decay: torch.optim.AdamW([vector], lr=0.01, amsgrad=True, weight_decay=decay, fused=True),
}


def start(name: str, dtype: torch.dtype, decay: float, n: int = 37) -> torch.optim.Optimizer:
    vector = torch.nn.Parameter(torch.linspace(-2, 2, n, dtype=dtype))
    vector.grad = torch.zeros_like(vector)
    return OPTIMISERS[name](vector, decay)


def vector_of(optimizer: torch.optim.Optimizer) -> torch.nn.Parameter:
    return optimizer.param_groups[0]["params"][0]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_and_state_are_torchs(name: str, dtype: torch.dtype, tolerance: float, decay: float) -> None:
    """Seven steps on changing gradients and rates, among them gradients of zero; then torch goes on from the state."""
    ours, theirs = start(name, dtype, decay), start(name, dtype, decay)
    update = Update(ours)
    generator = torch.Generator().manual_seed(0)
    for step in range(8):
        gradient = torch.randn(37, generator=generator, dtype=dtype) * (step % 3)
        for optimizer in (ours, theirs):
            vector_of(optimizer).grad.copy_(gradient)
            optimizer.param_groups[0]["lr"] *= 0.8
        update() if step < 7 else ours.step()
        theirs.step()
        torch.testing.assert_close(vector_of(ours), vector_of(theirs), rtol=tolerance, atol=tolerance)
    states = (optimizer.state_dict()["state"][0] for optimizer in (ours, theirs))
    torch.testing.assert_close(*states, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_goes_on_from_a_loaded_state(name: str) -> None:
    before = start(name, torch.float64, 0.0)
    vector_of(before).grad.fill_(1.0)
    before.step()
    ours, theirs = start(name, torch.float64, 0.0), start(name, torch.float64, 0.0)
    for optimizer in (ours, theirs):
        optimizer.load_state_dict(copy.deepcopy(before.state_dict()))
        vector_of(optimizer).grad.fill_(-0.5)
    update = Update(ours)
    for _ in range(3):
        update()
        theirs.step()
    torch.testing.assert_close(vector_of(ours), vector_of(theirs))
