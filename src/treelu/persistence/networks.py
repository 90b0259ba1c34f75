"""Networks, ensembles, scalings and histories as arrays and JSON, and back."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.estimators._trees import Visits
from treelu.nn import Activation, LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.corrections import LeafCorrections
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields, ModelFileError
from treelu.training import EpochRecord, History
from treelu.training.boosting import Ensemble, Member
from treelu.training.scaling import Scaling

_BITS_A_WORD = 63  # neurons in a word of a packed activation pattern


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
        raise ModelFileError(f"{fields.where}: a network cannot be of type {dtype!r}")

    def take(name: str, *shape: int | None) -> NDArray[Any]:
        return arrays.floats(name, *shape, dtype=dtype)

    state = {"weight": take("weight", None, None)}
    n_features, depth = state["weight"].shape
    if not n_features or not depth:
        raise ModelFileError(f"{fields.where}: a network needs at least one feature and one neuron")
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
        raise ModelFileError(f"{fields.where}: unknown kind of network {kind!r}")
    network.load_state(state)
    if arrays.has("corrected_codes"):
        codes = arrays.integers("corrected_codes", None, -(-depth // _BITS_A_WORD))
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


def describe_ensemble(ensemble: Ensemble, arrays: ArrayWriter) -> dict[str, Any]:
    """An ensemble's members; a scaling that members share is written once."""
    arrays.put("constant", ensemble.constant)
    scalings: list[Scaling] = []
    members = []
    for number, member in enumerate(ensemble.members):
        if not any(member.scaling is known for known in scalings):
            put_scaling(member.scaling, arrays.under(f"scaling{len(scalings)}"))
            scalings.append(member.scaling)
        inner = arrays.under(f"member{number}")
        inner.put("factor", member.factor)
        if member.features is not None:
            inner.put("features", member.features.astype(np.int64))
        which = next(place for place, known in enumerate(scalings) if known is member.scaling)
        members.append({"scaling": which, "network": describe_network(member.network, inner.under("network"))})
    return {"combine": ensemble.combine, "n_scalings": len(scalings), "members": members}


def restore_ensemble(fields: Fields, arrays: ArrayReader, n_features: int) -> Ensemble:
    """The inverse of `describe_ensemble`."""
    constant = arrays.floats("constant", None)
    combine = fields.text("combine")
    if combine not in ("boost", "average", "vote"):
        raise ModelFileError(f"{fields.where}: combine must be 'boost', 'average' or 'vote', got {combine!r}")
    descriptions = fields.items("members")
    n_scalings = fields.whole("n_scalings", low=1, high=max(1, len(descriptions)))
    scalings = [take_scaling(arrays.under(f"scaling{number}"), n_features) for number in range(n_scalings)]
    members = []
    for number, description in enumerate(descriptions):
        inner, about = arrays.under(f"member{number}"), Fields(description, f"{fields.where}.members[{number}]")
        network = restore_network(about.inner("network"), inner.under("network"))
        features = None
        if inner.has("features"):
            features = inner.integers("features", network.in_features)
            # Compared, not subtracted: differences of numbers near -2^63 wrap around.
            ascending = (features[1:] > features[:-1]).all()
            if not features.size or not ascending or features[0] < 0 or features[-1] >= n_features:
                raise ModelFileError(f"{about.where}: its features must be ascending numbers below {n_features}")
        fits = network.in_features == (n_features if features is None else len(features))
        if not isinstance(network, LocallyConstantNetwork) or not fits or network.out_features != len(constant):
            raise ModelFileError(f"{about.where}: the network does not belong to this ensemble")
        scaling = scalings[about.whole("scaling", high=n_scalings - 1)]
        members.append(Member(network, scaling, inner.floats("factor", len(constant)), features))
    if not members:
        raise ModelFileError(f"{fields.where}: an ensemble needs at least one member")
    return Ensemble(constant, combine, members)  # type: ignore[arg-type]


def put_scaling(scaling: Scaling, arrays: ArrayWriter) -> None:
    """Write a scaling's two arrays."""
    arrays.put("center", scaling.center)
    arrays.put("scale", scaling.scale)


def take_scaling(arrays: ArrayReader, length: int) -> Scaling:
    """The inverse of `put_scaling`."""
    scale = arrays.floats("scale", length)
    if not (scale > 0).all():
        raise ModelFileError("a scale must be positive")
    return Scaling(arrays.floats("center", length), scale)


def put_visits(visits: Visits, arrays: ArrayWriter) -> None:
    """Write how often each activation pattern occurs."""
    arrays.put("codes", visits.codes.astype(np.int64))
    arrays.put("counts", visits.counts.astype(np.int64))


def take_visits(arrays: ArrayReader, depth: int) -> Visits:
    """The inverse of `put_visits`; every pattern is one of a network of that depth."""
    words = -(-depth // _BITS_A_WORD)
    codes = arrays.integers("codes", None, words)
    counts = arrays.integers("counts", len(codes))
    bits = [min(_BITS_A_WORD, depth - _BITS_A_WORD * word) for word in range(words)]
    beyond = [(codes[:, word] >> (size - 1)) > 1 for word, size in enumerate(bits)]
    if (codes < 0).any() or np.any(beyond) or (counts < 0).any():
        raise ModelFileError(f"the activation patterns do not belong to a network of depth {depth}")
    return Visits(codes, counts)


def describe_history(history: History) -> dict[str, Any]:
    """A training history as JSON."""
    return {
        "metric": history.metric,
        "best_epoch": history.best_epoch,
        "ended": history.ended,
        **{name: describe_numbers(history[name]) for name in EpochRecord.__dataclass_fields__},
    }


def restore_history(fields: Fields) -> History:
    """The inverse of `describe_history`."""
    columns = restore_numbers(fields, list(EpochRecord.__dataclass_fields__))
    metric = fields.any("metric")
    if metric is not None and not isinstance(metric, str):
        raise ModelFileError(f"{fields.where}: metric must be a string or null")
    records = [EpochRecord(*values) for values in zip(*columns, strict=True)]
    return History(metric, records, fields.whole("best_epoch"), fields.text("ended"))


def describe_numbers(values: Iterable[float | None]) -> list[float | None]:
    """Numbers for JSON, which has no word for NaN and infinity: they become null."""
    return [value if value is None or math.isfinite(value) else None for value in values]


def restore_numbers(fields: Fields, names: Sequence[str]) -> list[list[Any]]:
    """Lists of numbers and nulls, of one length."""
    columns = [fields.items(name) for name in names]
    if len({len(column) for column in columns}) != 1 or not all(
        value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)
        for column in columns
        for value in column
    ):
        raise ModelFileError(f"{fields.where} must hold lists of numbers, all of one length")
    return columns
