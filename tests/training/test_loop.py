"""The training loop: λ, schedules, batches, validation, stopping, history, repeatability, memory."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from treelu.data.targets import Targets, roc_auc
from treelu.nn import Activation, LocallyConstantNetwork, LocallyLinearNetwork, Table
from treelu.training import (
    Dataset,
    EpochRecord,
    History,
    KernelStepper,
    batches,
    evaluate,
    learning_rate_factor,
    row_blocks,
    score_of,
    train,
)

SETTINGS = {"epochs": 4, "batch_size": 16, "optimizer": "sgd", "learning_rate": 0.1}


def some_sample(
    n: int = 50, d: int = 6, seed: int = 0, task: str = "binary", index: np.ndarray | None = None
) -> Dataset:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if task == "binary":
        y = (X[:, :1] + 0.3 * X[:, 1:2] > 0).astype(np.float32)
    elif task == "multiclass":
        y = rng.integers(0, 3, n)
    else:
        y = np.abs(X[:, :1]).astype(np.float32)
    return Dataset(Table(X, np.float32), Targets(task, y, 3 if task == "multiclass" else 1), index)


def some_network(sample: Dataset, network_class=LocallyConstantNetwork, depth: int = 3, seed: int = 0, **settings):
    settings = {"dtype": np.float32, "seed": seed, **settings}
    return network_class(sample.table.shape[1], depth, sample.targets.n_outputs, **settings)


def equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def in_a_fresh_process(code: str) -> str:
    """What the code prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


class Spy:
    """Notes every update of training: its rows, λ and the key of its masks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[list[int], float, int]] = []
        steps = KernelStepper.train_steps

        def noted(stepper: KernelStepper, batches, keys, annealing, rate):
            self.calls += [(index.tolist(), annealing, int(key)) for index, key in zip(batches, keys, strict=True)]
            return steps(stepper, batches, keys, annealing, rate)

        monkeypatch.setattr(KernelStepper, "train_steps", noted)


# Annealing and schedules


@pytest.mark.parametrize("kind", ["relu", "leaky_relu", "softplus"])
def test_annealing_by_epoch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """λ in epoch e of E is e/E, the last epoch pure ReLU; softplus stays smooth."""
    sample = some_sample()
    network = some_network(sample, activation=Activation(kind, 0.1 if kind == "leaky_relu" else 0.0))
    spy = Spy(monkeypatch)
    history = train(network, sample, **SETTINGS, rng=np.random.default_rng(0))
    expected = [0.0] * 4 if kind == "softplus" else [0.25, 0.5, 0.75, 1.0]
    assert history["annealing"] == expected
    assert [call[1] for call in spy.calls] == list(np.repeat(expected, 4))


def test_step_schedule_is_the_papers() -> None:
    """0.1 · 0.1^⌊e/10⌋ for e = 1 … 30."""
    for epoch in range(1, 31):
        assert 0.1 * learning_rate_factor("step", epoch, 30) == pytest.approx(0.1 * 0.1 ** (epoch // 10), rel=1e-12)


def test_other_schedules() -> None:
    cosine = [learning_rate_factor("cosine", epoch, 20) for epoch in range(1, 21)]
    assert cosine[0] == 1.0
    assert 0 < cosine[-1] < 0.01
    assert cosine == sorted(cosine, reverse=True)
    torch = pytest.importorskip("torch")
    oracle = torch.optim.lr_scheduler.CosineAnnealingLR(torch.optim.SGD([torch.zeros(1)], lr=1.0), T_max=20)
    by_torch = []
    for _ in range(20):
        by_torch.append(oracle.get_last_lr()[0])
        oracle.optimizer.step()
        oracle.step()
    assert cosine == pytest.approx(by_torch, rel=1e-9)
    assert learning_rate_factor("constant", 7, 20) == 1.0
    assert learning_rate_factor(lambda epoch, epochs: epoch / epochs, 5, 20) == 0.25


@pytest.mark.parametrize("schedule", ["step", "cosine", "constant", lambda epoch, epochs: 1 / epoch])
def test_the_schedule_reaches_the_optimiser(schedule) -> None:
    sample = some_sample()
    network = some_network(sample)
    rates = []
    history = train(
        network,
        sample,
        **SETTINGS,
        schedule=schedule,
        after_step=lambda network, gradients, rate: rates.append(rate),
        rng=np.random.default_rng(0),
    )
    expected = [0.1 * learning_rate_factor(schedule, epoch, 4) for epoch in range(1, 5)]
    assert history["learning_rate"] == pytest.approx(expected)
    assert rates == pytest.approx(np.repeat(expected, 4))


@pytest.mark.parametrize("optimizer", ["sgd", "amsgrad"])
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weights and offsets"])
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize(
    ("network_class", "settings"),
    [(LocallyConstantNetwork, {}), (LocallyConstantNetwork, {"hidden_layers": (4,)}), (LocallyLinearNetwork, {})],
    ids=["LCN", "LCN with a hidden layer", "LLN"],
)
def test_steps_are_those_of_torch(network_class, settings: dict, task: str, extras: bool, optimizer: str) -> None:
    """Steps in float64 on batches of several sizes, in one call, one by one, and by autograd and torch.optim."""
    pytest.importorskip("torch")
    from treelu.training.on_device import TorchStepper

    rng = np.random.default_rng(0)
    sample = some_sample(task=task)
    y = sample.targets.y if task == "multiclass" else sample.targets.y.astype(float)
    targets = replace(sample.targets, y=y)
    if extras:
        offset, weight = rng.standard_normal((50, targets.n_outputs)), rng.uniform(0.5, 2, 50)
        targets = replace(targets, weight=weight, offset=offset)
    table = Table(sample.table.values.reshape(sample.table.shape).astype(float))
    sample = Dataset(table, targets)
    rows = [rng.permutation(50)[:size] for size in (16, 7, 16, 1, 30)]
    keys = rng.integers(2**63, size=len(rows))
    results = []
    for way in ("at one go", "single", "torch"):
        network = some_network(sample, network_class, drop_connect=0.25, dtype=np.float64, **settings)
        stepper = (TorchStepper if way == "torch" else KernelStepper)(network, sample, optimizer, 0.1)
        if way == "single":
            pairs = zip(rows, keys, strict=True)
            total = sum(stepper.train_steps([index], np.array([key]), 0.7, 0.01) for index, key in pairs)
        else:
            total = stepper.train_steps(rows, keys, 0.7, 0.01)
        results.append((total, network.state()))
    for total, parameters in results[1:]:
        assert total == pytest.approx(results[0][0], rel=1e-9)
        for name, value in parameters.items():
            np.testing.assert_allclose(value, results[0][1][name], rtol=1e-7, atol=1e-9)


# Batches


@given(n=st.integers(1, 40), batch_size=st.integers(1, 50), seed=st.integers(0, 2**31))
def test_a_pass_shows_every_row_once_and_keeps_the_short_batch(n: int, batch_size: int, seed: int) -> None:
    rows = np.arange(100, 100 + n)
    stream = batches(some_sample(n=150, index=rows), batch_size, np.random.default_rng(seed))
    n_batches = math.ceil(n / batch_size)
    passes = [list(itertools.islice(stream, n_batches)) for _ in range(2)]
    for one in passes:
        assert [len(batch) for batch in one[:-1]] == [batch_size] * (n_batches - 1)
        assert len(one[-1]) == n - batch_size * (n_batches - 1)
        assert sorted(np.concatenate(one)) == rows.tolist()
    if n > 20:
        assert not np.array_equal(np.concatenate(passes[0]), np.concatenate(passes[1]))


@pytest.mark.parametrize("index", [None, np.array([40, 3, 7, 21, 22, 9, 49])], ids=["all rows", "some rows"])
def test_batches_are_permutations_by_numpy(index: np.ndarray | None) -> None:
    sample = some_sample(index=index)
    stream, rng = batches(sample, 3, np.random.default_rng(5)), np.random.default_rng(5)
    for _ in range(3):
        expected = rng.permutation(sample.rows)
        shown = np.concatenate(list(itertools.islice(stream, math.ceil(len(sample) / 3))))
        assert shown.dtype == np.int64
        assert np.array_equal(shown, expected)


@pytest.mark.parametrize("index", [None, np.arange(7)[::-1]], ids=["all rows", "some rows"])
def test_blocks_of_rows(index: np.ndarray | None) -> None:
    table = Table(np.eye(7))
    blocks = list(row_blocks(table, index, at_once=3))
    assert [len(rows.index) for rows in blocks] == [3, 3, 1]
    assert np.array_equal(np.concatenate([rows.index for rows in blocks]), table.rows(index).index)


def test_an_epoch_is_a_pass_over_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    index = np.array([40, 3, 7, 21, 22, 9, 49])
    sample = some_sample(index=index)
    network = some_network(sample)
    spy = Spy(monkeypatch)
    train(network, sample, **{**SETTINGS, "batch_size": 3}, rng=np.random.default_rng(0))
    assert [len(call[0]) for call in spy.calls] == [3, 3, 1] * 4
    for epoch in range(4):
        seen = [row for call in spy.calls[3 * epoch : 3 * epoch + 3] for row in call[0]]
        assert sorted(seen) == sorted(index.tolist())


@pytest.mark.parametrize("updates", [1, 3, 10])
def test_updates_per_epoch(updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many steps an epoch, each pass still a permutation of the rows."""
    sample = some_sample(n=50)
    network = some_network(sample)
    spy = Spy(monkeypatch)
    train(network, sample, **SETTINGS, updates_per_epoch=updates, rng=np.random.default_rng(0))
    assert len(spy.calls) == 4 * updates
    assert [call[1] for call in spy.calls] == list(np.repeat([0.25, 0.5, 0.75, 1.0], updates))
    seen = [row for call in spy.calls for row in call[0]]
    assert sorted(seen[:50]) == list(range(50))[: len(seen)] or len(seen) < 50


def test_masks_are_fresh_in_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = some_sample()
    spy = Spy(monkeypatch)
    train(some_network(sample, drop_connect=0.5), sample, **SETTINGS, rng=np.random.default_rng(0))
    keys = [call[2] for call in spy.calls]
    assert len(set(keys)) == len(keys) == 16


def test_keys_of_masks_matter_only_with_drop_connect() -> None:
    sample = some_sample()
    rows = [np.arange(20), np.arange(20, 50)]
    for rate, differ in ((0.5, True), (0.0, False)):
        results = []
        for keys in (np.array([1, 2]), np.array([3, 4])):
            network = some_network(sample, drop_connect=rate)
            KernelStepper(network, sample, "sgd").train_steps(rows, keys, 0.5, 0.1)
            results.append(network.state())
        assert equal(*results) != differ


def test_the_training_loss_is_the_mean_over_the_rows() -> None:
    """With a step too small to matter, the loss of the last epoch is that of the network on all rows."""
    sample = some_sample(n=50)
    network = some_network(sample)
    history = train(network, sample, **{**SETTINGS, "learning_rate": 1e-9}, rng=np.random.default_rng(0))
    whole = sample.targets.loss(network(sample.table.rows()), np.arange(50))
    assert history["train_loss"][-1] == pytest.approx(whole, rel=1e-4)


# Validation, early stopping, callbacks, Ctrl-C


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_best_epoch_is_restored(task: str) -> None:
    sample, valid = some_sample(task=task), some_sample(seed=1, task=task)
    network = some_network(sample)
    states = []
    history = train(
        network,
        sample,
        **{**SETTINGS, "epochs": 12, "learning_rate": 0.05 if task == "regression" else 0.5},
        schedule="constant",
        validation=valid,
        callbacks=[lambda record, network: states.append(network.state())],
        rng=np.random.default_rng(0),
    )
    scores = history["valid_score"]
    better = np.argmax if task == "binary" else np.argmin
    assert history.metric == {"binary": "auc", "multiclass": "log_loss", "regression": "rmse"}[task]
    assert history.best_epoch == 1 + better(scores)
    assert equal(network.state(), states[history.best_epoch - 1])
    assert score_of(network, valid) == pytest.approx(scores[history.best_epoch - 1], abs=1e-12)
    assert len(set(scores)) > 1


def test_validation_scores_are_those_of_the_network_at_that_epoch() -> None:
    """In evaluation form: ReLU even where training is still smooth, and nothing stale from earlier epochs."""
    sample, valid = some_sample(), some_sample(n=200, seed=1)
    network = some_network(sample)
    by_hand = []

    def score(record: EpochRecord, network) -> None:
        pattern = network.activation_pattern(valid.table.rows())
        patterns, leaf = np.unique(pattern, axis=0, return_inverse=True)
        by_hand.append(roc_auc(valid.targets.y, network.leaf_values(patterns)[leaf.reshape(-1)]))

    history = train(
        network, sample, **{**SETTINGS, "epochs": 8}, validation=valid, callbacks=[score], rng=np.random.default_rng(0)
    )
    assert history["valid_score"] == pytest.approx(by_hand, abs=1e-12)
    assert len(set(by_hand)) > 2


def test_without_validation_the_last_epoch_is_kept() -> None:
    sample = some_sample()
    network = some_network(sample)
    states = []
    history = train(
        network,
        sample,
        **SETTINGS,
        callbacks=[lambda record, network: states.append(network.state())],
        rng=np.random.default_rng(0),
    )
    assert (history.metric, history.best_epoch, history.ended) == (None, 4, "finished")
    assert history["valid_score"] == [None] * 4
    assert equal(network.state(), states[-1])


@pytest.mark.parametrize("patience", [1, 3])
def test_early_stopping(patience: int) -> None:
    """A learning rate of nearly nothing: the score never gets better than in the first epoch."""
    sample = some_sample()
    settings = {**SETTINGS, "learning_rate": 1e-12, "epochs": 20}
    history = train(
        some_network(sample), sample, **settings, validation=sample, patience=patience, rng=np.random.default_rng(0)
    )
    assert history.ended == "early"
    assert history.best_epoch == 1
    assert len(history) == 1 + patience


def test_a_callback_can_stop() -> None:
    sample = some_sample()
    seen = []

    def stop(record: EpochRecord, network) -> bool:
        seen.append(record.epoch)
        return record.epoch == 2

    network = some_network(sample)
    history = train(network, sample, **SETTINGS, callbacks=[stop], rng=np.random.default_rng(0))
    assert seen == [1, 2]
    assert (len(history), history.best_epoch, history.ended) == (2, 2, "callback")


def test_all_callbacks_hear_of_every_epoch() -> None:
    sample = some_sample()
    seen: list[tuple[str, int]] = []
    train(
        some_network(sample),
        sample,
        **SETTINGS,
        callbacks=[
            lambda record, _: seen.append(("a", record.epoch)) or True,
            lambda r, _: seen.append(("b", r.epoch)),
        ],
        rng=np.random.default_rng(0),
    )
    assert seen == [("a", 1), ("b", 1)]


def interrupt_at(epoch: int):
    def callback(record: EpochRecord, network) -> None:
        if record.epoch == epoch:
            raise KeyboardInterrupt

    return callback


def test_ctrl_c_keeps_the_best_and_says_so() -> None:
    sample, valid = some_sample(), some_sample(seed=1)
    network = some_network(sample)
    states = []
    with pytest.warns(UserWarning, match="training interrupted: the parameters kept are those of epoch") as warned:
        history = train(
            network,
            sample,
            **{**SETTINGS, "epochs": 30},
            validation=valid,
            callbacks=[lambda record, network: states.append(network.state()), interrupt_at(5)],
            rng=np.random.default_rng(0),
        )
    assert history.ended == "interrupted"
    assert len(history) == 5
    assert f"epoch {history.best_epoch} of 30" in str(warned[0].message)
    assert equal(network.state(), states[history.best_epoch - 1])


def test_ctrl_c_without_validation_keeps_what_there_is() -> None:
    sample = some_sample()
    network = some_network(sample)
    with pytest.warns(UserWarning, match="those after 2 finished epochs of 4"):
        history = train(network, sample, **SETTINGS, callbacks=[interrupt_at(2)], rng=np.random.default_rng(0))
    assert (history.ended, history.best_epoch) == ("interrupted", 2)
    assert np.isfinite(evaluate(network, sample.table)).all()


def test_ctrl_c_goes_through_where_it_is_to() -> None:
    sample = some_sample()
    with pytest.raises(KeyboardInterrupt):
        train(
            some_network(sample),
            sample,
            **SETTINGS,
            callbacks=[interrupt_at(2)],
            interruptible=False,
            rng=np.random.default_rng(0),
        )


def test_a_score_that_is_not_a_number_never_counts_as_best() -> None:
    """Validation rows of one class have no AUC: the last epoch is kept, as without validation."""
    sample = some_sample()
    one_class = Dataset(sample.table, sample.targets, np.flatnonzero(sample.targets.y[:, 0] == 0))
    network = some_network(sample)
    history = train(network, sample, **SETTINGS, validation=one_class, patience=2, rng=np.random.default_rng(0))
    assert history.best_epoch != 1


# History


def test_history_contents_and_round_trip() -> None:
    sample = some_sample()
    history = train(some_network(sample), sample, **SETTINGS, validation=sample, rng=np.random.default_rng(0))
    assert len(history) == 4
    assert history["epoch"] == [1, 2, 3, 4]
    assert all(math.isfinite(loss) and loss > 0 for loss in history["train_loss"])
    assert history["seconds"] == sorted(history["seconds"])
    assert history["seconds"][0] > 0
    there_and_back = History.from_dict(json.loads(json.dumps(history.to_dict())))
    assert there_and_back == history
    assert isinstance(there_and_back.records[0], EpochRecord)


# Repeatability


@pytest.mark.parametrize("optimizer", ["sgd", "amsgrad"])
@pytest.mark.parametrize("network_class", [LocallyConstantNetwork, LocallyLinearNetwork])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_the_same_seed_gives_the_same_bits(network_class, optimizer: str, form) -> None:
    dense = some_sample()
    X = dense.table.values.reshape(dense.table.shape)
    sample = Dataset(Table(form(X), np.float32), dense.targets)
    results = []
    for seed in (5, 5, 6):
        network = some_network(sample, network_class, drop_connect=0.5)
        history = train(
            network, sample, **{**SETTINGS, "optimizer": optimizer}, validation=dense, rng=np.random.default_rng(seed)
        )
        results.append((network.state(), history["train_loss"], history["valid_score"]))
    assert equal(results[0][0], results[1][0])
    assert results[0][1:] == results[1][1:]
    assert not equal(results[0][0], results[2][0])


def test_the_global_generator_is_left_alone() -> None:
    sample = some_sample()
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    train(some_network(sample, drop_connect=0.5), sample, **SETTINGS, rng=np.random.default_rng(0))
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# What goes wrong


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("optimizer", ["sgd", "amsgrad"])
def test_divergence_is_an_error_with_a_remedy(optimizer: str) -> None:
    sample = some_sample(task="regression")
    settings = {**SETTINGS, "epochs": 30, "learning_rate": 1e15, "optimizer": optimizer}
    with pytest.raises(FloatingPointError, match=r"loss became .* in epoch \d+: lower learning_rate \(now"):
        train(some_network(sample), sample, **settings, schedule="constant", rng=np.random.default_rng(0))


# Memory


def test_sparse_rows_are_never_made_dense() -> None:
    """A table of 8 × 10⁹ cells (60 GB dense) trains and evaluates in a few megabytes."""
    n, d, per_row = 20_000, 400_000, 5
    rng = np.random.default_rng(0)
    X = sparse.csr_array(
        (np.ones(n * per_row, np.float32), rng.integers(0, d, n * per_row), np.arange(0, n * per_row + 1, per_row)),
        shape=(n, d),
    )
    y = rng.integers(0, 2, (n, 1)).astype(np.float32)
    sample = Dataset(Table(X, np.float32), Targets("binary", y, 1))
    network = some_network(sample, depth=2, drop_connect=0.5)
    parameters = sum(array.nbytes for array in network.arrays().values())
    tracemalloc.start()
    train(
        network,
        sample,
        **{**SETTINGS, "epochs": 1, "batch_size": 4096},
        updates_per_epoch=2,
        validation=Dataset(sample.table, sample.targets, np.arange(5000)),
        rng=np.random.default_rng(0),
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * parameters + 50e6


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak of a process from /proc")
def test_peak_memory_does_not_grow_with_the_rows() -> None:
    """After a training on 2,000 rows of a table, one on all 200,000 needs hardly more: the peak of a fresh process."""
    code = """
import numpy as np
from scipy import sparse
from treelu.nn import LocallyConstantNetwork, Table
from treelu.data.targets import Targets
from treelu.training import Dataset, train
n = 200_000
rng = np.random.default_rng(0)
X = sparse.csr_array((np.ones(4 * n, np.float32), rng.integers(0, 2000, 4 * n), np.arange(0, 4 * n + 1, 4)), (n, 2000))
y = (X[:, [0]].toarray() > 0).astype(np.float32)
sample = Dataset(Table(X, np.float32), Targets("binary", y, 1))
network = LocallyConstantNetwork(2000, 6, 1, drop_connect=0.5, dtype=np.float32, seed=0)
def peak():
    fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(fields["VmHWM"].split()[0]) / 1024
train(network, Dataset(sample.table, sample.targets, np.arange(2000)), epochs=1, batch_size=256, optimizer="sgd",
      learning_rate=0.1, rng=rng)
before = peak()
train(network, sample, epochs=1, batch_size=256, optimizer="sgd", learning_rate=0.1, updates_per_epoch=20,
      validation=sample, rng=rng)
print(peak() - before)
"""
    # dense, the rows would be 1,600 MB; what may grow is a few vectors of one number a row
    assert float(in_a_fresh_process(code)) < 40
