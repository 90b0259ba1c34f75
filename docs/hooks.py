"""Hooks of the site's build."""

import re
from pathlib import Path
from typing import Any

# mkdocstrings reads Markdown, in which the roles of reStructuredText have no meaning.
_ROLE = re.compile(r":(?:func|meth|class|mod|attr):<code>~?")


def on_config(config: Any) -> Any:
    """Put the version into the header; leave out of the menu results that have not been made yet."""
    version = re.search(
        r'__version__ = "(.+)"', (Path(config.docs_dir).parent / "src/treelu/__init__.py").read_text("utf-8")
    )
    config.site_name = f"treelu {version[1] if version else ''}"
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
