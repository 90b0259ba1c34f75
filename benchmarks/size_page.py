"""docs/size.md from the results."""

from pathlib import Path


def refresh(results: Path, page: Path) -> None:
    """Later."""
