"""The state of scalings, histories and ensembles for saving, as arrays and JSON, and back."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.data.scaling import Scaling, check_scale
from treelu.nn import LocallyConstantNetwork
from treelu.nn.saved import describe_network, restore_network
from treelu.training.boosting import Ensemble, Member
from treelu.training.history import EpochRecord, History

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


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
        raise fields.error(f"combine must be 'boost', 'average' or 'vote', got {combine!r}")
    descriptions = fields.inners("members")
    n_scalings = fields.whole("n_scalings", low=1, high=max(1, len(descriptions)))
    scalings = [take_scaling(arrays.under(f"scaling{number}"), n_features) for number in range(n_scalings)]
    members = []
    for number, about in enumerate(descriptions):
        inner = arrays.under(f"member{number}")
        network = restore_network(about.inner("network"), inner.under("network"))
        features = None
        if inner.has("features"):
            features = inner.integers("features", network.in_features)
            # Compared, not subtracted: differences of numbers near -2^63 wrap around.
            ascending = (features[1:] > features[:-1]).all()
            if not features.size or not ascending or features[0] < 0 or features[-1] >= n_features:
                raise about.error(f"its features must be ascending numbers below {n_features}")
        fits = network.in_features == (n_features if features is None else len(features))
        if not isinstance(network, LocallyConstantNetwork) or not fits or network.out_features != len(constant):
            raise about.error("the network does not belong to this ensemble")
        scaling = scalings[about.whole("scaling", high=n_scalings - 1)]
        members.append(Member(network, scaling, inner.floats("factor", len(constant)), features))
    if not members:
        raise fields.error("an ensemble needs at least one member")
    return Ensemble(constant, combine, members)  # type: ignore[arg-type]


def put_scaling(scaling: Scaling, arrays: ArrayWriter) -> None:
    """Write a scaling's two arrays."""
    arrays.put("center", scaling.center)
    arrays.put("scale", scaling.scale)


def take_scaling(arrays: ArrayReader, length: int | None) -> Scaling:
    """The inverse of `put_scaling`; of any length where it is None."""
    scale = arrays.floats("scale", length)
    center = arrays.floats("center", len(scale))
    if not (scale > 0).all():
        raise arrays.error("a scale must be positive")
    try:
        check_scale(center, scale, "a row")  # as of rows that are fitted; beyond, answers would not be numbers
    except ValueError as error:
        raise arrays.error(str(error)) from None
    return Scaling(center, scale)


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
        raise fields.error("metric must be a string or null")
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
        raise fields.error("it must hold lists of numbers, all of one length")
    return columns
