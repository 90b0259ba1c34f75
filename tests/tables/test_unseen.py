"""What rows hold that no training row did: counted right, in any pieces, and in words."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from tests.fixed import fixed_tree
from treelu import LCNClassifier, ObliqueTreeClassifier
from treelu.tables import TableEncoder
from treelu.tables.unseen import UnseenValues, nearest_category
from treelu.tree import ObliqueTree


def learn(frame: pd.DataFrame, **options: object) -> TableEncoder:
    return TableEncoder.learn(frame, note=lambda text: None, **options)  # type: ignore[arg-type]


def gather(encoder: TableEncoder, frame: pd.DataFrame, size: int | None = None) -> UnseenValues:
    unseen, size = UnseenValues(), size or len(frame)
    for first in range(0, len(frame), size):
        encoder.encode(frame.iloc[first : first + size], unseen=unseen, first_row=first)
    return unseen


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20, unique=True),
    st.lists(st.floats(-1e7, 1e7) | st.none(), min_size=1, max_size=30),
    st.integers(1, 10),
)
def test_far_numbers_are_those_beyond_the_range_by_more_than_its_width(
    known: list[float], new: list[float | None], size: int
) -> None:
    encoder = learn(pd.DataFrame({"x": known}))
    frame = pd.DataFrame({"x": pd.Series(new, dtype=float)})
    low, high = min(known), max(known)
    far = [i + 1 for i, v in enumerate(new) if v is not None and not low - (high - low) <= v <= high + (high - low)]
    gaps = [i + 1 for i, v in enumerate(new) if v is None]
    found = gather(encoder, frame, size).warnings()
    assert len(found) == bool(far) + bool(gaps)
    for rows, words in ((far, "far outside the training range"), (gaps, "missing, which no training row had")):
        if rows:
            (sentence,) = [text for text in found if words in text]
            counted, shown = re.match(r"column 'x': ([\d,]+) .*, in rows? ([\d, ]+)", sentence).groups()  # type: ignore[union-attr]
            assert int(counted) == len(rows)
            assert [int(row) for row in re.findall(r"\d+", shown)] == rows[:5]
    assert sorted(found) == sorted(gather(encoder, frame).warnings()), "pieces do not matter"


def test_rare_categories_are_known_and_others_are_not() -> None:
    teams = [f"Team {letter}" for letter in "abcdefghijklmnop" for _ in range(3)] + ["Rare one", "Rare two"]
    encoder = learn(pd.DataFrame({"team": teams, "x": range(len(teams))}), text=["team"], max_categories=5)
    assert not gather(encoder, pd.DataFrame({"team": ["Rare one", "Team p"], "x": 1})).warnings()
    (found,) = gather(encoder, pd.DataFrame({"team": ["Team a", "rare  tow", "Elsewhere"], "x": 1})).warnings()
    assert found == (
        "column 'team': 2 values not seen in training ('rare  tow', did you mean 'Rare two'?; 'Elsewhere'), in rows 2, "
        "3; read as 'team=(other)'"
    )
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder


def test_dates_of_another_century_are_far() -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=100, freq="7D").strftime("%Y-%m-%d"))
    encoder = learn(pd.DataFrame({"day": days}))
    new = pd.DataFrame({"day": ["2020-02-03", "1920-02-03", "2022-06-01"]})
    assert gather(encoder, new).warnings() == [
        "column 'day': 1 value far outside the training range 2020-01-01 to 2021-11-24 (1920-02-03), in row 2; a "
        "typing error?"
    ]
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder


def test_many_numbers_outside_the_range_are_noted_and_few_are_not() -> None:
    encoder = learn(pd.DataFrame({"x": np.arange(50.0)}))
    few = gather(encoder, pd.DataFrame({"x": [*np.arange(100.0) % 50, *[60.0] * 4]}))
    assert (few.warnings(), few.notes()) == ([], [])
    many = gather(encoder, pd.DataFrame({"x": [*np.arange(20.0), *[60.0] * 6]}))
    assert many.warnings() == []
    assert many.notes() == [
        "column 'x': 6 values outside the training range 0 to 49, in rows 21, 22, 23, 24, 25, …; predictions "
        "extrapolate there"
    ]


@pytest.mark.parametrize(
    ("text", "known", "meant"),
    [
        ("bayern muenchen", ["Bayern München", "Bochum"], "Bayern München"),
        ("Bayern Munchen", ["Bayern München", "Bochum"], "Bayern München"),
        ("cafe", ["Café", "Bar"], "Café"),
        ("Nort", ["North", "South"], "North"),
        ("nroth", ["North", "South"], "North"),
        ("Straße", ["STRASSE"], "STRASSE"),
        ("male", ["female"], None),
        ("type 6", ["type 5"], None),
        ("Atlantis", ["North", "South"], None),
        ("", ["a"], None),
    ],
)
def test_nearest_category(text: str, known: list[str], meant: str | None) -> None:
    assert nearest_category(text, known) == meant


@given(st.text(max_size=12), st.lists(st.text(min_size=1, max_size=12), max_size=8))
def test_a_suggestion_is_a_known_category_and_a_known_one_suggests_itself(text: str, known: list[str]) -> None:
    assert nearest_category(text, known) in (None, *known)
    for other in known:
        found = nearest_category(other, known)
        assert found is not None
        assert found == other or found.casefold() != other  # one that reads alike


def test_older_models_know_no_range_and_say_nothing() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 5.0], "day": ["2021-01-02", "2021-02-03", "2021-03-09"]})
    recipe = learn(frame).to_dict()
    for column in recipe["columns"]:
        del column["range"]
    old = TableEncoder.from_dict(recipe)
    assert not gather(old, pd.DataFrame({"x": [900.0], "day": ["1921-01-02"]})).warnings()
    for bad in ([2.0, 1.0], [float("nan"), 1.0], [1.0], "ab", ["1", "2"]):
        recipe["columns"][0]["range"] = bad
        with pytest.raises((ValueError, TypeError)):
            TableEncoder.from_dict(recipe)


def test_python_warns_only_of_columns_that_the_tree_uses() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(1, 80, 60).astype(float), "city": rng.choice(["Rome", "Oslo"], 60)})
    encoder = replace(learn(frame), fills_unseen=True)
    tree = ObliqueTree([[1.0, 0, 0]], [-40], [[1, 2]], [[0.0], [1.0]], classes=[0, 1], link="logistic")
    model = fixed_tree(tree, encoder)
    assert model.tree_.unused_columns() == {"city"}
    new = pd.DataFrame({"age": [650.0, 30.0, np.nan], "city": "Bonn"})
    for call in (model.predict, model.predict_proba, model.tree_.predict):
        with pytest.warns(UserWarning, match="column 'age'") as caught:
            call(new)
        first, second = (str(warning.message) for warning in caught)
        assert "(650), in row 1; a typing error?" in first
        assert second.startswith("column 'age': 1 value missing, which no training row had, in row 3; replaced by")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


@pytest.mark.parametrize(
    "estimator", [ObliqueTreeClassifier(teacher=None, max_leaf_nodes=2), LCNClassifier(depth=1, epochs=2)]
)
def test_a_frame_of_numbers_alone_is_warned_about_too(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 66, 60).astype(float), "debt": rng.random(60)})
    model = clone(estimator).fit(frame, frame["age"] > 40)
    new = frame.head(4).copy()
    new.loc[2, "age"] = 650
    with pytest.warns(UserWarning, match=r"column 'age': 1 value far outside the .* \(650\), in row 3"):
        model.predict(new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)
