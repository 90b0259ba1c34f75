"""Whether two checkouts compute the same, to the bit: every estimator on small tables, saved files, queries, commands.

    python -m benchmarks.freeze OLD_CHECKOUT NEW_CHECKOUT              some four minutes on one core
    python -m benchmarks.freeze OLD NEW --only '^(lcn|tree)/iris'      cases whose key matches
    python -m benchmarks.freeze OLD NEW --meant 'warnings$|^command'   differences that are meant: listed apart
    python -m benchmarks.freeze OLD NEW --renamed renamed.json         classes and parameters with new names

`benchmarks/freeze_record.py` runs once in each checkout, one after the other on this machine, with compiled functions
of its own (Numba's cache does not see every change). The newer checkout also loads the models that the older one saved
and predicts with them. Keys are ``case/table/seed/part``; `freeze_record.Names` describes the file of new names. The
exit code is 1 where something differs that is not meant to.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

RECORDER = Path(__file__).with_name("freeze_record.py")


def record(checkout: Path, folder: Path, only: str, *more: str) -> dict[str, Any]:
    """Run the recorder in a checkout; its results by key."""
    own = {
        "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}",
        "NUMBA_CACHE_DIR": str(folder.with_suffix(".compiled")),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }
    command = [sys.executable, "-P", str(RECORDER), str(folder), "--only", only, *more]
    subprocess.run(command, env={**os.environ, **own}, cwd=folder.parent, check=True)
    with np.load(folder / "arrays.npz") as arrays:
        results: dict[str, Any] = dict(arrays)
    return results | json.loads((folder / "texts.json").read_text(encoding="utf-8"))


def difference(old: Any, new: Any) -> str | None:
    """How two results differ; None where they are the same to the bit.

    Examples
    --------
    >>> difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    '1 of 2 values, by up to 0.5'
    >>> difference(np.zeros(2), np.zeros(2)) is None
    True
    >>> difference("a tree\\nof two leaves", "a tree\\nof three leaves")
    "line 2: 'of two leaves' → 'of three leaves'"
    """
    if isinstance(old, str) or isinstance(new, str):
        return _of_texts(str(old), str(new)) if old is not new and str(old) != str(new) else None
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        return f"{old.dtype} {old.shape} → {new.dtype} {new.shape}"
    if old.tobytes() == new.tobytes():
        return None
    if old.dtype.kind != "f":
        return f"{(old != new).sum()} of {old.size} values"
    unlike = (old != new) & ~(np.isnan(old) & np.isnan(new))
    if not unlike.any():
        return "the sign of a zero, or the bits of a NaN"
    return f"{unlike.sum()} of {old.size} values, by up to {np.abs(old - new)[unlike].max():.3g}"


def _of_texts(old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    for number, pair in enumerate(zip(before, after, strict=False), start=1):
        if pair[0] != pair[1]:
            same = next((place for place, both in enumerate(zip(*pair, strict=False)) if both[0] != both[1]), 0)
            first = max(0, same - 40)
            return f"line {number}: {pair[0][first : first + 70]!r} → {pair[1][first : first + 70]!r}"
    return f"{len(before)} lines → {len(after)} lines"


def with_new_names(results: dict[str, Any], renamed: dict[str, Any]) -> dict[str, Any]:
    """Results of the older checkout, the classes in texts called as in the newer one.

    Examples
    --------
    >>> names = {"ELCNClassifier(stack)": {"class": "StackedClassifier"}}
    >>> with_new_names({"stack/iris/0/error": "ELCNClassifier: …", "boost/iris/0/error": "ELCNClassifier: …"}, names)
    {'stack/iris/0/error': 'StackedClassifier: …', 'boost/iris/0/error': 'ELCNClassifier: …'}
    """
    changed = dict(results)
    for name, known in renamed.items():
        stem, _, case = name.rstrip(")").partition("(")
        for key, value in changed.items():
            if isinstance(value, str) and case in ("", key.split("/")[0]):
                changed[key] = re.sub(rf"\b{stem}\b", known.get("class", stem), value)
    return changed


def compare(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
    """The keys whose results differ, and how; a key that only one has differs.

    The older one's predictions stand for those of its models loaded by the newer one.
    """
    loaded = {key: old[key.removeprefix("loaded/")] for key in new if key.startswith("loaded/")}
    expected, found = {**old, **loaded}, {}
    for key in sorted(expected.keys() | new.keys()):
        if key not in new or key not in expected:
            found[key] = "only in the older one" if key in expected else "only in the newer one"
        elif (how := difference(expected[key], new[key])) is not None:
            found[key] = how
    return found


def main() -> None:
    """Record both, compare, print what differs."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("old", type=lambda text: Path(text).resolve())
    parser.add_argument("new", type=lambda text: Path(text).resolve())
    parser.add_argument("--only", default="", help="regular expression of case/table/seed")
    parser.add_argument("--meant", default="(?!)", help="regular expression of keys that may differ")
    parser.add_argument("--renamed", type=Path, help="JSON file of classes with new names")
    options = parser.parse_args()
    for checkout in (options.old, options.new):
        if not (checkout / "src" / "treelu").is_dir():
            parser.error(f"{checkout} is no checkout of treelu: it has no src/treelu")
    renamed = options.renamed.read_text(encoding="utf-8") if options.renamed else "{}"
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch, "old"), Path(scratch, "new")
        old = record(options.old, first, options.only)
        new = record(options.new, second, options.only, "--renamed", renamed, "--earlier", str(first))
    found = compare(with_new_names(old, json.loads(renamed)), new)
    meant = {key for key in found if re.search(options.meant, key)}
    for key, how in found.items():
        print(f"{'meant  ' if key in meant else 'DIFFERS'}  {key}: {how}")
    kinds = Counter(key.split("/")[0] for key in new)
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    print(f"{len(new)} results: {len(found) - len(meant)} differ, {len(meant)} are meant to, the rest are the same")
    sys.exit(len(found) > len(meant))


if __name__ == "__main__":
    main()
