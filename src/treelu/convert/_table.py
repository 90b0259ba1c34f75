"""The table of a canonical network as the activation patterns that a tree, or a head, has to tell apart."""

from __future__ import annotations

import numpy as np

from treelu.convert._chain import Chain
from treelu.nn import CanonicalNetwork


def table_cubes(network: CanonicalNetwork, chain: Chain) -> np.ndarray:
    """Disjoint sets of activation patterns with one row of the table each, as int8 (K, N) of 1, 0 and −1 (either).

    For a network whose `patterns` say "either" for most neurons, this takes one neuron after the other and
    follows only the decisions that lead to different rows, instead of all 2^N. A pattern that the table has no
    row for belongs to no set. Sets come in lexicographic order.
    """
    assert network.patterns is not None
    wanted = network.patterns
    read = np.zeros(wanted.shape[1], dtype=bool)
    read[chain.sources] = True  # a neuron that later ones read shapes their decisions, whatever the table says
    cubes: list[np.ndarray] = []
    stack = [(np.full(wanted.shape[1], -1, dtype=np.int8), np.arange(len(wanted)))]
    while stack:
        cube, rows = stack.pop()
        rest = np.flatnonzero(cube < 0)
        if (wanted[rows[0], rest] < 0).all():  # the first row fits, whatever follows
            cubes.append(cube)
            continue
        tested = (wanted[rows][:, rest] >= 0).any(axis=0)
        last = np.flatnonzero(tested)[-1]
        neuron = rest[np.flatnonzero(tested | (read[rest] & (np.arange(len(rest)) < last)))[0]]
        for side in (1, 0):  # left on top of the stack
            fits = rows[(wanted[rows, neuron] < 0) | (wanted[rows, neuron] == side)]
            if len(fits):
                branch = cube.copy()
                branch[neuron] = side
                stack.append((branch, fits))
    return np.array(cubes)
