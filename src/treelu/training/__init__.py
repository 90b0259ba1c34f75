"""Training: targets, losses, the one loop, calibration, sparsity and boosting."""

from treelu.data.dataset import Dataset, row_blocks
from treelu.training.history import Callback, EpochRecord, History
from treelu.training.loop import (
    Schedule,
    annealing_of,
    best_fit,
    evaluate,
    learning_rate_factor,
    run_epoch,
    score_of,
    train,
)
from treelu.training.settings import Settings
from treelu.training.stepper import KernelStepper, batches

__all__ = [
    "Callback",
    "EpochRecord",
    "History",
    "KernelStepper",
    "Dataset",
    "Schedule",
    "Settings",
    "annealing_of",
    "batches",
    "best_fit",
    "evaluate",
    "learning_rate_factor",
    "row_blocks",
    "run_epoch",
    "score_of",
    "train",
]
