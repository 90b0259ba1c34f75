"""Source code with marked places: filled in one pass, so that what is filled in is never taken for a mark."""

from __future__ import annotations

import re
from importlib import resources


def fill(template: str, **places: str) -> str:
    """The template with each ``@NAME@`` replaced.

    Examples
    --------
    >>> fill("x = @VALUE@", VALUE="'@VALUE@'")
    "x = '@VALUE@'"
    """
    return re.sub(r"@([A-Z_]+)@", lambda match: places[match[1]], template)


def source(name: str) -> str:
    """The text of a template in the folder ``sources``."""
    return resources.files("treelu.export").joinpath("sources", name).read_text("utf-8")
