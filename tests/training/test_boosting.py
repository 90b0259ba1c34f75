"""Ensembles: closed forms with members that are constants, and networks against their scaled originals."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from treelu.data.scaling import Scaling
from treelu.data.targets import Targets
from treelu.nn import Activation, LocallyConstantNetwork, Table
from treelu.training import Dataset, EpochRecord, History, evaluate, train
from treelu.training.boosting import Combination, Ensemble, Member, Recipe, Sums, grow


def new_network(n_features, seed, *, kind="softplus", depth=3, n_outputs=1, hidden_layers=()):
    return LocallyConstantNetwork(
        n_features, depth, n_outputs, activation=Activation(kind), hidden_layers=hidden_layers,
        dtype=np.float32, seed=seed,
    )  # fmt: skip


def making(fit, **options):
    """A recipe's `train_member`: a new network, and what fits it."""

    def train_member(sample, rng):
        n_features, seed = sample.table.shape[1], int(rng.integers(2**62))
        network = new_network(n_features, seed, n_outputs=sample.targets.n_outputs, **options)
        return network, fit(network, sample, rng)

    return train_member


def make_constant(network, value):
    """Turn a network into one that yields `value` everywhere."""
    for array in network.arrays().values():
        array[:] = 0
    network.head.bias[:] = value
    return History(records=[EpochRecord(1, 0.0, 0.1, 0.0, None, 0.0)])


def fit_mean_residual(network, sample, rng):
    """The best constant member: the mean of what the earlier ones leave over."""
    rows = sample.rows
    offset = 0.0 if sample.targets.offset is None else sample.targets.offset[rows]
    return make_constant(network, (sample.targets.y[rows] - offset).mean().item())


def fit_one(network, sample, rng):
    return make_constant(network, 1.0)


def fit_really(network, sample, rng):
    return train(
        network, sample, epochs=3, batch_size=8, optimizer="amsgrad", learning_rate=0.01, schedule="constant", rng=rng
    )


def sample_of(y, n_features=2, index=None):
    X = np.random.default_rng(0).normal(size=(len(y), n_features)).astype(np.float32)
    return Dataset(Table(X), Targets("regression", np.asarray(y, np.float32).reshape(-1, 1), 1), index)


def start(sample, ensemble=None, target=None):
    ensemble = Ensemble(np.zeros(1)) if ensemble is None else ensemble
    scaling = Scaling.identity(sample.table.shape[1])
    return ensemble, Sums(sample, scaling, target or Scaling.identity(1), ensemble)


def scores_of(ensemble, X):
    return list(ensemble.staged_scores(Table(X)))


@given(st.floats(0.05, 1.0), st.booleans(), st.integers(1, 6), st.floats(-3, 3))
@settings(max_examples=30, deadline=None)
def test_boosted_constants_approach_the_mean_geometrically(shrinkage, full_first, n_members, level):
    y = level + np.array([-1.0, 0.0, 0.5, 2.5])
    ensemble, sums = start(sample_of(y))
    first = 1.0 if full_first else shrinkage
    grow(ensemble, n_members, Recipe(making(fit_mean_residual), shrinkage, first), sums)
    left_over = (1 - first) * (1 - shrinkage) ** np.arange(n_members)
    staged = [stage[0, 0] for stage in scores_of(ensemble, np.zeros((1, 2)))]
    np.testing.assert_allclose(staged, y.mean() * (1 - left_over), atol=1e-5)


def test_averaged_members_do_not_see_each_other():
    drawn = []

    def fit_drawn(network, sample, rng):
        assert sample.targets.offset is None
        drawn.append(float(np.float32(rng.normal())))
        return make_constant(network, drawn[-1])

    ensemble, sums = start(sample_of(np.arange(5.0)), Ensemble(np.array([7.0]), "average"))
    grow(ensemble, 4, Recipe(making(fit_drawn)), sums)
    staged = [stage[0, 0] for stage in scores_of(ensemble, np.zeros((1, 2)))]
    np.testing.assert_allclose(staged, 7 + np.cumsum(drawn) / np.arange(1, 5))
    np.testing.assert_allclose(sums.scores()[0, 0], 7 + np.mean(drawn), rtol=1e-6)


def test_offset_is_what_the_ensemble_predicts():
    seen = []

    def fit_and_look(network, sample, rng):
        seen.append(sample.targets.offset.copy())
        return fit_really(network, sample, rng)

    sample = sample_of(np.arange(20.0))
    ensemble, sums = start(sample)
    grow(ensemble, 3, Recipe(making(fit_and_look)), sums)
    staged = scores_of(ensemble, sample.table.values.reshape(sample.table.shape))
    assert not seen[0].any()
    np.testing.assert_allclose(seen[2], staged[1], atol=1e-6)
    np.testing.assert_allclose(sums.scores(), staged[2], atol=1e-6)


@pytest.mark.parametrize("combine", ["boost", "average"])
def test_growing_twice_is_growing_once(combine):
    recipe = Recipe(making(fit_really), bootstrap=True, feature_fraction=0.5, seed=3)
    sample = sample_of(np.arange(30.0), n_features=4)
    once, sums = start(sample, Ensemble(np.zeros(1), combine))
    grow(once, 4, recipe, sums)
    twice, sums = start(sample, Ensemble(np.zeros(1), combine))
    grow(twice, 2, recipe, sums)
    grow(twice, 4, recipe, start(sample, twice)[1])
    for first, second in zip(once.members, twice.members, strict=True):
        np.testing.assert_array_equal(first.features, second.features)
        assert all(map(np.array_equal, first.network.arrays().values(), second.network.arrays().values()))


def test_best_size_on_validation_is_kept():
    ensemble, sums = start(sample_of(np.arange(5.0)))
    _, judged = start(sample_of(np.full(4, 3.0)))
    history = grow(ensemble, 8, Recipe(making(fit_one), 1.0, 1.0), sums, validation=judged)
    assert [record.valid_score for record in history.records] == [2, 1, 0, 1, 2, 3, 4, 5]
    assert len(ensemble) == history.best_epoch == 3
    assert history.metric == "rmse"


def test_patience_counts_members():
    ensemble, sums = start(sample_of(np.arange(5.0)))
    _, judged = start(sample_of(np.full(4, 3.0)))
    recipe = Recipe(making(fit_one), 1.0, 1.0)
    history = grow(ensemble, 8, recipe, sums, validation=judged, patience=2)
    assert (history.ended, len(history), len(ensemble)) == ("early", 5, 3)


def test_more_members_that_are_worse_are_dropped_after_a_warm_start():
    ensemble, sums = start(sample_of(np.arange(5.0)))
    recipe = Recipe(making(fit_one), 1.0, 1.0)
    grow(ensemble, 3, recipe, sums)
    history = grow(ensemble, 6, recipe, sums, validation=start(sample_of(np.full(4, 3.0)), ensemble)[1])
    assert len(ensemble) == history.best_epoch == 3


def interrupt_at(number):
    count = iter(range(1, 100))

    def fit(network, sample, rng):
        if next(count) == number:
            raise KeyboardInterrupt
        return make_constant(network, 1.0)

    return fit


def test_interrupt_keeps_finished_members_and_says_so():
    ensemble, sums = start(sample_of(np.arange(5.0)))
    with pytest.warns(UserWarning, match="fitting interrupted: 2 of 9 members are kept"):
        history = grow(ensemble, 9, Recipe(making(interrupt_at(3))), sums)
    assert (history.ended, len(ensemble), len(history)) == ("interrupted", 2, 2)


def test_interrupt_of_the_first_member_is_raised():
    ensemble, sums = start(sample_of(np.arange(5.0)))
    with pytest.raises(KeyboardInterrupt):
        grow(ensemble, 9, Recipe(making(interrupt_at(1))), sums)


def test_callback_sees_members_and_stops():
    ensemble, sums = start(sample_of(np.arange(5.0)))
    numbers = []

    def stop_at_two(record, network):
        numbers.append(record.epoch)
        return record.epoch == 2

    history = grow(ensemble, 9, Recipe(making(fit_one)), sums, callbacks=[stop_at_two])
    assert (numbers, history.ended, len(ensemble)) == ([1, 2], "callback", 2)


def test_bootstrap_draws_rows_of_the_sample_and_features_are_drawn_anew():
    index = np.arange(5, 45)
    seen = []

    def look(network, sample, rng):
        seen.append(sample)
        return make_constant(network, 1.0)

    sample = sample_of(np.arange(50.0), n_features=10, index=index)
    ensemble, sums = start(sample)
    grow(ensemble, 3, Recipe(making(look), bootstrap=True, feature_fraction=0.34), sums)
    whole = sample.table.values.reshape(sample.table.shape)
    for member, given_sample in zip(ensemble.members, seen, strict=True):
        assert len(given_sample.rows) == len(index) > len(np.unique(given_sample.rows))
        assert set(given_sample.rows) <= set(index)
        np.testing.assert_array_equal(given_sample.table.values.reshape(50, 3), whole[:, member.features])
    assert not np.array_equal(seen[0].rows, seen[1].rows)
    assert len({tuple(member.features) for member in ensemble.members}) > 1


@given(st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_columns_of_tables(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, 7)) * (rng.random((5, 7)) < 0.5)
    features = np.sort(rng.choice(7, rng.integers(1, 8), replace=False))
    for table in (Table(X), Table(scipy.sparse.csr_array(X))):
        np.testing.assert_array_equal(table.columns(features).rows().to_dense(), X[:, features])


@pytest.mark.parametrize("kind", ["relu", "softplus"])
@pytest.mark.parametrize("hidden_layers", [(), (4,)])
def test_member_on_raw_features_is_the_member_on_scaled_ones(kind, hidden_layers):
    rng = np.random.default_rng(1)
    scaling = Scaling(rng.normal(size=6) * 3, rng.uniform(0.5, 4, 6))
    features, factor = np.array([0, 2, 5]), np.array([0.3, -2.0])
    network = new_network(3, 0, kind=kind, n_outputs=2, hidden_layers=hidden_layers)
    X = rng.normal(size=(40, 6)) * 3
    member = Member(network, scaling, factor, features)
    scaled = Table(scaling.transform(X)[:, features], np.float64)
    expected = evaluate(network.copy(np.float64), scaled) * factor
    raw = evaluate(member.on_raw_features(), Table(X, np.float64))
    np.testing.assert_allclose(raw, expected, atol=1e-6)
    other = Scaling(rng.normal(size=6), rng.uniform(0.5, 4, 6))
    moved = evaluate(member.on_scaled_features(other), Table(other.transform(X))) * factor
    assert (np.abs(moved - expected) < 1e-4).mean() > 0.95  # float32 may send a row past a boundary


@pytest.mark.parametrize("combine", ["boost", "average", "vote"])
def test_parts_come_to_the_ensemble(combine):
    sample = sample_of(np.arange(30.0), n_features=4)
    ensemble, sums = start(sample, Ensemble(np.array([5.0]), combine), Scaling(np.array([5.0]), np.array([3.0])))
    grow(ensemble, 3, Recipe(making(fit_really), feature_fraction=0.5), sums)
    X = np.random.default_rng(2).normal(size=(20, 4))
    parts = [evaluate(ensemble.part(number), Table(X, np.float64)) for number in range(3)]
    scores = scores_of(ensemble, X)[-1]
    if combine == "vote":
        np.testing.assert_allclose(expit(scores), expit(parts).mean(axis=0), rtol=1e-9)
    else:
        np.testing.assert_allclose(scores, sum(parts) if combine == "boost" else np.mean(parts, axis=0), atol=1e-12)


def test_votes_of_several_classes():
    parts = np.random.default_rng(0).normal(size=(4, 10, 3)) * 5
    votes = Combination("vote", np.zeros(3))
    for part in parts:
        votes.add(part)
    np.testing.assert_allclose(softmax(votes.scores(), axis=1), softmax(parts, axis=2).mean(axis=0), rtol=1e-9)


def test_votes_that_are_certain_stay_finite():
    votes = Combination("vote", np.zeros(1))
    for score in (800.0, 900.0):
        votes.add(np.array([[score]]))
    np.testing.assert_allclose(votes.scores(), 800 + np.log(2))


def test_members_of_a_fit_on_other_rows_count_in_the_new_units():
    rng = np.random.default_rng(0)
    X = rng.normal(5, 2, (30, 3))
    y = X[:, :1] * 4 + 50
    old, new = Scaling(X.mean(0), X.std(0)), Scaling(X.mean(0) + 1, X.std(0) * 2)
    before, after = Scaling(y.mean(0), y.std(0)), Scaling(y.mean(0) - 3, y.std(0) / 2)
    ensemble = Ensemble(before.center)
    sample = Dataset(Table(old.transform(X)), Targets("regression", before.transform(y).astype(np.float32), 1))
    grow(ensemble, 3, Recipe(making(fit_really), 0.5, 1.0), Sums(sample, old, before, ensemble))
    moved = Dataset(Table(new.transform(X)), Targets("regression", after.transform(y).astype(np.float32), 1))
    sums = Sums(moved, new, after, ensemble)
    np.testing.assert_allclose(after.inverse().transform(sums.scores()), scores_of(ensemble, X)[-1], rtol=1e-4)


def test_members_at_rest_are_their_float32_parameters():
    ensemble, sums = start(sample_of(np.arange(30.0)))
    grow(ensemble, 2, Recipe(making(fit_really, kind="relu")), sums)
    for member in ensemble.members:
        assert member.network._leaves is None
        assert member.network.dtype == np.float32
