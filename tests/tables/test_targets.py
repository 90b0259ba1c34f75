"""Targets: the task that is inferred, the rows left out, and the mistakes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from treelu.tables import TableError, TableTargets, read_targets
from treelu.tables.targets import suspicious_classes


def read(columns: dict[str, list[Any]], task: Any = None) -> tuple[TableTargets, list[str]]:
    notes: list[str] = []
    frame = pd.DataFrame(columns)
    return read_targets(frame, list(columns), task, notes.append), notes


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["a", "b", "a", "b"], "classification", ["a", "b"]),
        ([0, 1, 1, 0], "classification", [0, 1]),
        ([0.0, 1.0, np.nan, 1.0], "classification", [0, 1]),
        ([True, False, True, False], "classification", ["False", "True"]),
        ([True, None, False, True], "classification", ["False", "True"]),
        (["3", "7", "3", "7"], "classification", [3, 7]),
        ([0.5, 1.5, 2.5, 1.5], "regression", None),
        ([1, 2, 1, 2.5], "regression", None),
        (list(range(11)), "regression", None),
    ],
)
def test_the_task_is_inferred(values: list[Any], task: str, classes: list[Any] | None) -> None:
    targets, notes = read({"y": values})
    assert targets.task == task
    assert notes[-1].endswith(("so classification", "quantities)") if classes else "so regression")
    if classes:
        assert sorted(set(targets.y.tolist())) == classes


def test_what_is_said_of_an_inferred_task() -> None:
    assert read({"y": [1, 2, 2]})[1] == [
        "target 'y': 2 classes (1, 2), so classification (--task regression if they are quantities)"
    ]
    assert read({"y": [1.5, 2, 3]})[1] == ["target 'y': numbers from 1.5 to 3, so regression"]


def test_the_task_can_be_given() -> None:
    assert read({"y": [1, 2, 2]}, "regression")[0].y.dtype == np.float64
    assert read({"y": [0.5, 1.5, 0.5, 1.5]}, "classification")[0].y.tolist() == [0.5, 1.5, 0.5, 1.5]


def test_rows_without_a_target_are_left_out_aloud() -> None:
    targets, notes = read({"y": ["a", None, "b", " "]})
    assert targets.rows.tolist() == [0, 2]
    assert notes[0] == "target 'y': 2 of 4 rows left out, they have no value"
    targets, notes = read({"y": [*map(str, np.arange(20) / 2), "?"]})
    assert len(targets.rows) == 20
    assert notes[0] == "target 'y': ? among numbers count as missing"


def test_several_targets_are_labels_or_values() -> None:
    targets, notes = read({"a": [0, 1, np.nan, np.nan], "b": [1, np.nan, 0, np.nan]})
    assert targets.task == "labels"
    assert targets.rows.tolist() == [0, 1, 2]
    assert notes == [
        "targets 'a', 'b': 1 of 4 rows left out, they have no value",
        "targets 'a', 'b': 2 labels of 0 and 1, 33% missing; one model for each",
    ]
    targets, notes = read({"a": [0.5, 1, np.nan], "b": [1, 3, 2]})
    assert (targets.task, targets.y.shape) == ("regression", (2, 2))
    assert notes[-1] == "targets 'a', 'b': numbers, so regression of 2 values"


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ({"y": [1, 1, 1]}, None, "target 'y' is 1 in all 3 rows: there is nothing to learn; choose another --target"),
        ({"y": [2.5, 2.5]}, None, "target 'y' is 2.5 in all 2 rows: there is nothing to learn"),
        ({"y": ["a", "a", None]}, None, "target 'y' is 'a' in all 2 rows: there is nothing to learn"),
        ({"y": [None, None]}, None, "target 'y': no row has a value; choose another --target"),
        (
            {"y": ["a", "b"]},
            "regression",
            "target 'y' holds text such as 'a', but --task regression needs numbers; use --task classification",
        ),
        (
            {"y": [f"name {i}" for i in range(50)]},
            None,
            "target 'y' has 50 different values in 50 rows, too many for classes; is it a name or a comment?",
        ),
        (
            {"y": list(np.arange(300) / 4)},
            "classification",
            "target 'y' has 300 different values in 300 rows, too many for classes; use --task regression",
        ),
        ({"a": [0, 1], "b": ["x", "y"]}, None, "target 'b' holds text such as 'x'; several targets must be numbers"),
        ({"a": [0, 1], "b": [2, 1]}, "labels", "target 'b' holds other values than 0 and 1"),
        ({"a": [0, 1], "b": [1, 1]}, None, "target 'b' is 1 in all 2 rows: there is nothing to learn"),
    ],
)
def test_messages_of_targets_that_cannot_be_learned(columns: Any, task: Any, message: str) -> None:
    with pytest.raises(TableError) as error:
        read(columns, task)
    assert str(error.value).startswith(message)


def test_a_table_to_be_scored_may_have_one_class() -> None:
    frame = pd.DataFrame({"y": ["a", "a"], "u": [0, 0], "v": [1, 1]})
    silent = [].append
    assert read_targets(frame, ["y"], "classification", silent, varied=False).y.tolist() == ["a", "a"]
    assert read_targets(frame, ["u", "v"], "labels", silent, varied=False).y.shape == (2, 2)


def test_a_target_with_a_unit_is_a_number_unless_few_values_name_classes() -> None:
    frame = pd.DataFrame({"mass": [f"{i / 2} kg" for i in range(20)], "stars": [f"{i % 5} stars" for i in range(20)]})
    notes: list[str] = []
    targets = read_targets(frame, ["mass"], None, notes.append)
    assert targets.task == "regression"
    assert targets.y.tolist() == [i / 2 for i in range(20)]
    assert "'0.0 kg' is 0" in notes[0]
    assert read_targets(frame, ["stars"], None, notes.append).y.tolist() == frame["stars"].tolist()
    assert read_targets(frame, ["stars"], "regression", notes.append).y.tolist() == [i % 5 for i in range(20)]


def test_class_names_that_differ_in_case() -> None:
    wanted = "target 'y': 'Yes' and 'yes' are two classes; write them alike if they are one"
    assert suspicious_classes("y", np.array(["yes", "no", "Yes"])) == wanted
