"""Hooks of the site's build: references in docstrings become plain code."""

import re
from typing import Any

# mkdocstrings reads Markdown, in which the roles of reStructuredText have no meaning.
_ROLE = re.compile(r":(?:func|meth|class|mod|attr):<code>~?")


def on_page_content(html: str, **_: Any) -> str:
    """Drop the role before a name, such as ``:func:`treelu.prune.prune```."""
    return _ROLE.sub("<code>", html)
