"""Changes to JSON documents: values of other kinds, sizes and meanings in any place."""

from __future__ import annotations

import copy
import random
from typing import Any

HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63, -(2**63), 10**30, -(10**400), 0.5, 1e308, 5e-324, "", "a",
    "float32", "__class__", "../../etc/passwd", "LCNClassifier", "TableModel", "ObliqueTree", "os.system", "\ud800",
    "x" * 5000, "a\nb\x00\x1b[31m", [], {}, [None], [[]], [1, 2, 3], {"pairs": [[1, 2]]}, {"pairs": [[[], 1]]},
    {"pairs": 3}, {"dtype": "str", "values": ["a", "b"]}, {"__reduce__": ["os.system", ["true"]]},
    {"kind": "ObliqueTree"}, [[[[[[[[[[]]]]]]]]]], float("nan"), float("inf"),
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON document."""
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*path, key))
    return found


def altered_document(rng: random.Random, document: Any) -> Any:
    """The document with one to four values replaced, renamed, doubled or taken out."""
    document = copy.deepcopy(document)
    ways = places(document)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        *way, last = rng.choice(ways)
        target = document
        try:
            for key in way:
                target = target[key]
            _alter(rng, target, last)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the way there
    return document


def _alter(rng: random.Random, target: Any, last: Any) -> None:
    kind = rng.random()
    if kind < 0.2:
        del target[last]
    elif kind < 0.3 and isinstance(target, dict):
        target["new"] = target.pop(last)
    elif kind < 0.3 and isinstance(target, list):
        target.insert(last, target[last])
    elif kind < 0.45 and isinstance(target[last], int | float) and abs(target[last]) < 1e300:
        target[last] = rng.choice([-1, 0, 1, 2, 1e300, 2**40]) * target[last]
    else:
        target[last] = copy.deepcopy(rng.choice(HOSTILE))
