"""`save`, for every estimator."""

from __future__ import annotations

from os import PathLike


class SaveMixin:
    """Gives a fitted estimator its method `save`."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into a folder that `treelu.load` reads; see `treelu.persistence`."""
        from treelu.persistence import save

        save(self, path)
