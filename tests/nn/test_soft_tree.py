"""The kernels of a tree with soft routing against torch: one loss, its gradient, one step of AdamW."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from treelu.nn import soft_tree
from treelu.nn.soft_training import SoftTraining

# complete, and one where each question has a leaf
SHAPES = {"complete": [[1, 2], [3, 4], [5, 6]], "chain": [[3, 1], [2, 4], [5, 6]]}


def case(children: list[list[int]], n_outputs: int, is_classifier: bool, dtype: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n_splits, n_rows, n_features = len(children), 30, 4
    rows = np.column_stack([rng.normal(size=(n_rows, n_features)), np.ones(n_rows)])
    target = rng.normal(size=(n_rows, n_outputs))
    if is_classifier:
        target = np.eye(n_outputs)[rng.integers(n_outputs, size=n_rows)]
    return {
        "rows": rows.astype(dtype),
        "target": target.astype(dtype),
        "weight": rng.uniform(0.5, 2, n_rows).astype(dtype),
        "children": np.array(children),
        "splits": rng.normal(size=(n_splits, n_features + 1)).astype(dtype),
        "values": rng.normal(size=(n_splits + 1, n_outputs)).astype(dtype),
    }


def torch_loss(
    parts: dict[str, Any], sharpness: float, is_classifier: bool, firmness: float = 0.0
) -> tuple[torch.Tensor, Any, Any]:
    """The same from the leaves' paths, one leaf after the other."""
    splits = torch.tensor(parts["splits"], dtype=torch.float64, requires_grad=True)
    values = torch.tensor(parts["values"], dtype=torch.float64, requires_grad=True)
    rows, target = torch.tensor(parts["rows"]).double(), torch.tensor(parts["target"]).double()
    share = torch.tensor(parts["weight"]).double() / parts["weight"].sum()
    gates, children = torch.sigmoid(sharpness * rows @ splits.T), parts["children"]

    def reach(node: int) -> torch.Tensor:
        if node == 0:
            return torch.ones(len(rows), dtype=torch.float64)
        parent, side = (int(index[0]) for index in np.nonzero(children == node))
        return reach(parent) * (gates[:, parent] if side else 1 - gates[:, parent])

    leaves = torch.stack([reach(len(children) + leaf) for leaf in range(len(children) + 1)], dim=1)
    output = leaves @ (torch.softmax(values, dim=1) if is_classifier else values)
    losses = -(target * output.log()).sum(1) if is_classifier else 0.5 * ((output - target) ** 2).sum(1)
    if not is_classifier:
        losses = losses + firmness / 2 * (leaves[:, :, None] * (values - output[:, None, :]) ** 2).sum((1, 2))
    return (share * losses).sum(), splits, values


def columns(parts: dict[str, Any]) -> soft_tree.Sample:
    return soft_tree.Sample(
        *(np.ascontiguousarray(np.atleast_2d(parts[name].T)) for name in ("rows", "target", "weight"))
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("n_outputs", "is_classifier", "firmness"), [(3, True, 0.0), (1, False, 0.0), (1, False, 0.5), (2, False, 0.5)]
)
def test_the_gradient_equals_autograd(shape: str, n_outputs: int, is_classifier: bool, firmness: float) -> None:
    parts = case(SHAPES[shape], n_outputs, is_classifier, np.float64)
    at = soft_tree.Parameters(parts["splits"], parts["values"])
    tree, how = soft_tree.Shape(parts["children"], np.ones_like(at.splits)), SoftTraining(firmness=firmness)
    by = soft_tree.gradient(columns(parts), tree, at, 3.0, how._replace(is_classifier=is_classifier))
    wanted, splits, values = torch_loss(parts, 3.0, is_classifier, firmness)
    wanted.backward()
    np.testing.assert_allclose(by.splits, splits.grad.numpy(), atol=1e-10, rtol=1e-8)
    np.testing.assert_allclose(by.values, values.grad.numpy(), atol=1e-10, rtol=1e-8)


def test_one_update_is_adamw_with_biases_left_alone() -> None:
    parts = case(SHAPES["complete"], 3, True, np.float32)
    loss, splits, values = torch_loss(parts, 2.0, True)
    optimizer = torch.optim.AdamW([splits, values], lr=0.1, weight_decay=0.0)
    loss.backward()
    optimizer.step()
    wanted = splits.detach().numpy()
    wanted[:, :-1] -= 0.1 * 0.5 * parts["splits"][:, :-1]
    ones = np.ones_like(parts["splits"])
    moved, leaves = parts["splits"].copy(), parts["values"].copy()
    at, how = soft_tree.Parameters(moved, leaves), SoftTraining(1, learning_rate=0.1, decay=0.5, seed=7)
    soft_tree.run_updates(columns(parts), soft_tree.Shape(parts["children"], ones), at, how)
    np.testing.assert_allclose(moved, wanted, atol=1e-4)
    np.testing.assert_allclose(leaves, values.detach().numpy(), atol=1e-4)


def test_one_update_with_a_penalty_adds_its_slope_and_keeps_small_weights_at_zero() -> None:
    """A weight of 0 whose slope is less than the penalty stays 0; others follow AdamW on the sum of both slopes."""
    parts = case(SHAPES["complete"], 3, True, np.float32)
    parts["splits"][:, 1] = 0.0
    loss, splits, _ = torch_loss(parts, 2.0, True)
    loss.backward()
    penalty = float(np.sort(np.abs(splits.grad.numpy()[:, 1]))[:2].mean())
    size = splits.grad[:, 1].abs()
    with torch.no_grad():
        stays = size <= penalty
        splits.grad[:, :-1] += penalty * torch.sign(splits[:, :-1])
        splits.grad[:, 1] = torch.sign(splits.grad[:, 1]) * (size - penalty).clamp(min=0)
    torch.optim.AdamW([splits], lr=0.01, weight_decay=0.0).step()
    before, moved = parts["splits"].copy(), parts["splits"].copy()
    shape = soft_tree.Shape(parts["children"], np.ones_like(moved))
    how = SoftTraining(1, learning_rate=0.01, decay=0.0, penalty=penalty, seed=7)
    soft_tree.run_updates(columns(parts), shape, soft_tree.Parameters(moved, parts["values"]), how)
    assert 0 < int(stays.sum()) < len(stays)
    assert (moved[stays.numpy(), 1] == 0).all()
    wanted = splits.detach().numpy()
    kept = before * wanted >= 0  # a weight that would change its sign stops at 0
    kept[:, -1] = True
    np.testing.assert_allclose(moved[kept], wanted[kept], atol=1e-4)
    assert (moved[~kept] == 0).all()


def test_forbidden_weights_stay_zero_and_signs_are_kept() -> None:
    parts = case(SHAPES["complete"], 2, True, np.float32)
    allowed = (np.random.default_rng(1).random(parts["splits"].shape) < 0.5).astype(np.float32)
    allowed[:, -1] = 1
    parts["splits"] *= allowed
    signs = np.array([1, -1, 0, 0, 0], np.float32)
    shape, at = soft_tree.Shape(parts["children"], allowed), soft_tree.Parameters(parts["splits"], parts["values"])
    how = SoftTraining(20, 8, learning_rate=0.1, decay=0.1, drop=0.2, seed=7)
    soft_tree.run_updates(columns(parts), shape, at, how, signs)
    assert (parts["splits"][allowed == 0] == 0).all()
    assert (parts["splits"][:, 0] >= 0).all()
    assert (parts["splits"][:, 1] <= 0).all()


def test_route_is_the_limit_of_soft_routing() -> None:
    parts = case(SHAPES["chain"], 2, False, np.float32)
    leaf = soft_tree.route(parts["rows"], parts["children"], parts["splits"])
    z, node = parts["rows"] @ parts["splits"].T, np.zeros(len(parts["rows"]), int)
    for row in range(len(z)):
        while node[row] < len(parts["children"]):
            node[row] = parts["children"][node[row], int(z[row, node[row]] >= 0)]
    assert (leaf == node - len(parts["children"])).all()
