"""The paper's trainable networks with one neuron per layer: locally constant (§3.6) and locally linear (§3.2).

A network is its arrays, by name. Evaluation and training run in the kernels of `treelu.nn.cpu`; `treelu.nn.torch`
turns a network into a torch module and back.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from treelu.nn.activations import Activation, check_annealing
from treelu.nn.coefficients import path_coefficients, path_offsets
from treelu.nn.corrections import LeafCorrections
from treelu.nn.cpu.evaluation import Router, first_layer, linear_outputs
from treelu.nn.drop_connect import check_rate
from treelu.nn.head import Head, uniform
from treelu.nn.patterns import pack_pattern, unpack_codes
from treelu.nn.rows import Rows, Table

TABLE_DEPTH = 12  # up to this depth all leaf values are kept, 2^12 rows
PATTERN_ENTRIES = 2**21  # coefficients of patterns that are held at once

Slot = tuple[str, Any, str]  # an array's name, the object that holds it, and the attribute
FEATURE_AXES = {"weight": 0, "head.weight": 2, "output_weight": 0}  # of the arrays that have one for the features


class NeuronChain(ABC):
    """M densely connected neurons, one per layer (Eq. 1): what both networks share.

    Parameters
    ----------
    in_features, depth, out_features : int
        D features, M neurons, L outputs.
    activation : Activation
        ReLU by default.
    drop_connect : float in [0, 1)
        The rate at which training drops weights, anew for each row; evaluation drops none.
    dtype : {float32, float64}
        Of all arrays.
    seed : int, optional
        Draws the first parameters; without it they are all zero.

    **Shape**: `weight` (D, M), `connection` (M, M) strictly lower triangular, `bias` (M,).

    Examples
    --------
    >>> from treelu.nn import LocallyLinearNetwork
    >>> network = LocallyLinearNetwork(5, depth=3, out_features=1, seed=0)
    >>> isinstance(network, NeuronChain), network.weight.shape, network.connection.shape
    (True, (5, 3), (3, 3))
    """

    feature_rows: ClassVar[tuple[str, ...]] = ("weight",)  # the arrays whose rows are the features' weights

    def __init__(
        self,
        in_features: int,
        depth: int,
        out_features: int,
        *,
        activation: Activation | None = None,
        drop_connect: float = 0.0,
        dtype: Any = np.float64,
        seed: int | None = None,
    ) -> None:
        for name, value in (("in_features", in_features), ("depth", depth), ("out_features", out_features)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        check_rate(drop_connect)
        if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        self.in_features, self.depth, self.out_features = in_features, depth, out_features
        self.activation = Activation() if activation is None else activation
        self.drop_connect = drop_connect
        self.leaf_corrections: LeafCorrections | None = None
        self.weight = np.zeros((in_features, depth), dtype)
        self.connection = np.zeros((depth, depth), dtype)
        self.bias = np.zeros(depth, dtype)
        self._make_outputs()
        if seed is not None:
            self.reset_parameters(seed)

    @abstractmethod
    def _make_outputs(self) -> None:
        """Make the arrays above the neurons, of zeros."""

    def reset_parameters(self, seed: int | None = None) -> None:
        """Draw each neuron's weights and bias uniformly within ±1/√fan_in, fan_in = D + i − 1 for neuron i."""
        rng = np.random.RandomState(None if seed is None else seed & 0xFFFFFFFF)
        bounds = np.array([1 / math.sqrt(self.in_features + i) for i in range(self.depth)], np.float32)
        self.weight[:] = uniform(self.weight.shape, rng) * bounds
        self.connection[:] = np.tril(uniform(self.connection.shape, rng) * bounds[:, None], -1)
        self.bias[:] = uniform(self.bias.shape, rng) * bounds
        self._reset_outputs(rng)

    @abstractmethod
    def _reset_outputs(self, rng: np.random.RandomState) -> None:
        """Draw the parameters above the neurons."""

    # The arrays

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all arrays."""
        return self.weight.dtype

    def slots(self) -> list[Slot]:
        """Where each array is kept, in a fixed order."""
        return [("weight", self, "weight"), ("connection", self, "connection"), ("bias", self, "bias")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All parameters by name, not copied.

        Examples
        --------
        >>> list(LocallyLinearNetwork(3, depth=2, out_features=1).arrays())
        ['weight', 'connection', 'bias', 'output_weight', 'output_connection', 'output_bias']
        """
        return {name: getattr(owner, attribute) for name, owner, attribute in self.slots()}

    def set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Put other arrays of the same shapes into the places of all parameters; they are not copied."""
        now = self.arrays()
        for name, owner, attribute in self.slots():
            if arrays[name].shape != now[name].shape:
                raise ValueError(f"{name} must have the shape {now[name].shape}, got {arrays[name].shape}")
            setattr(owner, attribute, arrays[name])

    def neurons(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Weights (D, M), connections (M, M) and biases (M,) of the chain of neurons."""
        return self.weight, np.tril(self.connection, -1), self.bias

    def state(self) -> dict[str, NDArray[Any]]:
        """A copy of all parameters, for `load_state`."""
        return {name: array.copy() for name, array in self.arrays().items()}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Copy parameters back into the network's arrays."""
        for name, array in self.arrays().items():
            array[...] = state[name]

    def flatten(self) -> NDArray[Any]:
        """One vector that holds all parameters; the network's own arrays become views of it."""
        arrays = self.arrays()
        flat = np.concatenate([array.reshape(-1) for array in arrays.values()])
        self.set_arrays(views(flat, arrays))
        return flat

    def copy(self, dtype: Any = None) -> Self:
        """A copy, in another precision where one is given."""
        other = copy.copy(self)
        other.set_arrays({name: array.astype(dtype or self.dtype) for name, array in self.arrays().items()})
        return other

    # Rewriting

    def read_raw(self, center: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        """Rewrite in place a network on scaled features x' = (x − center) / scale as the same function of x.

        w·x' = (w/s)·x − (w/s)·μ. The Jacobian with respect to x' is s times that with respect to x, and an offset
        gains J·μ, so g_φ's first layer takes V·s + v μᵀ for V.
        """
        center, scale = center.astype(self.dtype), scale.astype(self.dtype)
        self.weight /= scale[:, None]
        self.bias -= (center[:, None] * self.weight).sum(axis=0)
        self._read_raw_outputs(center, scale)

    @abstractmethod
    def _read_raw_outputs(self, center: NDArray[Any], scale: NDArray[Any]) -> None:
        """The part of `read_raw` above the neurons."""

    def rescale_outputs(self, scale: NDArray[np.float64] | float, center: NDArray[np.float64] | float = 0.0) -> None:
        """Turn outputs o into o · scale + center, in place.

        Examples
        --------
        >>> network = LocallyConstantNetwork(1, depth=1, out_features=1)
        >>> network.rescale_outputs(2.0, 5.0)
        >>> network(np.zeros((1, 1)))
        array([[5.]])
        """
        scale = np.broadcast_to(np.asarray(scale, np.float64), self.out_features)
        center = np.broadcast_to(np.asarray(center, np.float64), self.out_features)
        if self.leaf_corrections is not None:
            self.correct_leaves(self.leaf_corrections.scaled(scale))
        self._rescale(scale.astype(self.dtype), center.astype(self.dtype))

    @abstractmethod
    def _rescale(self, scale: NDArray[Any], center: NDArray[Any]) -> None:
        """`rescale_outputs` of the parameters."""

    def reorder_classes(self, places: NDArray[np.int64]) -> None:
        """Give class k the scores of class `places[k]`, in place; one output is the score of the second of two classes.

        Examples
        --------
        >>> network = LocallyConstantNetwork(1, depth=1, out_features=3)
        >>> network.rescale_outputs(1.0, np.array([5.0, 6.0, 7.0]))
        >>> network.reorder_classes(np.array([2, 0, 1]))
        >>> network(np.zeros((1, 1)))
        array([[7., 5., 6.]])
        """
        if self.out_features == 1:
            if places[0] == 1:
                self.rescale_outputs(-1.0)
            return
        if self.leaf_corrections is not None:
            self.correct_leaves(self.leaf_corrections.reordered(places))
        self._reorder(places)

    @abstractmethod
    def _reorder(self, places: NDArray[np.int64]) -> None:
        """`reorder_classes` of the parameters of several outputs."""

    def widen(self, features: NDArray[np.int64], n_features: int) -> Self:
        """The same function on `n_features` features, of which it reads those numbered `features` alone."""

        def spread(array: NDArray[Any], axis: int) -> NDArray[Any]:
            wide = np.zeros((*array.shape[:axis], n_features, *array.shape[axis + 1 :]), array.dtype)
            wide[(slice(None),) * axis + (features,)] = array
            return wide

        return self._with_features(spread)

    def narrow(self, features: NDArray[np.int64]) -> Self:
        """The inverse of `widen`: the same function of the features that it reads, given by their numbers."""
        return self._with_features(lambda array, axis: np.ascontiguousarray(array.take(features, axis)))

    def _with_features(self, change: Callable[[NDArray[Any], int], NDArray[Any]]) -> Self:
        """A copy whose arrays over the features are changed: change(array, axis of the features)."""
        other = self.copy()
        for name, owner, attribute in other.slots():
            if name in FEATURE_AXES:
                setattr(owner, attribute, change(getattr(owner, attribute), FEATURE_AXES[name]))
        other.in_features = other.weight.shape[0]
        return other

    def forget_features(self, features: NDArray[np.bool_]) -> None:
        """Give some features weights of zero, in place: the network reads them no more."""
        for name, array in self.arrays().items():
            if name in FEATURE_AXES:
                array[(slice(None),) * FEATURE_AXES[name] + (features,)] = 0

    def start_with(self, shallow: NeuronChain) -> None:
        """Give the first neurons the parameters of a shallower network; the others stay as they are."""
        for name, array in shallow.arrays().items():
            self.arrays()[name][tuple(slice(length) for length in array.shape)] = array

    # Evaluation

    def __call__(self, x: NDArray[Any] | Rows, *, annealing: float | None = None) -> NDArray[Any]:
        """Outputs (B, L) of rows (B, D).

        Parameters
        ----------
        x : array (B, D) or Rows
        annealing : float in [0, 1], optional
            λ of Eq. 5; by default 1 for ReLU and leaky ReLU, 0 for softplus.
        """
        check_annealing(annealing)
        rows = self._as_rows(x)
        lam = self.activation.default_annealing if annealing is None else annealing
        output = self._outputs(rows, lam)
        if self.leaf_corrections is None or lam != 1.0:
            return output
        return output + self.leaf_corrections.lookup(self.activation_codes(rows)).astype(self.dtype)

    @abstractmethod
    def _outputs(self, rows: Rows, annealing: float) -> NDArray[Any]:
        """Outputs (B, L) without the leaves' corrections."""

    def activation_pattern(self, x: NDArray[Any] | Rows) -> NDArray[np.bool_]:
        """Which neurons are active (z ≥ 0, Eq. 3) in the piece-wise linear network: bool (B, M)."""
        return unpack_codes(self.activation_codes(x), self.depth)

    def activation_codes(self, x: NDArray[Any] | Rows) -> NDArray[np.int64]:
        """Activation patterns as integers (B, words): 63 neurons a word, the first neuron in the lowest bit."""
        return self._router().codes(self._as_rows(x))

    def _router(self) -> Router:
        return Router(self.weight, self.connection, self.bias, self.activation.negative_slope)

    def correct_leaves(self, corrections: LeafCorrections | None) -> None:
        """Add constants to the leaves of the piece-wise linear network from now on."""
        if corrections is not None and not self.activation.is_piecewise_linear:
            raise ValueError("leaf corrections need a piece-wise linear activation, got softplus")
        self.leaf_corrections = corrections

    def _as_rows(self, x: NDArray[Any] | Rows) -> Rows:
        if x.shape[1] != self.in_features:
            raise ValueError(f"x must have {self.in_features} features, got {x.shape[1]}")
        return x if isinstance(x, Rows) else Table(x).rows()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(in_features={self.in_features}, depth={self.depth}, "
            f"out_features={self.out_features}, activation={self.activation}, drop_connect={self.drop_connect})"
        )


def views(flat: NDArray[Any], like: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Consecutive pieces of a vector, in the shapes of named arrays."""
    return dict(zip(like, cut(flat, [array.shape for array in like.values()]), strict=True))


def cut(vector: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Consecutive pieces of a vector, in these shapes."""
    pieces, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        pieces.append(vector[start:end].reshape(shape))
        start = end
    return pieces


class LocallyConstantNetwork(NeuronChain):
    """The standard locally constant network (LCN, §3.6), or its approximate form (ALCN) with softplus.

    With a piece-wise linear activation the output is a function of the activation pattern alone: an oblique decision
    tree of depth M.

    Parameters
    ----------
    hidden_layers : sequence of int
        Widths of g_φ's hidden ReLU layers.
    in_features, depth, out_features, activation, drop_connect, dtype, seed
        As for `NeuronChain`.

    Examples
    --------
    >>> network = LocallyConstantNetwork(5, depth=3, out_features=1, seed=0)
    >>> network(np.zeros((4, 5))).shape
    (4, 1)
    """

    def __init__(
        self,
        in_features: int,
        depth: int,
        out_features: int,
        *,
        hidden_layers: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        self.hidden_layers = tuple(hidden_layers)
        self._leaves: _Leaves | None = None
        super().__init__(in_features, depth, out_features, **settings)

    def _make_outputs(self) -> None:
        self.head = Head(self.in_features, self.depth, self.out_features, self.hidden_layers, self.dtype)

    def _reset_outputs(self, rng: np.random.RandomState) -> None:
        self.head.reset_parameters(rng)

    def slots(self) -> list[Slot]:
        slots = super().slots()
        slots += [(f"head.{name}", self.head, name) for name in ("weight", "offset_weight", "bias")]
        for number, layer in enumerate(self.head.hidden):
            # odd numbers: in a torch module the ReLUs stand between them
            slots += [(f"head.hidden.{2 * number + 1}.{name}", layer, name) for name in ("weight", "bias")]
        return slots

    def _read_raw_outputs(self, center: NDArray[Any], scale: NDArray[Any]) -> None:
        self.head.weight[:] = self.head.weight * scale + self.head.offset_weight[:, :, None] * center

    def _rescale(self, scale: NDArray[Any], center: NDArray[Any]) -> None:
        self.head.rescale(scale, center)

    def _reorder(self, places: NDArray[np.int64]) -> None:
        self.head.reorder(places)

    def _outputs(self, rows: Rows, annealing: float) -> NDArray[Any]:
        if annealing == 1.0:
            return self._by_pattern(rows)
        return self.head.behind_first(first_layer(self, rows, annealing)).T

    def leaf_values(self, patterns: NDArray[np.bool_]) -> NDArray[Any]:
        """The outputs (K, L) of the piece-wise linear network for patterns, bool (K, M), corrections included."""
        values = self._pattern_values(patterns)
        if self.leaf_corrections is None:
            return values
        return values + self.leaf_corrections.lookup(pack_pattern(patterns)).astype(values.dtype)

    def _pattern_values(self, patterns: NDArray[np.bool_]) -> NDArray[Any]:
        values = np.empty((len(patterns), self.out_features), self.dtype)
        step = max(16, PATTERN_ENTRIES // self.depth**2)
        for start in range(0, len(patterns), step):
            o = np.where(patterns[start : start + step], 1, self.activation.negative_slope).astype(self.dtype)
            coefficients = path_coefficients(o, self.connection)
            offsets = path_offsets(coefficients, self.bias)
            values[start : start + step] = self.head.on_coefficients(coefficients, offsets, self.weight)
        return values

    def _by_pattern(self, rows: Rows) -> NDArray[Any]:
        """Route the rows, then look their leaves' values up."""
        known = self._known_leaves(len(rows.index)) if self.depth <= TABLE_DEPTH else None
        codes = (self._router() if known is None else known.router).codes(rows)
        if known is not None and known.values is not None:
            return known.values.take(codes[:, 0], axis=0)
        axis = None if codes.shape[1] == 1 else 0
        unique, inverse = np.unique(codes if axis == 0 else codes[:, 0], axis=axis, return_inverse=True)
        patterns = unpack_codes(unique.reshape(-1, codes.shape[1]), self.depth)
        return self._pattern_values(patterns)[inverse.reshape(-1)]

    def _known_leaves(self, n_rows: int) -> _Leaves:
        """The cache until a parameter changes; all 2^M leaf values once so many rows have come that they pay."""
        now = list(self.arrays().values())
        kept, negative_slope = self._leaves, self.activation.negative_slope
        if kept is None or kept.negative_slope != negative_slope or not _same(kept.parameters, now):
            kept = self._leaves = _Leaves([array.copy() for array in now], negative_slope, self._router())
        kept.n_rows += n_rows
        if kept.values is None and kept.n_rows >= 2**self.depth:
            codes = np.arange(2**self.depth)[:, None]
            kept.values = self._pattern_values(unpack_codes(codes, self.depth))
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_leaves": None}

    def __copy__(self) -> Self:
        """A copy with a g_φ of its own: the network's arrays are attributes of it."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__getstate__(), head=copy.deepcopy(self.head))
        return other


@dataclass
class _Leaves:
    """A router and leaf values by code, what they were made from, and how many rows have asked for them."""

    parameters: list[NDArray[Any]]
    negative_slope: float
    router: Router
    n_rows: int = 0
    values: NDArray[Any] | None = None


def _same(old: list[NDArray[Any]], new: list[NDArray[Any]]) -> bool:
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(old, new, strict=True))


class LocallyLinearNetwork(NeuronChain):
    """The locally linear network f_θ itself (LLN): an oblique tree with linear leaves.

    out = A x + B a + c on the input and all neurons. `output_weight` (D, L), `output_connection` (M, L),
    `output_bias` (L,). DropConnect acts on the neurons' weights.

    Examples
    --------
    >>> network = LocallyLinearNetwork(5, depth=3, out_features=2, seed=0)
    >>> network(np.zeros((4, 5))).shape
    (4, 2)
    """

    feature_rows: ClassVar[tuple[str, ...]] = ("weight", "output_weight")

    def _make_outputs(self) -> None:
        self.output_weight = np.zeros((self.in_features, self.out_features), self.dtype)
        self.output_connection = np.zeros((self.depth, self.out_features), self.dtype)
        self.output_bias = np.zeros(self.out_features, self.dtype)

    def _reset_outputs(self, rng: np.random.RandomState) -> None:
        bound = 1 / math.sqrt(self.in_features + self.depth)
        for array in (self.output_weight, self.output_connection, self.output_bias):
            array[:] = uniform(array.shape, rng) * bound

    def slots(self) -> list[Slot]:
        names = ("output_weight", "output_connection", "output_bias")
        return [*super().slots(), *((name, self, name) for name in names)]

    def _read_raw_outputs(self, center: NDArray[Any], scale: NDArray[Any]) -> None:
        self.output_weight /= scale[:, None]
        self.output_bias -= (center[:, None] * self.output_weight).sum(axis=0)

    def _rescale(self, scale: NDArray[Any], center: NDArray[Any]) -> None:
        self.output_weight *= scale
        self.output_connection *= scale
        self.output_bias[:] = self.output_bias * scale + center

    def _reorder(self, places: NDArray[np.int64]) -> None:
        for array in (self.output_weight, self.output_connection, self.output_bias):
            array[:] = array[..., places]

    def _outputs(self, rows: Rows, annealing: float) -> NDArray[Any]:
        return linear_outputs(self, rows, annealing).T
