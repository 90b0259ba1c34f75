"""The paper's networks as plain named arrays; `cpu` holds the kernels on them, `torch` (an extra) the torch modules."""

from treelu.nn.activations import Activation
from treelu.nn.canonical import CanonicalNetwork
from treelu.nn.drop_connect import DropConnect
from treelu.nn.head import Head
from treelu.nn.networks import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.rows import Rows, Table

__all__ = [
    "Activation",
    "CanonicalNetwork",
    "DropConnect",
    "Head",
    "LocallyConstantNetwork",
    "LocallyLinearNetwork",
    "NeuronChain",
    "Rows",
    "Table",
]
