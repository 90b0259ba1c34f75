"""The state of graph networks for saving, as arrays and JSON, and back. Restoring one needs torch_geometric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from experiments.baselines._graphs import N_ATOM_FEATURES
from treelu.training.saved import describe_history, restore_history

if TYPE_CHECKING:
    from experiments.baselines.gcn import GraphNetwork
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


def describe_graph_model(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    """What a graph network's estimator learned; its arrays go into `arrays`."""
    inner = arrays.under("network")
    for name, tensor in estimator.network_.state_dict().items():
        if tensor.dtype.is_floating_point:  # the others count batches, which training alone looks at
            inner.put(name, tensor.detach().cpu().numpy())
    return {"history": describe_history(estimator.history_), **estimator._state_of_targets(arrays)}


def restore_graph_model(estimator: Any, fields: Fields, arrays: ArrayReader) -> None:
    """The inverse of `describe_graph_model`, for an estimator with its parameters set."""
    estimator.history_ = restore_history(fields.inner("history"))
    n_outputs = estimator._load_targets(fields, arrays)
    estimator.network_ = _restore_network(estimator, n_outputs, arrays.under("network"))


def _restore_network(estimator: Any, n_outputs: int, arrays: ArrayReader) -> GraphNetwork:
    from experiments.baselines.gcn import GraphNetwork

    filters, dense = estimator._filters(), int(estimator.dense)
    # The widths must be those of the arrays, whose size is that of the file, before anything is made of them.
    for layer, width in enumerate(filters):
        arrays.floats(f"convolutions.{layer}.lins_l.0.bias", width, dtype=np.float32)
    arrays.floats("dense.bias", dense, dtype=np.float32)
    with torch.device("meta"):  # shapes without memory, until the arrays take their places
        network = GraphNetwork(N_ATOM_FEATURES, n_outputs, filters, dense, float(estimator.dropout))
    state = {
        name: torch.from_numpy(arrays.floats(name, *tensor.shape, dtype=np.float32).copy())
        if tensor.dtype.is_floating_point
        else torch.zeros(tensor.shape, dtype=tensor.dtype)
        for name, tensor in network.state_dict().items()
    }
    network.load_state_dict(state, assign=True)
    return network.requires_grad_(False).eval()
