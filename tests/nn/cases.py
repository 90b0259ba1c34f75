"""Random networks, rows and masks, and the formulas of the paper written out in NumPy for one row at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from treelu.nn import Activation, DropConnect, LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain, Rows, Table

ACTIVATIONS = (
    Activation("relu"),
    Activation("leaky_relu", 0.01),
    Activation("leaky_relu", 0.3),
    Activation("leaky_relu", -0.5),
    Activation("leaky_relu", 1.5),
    Activation("softplus"),
)


@dataclass(frozen=True)
class Case:
    """All that fixes a network, its rows and one call of it."""

    in_features: int = 5
    depth: int = 4
    out_features: int = 2
    n_rows: int = 6
    hidden_layers: tuple[int, ...] = ()
    activation: Activation = field(default_factory=Activation)
    annealing: float | None = 0.4
    drop: DropConnect | None = None
    density: float = 0.5
    is_linear: bool = False  # a locally linear network
    seed: int = 0

    def __repr__(self) -> str:  # hypothesis prints it
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return f"Case({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def but(self, **changes: Any) -> Case:
        return replace(self, **changes)

    def network(self, dtype: Any = np.float64) -> Any:
        """A network whose sums stay of the order of one at any depth, the ignored connections filled with rubbish."""
        rng = np.random.default_rng(self.seed)
        settings: dict[str, Any] = {"activation": self.activation, "dtype": dtype}
        settings["drop_connect"] = 0.0 if self.drop is None else self.drop.rate
        network: NeuronChain
        if self.is_linear:
            network = LocallyLinearNetwork(self.in_features, self.depth, self.out_features, **settings)
        else:
            network = LocallyConstantNetwork(
                self.in_features, self.depth, self.out_features, hidden_layers=self.hidden_layers, **settings
            )
        for array in network.arrays().values():
            array[:] = rng.standard_normal(array.shape) * 0.7
        network.weight /= np.sqrt(1 + self.density * self.in_features)
        network.connection /= np.sqrt(self.depth)
        return network

    def x(self) -> np.ndarray:
        """Rows (B, D) with a share `density` of non-zero entries."""
        rng = np.random.default_rng([self.seed, 1])
        x = rng.standard_normal((self.n_rows, self.in_features))
        return np.where(rng.random(x.shape) < self.density, x, 0.0)

    def cotangent(self) -> np.ndarray:
        """Weights (B, L) of the outputs in a loss."""
        return np.random.default_rng([self.seed, 2]).standard_normal((self.n_rows, self.out_features))

    @property
    def lam(self) -> float:
        """λ of the call."""
        return self.activation.default_annealing if self.annealing is None else self.annealing

    def far_from_jumps(self, distance: float) -> bool:
        """Whether no neuron is so near to z = 0 that rounding could flip it."""
        return all(np.abs(neurons(self, row)[0]).min() > distance for row in range(self.n_rows))


def rows_of(x: np.ndarray, form: str, dtype: Any = np.float64) -> Rows:
    """`x` as rows of a dense or CSR table in which they lie scattered among others."""
    rng = np.random.default_rng(len(x))
    place = rng.permutation(2 * len(x) + 1)[: len(x)]
    table = rng.standard_normal((2 * len(x) + 1, x.shape[1]))
    table[place] = x
    return Table(sparse.csr_array(table) if form == "csr" else table, dtype).rows(place)


@st.composite
def cases(draw: st.DrawFn, *, linear: bool = False, piecewise: bool = False) -> Case:
    """Small networks of every kind; λ, masks and rows of every kind."""
    rates = st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.95])
    drop = None
    if not piecewise and draw(st.booleans()):
        drop = DropConnect(draw(rates), draw(st.integers(0, 2**64 - 1)))
    activations = [a for a in ACTIVATIONS if a.is_piecewise_linear] if piecewise else ACTIVATIONS
    return Case(
        in_features=draw(st.integers(1, 12)),
        depth=draw(st.integers(1, 9)),
        out_features=draw(st.integers(1, 3)),
        n_rows=draw(st.integers(1, 8)),
        hidden_layers=() if linear else draw(st.sampled_from([(), (3,), (4, 2)])),
        activation=draw(st.sampled_from(activations)),
        annealing=None if piecewise else draw(st.none() | st.floats(0, 1)),
        drop=drop,
        density=draw(st.sampled_from([0.0, 0.2, 0.6, 1.0])),
        is_linear=linear,
        seed=draw(st.integers(0, 2**32 - 1)),
    )


# The formulas, for one row


def neurons(case: Case, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z, a and o of one row by Eq. 1–3 and 5; masks act on the weights inside z."""
    network = case.network()
    w, u, b = network.weight, network.connection, network.bias
    w, u = w * _masks(case, row)[0], u * _masks(case, row)[1]
    lam = case.annealing if case.annealing is not None else float(case.activation.is_piecewise_linear)
    slope, x = case.activation.negative_slope, case.x()[row]
    z, a, o = np.zeros((3, case.depth))
    for i in range(case.depth):
        z[i] = b[i] + sum(x[d] * w[d, i] for d in range(len(x))) + sum(u[i, k] * a[k] for k in range(i))
        relu, softplus = max(z[i], 0.0), np.logaddexp(0, z[i])
        a[i] = slope * z[i] + (1 - slope) * (lam * relu + (1 - lam) * softplus)
        o[i] = slope + (1 - slope) * (lam * (z[i] >= 0) + (1 - lam) * expit(z[i]))
    return z, a, o


def jacobian(case: Case, row: int) -> tuple[np.ndarray, np.ndarray]:
    """J (M, D) and c (M,) of one row by the dynamic programme of §3.7."""
    network = case.network()
    w, u = network.weight, network.connection
    _, a, o = neurons(case, row)
    gradients = np.zeros((case.depth, case.in_features))
    for i in range(case.depth):
        gradients[i] = o[i] * (w[:, i] + sum(u[i, k] * gradients[k] for k in range(i)))
    return gradients, a - gradients @ case.x()[row]


def output(case: Case, row: int) -> np.ndarray:
    """The network's output (L,) for one row."""
    network = case.network()
    if case.is_linear:
        A, B, c = network.output_weight, network.output_connection, network.output_bias
        return case.x()[row] @ A + neurons(case, row)[1] @ B + c
    gradients, offsets = jacobian(case, row)
    head = network.head
    h = head.bias.copy()
    for i in range(case.depth):
        h += head.weight[:, i] @ gradients[i] + head.offset_weight[:, i] * offsets[i]
    for layer in head.hidden:
        h = layer.weight @ np.maximum(h, 0) + layer.bias
    return h


def _masks(case: Case, row: int) -> tuple[np.ndarray, np.ndarray]:
    if case.drop is None:
        return np.ones((case.in_features, case.depth)), np.ones((case.depth, case.depth))
    on_weight, on_connection = case.drop.dense_masks(case.n_rows, case.in_features, case.depth)
    return on_weight[row], on_connection[row]


# The two implementations: torch modules and kernels


def by_torch(case: Case, dtype: Any = np.float64) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Outputs (B, L), and the gradients of Σ outputs · cotangent by autograd."""
    import torch

    from treelu.nn.torch import to_torch

    module = to_torch(case.network(dtype))
    out = module(torch.from_numpy(case.x().astype(dtype)), annealing=case.annealing, drop=case.drop)
    out.backward(torch.from_numpy(case.cotangent().astype(dtype)))
    gradients = {name: p.new_zeros(p.shape) if p.grad is None else p.grad for name, p in module.named_parameters()}
    return out.detach().numpy(), {name: gradient.numpy() for name, gradient in gradients.items()}


def by_kernels(case: Case, form: str, dtype: Any = np.float64) -> tuple[float, dict[str, np.ndarray]]:
    """One training step of length 0 whose loss has the cotangent as its gradient: that loss, and all gradients.

    Squared error with targets y = outputs − cotangent · (B L) / 2, the outputs being those of `by_torch`.
    """
    from treelu.data.targets import Targets
    from treelu.training import Dataset, KernelStepper

    rows = rows_of(case.x(), form, dtype)
    y = np.zeros((rows.table.shape[0], case.out_features), dtype)
    y[rows.index] = by_torch(case, dtype)[0] - case.cotangent() * (case.n_rows * case.out_features / 2)
    targets = Targets("regression", y, case.out_features)
    stepper = KernelStepper(case.network(dtype), Dataset(rows.table, targets), "sgd")
    key = np.array([0 if case.drop is None else case.drop.key], np.uint64)
    total = stepper.train_steps([rows.index], key, case.lam, 0.0)
    return total / case.n_rows, stepper.gradients


# Comparing


def assert_close(actual: Any, expected: Any, tolerance: float, what: str = "", size: float = 1.0) -> None:
    """Equal within `tolerance` of the largest entry (and of `size`)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, what
    size = max(size, float(np.abs(expected).max())) if expected.size else size
    error = float(np.abs(actual - expected).max()) if expected.size else 0.0
    assert error <= tolerance * size, f"{what}: {error:.3g} apart at a size of {size:.3g}"


def assert_all_close(actual: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float) -> None:
    """The same for each parameter, within `tolerance` of the largest of all: they are sums over the same paths."""
    assert actual.keys() == expected.keys()
    size = max([1.0, *(float(np.abs(value).max()) for value in expected.values() if value.size)])
    for name in expected:
        assert_close(actual[name], expected[name], tolerance, name, size)
