"""From results to a cell of Table 2: settings chosen on the validation part, test scores averaged over seeds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.runs import Result

PER_LABEL_AND_SEED = ("sider", "tox21")  # the others have one setting for all seeds


@dataclass(frozen=True)
class Cell:
    """A mean over seeds and labels.

    Attributes
    ----------
    mean, deviation : float
        Of the test score over seeds (n − 1 in the denominator), both averaged over labels.
    n_seeds, n_settings : int
        Seeds behind it (the least of all labels), and settings that were chosen from.
    setting : dict or None
        The one that was chosen; None where each label and seed has its own.
    """

    mean: float
    deviation: float
    n_seeds: int
    n_settings: int
    setting: dict[str, Any] | None = None


def cell(results: Sequence[Result], epoch: str = "best", setting: dict[str, Any] | None = None) -> Cell | None:
    """The cell of one method on one data set.

    Parameters
    ----------
    results : sequence of results of one method on one data set
    epoch : {"best", "last"}
        The epoch, or size, with the best validation score, or the last one.
    setting : dict, optional
        Take this setting instead of choosing.

    Returns
    -------
    Cell or None
        None where there are no scores.

    Examples
    --------
    >>> def result(depth, seed, valid, test):
    ...     scores = {"best": {"valid": valid, "test": test}}
    ...     return {"dataset": "bace", "label": "Class", "setting": {"depth": depth}, "seed": seed, "scores": scores}
    >>> cell([result(2, 1, 0.7, 0.6), result(3, 1, 0.8, 0.5), result(2, 2, 0.7, 0.6), result(3, 2, 0.9, 0.7)])
    Cell(mean=0.6, deviation=0.141..., n_seeds=2, n_settings=2, setting={'depth': 3})
    """
    scored = [one for result in results for one in _each_label(result) if epoch in one["scores"]]
    if setting is not None:
        scored = [result for result in scored if result["setting"] == setting]
    if not scored:
        return None
    sign = -1.0 if scored[0]["dataset"] == "pdbbind" else 1.0
    if scored[0]["dataset"] in PER_LABEL_AND_SEED:
        return _chosen_per_seed(scored, epoch, sign)
    return _chosen_once(scored, epoch, sign)


def scores_by_seed(results: Sequence[Result], epoch: str = "best") -> dict[int, float]:
    """The test score of each seed behind a cell, averaged over labels; empty where there are no scores.

    Examples
    --------
    >>> def result(depth, seed, valid, test):
    ...     scores = {"best": {"valid": valid, "test": test}}
    ...     return {"dataset": "bace", "label": "Class", "setting": {"depth": depth}, "seed": seed, "scores": scores}
    >>> scores_by_seed([result(2, 1, 0.7, 0.6), result(3, 1, 0.8, 0.5), result(2, 2, 0.7, 0.6), result(3, 2, 0.9, 0.7)])
    {1: 0.5, 2: 0.7}
    """
    scored = [one for result in results for one in _each_label(result) if epoch in one["scores"]]
    if not scored:
        return {}
    sign = -1.0 if scored[0]["dataset"] == "pdbbind" else 1.0
    if scored[0]["dataset"] not in PER_LABEL_AND_SEED:
        return {result["seed"]: result["scores"][epoch]["test"] for result in _best_group(scored, epoch, sign)[0]}
    n_labels = len({result["label"] for result in scored})
    found = {}
    for seed, runs in sorted(_group(scored, lambda result: result["seed"]).items()):
        by_label = _group(runs, lambda result: result["label"])
        if len(by_label) == n_labels:  # else the mean would be over other labels
            chosen = [max(one, key=lambda result: sign * result["scores"][epoch]["valid"]) for one in by_label.values()]
            found[seed] = float(np.mean([result["scores"][epoch]["test"] for result in chosen]))
    return found


def _each_label(result: Result) -> list[Result]:
    """A result as one for each label, where one model has them all."""
    if "by_label" not in result:
        return [result]
    return [result | {"label": label, "scores": {"best": scores}} for label, scores in result["by_label"].items()]


def _chosen_once(results: Sequence[Result], epoch: str, sign: float) -> Cell:
    """One setting for all seeds: the best by mean validation score, of those that have all seeds."""
    best, n_settings = _best_group(results, epoch, sign)
    mean, deviation = _moments([result["scores"][epoch]["test"] for result in best])
    return Cell(mean, deviation, len(best), n_settings, best[0]["setting"])


def _best_group(results: Sequence[Result], epoch: str, sign: float) -> tuple[list[Result], int]:
    """The results of the best setting, and the number of settings that were chosen from."""
    groups = _group(results, lambda result: _name(result["setting"]))
    n_seeds = max(len(group) for group in groups.values())
    whole = [group for group in groups.values() if len(group) == n_seeds]
    best = max(whole, key=lambda group: sign * np.mean([result["scores"][epoch]["valid"] for result in group]))
    return best, len(whole)


def _chosen_per_seed(results: Sequence[Result], epoch: str, sign: float) -> Cell:
    """A setting for each label and seed, by validation score."""
    means, deviations, seeds = [], [], []
    for group in _group(results, lambda result: result["label"]).values():
        per_seed = _group(group, lambda result: result["seed"])
        chosen = [max(runs, key=lambda result: sign * result["scores"][epoch]["valid"]) for runs in per_seed.values()]
        mean, deviation = _moments([result["scores"][epoch]["test"] for result in chosen])
        means.append(mean)
        deviations.append(deviation)
        seeds.append(len(chosen))
    n_settings = len({_name(result["setting"]) for result in results})
    return Cell(float(np.mean(means)), float(np.mean(deviations)), min(seeds), n_settings)


def _group(results: Sequence[Result], key: Any) -> dict[Any, list[Result]]:
    groups: dict[Any, list[Result]] = defaultdict(list)
    for result in results:
        groups[key(result)].append(result)
    return groups


def _name(setting: dict[str, Any]) -> str:
    return json.dumps(setting, sort_keys=True)


def _moments(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def verdict(ours: Cell, paper: tuple[float, float], lower_is_better: bool = False) -> str:
    """How far a mean is from the paper's, in the paper's deviations, or in ours where the paper prints 0.000.

    Examples
    --------
    >>> cells = [Cell(mean, 0.01, 3, 1) for mean in (0.83, 0.79, 0.9)]
    >>> [verdict(one, (0.84, 0.02)) for one in cells]
    ['within 1', 'outside 2, worse', 'outside 2, better']
    """
    mean, deviation = paper
    distance = abs(ours.mean - mean)
    for times in (1, 2):
        if distance <= times * (deviation or ours.deviation) + 5e-4:  # the paper prints three decimals
            return f"within {times}"
    better = (ours.mean > mean) != lower_is_better
    return f"outside 2, {'better' if better else 'worse'}"
