"""A stand-alone interactive HTML page for a trained oblique decision tree."""

from treelu.report.cart import fit_cart
from treelu.report.linear import fit_linear
from treelu.report.render import render
from treelu.report.summary import summarize
from treelu.report.yardsticks import fit_yardsticks

__all__ = ["fit_cart", "fit_linear", "fit_yardsticks", "render", "summarize"]
