"""Figures that ensembles and baselines are held to: they are printed, and the committed results reach them."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from experiments import claims

LEAST = {"cart": 0.64, "hhcart": 0.54, "tao": 0.72, "gcn": 0.75, "elcn": 0.863}  # test AUC


def test_committed_results_on_bace_reach_the_least_values(capsys: pytest.CaptureFixture[str]) -> None:
    claims.bace()
    lines = re.findall(r"^(\w+) +([\d.]+) ± [\d.]+ ", capsys.readouterr().out, re.MULTILINE)
    assert [method for method, _ in lines] == list(claims.BACE) == list(LEAST)
    assert all(float(mean) >= LEAST[method] for method, mean in lines)


def test_memory_is_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "ROWS", 400)
    monkeypatch.setattr(claims, "FEATURES", 30)
    claims.memory(members=2)
    printed = capsys.readouterr().out
    assert re.search(r"sparse table of 0 MB, 2 members: \d+ MB above it", printed)
    assert "dense table" in printed


def test_bytes_of_tables() -> None:
    assert claims._bytes(np.zeros((3, 4))) == 96
    table = sp.csr_array(np.eye(5))
    assert claims._bytes(table) == 5 * 8 + 5 * table.indices.itemsize + 6 * table.indptr.itemsize
