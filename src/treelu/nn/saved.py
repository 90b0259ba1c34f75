"""The state of a network for saving, as arrays and JSON, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from treelu.nn.activations import Activation
from treelu.nn.corrections import LeafCorrections
from treelu.nn.networks import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.patterns import n_words

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


def describe_network(network: NeuronChain, arrays: ArrayWriter) -> dict[str, Any]:
    """A network's settings; its parameters go into `arrays` by name."""
    for name, array in network.arrays().items():
        arrays.put(name, array)
    if network.leaf_corrections is not None:
        arrays.put("corrected_codes", network.leaf_corrections.codes)
        arrays.put("corrections", network.leaf_corrections.values)
    return {
        "kind": type(network).__name__,
        "dtype": network.dtype.name,
        "activation": network.activation.kind,
        "negative_slope": network.activation.negative_slope,
        "drop_connect": network.drop_connect,
        "drop_in_jacobian": False,  # 0.1 asks for it
    }


def restore_network(fields: Fields, arrays: ArrayReader) -> NeuronChain:
    """The inverse of `describe_network`.

    Widths are read off the arrays, whose size is that of the file, so no number in the JSON can ask for memory.
    """
    dtype = fields.text("dtype")
    if dtype not in ("float32", "float64"):
        raise fields.error(f"a network cannot be of type {dtype!r}")

    def take(name: str, *shape: int | None) -> NDArray[Any]:
        return arrays.floats(name, *shape, dtype=dtype)

    state = {"weight": take("weight", None, None)}
    n_features, depth = state["weight"].shape
    if not n_features or not depth:
        raise fields.error("a network needs at least one feature and one neuron")
    state |= {"connection": take("connection", depth, depth), "bias": take("bias", depth)}
    settings: dict[str, Any] = {
        "activation": Activation(fields.any("activation"), fields.number("negative_slope")),
        "drop_connect": fields.number("drop_connect"),
        "dtype": dtype,
    }
    kind = fields.text("kind")
    network: NeuronChain
    if kind == "LocallyConstantNetwork":
        widths = _read_head(arrays, take, n_features, depth, state)
        network = LocallyConstantNetwork(n_features, depth, widths[-1], hidden_layers=widths[:-1], **settings)
    elif kind == "LocallyLinearNetwork":
        state["output_weight"] = take("output_weight", n_features, None)
        n_outputs = state["output_weight"].shape[1]
        state |= {
            "output_connection": take("output_connection", depth, n_outputs),
            "output_bias": take("output_bias", n_outputs),
        }
        network = LocallyLinearNetwork(n_features, depth, n_outputs, **settings)
    else:
        raise fields.error(f"unknown kind of network {kind!r}")
    network.load_state(state)
    if arrays.has("corrected_codes"):
        codes = arrays.integers("corrected_codes", None, n_words(depth))
        network.correct_leaves(LeafCorrections(codes, arrays.floats("corrections", len(codes), network.out_features)))
    return network


def _read_head(
    arrays: ArrayReader, take: Callable[..., NDArray[Any]], n_features: int, depth: int, state: dict[str, Any]
) -> list[int]:
    """Add the arrays of g_φ to `state`; returns the widths of its layers."""
    state["head.weight"] = take("head.weight", None, depth, n_features)
    widths = [len(state["head.weight"])]
    state["head.offset_weight"] = take("head.offset_weight", widths[0], depth)
    state["head.bias"] = take("head.bias", widths[0])
    layer = 1  # odd numbers: between them stand the ReLUs
    while arrays.has(f"head.hidden.{layer}.weight"):
        weight = take(f"head.hidden.{layer}.weight", None, widths[-1])
        widths.append(len(weight))
        state[f"head.hidden.{layer}.weight"] = weight
        state[f"head.hidden.{layer}.bias"] = take(f"head.hidden.{layer}.bias", widths[-1])
        layer += 2
    return widths
