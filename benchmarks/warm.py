"""Loads the kernels on import: the server that fresh processes are forked from imports it, so that they need not."""

import numpy as np

from benchmarks.tables import random_rows
from benchmarks.training import ours

for dtype in (np.float32, np.float64):
    X, y = random_rows(100, 20, 2)
    ours(depth=2, epochs=1).fit(X.astype(dtype), y)
