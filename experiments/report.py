"""docs/paper.md and its pictures, from the results and the words in ``paper.md``."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.report import markdown
from experiments import prose, tables
from experiments.figures import _ARMS, ablation_scores, figure1, figure2, figure3
from experiments.runs import Store, write_atomically

WORDS = Path(__file__).parent / "paper.md"


def write_report(store: Store, docs: str | os.PathLike[str]) -> list[Path]:
    """Write ``paper.md`` and its pictures into a folder; returns what was written."""
    docs = Path(docs)
    pictures = [*figure1(docs / "images"), *figure2(store, docs / "images"), *figure3(store, docs / "images")]
    parts = {
        "table 1": tables.table1(store),
        "table 2": tables.table2(store),
        "grids": tables.grids_table(store),
        "settings": tables.settings_table(store),
        "table 3": tables.table3(store),
        "ablation": ablation_table(store),
        "costs": tables.costs(store),
        "claims": prose.claims_table(store),
        "outside": prose.outside_table(store),
        "missing": prose.missing_table(store),
    }
    text = WORDS.read_text(encoding="utf-8")
    for name, table in parts.items():
        text = text.replace(f"<!-- {name} -->", table)
    write_atomically(docs / "paper.md", text)
    return [docs / "paper.md", *pictures]


def ablation_table(store: Store) -> str:
    """Figure 2a in numbers: AUC after the last epoch against depth."""
    scores = ablation_scores(store)
    depths = sorted({depth for arm in scores.values() for depth in arm})
    rows = [
        [
            f"{_ARMS[arm][0]}, {'training' if part == 'train' else 'test'}",
            *(f"{by_depth[depth][part]:.3f}" if depth in by_depth else "–" for depth in depths),
        ]
        for arm, by_depth in scores.items()
        for part in ("train", "test")
    ]
    return markdown(["AUC, last epoch", *(f"depth {depth}" for depth in depths)], rows)
