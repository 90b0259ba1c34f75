"""Tables 1 to 3 as Markdown, from the results alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.report import markdown
from experiments import paper
from experiments.choice import Cell, cell, verdict
from experiments.data import DATASETS
from experiments.grids import PATTERN_DEPTHS, TUNED
from experiments.runs import Store

TITLES = {"bace": "Bace", "hiv": "HIV", "sider": "SIDER", "tox21": "Tox21", "pdbbind": "PDBbind table (RMSE)"}
NAMES = {"hist-gbdt": "GBDT, histogram"}
# (method, variant's note, epoch) of each row, in the paper's sections
ROWS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("cart", "best"), ("hhcart", "best"), ("tao", "best"), ("lcn", "last"), ("lcn", "best"), ("lcn@scaled", "best")),
    (
        ("lln", "last"),
        ("lln", "best"),
        ("lln@scaled", "best"),
        ("alcn", "last"),
        ("alcn", "best"),
        ("alcn@scaled", "best"),
    ),
    (("rf", "best"), ("gbdt", "best"), ("hist-gbdt", "best"), ("elcn", "best"), ("elcn@scaled", "best")),
    (("gcn", "best"),),
)
_NETWORKS = ("lcn", "lln", "alcn")
_WORDS = {"drop_connect": "p", "hidden_layers": "hidden layers", "learning_rate": "rate"}


def table1(store: Store) -> str:
    """Data set statistics, ours beside the paper's."""
    rows = []
    for dataset in DATASETS:
        for result in store.results(dataset, "statistics"):
            ours = result["statistics"]
            parts = " / ".join(f"{ours[part]:,}" for part in ("train", "valid", "test"))
            n_labels, n_rows = paper.STATISTICS[dataset]
            same = [
                str(ours["labels"]),
                f"{ours['rows']:,}",
                f"{n_labels} / {n_rows:,}",
                f"{ours['features']:,}",
                parts,
            ]
            rows.append([TITLES[dataset].removesuffix(" (RMSE)"), ours["task"], *same])
    head = ["data set", "task", "labels", "rows read", "paper: labels / rows", "features", "train / valid / test"]
    return markdown(head, rows)


def table2(store: Store) -> str:
    """The main results: each cell ours, the paper's, and the distance in the paper's deviations."""
    rows = []
    for section in ROWS:
        for method, epoch in section:
            cells = [table2_cell(store, dataset, method, epoch) for dataset in DATASETS]
            if any(cells):
                rows.append([row_name(method, epoch), *(text or "–" for text in cells)])
    return markdown(["", *(TITLES[dataset] for dataset in DATASETS)], rows)


def row_name(method: str, epoch: str) -> str:
    """How a row is called.

    Examples
    --------
    >>> row_name("lcn", "last"), row_name("lcn@scaled", "best"), row_name("rf", "best")
    ('LCN, last epoch', 'LCN, our training', 'RF')
    """
    family, _, variant = method.partition("@")
    name = NAMES.get(family, family.upper())
    if variant:
        return f"{name}, our training"
    return f"{name}, {epoch} epoch" if family in _NETWORKS else name


def table2_cell(store: Store, dataset: str, method: str, epoch: str) -> str:
    """Ours, the paper's and the verdict; empty where there are no results."""
    ours = cell(store.results(dataset, method), epoch)
    if ours is None:
        return ""
    text = f"**{_value(ours)}** ({_extent(ours)})"
    printed = paper.MAIN.get(method.partition("@")[0].removeprefix("hist-"), {}).get(dataset)
    if printed is None:
        return f"{text}<br>paper: not given"
    text += f"<br>paper {printed[0]:.3f} ± {printed[1]:.3f}"
    if dataset == "pdbbind":  # other features than the paper's: nothing to compare
        return f"{text}, other features"
    return f"{text}<br>{verdict(ours, printed)}"


def _value(ours: Cell) -> str:
    return f"{ours.mean:.3f} ± {ours.deviation:.3f}" if ours.n_seeds > 1 else f"{ours.mean:.3f}"


def _extent(ours: Cell) -> str:
    seeds = f"{ours.n_seeds} seed{'s' if ours.n_seeds > 1 else ''}"
    return seeds if ours.n_settings == 1 else f"{seeds}, {ours.n_settings} settings"


def settings_table(store: Store) -> str:
    """LCN, ALCN and LLN by the authors' setting and by the grid, at the best and at the last epoch."""
    rows = []
    for (dataset, method), authors in TUNED.items():
        results = store.results(dataset, method)
        for way, setting in (("authors'", authors), ("grid, by validation", None)):
            found = [cell(results, epoch, setting) for epoch in ("last", "best")]
            pair = [one for one in found if one is not None]
            if not pair or (setting is None and pair[0].n_settings == 1):
                continue
            texts = [f"{_value(one)} ({_plain(one.setting)})" for one in pair]
            mean, deviation = paper.MAIN[method][dataset]
            rows.append([TITLES[dataset], method.upper(), way, *texts, f"{mean:.3f} ± {deviation:.3f}"])
    return markdown(["data set", "method", "setting", "last epoch", "best epoch", "paper"], rows)


def grids_table(store: Store) -> str:
    """Which settings each cell of Table 2 was chosen from."""
    rows = []
    for method in _methods():
        cells = [_grid([result["setting"] for result in store.results(name, method)]) for name in DATASETS]
        if any(cells):
            rows.append([_method_name(method), *(text or "–" for text in cells)])
    return markdown(["settings", *(TITLES[name].removesuffix(" (RMSE)") for name in DATASETS)], rows)


def _grid(settings: Sequence[dict[str, Any]]) -> str:
    """The values of each part of the settings.

    Examples
    --------
    >>> _grid([{"depth": 2, "drop_connect": 0.5}, {"depth": 4, "drop_connect": 0.5}, {"depth": 3, "drop_connect": 0.5}])
    'depth 2–4; p 0.5'
    >>> _grid([{"epochs": 5}, {}])
    'epochs 5'
    """
    words = _WORDS | {"max_depth": "depth", "n_estimators": "at most", "max_iter": "at most"}
    parts = []
    for name in dict.fromkeys(key for setting in settings for key in setting):
        values = sorted({setting[name] for setting in settings if name in setting})
        whole = all(isinstance(value, int) for value in values) and len(values) > 2
        if whole and values == list(range(values[0], values[-1] + 1)):
            parts.append(f"{words.get(name, name)} {values[0]}–{values[-1]}")
        else:
            parts.append(f"{words.get(name, name)} {', '.join(map(str, values))}")
    return "; ".join(parts) or ("one" if settings else "")


def _methods() -> list[str]:
    return [method for section in ROWS for method in dict.fromkeys(name for name, _ in section)]


def _method_name(method: str) -> str:
    return NAMES.get(method, method.upper().replace("@SCALED", ", our training"))


def _plain(setting: dict[str, Any] | None) -> str:
    return ", ".join(f"{_WORDS.get(name, name)} {value}" for name, value in (setting or {}).items())


def table3(store: Store) -> str:
    """Decision patterns that training did not meet (Bace), the mean over seeds beside the paper's."""
    results = store.results("bace", "patterns")
    names = {
        "n_possible": "possible patterns",
        "n_train": "training patterns",
        "n_test": "testing patterns",
        "n_test_only": "testing patterns that are no training patterns",
        "unobserved_share": "share of testing rows with such a pattern",
        "auc_observed": "AUC, observed patterns",
        "auc_unobserved": "AUC, unobserved patterns",
    }
    rows = []
    for name, words in names.items():
        line = [words]
        for place, depth in enumerate(PATTERN_DEPTHS):
            found = [result["patterns"][name] for result in results if result["setting"]["depth"] == depth]
            values = [value for value in found if value is not None]
            digits = 0 if name == "n_possible" else 1 if name.startswith("n_") else 3
            theirs = f"{paper.PATTERNS[name][place]:.{0 if name.startswith('n_') else 3}f}"
            line.append(f"**{np.mean(values):.{digits}f}** · {theirs}" if values else f"– · {theirs}")
        rows.append(line)
    return markdown(["ours · paper", *(f"depth {depth}" for depth in PATTERN_DEPTHS)], rows)


def costs(store: Store) -> str:
    """Seconds of the processor for a fit, the median over all runs of a method on a data set."""
    rows = []
    for method in _methods():
        found = [store.results(dataset, method) for dataset in DATASETS]
        if any(found):
            texts = [
                f"{np.median([one['cpu_seconds'] for one in runs]):.2g} × {len(runs):,}" if runs else "–"
                for runs in found
            ]
            rows.append([_method_name(method), *texts])
    return markdown(["seconds a fit × fits", *(TITLES[dataset].removesuffix(" (RMSE)") for dataset in DATASETS)], rows)
