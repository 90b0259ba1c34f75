"""Ensembles from flat settings: those of the ensemble and those of its members in one mapping, as results keep them."""

from __future__ import annotations

from typing import Any

import treelu
from treelu.training.settings import nested

# Appendix B: boosted ALCN of depth 12, AMSGrad, batches of 256, 30 epochs at a constant rate
PAPER: dict[str, Any] = {
    "member": "alcn", "combine": "boost", "n_estimators": 64, "shrinkage": 0.1, "depth": 12, "optimizer": "amsgrad",
    "epochs": 30, "batch_size": 256, "learning_rate": 0.01, "schedule": "constant", "annealing": 1.0,
    "straight_through": False,
}  # fmt: skip
DROP_CONNECT = {"classification": 0.75, "regression": 0.25}


def ensemble(task: str, settings: dict[str, Any], **own: Any) -> Any:
    """An ELCN for a task: the paper's but for `settings`, flat; `own` goes to the ensemble itself.

    Examples
    --------
    >>> ensemble("regression", {"depth": 3, "member": "lcn"}, random_state=0).estimator.depth
    3
    """
    kind = "Classifier" if task == "classification" else "Regressor"
    made: Any = getattr(treelu, f"ELCN{kind}")
    flat = {"drop_connect": DROP_CONNECT[task], **PAPER, **settings}
    names = set(made().get_params(deep=False))
    of_member = {name: value for name, value in flat.items() if name not in {*names, "member"}}
    member = getattr(treelu, f"{flat['member'].upper()}{kind}")(**nested(of_member))
    return made(member, **{name: value for name, value in flat.items() if name in names}, **own)
