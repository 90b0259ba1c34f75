"""The history of a training: a record of each epoch, and callbacks that see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from treelu.nn import NeuronChain


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: λ, learning rate, mean training loss, score on the validation rows, seconds since the start.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from treelu import LCNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> LCNClassifier(depth=2, epochs=2, random_state=0).fit(X, y).history_.records[-1].epoch
    2
    """

    epoch: int
    annealing: float
    learning_rate: float
    train_loss: float
    valid_score: float | None
    seconds: float


Callback = Callable[[EpochRecord, NeuronChain], bool | None]


@dataclass
class History:
    """The history of a training.

    Attributes
    ----------
    records : list of EpochRecord
    metric : str or None
        Name of the validation score: "auc", "log_loss" or "rmse".
    best_epoch : int
        The epoch whose parameters were kept: the best on validation rows, or the last.
    ended : {"finished", "early", "callback", "interrupted"}

    Examples
    --------
    >>> history = History(metric=None)
    >>> history.records.append(EpochRecord(1, 1.0, 0.1, 0.69, None, 0.2))
    >>> history["train_loss"]
    [0.69]
    """

    metric: str | None = None
    records: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    ended: str = "finished"

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, column: str) -> list[Any]:
        return [getattr(record, column) for record in self.records]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> History:
        """The inverse of `to_dict`."""
        return cls(**{**fields, "records": [EpochRecord(**record) for record in fields["records"]]})


def silent(record: EpochRecord, network: NeuronChain) -> None:
    """A callback that shows nothing."""
