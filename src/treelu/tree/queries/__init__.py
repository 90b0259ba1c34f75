"""Exact answers of a tree about single rows and about all rows: programmes on the polyhedra of its leaves."""
