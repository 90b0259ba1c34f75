"""docs/paper.md, its pictures and the notes on it, from the results and the text in ``paper.md``."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.report import fill, markdown
from experiments import prose, tables
from experiments.figures import _ARMS, ablation_scores, figure1, figure2, figure3
from experiments.runs import Store, write_atomically

WORDS = Path(__file__).parent / "paper.md"


def write_report(store: Store, docs: str | os.PathLike[str]) -> list[Path]:
    """Write ``paper.md`` and its pictures into a folder, and fill the notes of the store; returns what was written."""
    docs = Path(docs)
    pictures = [*figure1(docs / "images"), *figure2(store, docs / "images"), *figure3(store, docs / "images")]
    write_atomically(docs / "paper.md", page_text(store))
    notes = store.folder / "notes" / "paper.md"
    if not notes.exists():  # results of one's own
        return [docs / "paper.md", *pictures]
    write_atomically(notes, notes_text(store, notes))
    return [docs / "paper.md", notes, *pictures]


def page_text(store: Store) -> str:
    """The page, with the tables of the results."""
    text = WORDS.read_text(encoding="utf-8")
    parts = {
        "table 1": tables.table1(store),
        "table 2": tables.table2(store),
        "claims": prose.claims_matrix(store),
        "outside": prose.outside_table(store),
        "table 3": tables.table3(store),
        "ablation": ablation_table(store),
    }
    for name, table in parts.items():
        text = text.replace(f"<!-- {name} -->", table)
    return text


def notes_text(store: Store, notes: Path) -> str:
    """The notes, with the tables of the results."""
    blocks = {
        "claims": prose.claims_table(store),
        "grids": tables.grids_table(store),
        "settings": tables.settings_table(store),
        "costs": tables.costs(store),
        "missing": prose.missing_table(store),
    }
    return fill(notes.read_text(encoding="utf-8"), blocks)


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
