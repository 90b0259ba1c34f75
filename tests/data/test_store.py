"""Rows on disk: what is written is read back, in blocks and windows; killed processes leave nothing for long."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from treelu.data import blocks
from treelu.data import store as module
from treelu.data.blocks import MappedRows
from treelu.data.store import RowStore, remove_leftovers


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 7)


def table(n_rows: int = 100, n_features: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    return np.where(rng.random(X.shape) < 0.5, X, 0)


def filled(parent: Path, X: Any, y: Any, weight: Any = None, **options: Any) -> RowStore:
    """A store to which X was appended in three pieces."""
    store = RowStore.create(parent, X.shape[1], is_sparse=sparse.issparse(X), **options)
    for rows in np.array_split(np.arange(X.shape[0]), 3):
        store.append(X[rows], y[rows], None if weight is None else weight[rows])
    return store


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_all_rows_come_back_in_order(tmp_path: Path, form: Any) -> None:
    X, y, weight = table(), np.arange(100.0), np.linspace(0, 1, 100, dtype=np.float32)
    with filled(tmp_path, form(X), y, weight) as store:
        window = store.read(np.arange(store.n_blocks))
        assert store.shape == (100, 5)
    np.testing.assert_array_equal(window.X.toarray() if sparse.issparse(window.X) else window.X, X)
    np.testing.assert_array_equal(window.y, y)
    assert window.weight is not None
    np.testing.assert_array_equal(window.weight, weight)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_pass_of_windows_has_each_row_once(tmp_path: Path, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "WINDOW_BYTES", 420)
    X, y = table(), np.arange(100.0)
    with filled(tmp_path, form(X), y) as store:
        n_windows = -(-store.n_blocks // store.blocks_per_window)
        assert n_windows > 3
        windows = list(islice(store.windows(np.random.default_rng(0)), n_windows))
    seen = np.concatenate([window.y for window in windows]).astype(int)
    assert sorted(seen) == list(range(100))
    assert list(seen) != list(range(100))
    rows = [window.X.toarray() if sparse.issparse(window.X) else window.X for window in windows]
    np.testing.assert_array_equal(np.concatenate(rows), X[seen])


def test_classes_of_any_type_are_kept(tmp_path: Path) -> None:
    y = np.array(["no", "yes", "maybe"])[np.random.default_rng(0).integers(3, size=100)]
    with filled(tmp_path, table(), y, are_classes=True) as store:
        assert store.classes is not None
        assert store.classes.tolist() == ["maybe", "no", "yes"]
        np.testing.assert_array_equal(store.read(np.array([3, 0])).y, np.concatenate([y[21:28], y[:7]]))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_sample_is_drawn_from_all_rows(tmp_path: Path, form: Any) -> None:
    X, y, rng = table(700), np.arange(700.0), np.random.default_rng(0)
    with filled(tmp_path, form(X), y) as store:
        sample = store.sample(300, rng)
        few = [store.sample(3, rng).y for _ in range(400)]  # far fewer than there are blocks
        whole = store.sample(10_000, rng)
    assert len(set(sample.y)) == 300
    assert [np.sum(sample.y // 100 == hundred) > 20 for hundred in range(7)] == [True] * 7
    assert {len(rows) for rows in few} == {3}
    assert len(set(np.concatenate(few))) > 450
    drawn = sample.X.toarray() if sparse.issparse(sample.X) else sample.X
    np.testing.assert_array_equal(drawn, X[sample.y.astype(int)])
    np.testing.assert_array_equal(whole.y, y)


def test_rows_held_out_are_in_no_sample_and_no_window(tmp_path: Path) -> None:
    X, y, rng = table(100), np.arange(100.0), np.random.default_rng(0)
    held_out = np.sort(rng.choice(100, 20, replace=False))
    with filled(tmp_path, X, y) as store:
        np.testing.assert_array_equal(store.take(held_out).y, held_out)
        sample = store.sample(70, rng, without=held_out)
        most = store.sample(1000, rng, without=held_out)
        n_windows = -(-store.n_blocks // store.blocks_per_window)
        seen = list(islice(store.windows(rng, held_out), n_windows))
    others = np.setdiff1d(y, held_out)
    assert len(sample.y) == 70
    assert np.isin(sample.y, others).all()
    np.testing.assert_array_equal(most.y, others)
    rows = np.concatenate([window.y for window in seen])
    np.testing.assert_array_equal(np.sort(rows), others)
    np.testing.assert_array_equal(np.concatenate([window.X for window in seen]), X[rows.astype(int)])


def test_no_window_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block has one row, which is held out, and is a window of its own."""
    monkeypatch.setattr(blocks, "WINDOW_BYTES", 1)
    with filled(tmp_path, table(15), np.arange(15.0)) as store:
        assert store.n_blocks == 3
        windows = list(islice(store.windows(np.random.default_rng(0), np.array([14])), 4))
    assert [len(window.y) for window in windows] == [7, 7, 7, 7]


def test_the_first_row_of_each_class_is_in_every_sample(tmp_path: Path) -> None:
    labels = np.array(["b"] * 50 + ["a"] * 49 + ["c"])
    mapped = blocks.MappedRows(table(), labels)
    with filled(tmp_path, table(), labels, are_classes=True) as store:
        for rows in (store, mapped):
            assert sorted(rows.first_rows.tolist()) == [0, 50, 99]
            assert {"a", "b", "c"} == set(rows.sample(3, np.random.default_rng(1)).y)


def test_several_targets(tmp_path: Path) -> None:
    y = np.random.default_rng(0).normal(size=(100, 2))
    with filled(tmp_path, table(), y) as store:
        np.testing.assert_array_equal(store.read(np.array([1])).y, y[7:14])


def test_the_folder_is_gone_afterwards(tmp_path: Path) -> None:
    with filled(tmp_path, table(), np.arange(100.0)) as store:
        assert store.folder.exists()
        assert store.n_bytes == 100 * (5 * 4 + 8)
    assert not list(tmp_path.iterdir())
    store.remove()


def test_the_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), filled(tmp_path, table(), np.arange(100.0)):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_leftovers_of_a_killed_process_go_and_others_stay(tmp_path: Path) -> None:
    code = (
        "import sys, time; from treelu.data.store import RowStore\n"
        "store = RowStore.create(sys.argv[1], 1); store.append([[1.0]], [1.0])\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert remove_leftovers(tmp_path) == []
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    (left,) = tmp_path.iterdir()
    with RowStore.create(tmp_path, 1) as store:
        assert not left.exists()
        assert list(tmp_path.iterdir()) == [store.folder]


def test_what_is_left_of_a_folder_goes_too(tmp_path: Path) -> None:
    """Killed before the lock was made, or while the files were being removed; what is not ours stays."""
    unlocked, half = tmp_path / ".treelu-rows-unlocked", tmp_path / ".treelu-rows-half"
    for folder in (unlocked, half):
        folder.mkdir()
    (half / "values").write_bytes(b"1")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "values").write_bytes(b"1")
    link, file = tmp_path / ".treelu-rows-link", tmp_path / ".treelu-rows-file"
    link.symlink_to(kept)
    file.write_bytes(b"1")
    RowStore.create(tmp_path, 1).remove()
    assert sorted(tmp_path.iterdir()) == sorted([kept, link, file])
    assert [path.name for path in kept.iterdir()] == ["values"]


def test_the_lock_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RowStore.create(tmp_path, 1)
    store.append([[1.0]], [1.0])
    monkeypatch.setattr(module.shutil, "rmtree", lambda folder, ignore_errors: None)  # killed before it
    store.remove()
    assert [path.name for path in store.folder.iterdir()] == ["lock"]


def test_a_new_folder_that_another_process_removes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = module.tempfile.mkdtemp, []

    def make_and_lose(**where: Any) -> str:
        made.append(make(**where))
        if len(made) == 1:
            assert [str(folder) for folder in remove_leftovers(tmp_path)] == made
        return made[-1]

    monkeypatch.setattr(module.tempfile, "mkdtemp", make_and_lose)
    with RowStore.create(tmp_path, 1) as store:
        assert len(made) == 2
        assert list(tmp_path.iterdir()) == [store.folder]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=f"rows cannot be stored in {tmp_path / 'nowhere'}"):
        RowStore.create(tmp_path / "nowhere", 1)


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        (np.ones((2, 3)), [1, 2], None, "X must have 5 columns"),
        (np.full((2, 5), np.nan), [1, 2], None, "X must not miss values: fill them before"),
        (np.full((2, 5), np.inf), [1, 2], None, "X must be finite"),
        (pd.DataFrame(np.ones((2, 5))), [1, 2], None, "X must be a DataFrame in all pieces or in none"),
        (np.ones((2, 5)), 1.0, None, "y must have 2 targets, one for each row of X, got a single float64"),
        (np.ones((2, 5)), [1, None], None, "y must be finite; leave rows without a target out"),
        (np.full((2, 5), 1e300), [1, 2], None, "X must be finite in float32"),
        (np.ones((2, 5)), [1], None, "y must have 2 targets"),
        (np.ones((2, 5)), [1, np.inf], None, "y must be finite"),
        (np.ones((2, 5)), [1, 2], [1, -1], "sample_weight must be 2 finite numbers"),
        (np.ones((2, 5)), [[1, 2], [3, 4]], None, "y must have as many targets"),
        (sparse.csr_array(np.ones((2, 5))), [1, 2], None, "X must be dense"),
    ],
)
def test_bad_pieces_are_refused_and_nothing_is_written(
    tmp_path: Path, X: Any, y: Any, weight: Any, message: str
) -> None:
    with RowStore.create(tmp_path, 5) as store:
        store.append(np.ones((1, 5)), [1.0], None if weight is None else [1.0])
        with pytest.raises(ValueError, match=message):
            store.append(X, y, weight)
        assert len(store) == 1
        assert len(store.read(np.array([0])).y) == 1
        store.append(np.ones((1, 5)), [2.0], None if weight is None else [1.0])
        np.testing.assert_array_equal(store.read(np.array([0])).y, [1.0, 2.0])


def test_empty_pieces_leave_no_trace(tmp_path: Path) -> None:
    with RowStore.create(tmp_path, 2) as store:
        store.append(np.ones((0, 2)), [])
        store.append(np.ones((1, 2)), [[1.0, 2.0]], [3.0])
        store.append(np.ones((0, 2)), [])
        with pytest.raises(ValueError, match="X must have 2 columns"):
            store.append(np.ones((0, 3)), [])
        assert len(store) == 1
        np.testing.assert_array_equal(store.read(np.array([0])).y, [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([None, "a"], "y must have a label for each row"),
        ([np.nan, 1.0], "y must have a label for each row"),
        (pd.array([1, None], dtype="Int64"), "y must have a label for each row"),
        ([["a", "b"], ["a", "b"]], "y must have one label for each row, got shape"),
        ([3, 4], "y must be text in all pieces or in none, got 3 after 'a'"),
    ],
)
def test_bad_labels_are_refused_and_not_remembered(tmp_path: Path, y: Any, message: str) -> None:
    with RowStore.create(tmp_path, 1, are_classes=True) as store:
        store.append([[1.0], [2.0]], ["b", "a"])
        with pytest.raises(ValueError, match=message):
            store.append([[1.0], [2.0]], y)
        with pytest.raises(ValueError, match="sample_weight"):
            store.append([[1.0]], ["c"], [-1.0])
        store.append([[3.0]], [["d"]])
        assert store.classes is not None
        assert store.classes.tolist() == ["a", "b", "d"]
        assert store.read(np.array([0])).y.tolist() == ["b", "a", "d"]


def test_frames_keep_their_names(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([3, None], dtype="Int64")})
    with RowStore.create(tmp_path, 2, may_miss=True) as store:
        store.append(frame, [1.0, 2.0])
        for other, message in [
            (frame[["b", "a"]], "X must have its columns in the order of the pieces before, a, b"),
            (frame.rename(columns={"b": "c"}), "X must have the columns of the pieces before, got no column 'b'"),
            (frame.assign(c=1), "X must have the columns of the pieces before, got a new column 'c'"),
        ]:
            with pytest.raises(ValueError, match=message):
                store.append(other, [1.0, 2.0])
        window = store.read(np.array([0])).X
    pd.testing.assert_frame_equal(window, frame.astype(np.float32))


def test_weights_with_some_pieces_only_are_refused(tmp_path: Path) -> None:
    with RowStore.create(tmp_path, 1) as store:
        store.append([[1.0]], [1.0])
        with pytest.raises(ValueError, match="with all pieces or with none"):
            store.append([[1.0]], [1.0], [1.0])


def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(20), np.arange(20.0)
    with RowStore.create(tmp_path, 5) as store:
        store.append(X[:10], y[:10])

        def full_after_values(file: Any, array: np.ndarray, write: Any = module._write_all) -> None:
            if array.dtype == np.float64:
                raise OSError(28, "No space left on device")
            write(file, array)

        with monkeypatch.context() as patch:
            patch.setattr(module, "_write_all", full_after_values)
            wanted = "No space left on device; the rows take 280 bytes so far"
            with pytest.raises(OSError, match=f"{wanted}: '{re.escape(str(store.folder))}'"):
                store.append(X[10:], y[10:])
        store.append(X[10:], y[10:])
        window = store.read(np.arange(store.n_blocks))
    np.testing.assert_array_equal(window.X, X)
    np.testing.assert_array_equal(window.y, y)


def test_columns_that_float32_cannot_tell_apart_are_named(tmp_path: Path) -> None:
    X = np.column_stack([1.7e9 + np.arange(60.0), np.arange(60.0)])
    with RowStore.create(tmp_path, n_features=2) as store:
        store.append(pd.DataFrame(X, columns=["time", "size"]), X[:, 1])
        with pytest.warns(UserWarning, match=r"'time' has values from 1700000000 to 1700000059; .* multiples of 128"):
            store.read_spans([(0, 60)])
    with pytest.warns(UserWarning, match="column 0 has values"):
        MappedRows(X, X[:, 1]).read_spans([(0, 60)])


def test_a_column_whose_pieces_are_narrow_but_far_apart_is_not_named(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    with RowStore.create(tmp_path, n_features=1) as store:
        for start in (1.6e9, 1.7e9):
            store.append(start + np.arange(60.0)[:, None], np.arange(60.0))
        store.read_spans([(0, 120)])
    assert not len(recwarn)


def test_rows_of_python_objects_with_gaps_are_stored(tmp_path: Path) -> None:
    with RowStore.create(tmp_path, n_features=2, may_miss=True) as store:
        store.append(np.array([[1, None], [True, 2.5]], object), [1.0, 2.0])
        np.testing.assert_array_equal(store.read_spans([(0, 2)]).X, np.array([[1, np.nan], [1, 2.5]], np.float32))
