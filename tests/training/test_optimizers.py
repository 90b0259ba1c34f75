"""The optimisers' steps against `torch.optim`, one by one in float64."""

from __future__ import annotations

import numpy as np
import pytest

from treelu.training.optimizers import BETAS, MOMENTUM, Optimizer

torch = pytest.importorskip("torch")


def theirs_of(name: str, vector, decay: float):
    if name == "sgd":
        return torch.optim.SGD([vector], lr=0.1, momentum=MOMENTUM, nesterov=True, weight_decay=decay)
    return torch.optim.AdamW([vector], lr=0.1, amsgrad=True, betas=BETAS, weight_decay=decay)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["sgd", "amsgrad"])
def test_steps_and_state_are_torchs(name: str, decay: float) -> None:
    """Eight steps on changing gradients and rates, among them gradients of zero."""
    vector, gradient = np.linspace(-2, 2, 37), np.zeros(37)
    ours = Optimizer(name, vector, gradient, decay)
    moved = torch.nn.Parameter(torch.from_numpy(vector.copy()))
    theirs = theirs_of(name, moved, decay)
    rng = np.random.default_rng(0)
    for step in range(8):
        gradient[:] = rng.standard_normal(37) * (step % 3)
        moved.grad = torch.from_numpy(gradient.copy())
        rate = 0.1 * 0.8**step
        theirs.param_groups[0]["lr"] = rate
        ours.take_step(rate)
        theirs.step()
        np.testing.assert_allclose(vector, moved.detach().numpy(), rtol=1e-12, atol=1e-12)
    state = theirs.state[moved]
    names = {"mean": "momentum_buffer"} if name == "sgd" else {
        "mean": "exp_avg", "square": "exp_avg_sq", "largest": "max_exp_avg_sq",
    }  # fmt: skip
    for own, other in names.items():
        np.testing.assert_allclose(getattr(ours, own), state[other].numpy(), rtol=1e-12, atol=1e-12)
