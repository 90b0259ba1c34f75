"""Which runs the paper made: grids, seeds and tuned settings, and smaller parts of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from experiments.data import Dataset
from experiments.runs import Run

METHODS = ("cart", "hhcart", "tao", "lcn", "lln", "alcn", "rf", "gbdt", "elcn", "gcn")
DEPTHS = tuple(range(2, 13))
DROPS = (0.0, 0.25, 0.5, 0.75)
HIDDEN = (0, 1, 2, 3, 4)
SEEDS = tuple(range(1, 11))
PATTERN_DEPTHS = (8, 9, 10, 11, 12)

# The authors' choice for each data set that has one setting for all seeds; SIDER and Tox21 are tuned for each label
# and seed.
TUNED: dict[tuple[str, str], dict[str, Any]] = {
    ("bace", "lcn"): {"depth": 12, "drop_connect": 0.75},
    ("bace", "alcn"): {"depth": 4, "drop_connect": 0.0},
    ("bace", "lln"): {"depth": 5},
    ("hiv", "lcn"): {"depth": 7, "drop_connect": 0.75},
    ("hiv", "alcn"): {"depth": 6, "drop_connect": 0.75},
    ("hiv", "lln"): {"depth": 11},
    ("pdbbind", "lcn"): {"depth": 11, "drop_connect": 0.25, "hidden_layers": 1},
    ("pdbbind", "alcn"): {"depth": 11, "drop_connect": 0.25, "hidden_layers": 1},
    ("pdbbind", "lln"): {"depth": 12, "learning_rate": 1e-5},
}


@dataclass(frozen=True)
class Extent:
    """How much of the paper's grids to run.

    Attributes
    ----------
    depths, drops, hidden, seeds : sequences of numbers
        ``hidden``: numbers of hidden layers of g_φ, tried for regression.
    tuned : bool
        The authors' settings instead of the grid, for LCN, ALCN and LLN where they fixed one.
    members, trees : int or None
        Largest size of ELCN and of GBDT instead of the paper's.
    epochs : int or None
        Of the graph network, instead of its default.
    """

    depths: Sequence[int] = DEPTHS
    drops: Sequence[float] = DROPS
    hidden: Sequence[int] = HIDDEN
    seeds: Sequence[int] = SEEDS
    tuned: bool = False
    members: int | None = None
    trees: int | None = None
    epochs: int | None = None


QUICK = Extent(depths=(4, 8, 12), drops=(0.0, 0.75), seeds=(1, 2), members=8, trees=64)


def settings(dataset: str, task: str, method: str, extent: Extent) -> Iterator[dict[str, Any]]:
    """The settings of a method on a data set."""
    family, _, variant = method.partition("@")
    if extent.tuned and (dataset, family) in TUNED:
        tuned = dict(TUNED[dataset, family])
        if variant:  # its own learning rate
            tuned.pop("learning_rate", None)
        yield tuned
    elif family in ("cart", "hhcart", "tao"):
        yield from ({"max_depth": depth} for depth in extent.depths)
    elif family == "lln":  # trained without DropConnect
        rate = {"learning_rate": 1e-5} if task == "regression" and not variant else {}
        yield from ({"depth": depth} | rate for depth in extent.depths)
    elif family in ("lcn", "alcn"):
        for depth, drop in product(extent.depths, extent.drops):
            if task == "classification":
                yield {"depth": depth, "drop_connect": drop}
            else:
                yield from ({"depth": depth, "drop_connect": drop, "hidden_layers": hidden} for hidden in extent.hidden)
    elif family == "rf":
        yield {"n_estimators": 500}
    elif family == "gbdt":
        yield {"n_estimators": extent.trees or 1024}
    elif family == "hist-gbdt":  # as gbdt: binning loses nothing where features are 0 and 1
        yield {"max_iter": extent.trees or 1024, "max_depth": 3, "max_leaf_nodes": None, "min_samples_leaf": 1}
    elif family == "elcn":
        yield _elcn(task, variant, extent)
    elif family == "gcn":
        yield {"epochs": extent.epochs} if extent.epochs else {}
    elif family == "statistics":
        yield {}
    elif family == "picture":
        yield {"depth": 4, "drop_connect": 0.75}
    elif family == "patterns":
        yield from ({"depth": depth, "drop_connect": 0.75} for depth in PATTERN_DEPTHS)
    elif family == "ablation":
        for depth in extent.depths:
            for annealing, drop in ((False, 0.0), (True, 0.0), (True, 0.75)):
                yield {"depth": depth, "drop_connect": drop, "annealing": annealing}
    else:
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, hist-gbdt, patterns, ablation, picture, statistics; "
            f"got {method!r}"
        )


def _elcn(task: str, variant: str, extent: Extent) -> dict[str, Any]:
    if task == "classification":
        return {"n_estimators": extent.members or 64}
    paper = {} if variant else {"learning_rate": 1e-4, "standardize": False}
    return {"n_estimators": extent.members or 512} | paper


def runs(dataset: Dataset, method: str, extent: Extent) -> list[Run]:
    """All runs of a method on a data set, whole seeds first."""
    once = method in ("hhcart", "picture", "statistics")  # HHCART draws nothing
    seeds = extent.seeds[:1] if once else extent.seeds
    grid = list(settings(dataset.name, dataset.task, method, extent))
    if method == "statistics":
        return [Run(dataset.name, "all", method, setting, 0) for setting in grid]
    # A graph network has all labels as its outputs, as MoleculeNet's has; the others are fitted to each label.
    labels = ("all",) if method == "gcn" and len(dataset.labels) > 1 else dataset.labels
    cells = [(seed, label, setting) for seed in seeds for label in labels for setting in grid]
    return [Run(dataset.name, label, method, setting, seed) for seed, label, setting in cells]
