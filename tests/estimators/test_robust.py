"""What went wrong once: NumPy's integers, extreme values, constant and sparse columns, forks, interrupts, failures."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from tests.estimators.tables import scores
from treelu import (
    ALCNClassifier,
    ELCNClassifier,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
    StackedClassifier,
)
from treelu.data.scaling import Scaling, fit_scaling
from treelu.data.spread import spread
from treelu.nn.cpu.threads import limited

QUICK = {
    "depth": 3,
    "drop_connect": 0.1,
    "epochs": 4,
    "training": {"batch_size": 32, "temper": False},
    "random_state": 0,
}


QUICK_TREE: dict[str, Any] = {"n_updates": 60, "max_leaf_nodes": 4, "selection": "largest", "random_state": 0}
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


def name_of(model: Any) -> str:
    return type(model).__name__


def some_rows(n: int = 200, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, d))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


# Parameters


@pytest.mark.parametrize("number", [np.int64, np.int32, int])
def test_whole_numbers_of_any_kind_count(number: type) -> None:
    X, y = some_rows()
    model = LCNClassifier(
        **{**QUICK, "epochs": number(3), "training": {"batch_size": number(50), "temper": False}}
    ).fit(X, y)
    assert len(model.history_) == 3
    assert np.array_equal(model.decision_function(X), LCNClassifier(**{**QUICK, "epochs": 3, "training": {"batch_size": 50, "temper": False}}).fit(X, y).decision_function(X))  # fmt: skip # noqa: E501


def test_few_features_are_not_tempered_by_what_all_features_want(monkeypatch: pytest.MonkeyPatch) -> None:
    from treelu.training.calibration import Tempering
    from treelu.training.hyper_parameters import Choice, HyperParameters

    X, y = some_rows()
    found = Choice(HyperParameters(3, 0.1), Tempering(50.0))
    monkeypatch.setattr("treelu.training.fit.choose", lambda *_: found)
    settings = {"epochs": 40, "training": {"batch_size": 32}, "random_state": 0}
    few = LCNClassifier(**settings, max_tree_features=2).fit(X, y).decision_function(X)
    assert np.abs(few).max() > 1  # divided by 50 it would say next to nothing
    assert np.abs(LCNClassifier(**settings).fit(X, y).decision_function(X)).max() < 1


@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan, np.inf, "much"])
@pytest.mark.parametrize("model", [LCNClassifier(**QUICK), ObliqueTreeClassifier(**QUICK_TREE)], ids=name_of)
def test_weights_of_classes_are_positive(model: Any, weight: object) -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match=r"class_weight must hold positive finite numbers, got .* for the class 1"):
        clone(model).set_params(class_weight={0: 1.0, 1: weight}).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [LCNClassifier(**QUICK), ObliqueTreeClassifier(**QUICK_TREE), ObliqueTreeRegressor(**QUICK_TREE)],
    ids=name_of,
)
def test_huge_weights_of_rows(model: Any) -> None:
    X, y = some_rows()
    weight = np.where(np.arange(200) % 2, 2.0**1023, 2.0**1022)
    huge = clone(model).fit(X, y, sample_weight=weight)
    small = clone(model).fit(X, y, sample_weight=weight / 2.0**1023)
    np.testing.assert_allclose(scores(huge, X), scores(small, X), rtol=1e-6)
    if model.__class__ is not LCNClassifier:
        assert np.array_equal(huge.predict(X), small.predict(X))


def test_depths_that_would_not_end_are_refused() -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match="depth"):
        LCNClassifier(depth=2000).fit(X, y)


# Extreme values


@pytest.mark.parametrize("kind", [LCNRegressor, LLNRegressor])
@pytest.mark.parametrize("size", [1e300, 1e155])
def test_targets_beyond_arithmetic_are_refused(kind: type, size: float) -> None:
    X, _ = some_rows()
    y = X[:, 0] * size
    with pytest.raises(ValueError, match="y cannot be scaled: column 0 has values that are too large or too small"):
        kind(**QUICK).fit(X, y)


@pytest.mark.parametrize("size", [1e160, 1e-320])
@pytest.mark.parametrize("standardize", [True, "auto"])
def test_features_beyond_arithmetic_are_refused(standardize: bool | str, size: float) -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match="X cannot be scaled: column 0"):
        LCNClassifier(**QUICK, standardize=standardize).fit(X * size, y)


@pytest.mark.parametrize("combine", [None, "average", "stack"])
def test_one_value_far_beyond_the_others_is_named(combine: str | None) -> None:
    X, y = some_rows()
    X[150, 2] = -1e200
    model: Any = LCNClassifier(**QUICK)
    if combine is not None:
        stacked = combine == "stack"
        model = StackedClassifier(model, n_trees=5) if stacked else ELCNClassifier(model, combine=combine)
    with pytest.raises(ValueError, match="X cannot be scaled: row 150 has a value in column 2 that is too far from"):
        model.fit(X, y)


@pytest.mark.parametrize("kind", [LLNClassifier, StackedClassifier])
def test_rows_too_large_to_add_up_are_refused(kind: Any) -> None:
    """No row is answered by NaN."""
    X, y = some_rows()
    member = ALCNClassifier(**QUICK)
    model = kind(**QUICK) if kind is LLNClassifier else kind(member, n_estimators=2, n_trees=5, random_state=0)
    model.fit(X / 100, y)  # so that weights are above 1
    large = 1.7e308 * np.array(list(itertools.product([-1, 1], repeat=4)))
    with pytest.raises(ValueError, match=r"X must be finite: row \d+ has numbers too large to add up"):
        model.predict_proba(large)


@pytest.mark.parametrize("size", [1e100, 1e30, 1e-30, 1e-100])
def test_large_and_small_units_are_fine(size: float) -> None:
    X, y = some_rows()
    plain = LCNClassifier(**QUICK).fit(X, y).predict(X)
    scaled = LCNClassifier(**QUICK).fit(X * size, y)
    assert all(np.isfinite(array).all() for array in scaled.network_.arrays().values())
    assert (scaled.predict(X * size) == plain).mean() > 0.98


def test_a_constant_column_has_no_weight() -> None:
    X, y = some_rows()
    with_time = np.column_stack([X, np.full(200, 1.7e18)])
    model = LCNClassifier(**{**QUICK, "epochs": 40}).fit(with_time, y)
    assert not model.network_.weight[4].any()
    assert model.score(with_time, y) > 0.9
    assert np.array_equal(model.tree_.predict(with_time), model.predict(with_time))


def bits() -> tuple[np.ndarray, np.ndarray]:
    """Rare bits, some of which are never set, and one that always is."""
    rng = np.random.default_rng(0)
    X = (rng.random((200, 60)) < 0.1).astype(float)
    X[:, 20:40], X[:, 3] = 0, 1
    return X, (X[:, :3].sum(axis=1) + X[:, 50:].sum(axis=1) > 0.5).astype(int)


@pytest.mark.parametrize("standardize", ["auto", True])
@FORMS
@pytest.mark.parametrize("kind", [LCNClassifier, LLNClassifier, ELCNClassifier])
def test_columns_that_do_not_vary_change_nothing(kind: Any, form: Any, standardize: Any) -> None:
    """Not even a little: the network that is kept is the one that was trained, and rows that differ there do not."""
    X, y = bits()
    settings = {**QUICK, "standardize": standardize}
    if kind is ELCNClassifier:
        settings = {"estimator": ALCNClassifier(**settings), "n_estimators": 2, "random_state": 0}
    trained: list[np.ndarray] = []

    def look(record: object, network: Any) -> None:
        if hasattr(network, "weight"):
            trained.append(np.flatnonzero(network.weight.any(axis=1)))

    model = kind(**settings, callbacks=[look]).fit(form(X), y)
    same = np.flatnonzero(X.min(axis=0) == X.max(axis=0))
    assert all(not np.isin(same, weighted).any() for weighted in trained)
    other = X.copy()
    other[:, same] = 1 - other[:, same]
    assert np.array_equal(model.decision_function(form(other)), model.decision_function(form(X)))


@pytest.mark.parametrize("kind", [LCNClassifier, LLNClassifier])
def test_the_last_epoch_is_what_is_kept(kind: Any) -> None:
    """Once, weights of constant columns were taken away after training, and probabilities moved by up to 0.5."""
    X, y = bits()
    last: list[np.ndarray] = []

    def look(record: object, network: Any) -> None:
        last[:] = [network(X.astype(np.float32) * (np.arange(60) != 3))]

    model = kind(**QUICK, callbacks=[look]).fit(sparse.csr_array(X), y)
    scores = model.decision_function(X)
    share = scores @ last[0][:, 0] / (last[0][:, 0] @ last[0][:, 0])  # tempered: divided by one number
    np.testing.assert_allclose(scores, share * last[0][:, 0], rtol=1e-4, atol=1e-5)


@FORMS
def test_a_time_stamp_that_stays_the_same_in_pieces(form: Any) -> None:
    X, y = some_rows()
    with_time = np.column_stack([X, np.full(200, 1.7e18)])
    model = LCNClassifier(**{**QUICK, "epochs": 40})
    plain = LCNClassifier(**{**QUICK, "epochs": 40})
    for start in range(0, 200, 50):
        model.partial_fit(form(with_time[start : start + 50]), y[start : start + 50], classes=[0, 1])
        plain.partial_fit(X[start : start + 50], y[start : start + 50], classes=[0, 1])
    assert not model.network_.weight[4].any()
    assert model.score(form(with_time), y) > plain.score(X, y) - 0.05
    with_time[:, 4] += 1e17
    assert model.score(form(with_time), y) > plain.score(X, y) - 0.05


def test_a_constant_column_without_scaling_is_a_bias_and_stays_one() -> None:
    X, y = some_rows()
    last: list[np.ndarray] = []
    rows = np.column_stack([X, np.ones(200)])

    def look(record: object, network: Any) -> None:
        last[:] = [network(rows.astype(np.float32))]

    model = LLNClassifier(**QUICK, standardize=False, callbacks=[look]).fit(rows, y)
    scores = model.decision_function(rows)
    share = scores @ last[0][:, 0] / (last[0][:, 0] @ last[0][:, 0])
    np.testing.assert_allclose(scores, share * last[0][:, 0], rtol=1e-3, atol=1e-4)


# The same of small trees


@FORMS
@pytest.mark.parametrize("size", [1e100, 1e30, 1e-13, 1e-30, 1e-100])
def test_in_small_trees_large_and_small_units_are_fine(size: float, form: Any) -> None:
    """Columns with a spread below 1e-12 once counted as constant, whatever their unit, and the tree was one leaf."""
    X, y = some_rows()
    rows = form(X * size)
    assert ObliqueTreeClassifier(**QUICK_TREE).fit(rows, y).score(rows, y) > 0.9
    values = ObliqueTreeRegressor(**QUICK_TREE).fit(X, y * size).predict(X) / size
    assert ((values > 0.5) == y).mean() > 0.9


@FORMS
@pytest.mark.parametrize("size", [1e300, 1e160, 1e-160, 1e-320])
def test_in_small_trees_units_beyond_arithmetic_are_refused(size: float, form: Any) -> None:
    X, y = some_rows()
    with pytest.raises(ValueError, match="X cannot be scaled: column 0 has values that are too large or too small"):
        ObliqueTreeClassifier(**QUICK_TREE).fit(form(X * size), y)
    with pytest.raises(ValueError, match="y cannot be scaled: column 1 has values that are too large or too small"):
        ObliqueTreeRegressor(**QUICK_TREE).fit(form(X), np.column_stack([y, y * size + X[:, 0] * size]))


def test_in_small_trees_one_large_value_of_all_rows_is_refused_by_name() -> None:
    X, _ = some_rows()
    with pytest.raises(ValueError, match="y cannot be scaled: column 0"):
        ObliqueTreeRegressor(**QUICK_TREE).fit(X, np.full(200, 1e300))


@FORMS
@pytest.mark.parametrize("offset", [1e9, 1e12, 1.7e12])
def test_in_small_trees_an_offset_far_larger_than_the_spread(offset: float, form: Any) -> None:
    """At 1e12 columns once counted as constant; of a sparse table the spread was lost at 1e9."""
    X, y = some_rows()
    rows = form(X + offset)
    assert ObliqueTreeClassifier(**QUICK_TREE).fit(rows, y).score(rows, y) > 0.9


@FORMS
@pytest.mark.parametrize("value", [1.7e18, 0.1, -1e-300])
def test_in_small_trees_a_constant_column_has_no_weight(value: float, form: Any) -> None:
    X, y = some_rows()
    rows = np.column_stack([X, np.full(200, value)])
    with_it, without = (
        ObliqueTreeClassifier(**QUICK_TREE).fit(form(rows), y),
        ObliqueTreeClassifier(**QUICK_TREE).fit(form(X), y),
    )
    assert np.array_equal(with_it.predict_proba(form(rows)), without.predict_proba(form(X)))
    rows[:, 4] = -5
    assert np.array_equal(with_it.predict_proba(form(rows)), without.predict_proba(form(X)))


def test_rows_without_weight_are_not_read() -> None:
    X, y = some_rows()
    weight = (np.arange(200) % 2).astype(float)
    values = np.where(weight == 0, 1e300, y)
    some = ObliqueTreeRegressor(**QUICK_TREE).fit(X, values, sample_weight=weight)
    assert np.array_equal(some.predict(X), ObliqueTreeRegressor(**QUICK_TREE).fit(X[1::2], y[1::2]).predict(X))


def exact_spread(values: list[float], weights: list[int]) -> float:
    """By fractions."""
    exact = [Fraction(value) for value in values]
    total = sum(weights)
    mean = sum((w * x for w, x in zip(weights, exact, strict=True)), Fraction(0)) / total
    square = sum((w * (x - mean) ** 2 for w, x in zip(weights, exact, strict=True)), Fraction(0)) / total
    return float(square) ** 0.5


@pytest.mark.parametrize("offset", [0.0, 1e9, 1.7e12])
def test_spreads_by_fractions(offset: float) -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(-8, 9, size=(40, 5)) / 8 + offset
    table[rng.random((40, 5)) < 0.3] = 0
    table[:, 3], table[:, 4] = offset, 0.1
    weights = rng.integers(1, 4, size=40)
    exact = [exact_spread(column.tolist(), weights.tolist()) for column in table.T]
    halves = sparse.csr_array(table)  # every entry in two parts
    halves.data, halves.indices = np.repeat(halves.data / 2, 2), np.repeat(halves.indices, 2)
    halves.indptr = halves.indptr * 2
    halves.has_canonical_format = False
    for form in (table, sparse.csr_array(table), halves):
        np.testing.assert_allclose(spread(form, weights.astype(float)), exact, rtol=1e-9)
    assert spread(table, weights.astype(float))[3:].tolist() == [0, 0]


# Sparse tables


def test_a_sparse_table_of_real_values_is_scaled() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = LCNClassifier(**{**QUICK, "epochs": 20}).fit(sparse.csr_array(X), y)
    assert model.score(sparse.csr_array(X), y) > 0.95
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(sparse.csr_array(X)), atol=1e-9)


def test_few_entries_stay_few() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 50), density=0.05, rng=rng, format="csr") * 1000
    scaling = fit_scaling(X, "auto")
    assert not scaling.center.any()
    scaled = scaling.transform(X)
    assert sparse.issparse(scaled)
    assert np.sqrt((scaled.data**2).mean()) == pytest.approx(1)
    bits = (X != 0).astype(float)
    assert fit_scaling(bits, "auto").is_identity


def test_sparse_and_dense_statistics_agree() -> None:
    X = np.random.default_rng(0).normal(5, 2, size=(100, 3))
    X[:, 2] = X[:, 2] > 5
    ours, dense = fit_scaling(sparse.csr_array(X), "auto"), Scaling(X.mean(0), X.std(0))
    np.testing.assert_allclose(ours.center[:2], dense.center[:2])
    np.testing.assert_allclose(ours.scale[:2], dense.scale[:2])
    assert (ours.center[2], ours.scale[2]) == (0, 1)


# Threads and processes


def test_one_seed_one_model_whatever_the_threads_and_jobs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 12))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    results = []
    for threads, jobs in ((1, None), (2, None), (2, 2), (1, 3)):
        with limited(threads):
            model = LCNClassifier(
                **{**QUICK, "training": {"batch_size": 32, "temper": False, "n_init": 3}}, n_jobs=jobs
            ).fit(X, y)
            results.append(model.predict_proba(X))
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_predicts_and_fits() -> None:
    """A server loads a model, predicts with threads, and forks its workers."""
    X, y = some_rows(60_000, 20)
    model = LCNClassifier(**{**QUICK, "epochs": 1, "training": {"batch_size": 4096, "temper": False}}).fit(X, y)
    with limited(2):
        before = model.predict(X)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            same = np.array_equal(model.predict(X), before)
            again = LCNClassifier(**QUICK).fit(X[:200], y[:200])
            os._exit(0 if same and np.isfinite(again.decision_function(X[:9])).all() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# Interrupts and failures


class Interrupt:
    """A callback that is interrupted in the given epoch of the first training."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.n_calls = epoch, 0

    def __call__(self, record: object, network: object) -> None:
        self.n_calls += 1
        if record.epoch == self.epoch:  # type: ignore[attr-defined]
            raise KeyboardInterrupt


def test_one_interrupt_ends_all_initialisations() -> None:
    X, y = some_rows()
    stop = Interrupt(2)
    with pytest.warns(UserWarning, match="training interrupted"):
        model = LCNClassifier(
            **{**QUICK, "training": {"batch_size": 32, "temper": False, "n_init": 4}}, callbacks=[stop]
        ).fit(X, y)
    assert stop.n_calls == 2
    assert np.isfinite(model.decision_function(X)).all()


class CtrlC:
    """A callback that presses Ctrl-C once, in epoch 3, when so many threads have finished an epoch."""

    def __init__(self, n_threads: int) -> None:
        self.begun, self.threads = threading.Barrier(n_threads), set[int]()
        self.n_calls, self.key = 0, threading.Lock()

    def __deepcopy__(self, memo: object) -> CtrlC:
        return self  # labels are cloned estimators; there is one keyboard

    def __call__(self, record: object, network: object) -> None:
        self.n_calls += 1
        if record.epoch == 2 and threading.get_ident() not in self.threads:  # type: ignore[attr-defined]
            self.threads.add(threading.get_ident())
            self.begun.wait(60)
        # two threads may come here at the same time
        if record.epoch >= 3 and self.key.acquire(blocking=False):  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGINT)
            ARRIVED.wait(60)  # a busy system may deliver it late, and the training must not have ended by then


ARRIVED = threading.Event()


@pytest.fixture
def heed_ctrl_c() -> Iterator[None]:
    """Processes in the background ignore Ctrl-C, and so would these tests."""

    def arrive(number: int, frame: object) -> None:
        ARRIVED.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, arrive)
    ARRIVED.clear()
    yield
    signal.signal(signal.SIGINT, before)


LONG = {**QUICK, "epochs": 20_000}  # never finished, unless Ctrl-C fails


@pytest.mark.usefixtures("heed_ctrl_c")
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_ctrl_c_ends_all_initialisations_in_threads_too(n_jobs: int) -> None:
    """0.1 raised KeyboardInterrupt with n_jobs=2 and kept nothing."""
    X, y = some_rows()
    stop = CtrlC(n_jobs)
    with pytest.warns(UserWarning, match="training interrupted: the parameters kept are those") as said:
        model = LCNClassifier(
            **{**LONG, "training": {"batch_size": 32, "temper": False, "n_init": 6}}, n_jobs=n_jobs, callbacks=[stop]
        ).fit(X, y)
    assert len(said) == n_jobs  # each member that had begun says so
    assert model.history_.ended == "interrupted"
    assert stop.n_calls < 6 * LONG["epochs"]
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.usefixtures("heed_ctrl_c")
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_one_ctrl_c_keeps_all_labels_if_all_had_begun() -> None:
    X, y = some_rows()
    with pytest.warns(UserWarning, match="training interrupted"):
        model = LCNClassifier(**LONG, n_jobs=2, callbacks=[CtrlC(2)]).fit(X, np.column_stack([y, 1 - y]))
    assert [member.history_.ended for member in model.estimators_] == ["interrupted"] * 2
    assert model.predict_proba(X).shape == (len(X), 2)
    ARRIVED.clear()
    more = LCNClassifier(**LONG, n_jobs=2, callbacks=[CtrlC(2)])
    with pytest.warns(UserWarning), pytest.raises(KeyboardInterrupt, match="none of them is kept"):  # noqa: PT030
        more.fit(X, np.column_stack([y] * 5))


@pytest.mark.filterwarnings("ignore:training interrupted")
def test_an_error_in_one_of_several_threads_ends_them_all() -> None:
    X, y = some_rows()

    def fail(record: object, network: object) -> None:
        if record.epoch == 3:  # type: ignore[attr-defined]
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        LCNClassifier(
            **{**LONG, "training": {"batch_size": 32, "temper": False, "n_init": 3}}, n_jobs=3, callbacks=[fail]
        ).fit(X, y)


def test_bars_of_several_threads_share_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = some_rows()
    LCNClassifier(
        **{**QUICK, "training": {"batch_size": 32, "temper": False, "n_init": 3}}, n_jobs=3, verbose=True
    ).fit(X, y)
    assert capsys.readouterr().out.count("LCNClassifier") >= 3


def test_one_interrupt_ends_all_labels_and_keeps_the_old_model() -> None:
    X, y = some_rows()
    labels = np.column_stack([y, 1 - y, y])
    model = LCNClassifier(**QUICK).fit(X, labels)
    before, stop = model.predict_proba(X), Interrupt(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            model.set_params(callbacks=[stop]).fit(X, labels)
    assert stop.n_calls == 2
    assert np.array_equal(model.predict_proba(X), before)


def test_a_fit_that_fails_leaves_the_old_model() -> None:
    X, y = some_rows()
    model = LCNClassifier(**QUICK).fit(X, np.where(y, "yes", "no"))
    before = model.predict(X)
    with pytest.raises(FloatingPointError), np.errstate(all="ignore"):
        model.set_params(learning_rate=1e30, training={"optimizer": "sgd"}, standardize=False).fit(
            X * 1e30, np.where(y, "a", "b")
        )
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(model.predict(X), before)
