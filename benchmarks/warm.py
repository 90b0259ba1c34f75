"""Loads the kernels on import: the server that fresh processes are forked from imports it, so that they need not."""

from benchmarks.tables import random_rows
from benchmarks.training import ours

ours(depth=2, epochs=1).fit(*random_rows(100, 20, 2))
