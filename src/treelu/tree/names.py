"""Names of features, classes and categories as they are shown: on one line, readable, not too long."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np

LONGEST = 60  # characters of a name in a text
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Control and format characters (which may turn the direction of the text or hide it), halves of pairs, line ends.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def shown_name(name: Any, most: int = LONGEST) -> str:
    """A name on one line: control characters escaped as in Python, the middle left out of a longer one.

    Examples
    --------
    >>> shown_name("tab\\there"), shown_name("bell\\x07"), shown_name("\\u202eevil")
    ('tab\\\\there', 'bell\\\\x07', '\\\\u202eevil')
    >>> shown_name("topological polar surface area", 19)
    'topologic…face area'
    """
    text = str(name)
    if len(text) > 2 * most:  # what is left out below need not be escaped first
        text = text[:most] + "…" + text[-most:]
    if not text.isprintable():
        text = "".join(_escaped(letter) for letter in text)
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return text[: most - 1 - tail] + "…" + text[len(text) - tail :]


def _escaped(letter: str) -> str:
    if unicodedata.category(letter) not in _HIDDEN:
        return letter
    return _SHORT.get(letter) or letter.encode("unicode_escape").decode("ascii")


def plain(value: Any) -> Any:
    """A NumPy number or text as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def shown_class(label: Any) -> str:
    """A class as it is written in Python, strings in quotation marks, on one line and not too long.

    Examples
    --------
    >>> shown_class(np.str_("no")), shown_class(np.int64(3)), shown_class("two\\nlines")
    ("'no'", '3', "'two\\\\nlines'")
    """
    text = shown_name(plain(label))
    if not isinstance(label, str):
        return text
    return f'"{text}"' if "'" in text and '"' not in text else f"'{text}'"
