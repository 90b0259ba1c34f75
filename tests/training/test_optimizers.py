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
        np.testing.assert_allclose(ours.state()[own], state[other].numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["sgd", "amsgrad"])
def test_goes_on_from_a_loaded_state(name: str) -> None:
    rng = np.random.default_rng(1)
    gradients = rng.standard_normal((6, 5))
    whole, first = (np.zeros(5) for _ in range(2))
    gradient = np.zeros(5)
    once, before = Optimizer(name, whole, gradient, 0.0), Optimizer(name, first, gradient, 0.0)
    for number, new in enumerate(gradients):
        gradient[:] = new
        once.take_step(0.1)
        if number == 3:
            after = Optimizer(name, first, gradient, 0.0)
            after.load_state(before.state())
            before = after
        before.take_step(0.1)
    np.testing.assert_array_equal(first, whole)


def test_a_state_of_another_size_is_not_taken() -> None:
    ours = Optimizer("sgd", np.zeros(3), np.ones(3), 0.0)
    ours.load_state(Optimizer("sgd", np.zeros(4), np.ones(4), 0.0).state())
    assert ours.n_steps == 0
