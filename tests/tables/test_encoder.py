"""Columns as features: what is learned, what is said aloud, and that new tables are encoded alike."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from treelu.chem import MorganFingerprint
from treelu.tables import TableEncoder, TableError, check_columns
from treelu.tables.columns import NumberColumn, alike
from treelu.tables.suspects import far_values


def learn(frame: pd.DataFrame, **options: Any) -> tuple[TableEncoder, list[str]]:
    notes: list[str] = []
    return TableEncoder.learn(frame, note=notes.append, **options), notes


def encode(encoder: TableEncoder, frame: pd.DataFrame, **options: Any) -> tuple[np.ndarray, list[str]]:
    notes: list[str] = []
    return encoder.encode(frame, note=notes.append, **options).X.to_numpy(), notes


def test_numbers_agree_with_scikit_learns_imputer() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 5.0, 2.0], "y": [1, 2, 3, 5]})
    encoder, notes = learn(frame)
    assert encoder.feature_names == ("x", "x=(missing)", "y")
    expected = SimpleImputer(strategy="median", add_indicator=True).fit_transform(frame)
    assert np.array_equal(encode(encoder, frame)[0][:, [0, 2, 1]], expected)
    assert notes == ["column 'x': 1 of 4 values missing, replaced by the median 2 and marked in 'x=(missing)'"]


def test_texts_agree_with_scikit_learns_encoder() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.choice(["red", "green", "blue"], 50), "d": rng.choice(["yes", "no"], 50)})
    encoder, notes = learn(frame)
    oracle = OneHotEncoder(sparse_output=False).fit(frame)
    assert np.array_equal(encode(encoder, frame)[0], oracle.transform(frame))
    assert encoder.feature_names == ("c=blue", "c=green", "c=red", "d=no", "d=yes")
    assert notes[0] == "column 'c': text with 3 categories (blue, green, red), one-hot encoded as 'c=blue', …"


def test_rare_categories_share_a_feature() -> None:
    frame = pd.DataFrame({"c": ["a"] * 5 + ["b"] * 4 + ["c"] * 2 + ["d", "e", None]})
    encoder, notes = learn(frame, max_categories=3)
    assert encoder.feature_names == ("c=a", "c=b", "c=(other)", "c=(missing)")
    X, _ = encode(encoder, frame)
    assert X.sum(axis=0).tolist() == [5, 4, 4, 1]
    assert X.sum(axis=1).tolist() == [1] * 14
    assert notes == [
        "column 'c': text with 5 categories (a, b), one-hot encoded as 'c=a', …; the 2 most frequent have a feature "
        "each, the others (4 rows) share 'c=(other)' (--max-categories); missing values are marked in 'c=(missing)'"
    ]


def test_columns_that_cannot_help_are_left_out_aloud() -> None:
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(60)],
            "constant": 1.5,
            "same": "x",
            "nothing": [None] * 60,
            "took": pd.to_timedelta(range(60), unit="h"),
            "lists": [[1, 2]] * 60,
            "Unnamed: 0": range(60),
            "id": range(100, 160),
            "x": np.arange(60) % 7,
        }
    )
    encoder, notes = learn(frame)
    assert encoder.feature_names == ("id", "x")
    assert notes == [
        "column 'id' only rises from row to row; --drop id if it numbers the rows",
        "left out, 7 columns:\n"
        "  name        text with 60 different values in 60 rows (names?); --text name keeps it\n"
        "  constant    it has one value only\n"
        "  same        it has one value only\n"
        "  nothing     it has no values\n"
        "  took        it holds durations; give them as numbers\n"
        "  lists       it holds values of type list, not numbers or texts\n"
        "  Unnamed: 0  it has no name (row numbers?)",
    ]
    with pytest.raises(TableError, match="no column is left to learn from"):
        learn(frame[["constant", "name"]])


def test_text_columns_can_be_forced() -> None:
    frame = pd.DataFrame({"zip": ["01234", "99999", "01234"] * 3})
    assert learn(frame)[0].feature_names == ("zip",)
    assert learn(frame, text=["zip"])[0].feature_names == ("zip=01234", "zip=99999")


def test_texts_among_numbers_count_as_missing_in_training_and_are_errors_elsewhere() -> None:
    frame = pd.DataFrame({"x": [*map(str, range(30)), "?", None]})
    encoder, notes = learn(frame)
    assert encoder.feature_names == ("x", "x=(missing)")
    assert notes[0] == "column 'x': ? among numbers count as missing"
    assert encode(encoder, pd.DataFrame({"x": ["?", "3"]}))[0].tolist() == [[14.5, 1], [3, 0]]
    other = pd.DataFrame({"x": ["3", "abc"]})
    with pytest.raises(TableError) as error:
        encoder.encode(other, first_row=10)
    assert str(error.value) == (
        "column 'x', row 12: 'abc' is not a number; correct it, or leave it empty if it is missing"
    )
    X, notes = encode(encoder, other, lenient=True)
    assert X.tolist() == [[3, 0], [14.5, 1]]
    assert notes == ["column 'x': abc among numbers count as missing"]
    with pytest.raises(TableError, match="column 'x', row 1: infinity; leave it empty"):
        encoder.encode(pd.DataFrame({"x": [np.inf]}))


@pytest.mark.parametrize(
    ("learnt", "given", "mark"), [("1,5", "2.25", "."), ("1.5", "2,25", ","), ("1,5 €", "3.25 €", ".")]
)
def test_a_number_with_the_other_decimal_mark_is_told_the_option(learnt: str, given: str, mark: str) -> None:
    encoder, _ = learn(pd.DataFrame({"x": [learnt, learnt.replace("1", "2")] * 6}))
    decimal = "," if mark == "." else "."
    with pytest.raises(
        TableError, match=re.escape(f"'{given}' is not a number with '{decimal}' before decimals")
    ) as told:
        encoder.encode(pd.DataFrame({"x": [given]}))
    assert f"give --decimal {mark} if that is the decimal mark of this table" in str(told.value)
    X, _ = encode(encoder.with_decimal(mark), pd.DataFrame({"x": [given]}))
    assert X[0, 0] == float(re.sub("[^0-9]", "", given)) / 100


def test_truth_values_are_numbers() -> None:
    frame = pd.DataFrame({"t": [True, False, True], "u": ["True", "false", None], "x": [1, 2, 4]})
    encoder, _ = learn(frame)
    assert encoder.feature_names == ("t", "u", "u=(missing)", "x")
    assert encode(encoder, frame)[0][:, :2].tolist() == [[1, 1], [0, 0], [1, 0.5]]


def test_news_in_later_tables_are_said() -> None:
    encoder, _ = learn(pd.DataFrame({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "a"]}))
    X, notes = encode(encoder, pd.DataFrame({"c": ["z", None, "a"], "x": [1.0, np.nan, 4.0], "more": 0}))
    assert X.tolist() == [[1, 0, 0], [2, 0, 0], [4, 1, 0]]
    assert notes == [
        "column 'x': 1 value missing, which no training row had, in row 2; replaced by 2",
        "column 'c': 1 value not seen in training ('z'), in row 1; its features are all 0 there",
        "column 'c': 1 value missing, which no training row had, in row 2; its features are all 0 there",
    ]


@pytest.mark.parametrize(("mark", "told"), [("%", True), (" kg", True), (" $", False)])
def test_numbers_that_have_lost_their_unit_are_told(mark: str, told: bool) -> None:
    """0.37 may be 37%; what a currency is left out of is the same amount."""
    encoder, _ = learn(pd.DataFrame({"x": [f"{i}{mark}" for i in range(1, 30)]}))
    for later in ([f"5{mark}", "0", "0.37"], [0.0, 0.37]):
        X, notes = encode(encoder, pd.DataFrame({"x": later}))
        assert X[-2:, 0].tolist() == [0, 0.37]
        unit = mark.strip()
        assert notes == [f"column 'x': '0.37' has no {unit}, unlike the training rows; read as 0.37 {unit}"] * told


def test_minus_signs_of_accounts_and_of_typography() -> None:
    """They were texts among numbers once, and still are for models that learned them so."""
    frame = pd.DataFrame({"x": ["1", "2.5", "(7)", "\u22123.5", "- 2", "5\u00a0", "+4", None] * 3})
    encoder, _ = learn(frame)
    X, _ = encode(encoder, frame)
    assert X[:7, 0].tolist() == [1, 2.5, -7, -3.5, -2, 5, 4]
    (column,) = encoder.columns
    assert isinstance(column, NumberColumn)
    assert column.strays == ()
    X, _ = encode(TableEncoder((replace(column, strays=("(7)",)),)), frame)
    assert X[:8, 1].tolist() == [0, 0, 1, 0, 0, 0, 0, 1]


def test_missing_columns_are_named() -> None:
    encoder, _ = learn(pd.DataFrame({"Age": [1, 2], "size": [3, 5], "c": [0, 1]}))
    with pytest.raises(TableError, match=r"the table has no column 'Age'; did you mean 'age'\?"):
        encoder.encode(pd.DataFrame({"age": [1], "size": [2], "c": [1]}))
    with pytest.raises(TableError, match="the table lacks 2 columns: 'Age', 'size'"):
        encoder.encode(pd.DataFrame({"c": [1]}))
    with pytest.raises(TableError, match=r"--drop: the table has no column 'zzz'; it has 'a', 'b'"):
        check_columns(["zzz"], pd.DataFrame({"a": [1], "b": [2]}), option="--drop")


def test_names_stay_distinct() -> None:
    encoder, _ = learn(pd.DataFrame({"c": ["a", "b"], "c=a": [1, 2]}))
    assert encoder.feature_names == ("c=a", "c=b", "c=a (2)")


def test_molecules_become_columns_and_unreadable_ones_are_left_out() -> None:
    frame = pd.DataFrame({"smiles": ["CCO", "no smiles", "CCN", "c1ccccc1"], "x": [1.0, 2.0, 3.0, 4.0]})
    encoder, notes = learn(frame[["smiles"]], smiles="smiles", n_bits=64, radius=1)
    assert notes == ["column 'smiles': molecules, as 3 substructures (of up to 1 bonds from an atom)"]
    encoded = encoder.encode(frame)
    assert encoded.X.shape == (3, 3)
    assert encoder.feature_names == ("[CH2](~*)~*", "[CH3]~*", "C[CH2]~*")
    assert encoded.rows.tolist() == [0, 2, 3]
    mixed, _ = learn(frame, smiles="smiles", n_bits=64, radius=1)
    both = mixed.encode(frame)
    assert np.array_equal(both.X.to_numpy()[:, :3], encoded.X.toarray())
    assert both.X["x"].tolist() == [1, 3, 4]
    again = TableEncoder.from_dict(json.loads(json.dumps(mixed.to_dict())))
    assert np.array_equal(again.encode(frame).X.to_numpy(), both.X.to_numpy())
    assert again.smiles_column is not None
    assert again.smiles_column.fingerprint.columns_ == mixed.smiles_column.fingerprint.columns_  # type: ignore[union-attr]


def test_blocks_of_molecules() -> None:
    frame = pd.DataFrame({"smiles": ["CCO", "CCN", "c1ccccc1"]})
    encoder, notes = learn(frame, smiles="smiles", blocks=("substructures", "maccs"), radius=0)
    assert notes == ["column 'smiles': molecules, as 2 substructures (of up to 0 bonds from an atom), 166 maccs"]
    assert encoder.encode(frame).X.shape == (3, 168)


def test_hashed_fingerprints_of_version_0_1_are_read() -> None:
    fingerprint = MorganFingerprint(n_bits=64).fit(["CCO", "CCN"])
    column = {"name": "smiles", "kind": "smiles", "fingerprint": fingerprint.to_dict()}
    encoder = TableEncoder.from_dict(json.loads(json.dumps({"columns": [column]})))
    frame = pd.DataFrame({"smiles": ["CCO", "c1ccccc1"]})
    assert np.array_equal(encoder.encode(frame).X.toarray(), fingerprint.transform(frame["smiles"]).toarray())
    assert encoder.feature_names[:2] == ("bit_00", "bit_01")


def test_no_molecule_and_no_common_substructure() -> None:
    with pytest.raises(TableError, match="RDKit can read none of the SMILES of column 'smiles'; check --smiles"):
        learn(pd.DataFrame({"smiles": ["x", "y"]}), smiles="smiles")
    with pytest.raises(TableError, match="no substructure is in 2 of the 2 training molecules"):
        learn(pd.DataFrame({"smiles": ["C", "O"]}), smiles="smiles")


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (pd.to_datetime(["2020-01-01", None]), "dates"),
        (pd.to_timedelta([1, None], unit="D"), "durations"),
        (np.array([1.5 + 2j, 0]), "complex numbers"),
    ],
)
def test_dates_in_a_column_of_numbers_are_refused(values: Any, what: str) -> None:
    """A spreadsheet makes dates of numbers; as nanoseconds or microseconds they would be numbers again."""
    encoder, _ = learn(pd.DataFrame({"x": [1.5, 2.5, 3.5]}))
    with pytest.raises(TableError, match=f"column 'x' holds {what}, but held numbers in training; give it as numbers"):
        encode(encoder, pd.DataFrame({"x": values}))
    gaps = pd.DataFrame({"x": pd.to_datetime([None, None])})
    assert encode(encoder, gaps)[0].tolist() == [[2.5], [2.5]]


@pytest.mark.parametrize("word", ["now", "today", "Today"])
def test_words_are_no_dates(word: str) -> None:
    """pandas reads some of them as the present moment: another answer tomorrow."""
    days = [f"2021-03-{day:02}" for day in range(1, 20)]
    encoder, _ = learn(pd.DataFrame({"day": days}))
    with pytest.raises(TableError, match=f"column 'day', row 2: '{word}' is not a date like %Y-%m-%d"):
        encode(encoder, pd.DataFrame({"day": ["2021-03-05", word]}))
    known, _ = learn(pd.DataFrame({"day": [*days, word]}))
    assert encode(known, pd.DataFrame({"day": [word]}))[0][0, -1] == 1.0  # it counts as missing


words = st.text(max_size=4)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
columns = st.one_of(
    st.lists(st.one_of(st.none(), words), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), numbers), min_size=6, max_size=6),
    st.lists(st.one_of(words, numbers, st.booleans()), min_size=6, max_size=6),
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=5), columns, min_size=1, max_size=4))
def test_any_table_is_encoded_alike_before_and_after_saving(table: dict[str, list[Any]]) -> None:
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in table.items()})
    try:
        encoder, _ = learn(frame, max_categories=3)
        X, _ = encode(encoder, frame, lenient=True)
    except TableError:
        return
    assert X.shape == (6, len(encoder.feature_names))
    assert len(set(encoder.feature_names)) == len(encoder.feature_names)
    assert np.isfinite(X).all()
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    assert np.array_equal(encode(again, frame, lenient=True)[0], X)


def test_far_values() -> None:
    low, high, far = far_values(np.r_[np.arange(200.0), 1e9]) or (0.0, 0.0, np.empty(0))
    assert (low, high, far.tolist()) == (0.0, 199.0, [1e9])


def test_texts_that_differ_in_case() -> None:
    assert alike(["yes", "no", "Yes"]) == ("yes", "Yes")
    assert alike(["yes", "no"]) is None
