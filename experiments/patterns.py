"""Which decision patterns rows follow, seen in training or not, and how well each kind is ranked (Table 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


def generalized_auc(y: Any, score: Any, subset: Any = None) -> float:
    """The paper's AUC of a subset of rows, each against all rows of other labels (Appendix C.1).

    For rows I out of n

        Σ_{i∈I} Σ_j ( 1[y_i > y_j](1[s_i > s_j] + ½·1[s_i = s_j]) + 1[y_i < y_j](1[s_i < s_j] + ½·1[s_i = s_j]) )
        ---------------------------------------------------------------------------------------------------------
                                     Σ_{i∈I} Σ_j ( 1[y_i > y_j] + 1[y_i < y_j] )

    which for two labels and I all rows is the usual AUC.

    Parameters
    ----------
    y : array of shape (n,)
        Labels, ordered; two of them or more.
    score : array of shape (n,)
    subset : bool or integer array, optional
        The rows I; None for all.

    Returns
    -------
    float
        NaN where the subset has no pair with different labels.

    Examples
    --------
    >>> generalized_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    >>> generalized_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], subset=[3])
    1.0
    """
    y, score = np.asarray(y), np.asarray(score, dtype=np.float64)
    if y.ndim != 1 or score.shape != y.shape:
        raise ValueError(f"y and score must be vectors of one length, got shapes {y.shape} and {score.shape}")
    if np.isnan(score).any():
        raise ValueError("score must not be NaN")
    chosen = np.arange(len(y)) if subset is None else np.arange(len(y))[np.asarray(subset)]
    right, pairs = 0.0, 0
    # By sorted scores of each label: row i wins against the lower scores of lower labels and the higher scores of
    # higher ones, in n log n instead of n².
    for label in np.unique(y):
        others = np.sort(score[y == label])
        for i_wins_above, mine in ((True, score[chosen][y[chosen] > label]), (False, score[chosen][y[chosen] < label])):
            lower = np.searchsorted(others, mine, "left")
            not_higher = np.searchsorted(others, mine, "right")
            won = lower if i_wins_above else len(others) - not_higher
            right += float(np.sum(won + 0.5 * (not_higher - lower)))
            pairs += len(others) * len(mine)
    return right / pairs if pairs else float("nan")


@dataclass(frozen=True)
class PatternAnalysis:
    """A column of the paper's Table 3."""

    n_possible: int
    n_train: int
    n_test: int
    n_test_only: int
    unobserved_share: float
    auc_observed: float | None
    auc_unobserved: float | None


def pattern_analysis(
    train_leaves: Any, test_leaves: Any, *, n_possible: int, y_test: Any = None, score_test: Any = None
) -> PatternAnalysis:
    """Decision patterns met in training and in test, and the AUC of test rows by whether theirs was met (Table 3).

    Parameters
    ----------
    train_leaves, test_leaves : arrays of shape (n,) or (n, n_neurons)
        The leaf of each row (``tree.apply``), or its activation pattern.
    n_possible : int
        Leaves of the tree, 2^M for a network of M neurons.
    y_test, score_test : arrays of shape (n_test,), optional
        Labels and scores of the test rows for the two AUCs, None without.

    Returns
    -------
    PatternAnalysis
        ``n_possible``, ``n_train`` and ``n_test`` patterns, ``n_test_only`` of them met in test only,
        ``unobserved_share`` of test rows with such a pattern, ``auc_observed`` and ``auc_unobserved``.

    Examples
    --------
    >>> pattern_analysis([3, 4, 4], [4, 5, 5, 6], n_possible=4).unobserved_share
    0.75
    """
    train, test = _as_numbers(train_leaves, test_leaves)
    if len(test) == 0:
        raise ValueError("test_leaves must have at least one row, got none")
    if (y_test is None) != (score_test is None):
        raise ValueError("y_test and score_test must be given together")
    observed = np.isin(test, train)
    aucs: list[float | None] = [None, None]
    if y_test is not None:
        if len(y_test) != len(test):
            raise ValueError(f"y_test must have {len(test)} rows as test_leaves has, got {len(y_test)}")
        aucs = [generalized_auc(y_test, score_test, subset=rows) for rows in (observed, ~observed)]
    return PatternAnalysis(
        n_possible=n_possible,
        n_train=len(np.unique(train)),
        n_test=len(np.unique(test)),
        n_test_only=len(np.setdiff1d(test, train)),
        unobserved_share=float(np.mean(~observed)),
        auc_observed=aucs[0],
        auc_unobserved=aucs[1],
    )


def _as_numbers(train: Any, test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Leaves as they are; activation patterns as numbers that are equal where the patterns are."""
    train, test = np.asarray(train), np.asarray(test)
    if train.shape[1:] != test.shape[1:] or train.ndim not in (1, 2):
        raise ValueError(
            f"train_leaves and test_leaves must be vectors or patterns of one width, got shapes {train.shape} "
            f"and {test.shape}"
        )
    if train.ndim == 1:
        return train, test
    numbers = np.unique(np.concatenate([train, test]), axis=0, return_inverse=True)[1].reshape(-1)
    return numbers[: len(train)], numbers[len(train) :]
