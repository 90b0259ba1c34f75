"""What `verbose=True` prints of a small tree's fit: the candidates compared, the sizes, and the choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from treelu.training.small.config import Show
from treelu.training.small.path import Candidate

if TYPE_CHECKING:
    import pandas as pd


def candidate_text(candidate: Candidate) -> str:
    """A candidate in a few words: its regularisation only where there is one.

    Examples
    --------
    >>> candidate_text(Candidate("random", drop_rate=0.1, targets="teacher"))
    'start random, targets teacher, drop rate 0.1'
    """
    rates = {"drop rate": candidate.drop_rate, "penalty": candidate.penalty}
    words = [f"{name} {rate:g}" for name, rate in rates.items() if rate]
    return ", ".join([f"start {candidate.start}", f"targets {candidate.targets}", *words])


def show_path(show: Show, path: pd.DataFrame) -> None:
    """A line for each size with its held-out loss, where there is one, and one for the choice.

    Examples
    --------
    >>> import pandas as pd
    >>> table = {"leaves": [1, 2], "terms": [0, 1], "loss": [0.5, 0.1], "start": ["constant", "cart"]}
    >>> show_path(print, pd.DataFrame({**table, "eligible": [False, True], "chosen": [False, True]}))
    leaves 1, terms 0, start constant: held-out loss 0.5000
    leaves 2, terms 1, start cart: held-out loss 0.1000, as good as the best
    takes leaves 2, terms 1, start cart
    """
    for size in path.dropna(subset="loss").to_dict("records"):
        eligible = ", as good as the best" if size["eligible"] else ""
        show(f"{_size_text(size)}: held-out loss {size['loss']:.4f}{eligible}")
    show(f"takes {_size_text(path[path['chosen']].to_dict('records')[0])}")


def _size_text(size: Mapping[Any, Any]) -> str:
    return f"leaves {size['leaves']}, terms {size['terms']}, start {size['start']}"
