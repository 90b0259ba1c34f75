"""A small table, a model of it, and a way to type commands."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from treelu.cli import main


class Typed(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Type = Callable[..., Typed]


@pytest.fixture
def type_(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Type:
    """Types a command: ``type_("fit", path, …)``."""
    monkeypatch.delenv("TREELU_TRACEBACK", raising=False)

    def run(*words: object) -> Typed:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Typed(code, captured.out, captured.err)

    return run


def people() -> pd.DataFrame:
    """Eighty rows of mixed columns with a target that can be learned."""
    rng = np.random.default_rng(0)
    n = 80
    age, sex = rng.normal(40, 12, n).round(1), rng.choice(["female", "male"], n)
    survived = (2.0 * (sex == "female") - 0.05 * age + rng.normal(0, 0.5, n) > -1.2).astype(int)
    frame = pd.DataFrame({"name": [f"person {i}" for i in range(n)], "age": age, "sex": sex, "survived": survived})
    frame.loc[[3, 7, 20, 41], "age"] = np.nan
    return frame


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """people.csv in a folder of its own."""
    path = tmp_path_factory.mktemp("tables") / "people.csv"
    people().to_csv(path, index=False)
    return path


QUICK = ("--depth", "2", "--epochs", "3")


@pytest.fixture(scope="session")
def model(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of people.csv; not to be written to."""
    folder = tmp_path_factory.mktemp("models") / "people"
    assert main(["fit", str(table), "--target", "survived", "--out", str(folder), *QUICK, "--quiet"]) == 0
    return folder


@pytest.fixture(scope="session")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty molecules, one of them unreadable, with two labels and a value."""
    carbons = ["C" * (1 + i % 8) + end for i, end in enumerate(["O", "N", "Cl", "C(=O)O"] * 10)]
    carbons[5] = "not a molecule"
    path = tmp_path_factory.mktemp("molecules") / "molecules.csv"
    toxic = [float(smiles.endswith("Cl")) for smiles in carbons]
    acid: list[float | None] = [float("=O" in smiles) for smiles in carbons]
    acid[1] = None
    size = [len(smiles) + 0.5 * i % 3 for i, smiles in enumerate(carbons)]
    pd.DataFrame({"id": range(40), "smiles": carbons, "toxic": toxic, "acid": acid, "size": size}).to_csv(
        path, index=False
    )
    return path


@pytest.fixture(scope="session")
def labels_model(molecules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two labels of molecules."""
    folder = tmp_path_factory.mktemp("models") / "labels"
    words = ["fit", molecules, "--smiles", "smiles", "--target", "toxic,acid", "--bits", 64, "--out", folder, *QUICK]
    assert main([str(word) for word in (*words, "--quiet")]) == 0
    return folder
