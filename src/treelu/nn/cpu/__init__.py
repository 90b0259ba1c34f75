"""Numba kernels of the coefficient form on CSR or dense rows, and what runs them on networks."""
