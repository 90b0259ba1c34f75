"""Figures 1 to 3: the toy networks, the analysis on HIV, and the HIV tree, from the results alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.runs import Result, Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from treelu.nn import CanonicalNetwork
    from treelu.tree import ObliqueTree

# Figure 1: rows of weights on (x_1, x_2, a_1, …) and a bias for each neuron. The first two neurons are the paper's;
# its third is only in the picture, so this one is ours.
TOY_NEURONS = (([1, -1], 1), ([-4, 1, 4], 4), ([1, 1, 1, -1], -4))
_ARMS = {
    (False, 0.0): ("without annealing", "tab:gray"),
    (True, 0.0): ("annealing", "tab:orange"),
    (True, 0.75): ("annealing and DropConnect 0.75", "tab:blue"),
}
_TREES = {"cart": ("CART", "tab:green"), "hhcart": ("HHCART", "tab:red"), "tao": ("TAO", "tab:purple")}


def figure1(folder: Path) -> list[Path]:
    """Toy networks of one, two and three neurons: network, regions, tree."""
    import matplotlib.pyplot as plt

    from treelu.convert import canonical_to_standard, network_to_tree
    from treelu.view import plot_network_and_tree

    paths = []
    for depth in range(1, len(TOY_NEURONS) + 1):
        neurons = TOY_NEURONS[:depth]
        network = _canonical([weights for weights, _ in neurons], [bias for _, bias in neurons], range(2**depth))
        standard = canonical_to_standard(network)
        picture = plot_network_and_tree(standard, network_to_tree(network), bounds=(-4, 6))
        paths.append(_save(picture, folder / f"paper-figure1-{depth}.png"))
        plt.close(picture)
    return paths


def figure2(store: Store, folder: Path) -> list[Path]:
    """HIV: (a) learning curves of LCN's training, (b) training and (c) test AUC against depth."""
    import matplotlib.pyplot as plt

    ablation = store.results("hiv", "ablation")
    if not ablation:
        return []
    picture, axes = plt.subplots(1, 3, figsize=(15, 4.4), layout="constrained")
    _learning_curves(axes[0], ablation)
    for ax, part, title in ((axes[1], "train", "(b) training"), (axes[2], "test", "(c) test")):
        for method, (name, color) in _TREES.items():
            _by_depth(ax, store.results("hiv", method), part, lambda s: s["max_depth"], name, color)
        full = [result for result in ablation if _arm(result) == (True, 0.75)]
        _by_depth(ax, full, part, lambda s: s["depth"], "LCN", "tab:blue")
        ax.set(title=title, xlabel="depth", ylabel="AUC")
        ax.legend(frameon=False)
    path = _save(picture, folder / "paper-figure2.png")
    plt.close(picture)
    return [path]


def _learning_curves(ax: Axes, ablation: Sequence[Result]) -> None:
    """AUC after each epoch at the largest depth, evaluated as ReLU."""
    depth = max(result["setting"]["depth"] for result in ablation)
    for arm, (name, color) in _ARMS.items():
        runs = [r["curve"] for r in ablation if _arm(r) == arm and r["setting"]["depth"] == depth]
        if runs:
            for part, style in (("train", "-"), ("test", ":")):
                curve = np.mean([[point[part] for point in run] for run in runs], axis=0)
                label = f"{name} ({'training' if part == 'train' else 'test'})"
                ax.plot(range(1, len(curve) + 1), curve, style, color=color, label=label)
    ax.set(title=f"(a) learning curve of LCN, depth {depth}", xlabel="epoch", ylabel="AUC")
    ax.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2)


def _by_depth(
    ax: Axes, results: Sequence[Result], part: str, depth_of: Callable[[dict[str, Any]], int], name: str, color: str
) -> None:
    scores: dict[int, list[float]] = defaultdict(list)
    for result in results:
        scores[depth_of(result["setting"])].append(result["scores"]["last"][part])
    depths = sorted(scores)
    if depths:
        means = [np.mean(scores[depth]) for depth in depths]
        spread = [np.std(scores[depth]) for depth in depths]
        ax.errorbar(depths, means, spread, color=color, label=name, marker="o", markersize=3, capsize=2)


def _arm(result: Result) -> tuple[bool, float]:
    return result["setting"]["annealing"], result["setting"]["drop_connect"]


def ablation_scores(store: Store) -> dict[tuple[bool, float], dict[int, dict[str, float]]]:
    """Mean AUC after the last epoch, for each arm of Figure 2a, depth and part."""
    found: dict[Any, list[Result]] = defaultdict(list)
    for result in store.results("hiv", "ablation"):
        found[_arm(result), result["setting"]["depth"]].append(result)
    table: dict[tuple[bool, float], dict[int, dict[str, float]]] = defaultdict(dict)
    for (arm, depth), results in sorted(found.items()):
        table[arm][depth] = {
            part: float(np.mean([result["scores"]["last"][part] for result in results])) for part in ("train", "test")
        }
    return dict(table)


def figure3(store: Store, folder: Path) -> list[Path]:
    """The HIV tree with 16 leaves, its nodes with the substructures that weigh most."""
    results = store.results("hiv", "picture")
    if not results:
        return []
    from treelu.chem import MorganFingerprint, draw_tree

    result = results[0]
    tree = picture_tree(result)
    examples = {int(bit): [found] for bit, found in result["examples"].items()}
    molecules = sorted({found[0][0] for found in examples.values()})
    fingerprint = MorganFingerprint.from_dict(
        {
            "parameters": MorganFingerprint(n_examples=1).get_params(),
            "n_rows": result["rows"][0],
            "refused": [],
            "molecules": molecules,
            "examples": {str(bit): [[molecules.index(smiles), *place]] for bit, [(smiles, *place)] in examples.items()},
        }
    )
    path = folder / "paper-figure3.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw_tree(tree, fingerprint, top=3), encoding="utf-8")
    return [path]


def picture_tree(result: Result) -> ObliqueTree:
    """The tree of a result of the method ``picture``."""
    from treelu.convert import network_to_tree

    stored = result["network"]
    network = _canonical(stored["weights"], stored["biases"], stored["table"])
    tree = network_to_tree(network, classes=[0, 1], link="logistic")
    return replace(tree, n_samples=np.array(result["rows"], dtype=np.float64))


def _canonical(weights: Sequence[Any], biases: Sequence[float], table: Sequence[float]) -> CanonicalNetwork:
    """A network of one neuron in each layer, whose weights are on the features and on the neurons before it."""
    from treelu.nn import CanonicalNetwork

    network = CanonicalNetwork(len(weights[0]), [1] * len(weights), 1)
    network.table[:] = np.array(list(table), float)[:, None]
    for layer, row, bias in zip(network.layers, weights, biases, strict=True):
        layer.weight[:], layer.bias[:] = [row], bias
    return network


def _save(picture: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=110, metadata={"Software": None})
    return path
