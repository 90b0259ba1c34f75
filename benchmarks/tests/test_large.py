"""The command for large tables, on few rows."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import large

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'treelu[parquet]'")


def test_files_hold_the_rows_and_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    monkeypatch.setattr(large, "FILE_ROWS", 300)
    files = large.write_files(tmp_path, 700)
    table = pd.concat([pd.read_parquet(path) for path in files])
    assert table.shape == (700, large.N_FEATURES + 1)
    X, y = large.make_rows(300, seed=1001)
    np.testing.assert_array_equal(table.iloc[300:600].to_numpy(np.float32), np.column_stack([X, y]))
    before = [Path(path).stat().st_mtime_ns for path in files]
    large.write_files(tmp_path, 700)
    assert [Path(path).stat().st_mtime_ns for path in files] == before


def test_a_process_is_measured_and_its_failure_told() -> None:
    found = large.measured("import json; x = bytearray(10**8); print(json.dumps({'length': len(x)}))")
    assert found["told"] == {"length": 10**8}
    assert found["resident_mb"] > 90
    limited = large.measured("x = bytearray(10**9)", limit=2 * 10**8)
    assert limited["exit_code"] == 1
    assert limited["error"] == "MemoryError"


def test_parts_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "RESULTS", tmp_path / "large.json")
    monkeypatch.setattr(large, "PARTS", {"files": lambda folder, rows: {"rows": rows, "there": folder.is_dir()}})
    large.main(["--rows", "10", "--only", "files"])
    assert json.loads((tmp_path / "large.json").read_text())["files, 10 rows"]["there"]


def test_other_tables_are_the_largest_that_no_constant_was_chosen_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tables" / "classification").mkdir(parents=True)
    for name, n_rows in [("a", 10), ("b", 40), ("c", 30), ("d", 20), ("e", 50), ("f", 60), ("g", 99), ("magic", 45)]:
        with gzip.open(tmp_path / "tables" / "classification" / f"{name}.csv.gz", "wt") as file:
            file.write("x,target\n" + "1,0\n" * n_rows)
    monkeypatch.setenv("TREELU_DATA", str(tmp_path))
    monkeypatch.setattr(large, "MOST_ROWS", 99)
    assert large.other_tables() == ["f", "e", "b", "c", "d"]


def test_a_part_that_kills_workers_says_what_happened() -> None:
    pytest.importorskip("distributed")
    found = large.measured(large.KILLED, "2000")["told"]
    assert len(found["killed_after_seconds"]) == 3
    assert found["largest_difference"] < 1e-6
    assert found["rows_counted_by_a_tree"] == found["rows_counted_with_kills"] == 2000
