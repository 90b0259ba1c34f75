"""Pictures of the documentation's idea page and of the README: ``python -m docs.figures`` from the project's root.

Every line and arrow is computed by the package (or by autograd), none is drawn by hand.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from treelu import LCNClassifier, ObliqueTree, ObliqueTreeClassifier
from treelu.convert import network_to_tree
from treelu.nn import CanonicalNetwork
from treelu.nn.torch import to_torch
from treelu.view import plot_network_and_tree, plot_partition, plot_tree

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

IMAGES = Path(__file__).parent / "images"
RED, BLUE, INK, PALE = "#c2502e", "#2f62a8", "#1a1a1a", "#6b6b68"
TOY_BOUNDS = (np.array([-1.5, -0.8]), np.array([4.5, 5.2]))


def toy_network(depth: int) -> CanonicalNetwork:
    """The paper's Fig. 1 in two dimensions, one neuron per layer, and a table of leaf values."""
    rows = [[1.0, -1.0], [-4.0, 1.0, 4.0], [-3.0, 0.0, 2.0, -1.0]][:depth]
    biases = [1.0, 4.0, 8.0][:depth]
    network = CanonicalNetwork(2, [1] * depth, 1)
    for layer, weights, bias in zip(network.layers, rows, biases, strict=True):
        layer.weight[:], layer.bias[:] = [weights], bias
    network.table[:] = np.arange(2.0**depth)[:, None]
    return network


def neurons(network: CanonicalNetwork, x: torch.Tensor) -> list[torch.Tensor]:
    """The activations a_1, a_2, … of a toy network, each (n,), for autograd."""
    inputs, found = x, []
    for layer in to_torch(network).layers:
        a = torch.relu(layer(inputs))
        found.append(a[:, 0])
        inputs = torch.cat([inputs, a], dim=1)
    return found


def slope() -> Figure:
    """One input: a network's output is a bent line, and its slope a staircase."""
    x = torch.linspace(-3, 3, 1201, dtype=torch.float64)[:, None].requires_grad_()
    a1 = torch.relu(x + 1.8)
    a2 = torch.relu(0.8 * x - 1.7 * a1 + 2.6)
    a3 = torch.relu(x + 1.2 * a2 - 1.0)
    output = a1 - 1.5 * a2 - 1.2 * a3
    (steps,) = torch.autograd.grad(output.sum(), x)
    pattern = torch.cat([a1, a2, a3], dim=1).gt(0).numpy()
    points, line = x.detach()[:, 0].numpy(), output.detach()[:, 0].numpy()
    changes = np.flatnonzero((pattern[1:] != pattern[:-1]).any(axis=1))
    edges = [points[0], *points[changes], points[-1]]
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 4.6), sharex=True, layout="constrained")
    for ax, values, color, label in (
        (above, line, BLUE, "output"),
        (below, steps[:, 0].numpy(), RED, "slope of the output"),
    ):
        for number, (start, end) in enumerate(pairwise(edges)):
            ax.axvspan(start, end, color="#f0f0ec" if number % 2 else "white", zorder=0)
            inside = (points > start + 0.004) & (points < end - 0.004)
            ax.plot(points[inside], values[inside], color=color, linewidth=2.2)
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
        ax.margins(x=0, y=0.12)
    for start, end in pairwise(edges):
        bits = pattern[np.searchsorted(points, (start + end) / 2)].astype(int)
        above.text((start + end) / 2, 1.02, "".join(map(str, bits)), ha="center", size=9, color=PALE,
                   transform=above.get_xaxis_transform())  # fmt: skip
    above.set_title("which of the three neurons are on", size=9, color=PALE, pad=18)
    below.set_xlabel("input x")
    return figure


def _field(ax: Axes, network: CanonicalNetwork, neuron: int) -> None:
    """A neuron's output as contours and its gradient as arrows, the boundaries of the regions over it."""
    low, high = TOY_BOUNDS
    grid = [np.linspace(low[d], high[d], 200) for d in range(2)]
    fine = np.stack(np.meshgrid(*grid), axis=-1).reshape(-1, 2)
    values = neurons(network, torch.from_numpy(fine))[neuron].detach().numpy().reshape(200, 200)
    ax.contourf(*grid, values, levels=12, cmap="Greys", alpha=0.5, zorder=0)
    places = [np.linspace(low[d], high[d], 14)[1:-1] for d in range(2)]
    coarse = torch.from_numpy(np.stack(np.meshgrid(*places), axis=-1).reshape(-1, 2)).requires_grad_()
    (arrows,) = torch.autograd.grad(neurons(network, coarse)[neuron].sum(), coarse)
    at, arrow = coarse.detach().numpy(), arrows.numpy()
    still = ~arrow.any(axis=1)
    ax.quiver(*at[~still].T, *arrow[~still].T, color=RED, scale=(22, 50)[neuron], width=0.006, zorder=3)
    ax.plot(*at[still].T, ".", color=RED, markersize=3, zorder=3)
    ax.set_title(f"neuron {neuron + 1}: output (grey) and its gradient (red)", size=9.5)


def gradients() -> Figure:
    """Two inputs: the gradient of each neuron is the same everywhere in a region, and turns at its borders."""
    network = toy_network(2)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.3), layout="constrained")
    for neuron, ax in enumerate(axes[:2]):
        _field(ax, network, neuron)
        _borders(ax, network_to_tree(toy_network(neuron + 1)), TOY_BOUNDS)
    plot_partition(network_to_tree(network), bounds=TOY_BOUNDS, ax=axes[2])
    axes[2].set_title("a constant for each region: the leaves of a tree", size=9.5)
    for ax in axes:
        ax.set_aspect("equal")
        ax.set_xlabel("x1")
        ax.set_ylabel("x2")
    return figure


def folding() -> Figure:
    """One, two, three neurons: each new one cuts all regions, each by a line of its own."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    for depth, ax in enumerate(axes, start=1):
        tree = network_to_tree(toy_network(depth), feature_names=["x1", "x2"])
        plot_partition(tree, bounds=TOY_BOUNDS, ax=ax)
        ax.set_aspect("equal")
        ax.set_title(f"{depth} neuron{'s'[: depth - 1]}: {tree.n_leaves} leaves", size=10)
    return figure


def toy_tree() -> Figure:
    """The tree of the two-neuron network."""
    tree = network_to_tree(toy_network(2), feature_names=["x1", "x2"])
    return plot_tree(tree).get_figure(root=True)  # type: ignore[return-value]


def triangle(n_points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in a square, and whether they lie in a triangle whose sides are along no axis."""
    X = np.random.default_rng(seed).uniform(-1.7, 1.7, (n_points, 2))
    sides = np.deg2rad([75, 195, 315])
    return X, (X @ np.array([np.cos(sides), np.sin(sides)]) < 0.65).all(axis=1).astype(int)


def best_start(X: Any, y: Any, **settings: Any) -> LCNClassifier:
    """Of five random starts the one with the lowest training loss: in two dimensions they differ much."""
    settings = {"epochs": 300, "learning_rate": 0.03, **settings}
    models = [LCNClassifier(**settings, random_state=seed).fit(X, y) for seed in range(5)]
    return min(models, key=lambda model: model.history_.records[-1].train_loss)


def network_and_tree() -> Figure:
    """A trained network, the map that it computes, and its tree."""
    X, y = triangle(600, seed=0)
    model = best_start(X, y, depth=3)
    return plot_network_and_tree(model.network_, model.tree_, X=X, y=y)


def snapshots(X: Any, y: Any, epochs: list[int], **settings: Any) -> tuple[list[tuple[float, Any]], LCNClassifier]:
    """λ and the network after some epochs of the best start, on features as they are; and the fitted model."""
    best = best_start(X, y, standardize=False, **settings)
    moments: list[tuple[float, Any]] = []

    def keep(record: Any, network: Any) -> None:
        moments.append((record.annealing, network.copy()))

    model = LCNClassifier(**{**best.get_params(), "callbacks": [keep]}).fit(X, y)
    return [moments[epoch - 1] for epoch in epochs], model


def _grid(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Points of a picture, (62500, 2), row by row from below."""
    return np.stack(np.meshgrid(*(np.linspace(low[d], high[d], 250) for d in range(2))), axis=-1).reshape(-1, 2)


def _blend(ax: Axes, probabilities: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Paint probabilities on a grid as a blend of the classes' colours."""
    colors = np.array([(59, 111, 182), (214, 96, 61), (74, 153, 96)])[: probabilities.shape[1]] / 255
    extent = (low[0], high[0], low[1], high[1])
    ax.imshow((probabilities @ colors).reshape(250, 250, 3), origin="lower", extent=extent, alpha=0.8, aspect="auto")


def _borders(ax: Axes, tree: ObliqueTree, bounds: Any) -> None:
    """The borders of a tree's regions alone."""
    plot_partition(tree, bounds=bounds, ax=ax)
    for patch in ax.patches:
        patch.set_facecolor("none")
    for text in list(ax.texts):
        text.remove()


def _map(ax: Axes, network: Any, share: float, X: np.ndarray, y: np.ndarray) -> None:
    """What a network computes during training, and the points."""
    low, high = X.min(axis=0) - 0.1, X.max(axis=0) + 0.1
    scores = torch.from_numpy(network(_grid(low, high), annealing=share))
    scores = torch.cat([torch.zeros_like(scores), scores], dim=1) if scores.shape[1] == 1 else scores
    _blend(ax, torch.softmax(scores, dim=1).numpy(), low, high)
    shades = np.array(["white", "black", "#9a9a96"])[y]
    ax.scatter(*X.T, c=shades, s=9, edgecolors="#5a5a56", linewidths=0.4)
    ax.set_xticks([])
    ax.set_yticks([])


def annealing() -> Figure:
    """From a smooth function to a tree: a network's map at some moments of its training."""
    X, y = triangle(600, seed=0)
    epochs = [1, 150, 250, 300]
    moments, _ = snapshots(X, y, epochs, depth=3)
    figure, axes = plt.subplots(2, 4, figsize=(12, 5.2), layout="constrained", height_ratios=(1, 1.9))
    z = np.linspace(-4, 4, 401)
    for (above, below), epoch, (share, network) in zip(axes.T, epochs, moments, strict=True):
        above.plot(z, share * np.maximum(z, 0) + (1 - share) * np.logaddexp(0, z), color=BLUE, label="activation")
        above.plot(z, share * (z >= 0) + (1 - share) / (1 + np.exp(-z)), color=RED, label="its slope")
        above.set_ylim(-0.2, 2.2)
        above.set_title(f"epoch {epoch} of {epochs[-1]}: λ = {share:.2g}", size=10)
        above.spines[["top", "right"]].set_visible(False)
        _map(below, network, share, X, y)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def beside_cart() -> Figure:
    """The same points cut by CART and by an oblique tree, each coloured by its probabilities."""
    X, y = triangle(600, seed=0)
    X_new, y_new = triangle(10_000, seed=1)
    cart = DecisionTreeClassifier(max_leaf_nodes=8, random_state=0).fit(X, y)
    trees = {"CART": ObliqueTree.from_sklearn(cart), "LCN": best_start(X, y, depth=3).tree_}
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", sharey=True)
    for ax, (name, tree) in zip(axes, trees.items(), strict=True):
        low, high = X.min(axis=0) - 0.1, X.max(axis=0) + 0.1
        _blend(ax, tree.predict_proba(_grid(low, high)), low, high)
        _borders(ax, tree, (low, high))
        ax.scatter(*X.T, c=np.array(["white", "black"])[y], s=9, edgecolors="#5a5a56", linewidths=0.4)
        share = np.mean(tree.predict(X_new) == y_new)
        ax.set_title(f"{name}: {tree.n_leaves} leaves, {share:.1%} of new points right", size=10)
    return figure


def readme() -> Figure:
    """A network on two measurements of irises hardens into a tree, and the tree."""
    table = load_iris(as_frame=True)
    X = table.data[["petal length (cm)", "petal width (cm)"]].to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    moments, _ = snapshots(X, table.target.to_numpy(), [20, 150, 300], depth=2)
    figure = plt.figure(figsize=(7.6, 5.6))
    titles = ("a smooth network …", "… hardens in training …", "… and is a decision tree in the end")
    for place, ((share, network), title) in enumerate(zip(moments, titles, strict=True)):
        ax = figure.add_axes((0.02 + 0.328 * place, 0.5, 0.305, 0.44))
        _map(ax, network, share, X, table.target.to_numpy())
        ax.set_title(title, size=9.5)
    model = best_start(table.data.iloc[:, 2:], table.target_names[table.target], depth=2)
    plot_tree(model.tree_, scale=table.data.iloc[:, 2:].std(), ax=figure.add_axes((0, 0, 1, 0.48)))
    return figure


def loans() -> tuple[pd.DataFrame, np.ndarray, ObliqueTree]:
    """The invented applicants of the guide "asking a tree", in two columns, and a tree of them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.gamma(6, 500, 1500).round(), "debt": rng.gamma(2, 3000, 1500).round()})
    score = np.minimum(0.9 * X["income"] - 0.25 * X["debt"], 600 + 0.5 * X["income"]) + rng.normal(0, 150, 1500)
    y = np.where(score > 1400, "yes", "no")
    model = ObliqueTreeClassifier(max_leaf_nodes=4, leaves="constant", random_state=0).fit(X, y)
    return X, y, model.tree_


def asking_change() -> Figure:
    """An applicant, the nearest row that would be accepted, and the nearest one with debt as it is."""
    _, _, tree = loans()
    figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    plot_partition(tree, bounds=((500, 0), (5500, 15000)), ax=ax)
    applicant = np.array([1500.0, 5000.0])
    kept = tree.counterfactual(applicant, "yes", norm="l2", keep=["debt"])
    for answer, text in ((tree.counterfactual(applicant, "yes", norm="l2"), "nearest"), (kept, "debt as it is")):
        ax.annotate("", answer.row, applicant, arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 1.4})
        ax.annotate(text, answer.row, (6, -4), textcoords="offset points", va="top", color="black")
    ax.plot(*applicant, "o", color="black")
    ax.annotate("applicant", applicant, (-6, 6), textcoords="offset points", ha="right", color="black")
    return figure


def asking_robustness() -> Figure:
    """How far the applicants are from another answer."""
    X, _, tree = loans()
    figure, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    tree.plot_robustness(X.head(300), ax=ax)
    return figure


PICTURES = {
    "asking-change": asking_change,
    "asking-robustness": asking_robustness,
    "slope": slope,
    "gradients": gradients,
    "folding": folding,
    "toy-tree": toy_tree,
    "network-and-tree": network_and_tree,
    "annealing": annealing,
    "beside-cart": beside_cart,
    "readme": readme,
}


def main() -> None:
    """Draw every picture anew."""
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        figure = draw()
        figure.savefig(IMAGES / f"idea-{name}.png", dpi=130, facecolor="white")
        plt.close(figure)
        print(f"idea-{name}.png")


if __name__ == "__main__":
    main()
