"""The folder that public data are cached in."""

from __future__ import annotations

import os
from pathlib import Path

from treelu.chem._molecules import chem_extra
from treelu.chem.splits import Split, load_split


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """The argument, else the environment variable TREELU_DATA, else the user's cache folder."""
    chosen = data_home or os.environ.get("TREELU_DATA") or chem_extra("pooch").os_cache("treelu")
    return Path(chosen).expanduser()


def cached_split(name: str, home: Path) -> Split | None:
    """The split that lies in the folder as ``splits/<name>.json``, if one does."""
    path = home / "splits" / f"{name}.json"
    return load_split(path) if path.exists() else None
