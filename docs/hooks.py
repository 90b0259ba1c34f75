"""Hooks of the site's build."""

import re
from pathlib import Path
from typing import Any

# mkdocstrings reads Markdown, in which the roles of reStructuredText have no meaning.
_ROLE = re.compile(r":(?:func|meth|class|mod|attr):<code>~?")


def on_config(config: Any) -> Any:
    """Leave out of the menu those results that have not been made yet; their own commands write the pages."""
    docs = Path(config.docs_dir)
    for section in config.nav:
        if "Results" in section:
            section["Results"] = [
                page for page in section["Results"] if all((docs / p).exists() for p in page.values())
            ]
    return config


def on_page_content(html: str, **_: Any) -> str:
    """Drop the role before a name, such as ``:func:`treelu.tree.prune.prune```."""
    return _ROLE.sub("<code>", html)
