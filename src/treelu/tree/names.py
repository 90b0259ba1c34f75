"""Names of features, classes and categories as they are shown: on one line, readable, not too long."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

LONGEST = 60  # characters of a name in a text
AFFIRMATIVE = frozenset(
    {
        "1",
        "1.0",
        "true",
        "yes",
        "y",
        "t",
        "positive",
        "pos",
        "+",
        "ja",
        "wahr",
        "positiv",
        "oui",
        "vrai",
        "si",
        "sí",
        "sim",
    }
)  # names of the one of two answers that is meant
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


def shown_apart(name: str, others: Sequence[str], most: int = LONGEST) -> str:
    """A name as :func:`shown_name` cuts it, but so that it stays different from the names beside it.

    Where the usual cut leaves out the letters that tell names apart, the text is cut to begin there; where that is
    not possible either, the name's place among them follows as a number.

    Examples
    --------
    >>> names = ("concentration of sodium in serum", "concentration of iron in serum", "age")
    >>> [shown_name(name, 12) for name in names]
    ['concen…serum', 'concen…serum', 'age']
    >>> [shown_apart(name, names, 12) for name in names]
    ['con…sodium i', 'con…iron in ', 'age']
    """
    if len(name) <= most and name.isprintable():
        return name
    return _all_apart(tuple(others), most)[name]


@lru_cache(maxsize=32)
def _all_apart(names: tuple[str, ...], most: int) -> dict[str, str]:
    """Each name as it is shown beside the others."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(shown_name(name, most), []).append(name)
    found = {group[0]: text for text, group in alike.items() if len(group) == 1}
    taken = set(found.values())
    for group in (group for group in alike.values() if len(group) > 1):
        first, last = min(group), max(group)  # these have the least in common
        start = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        for place, name in enumerate(group):
            head = shown_name(name[: most // 4], most // 4)
            text = f"{head}…{shown_name(name[start:], 10 * most)[: most - len(head) - 1]}"
            number = place + 1
            while text in taken:
                mark = f" ({number})"
                text, number = shown_name(name, most - len(mark)) + mark, number + len(group)
            taken.add(text)
            found[name] = text
    return found


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
