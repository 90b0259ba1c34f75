"""Codes of digits and spellings of one word: never merged, nor taken for two, without a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from treelu.tables import TableEncoder, read_table
from treelu.tables.targets import read_targets, suspicious_classes


def table(path: Path, text: str, encoding: str = "utf-8") -> pd.DataFrame:
    path.write_bytes(text.encode(encoding))
    return read_table(path, encoding=None if encoding == "utf-8" else encoding)


def learned(frame: pd.DataFrame, **options: object) -> tuple[TableEncoder, str]:
    notes: list[str] = []
    encoder = TableEncoder.learn(frame, note=notes.append, **options)  # type: ignore[arg-type]
    return encoder, "\n".join(notes)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_codes_that_are_one_number_stay_two(tmp_path: Path, encoding: str) -> None:
    frame = table(tmp_path / "a.csv", "code,n\n" + "0120,1\n120,2\n7,3\n,4\n" * 5, encoding)
    encoder, notes = learned(frame)
    assert encoder.feature_names == ("code=0120", "code=120", "code=7", "code=(missing)", "n")
    assert "'0120' and '120' are codes, not numbers (--numbers code if they are)" in notes
    X = encoder.encode(frame).X.to_numpy()
    assert len(np.unique(X[:, :4], axis=0)) == 4
    encoder, notes = learned(frame, numbers=["code"])
    assert encoder.feature_names[0] == "code"
    assert "are codes" not in notes


def test_padded_numbers_are_numbers_with_a_note(tmp_path: Path) -> None:
    frame = table(tmp_path / "a.csv", "zip,n\n" + "01234,1\n98101,2\n" * 5)
    encoder, notes = learned(frame)
    assert encoder.feature_names == ("zip", "n")
    assert "column 'zip': '01234' is read as the number 1234 (--text zip if they are codes)" in notes
    assert encoder.encode(frame).X["zip"].tolist()[:2] == [1234.0, 98101.0]
    assert learned(frame, text=["zip"])[0].feature_names[:2] == ("zip=01234", "zip=98101")


def test_plain_numbers_are_read_as_before(tmp_path: Path) -> None:
    frame = table(tmp_path / "a.csv", "a,b,when\n" + "0,0.5,08:30\n10,-0.7,09:10\n" * 3)
    assert frame["a"].dtype.kind == "i"
    assert frame["b"].dtype.kind == "f"


def test_classes_keep_their_zeros(tmp_path: Path) -> None:
    frame = table(tmp_path / "a.csv", "y\n" + "01\n02\n10\n" * 4)
    targets = read_targets(frame, ["y"], None, lambda text: None)
    assert (targets.task, sorted(set(targets.y.tolist()))) == ("classification", ["01", "02", "10"])
    values = read_targets(frame, ["y"], "regression", lambda text: None)
    assert sorted(set(values.y.tolist())) == [1.0, 2.0, 10.0]


def test_long_numbers_are_named_classes_and_features_with_a_warning() -> None:
    large = 900719925474099300
    frame = pd.DataFrame({"id": [large, large + 1] * 6, "x": range(12)})
    targets = read_targets(frame, ["id"], None, lambda text: None)
    assert sorted(set(targets.y.tolist())) == [str(large), str(large + 1)]
    warnings: list[str] = []
    with_other = frame.assign(id=[large + 100 * i for i in range(12)])
    TableEncoder.learn(with_other, note=lambda text: None, warn=warnings.append)
    assert any("--text id" in text and str(large) in text for text in warnings)


def test_a_gap_does_not_make_other_categories(tmp_path: Path) -> None:
    training = table(tmp_path / "a.csv", "code\n" + "A1\n120\n7\n" * 5)
    encoder, _ = learned(training)
    expected = encoder.encode(table(tmp_path / "b.csv", "code\nA1\n120\n7\n")).X.to_numpy()[1:]
    gaps = table(tmp_path / "c.csv", "code,n\n120,1\n,2\n7,3\n")
    assert gaps["code"].dtype.kind == "f"
    assert encoder.encode(gaps).X.to_numpy()[[0, 2]].tolist() == expected.tolist()


def test_spellings_that_differ_only_in_case_are_pointed_out() -> None:
    frame = pd.DataFrame({"ok": ["Yes", "yes ", "no"] * 6, "day": ["2021-03-04", "24.12.2021", "1.2.2021"] * 6})
    warnings: list[str] = []
    encoder = TableEncoder.learn(frame, note=lambda text: None, warn=warnings.append)
    assert "column 'ok': 'Yes' and 'yes' are two categories; write them alike if they are one" in warnings
    assert "day (month)" in encoder.feature_names, "dates, though written in several ways"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["no", "No", "yes"], "'No' and 'no' are two classes"),
        (["no", "?", "yes"], "'?' is a class"),
        (["a", "b"], None),
    ],
)
def test_classes_that_may_be_mistakes(labels: list[str], words: str | None) -> None:
    said = suspicious_classes("y", np.array(labels))
    assert said is None if words is None else words in (said or "")
