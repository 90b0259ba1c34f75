"""Exact conversions: network to tree, tree to network, canonical to standard architecture and back.

The paper's theorems, each where it is carried out:

- Theorem 2, tree → network: :func:`tree_to_network`, with :func:`balanced` for its dummy nodes;
- Theorem 3, network → tree: :func:`network_to_tree`, with :func:`one_neuron_per_layer` for wide layers;
- Theorem 8, canonical ↔ standard: :func:`canonical_to_standard`, :func:`standard_to_canonical`.
"""

from treelu.convert.architectures import canonical_to_standard, standard_to_canonical
from treelu.convert.to_network import balanced, one_neuron_per_layer, tree_to_network
from treelu.convert.to_tree import network_to_tree

__all__ = [
    "balanced",
    "canonical_to_standard",
    "network_to_tree",
    "one_neuron_per_layer",
    "standard_to_canonical",
    "tree_to_network",
]
