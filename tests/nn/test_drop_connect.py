"""DropConnect masks: their rate, scale, independence, and that a key names them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from treelu.nn import DropConnect

ROWS, FEATURES, DEPTH = 40, 60, 20


def kept(drop: DropConnect, n_rows: int = ROWS) -> np.ndarray:
    """Which weights survive: bool (B, D + M, M), weights first, then connections [row, k, i]."""
    on_weight, on_connection = drop.dense_masks(n_rows, FEATURES, DEPTH)
    return np.concatenate([on_weight, on_connection.transpose(0, 2, 1)], axis=1) > 0


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 0.75, 0.9])
def test_rate_and_scale(rate: float) -> None:
    drop = DropConnect(rate, key=11)
    for mask in drop.dense_masks(ROWS, FEATURES, DEPTH):
        assert np.unique(mask).tolist() == pytest.approx([0, 1 / (1 - rate)] if rate else [1])
    survivors = kept(drop)
    deviation = np.sqrt(rate * (1 - rate) / survivors.size)
    assert abs(survivors.mean() - (1 - rate)) <= 4.5 * deviation


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["rows", "features", "neurons"])
def test_each_row_feature_and_neuron_is_dropped_at_the_rate(axis: int) -> None:
    """χ² of the counts along one axis against the binomial."""
    survivors = kept(DropConnect(0.5, key=12))
    counts = survivors.sum(axis=tuple(other for other in range(3) if other != axis))
    n = survivors.size // len(counts)
    statistic = ((counts - n / 2) ** 2 / (n / 4)).sum()
    assert stats.chi2.sf(statistic, len(counts)) > 1e-4
    assert stats.chi2.cdf(statistic, len(counts)) > 1e-4  # nor too even


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["rows", "features", "neurons"])
def test_neighbours_are_independent(axis: int) -> None:
    """Masks that lie beside each other along an axis agree half of the time."""
    survivors = kept(DropConnect(0.5, key=13))
    for distance in (1, 2, 7):
        first = np.take(survivors, range(survivors.shape[axis] - distance), axis)
        second = np.take(survivors, range(distance, survivors.shape[axis]), axis)
        assert abs((first == second).mean() - 0.5) < 4.5 * 0.5 / np.sqrt(first.size)


@pytest.mark.parametrize("other", [1, 2**32, 2**63, 12345])
def test_keys_that_differ_in_any_bit_give_other_masks(other: int) -> None:
    first, second = kept(DropConnect(0.5, 0)), kept(DropConnect(0.5, other))
    assert abs((first == second).mean() - 0.5) < 4.5 * 0.5 / np.sqrt(first.size)


def test_a_key_names_its_masks_whatever_the_number_of_rows() -> None:
    assert np.array_equal(kept(DropConnect(0.5, 14), 7), kept(DropConnect(0.5, 14))[:7])


def test_a_higher_rate_drops_more_of_the_same() -> None:
    assert not (kept(DropConnect(0.75, 15)) & ~kept(DropConnect(0.25, 15))).any()


def test_masks_of_pairs_are_those_of_the_full_masks() -> None:
    drop = DropConnect(0.5, 16)
    on_weight, on_connection = drop.dense_masks(ROWS, FEATURES, DEPTH)
    row, feature = np.array([0, 3, 39]), np.array([59, 0, 7])
    assert np.array_equal(drop.mask(drop.row_keys(ROWS)[row], feature, DEPTH), on_weight[row, feature])
    # the connection from neuron k counts as feature D + k
    sources = np.full(1, FEATURES + 4)
    assert np.array_equal(drop.mask(drop.row_keys(ROWS)[:1], sources, DEPTH)[0], on_connection[0, :, 4])


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, np.nan])
def test_bad_rate(rate: float) -> None:
    with pytest.raises(ValueError, match=r"drop_connect must be in \[0, 1\), got"):
        DropConnect(rate, 0)
