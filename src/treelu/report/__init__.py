"""A stand-alone interactive HTML page for a trained oblique decision tree."""

from treelu.report.cart import fit_cart
from treelu.report.render import render
from treelu.report.summary import summarize

__all__ = ["fit_cart", "render", "summarize"]
