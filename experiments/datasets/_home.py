"""The folder that public data are cached in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from treelu.chem.splits import Split, load_split


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """The argument, else the environment variable TREELU_DATA, else the user's cache folder."""
    chosen = data_home or os.environ.get("TREELU_DATA") or downloader().os_cache("treelu")
    return Path(chosen).expanduser()


def cached_split(name: str, home: Path) -> Split | None:
    """The split that lies in the folder as ``splits/<name>.json``, if one does."""
    path = home / "splits" / f"{name}.json"
    return load_split(path) if path.exists() else None


def downloader() -> Any:
    """The module pooch, or an error that says how to get it."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError("the paper's data sets need pooch: pip install -e '.[experiments]'") from error
    return pooch
