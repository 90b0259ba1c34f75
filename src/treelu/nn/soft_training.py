"""How a tree with soft routing is trained: the hyper-parameters of `treelu.nn.soft_tree`."""

from __future__ import annotations

from typing import NamedTuple


class SoftTraining(NamedTuple):
    """How long and how: the learning rate falls as a cosine to 0, the sharpness rises geometrically."""

    n_updates: int = 1000
    batch_size: int = 512
    learning_rate: float = 0.03
    decay: float = 0.3
    penalty: float = 0.0
    drop: float = 0.0
    softest: float = 2.0
    sharpest: float = 20.0
    firmness: float = 0.0
    is_classifier: bool = True
    seed: int = 0
