"""Oblique decision trees trained by gradient descent, as the derivatives of ReLU networks."""

__version__ = "0.1.0"
