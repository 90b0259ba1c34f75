"""The state of graph networks for saving, as arrays and JSON, and back. Restoring one needs torch_geometric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from treelu.baselines._graphs import N_ATOM_FEATURES
from treelu.training.saved import describe_history, put_scaling, restore_history, take_scaling

if TYPE_CHECKING:
    from treelu.baselines.gcn import GraphNetwork
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

MAX_LABELS = 1_000_000


def describe_graph_model(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    """What a graph network's estimator learned; its arrays go into `arrays`."""
    inner = arrays.under("network")
    for name, tensor in estimator.network_.state_dict().items():
        if tensor.dtype.is_floating_point:  # the others count batches, which training alone looks at
            inner.put(name, tensor.detach().cpu().numpy())
    fitted: dict[str, Any] = {"history": describe_history(estimator.history_)}
    if hasattr(estimator, "target_scaling_"):
        put_scaling(estimator.target_scaling_, arrays.under("target_scaling"))
    elif isinstance(estimator.classes_, list):
        fitted["n_labels"] = len(estimator.classes_)
    else:
        fitted["classes"] = arrays.labels(estimator.classes_)
    return fitted


def restore_graph_model(estimator: Any, fields: Fields, arrays: ArrayReader) -> None:
    """The inverse of `describe_graph_model`, for an estimator with its parameters set."""
    estimator.history_ = restore_history(fields.inner("history"))
    if not hasattr(estimator, "predict_proba"):
        estimator.target_scaling_ = take_scaling(arrays.under("target_scaling"), 1)
        n_outputs = 1
    elif "n_labels" in fields:
        n_outputs = fields.whole("n_labels", low=1, high=MAX_LABELS)
        estimator.classes_ = [np.array([0, 1])] * n_outputs
    else:
        estimator.classes_ = fields.labels("classes")
        if len(estimator.classes_) < 2:
            raise fields.error("a classifier needs two classes or more")
        n_outputs = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
    estimator.network_ = _restore_network(estimator, n_outputs, arrays.under("network"))


def _restore_network(estimator: Any, n_outputs: int, arrays: ArrayReader) -> GraphNetwork:
    from treelu.baselines.gcn import GraphNetwork

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
