"""`save`, for every estimator."""

from __future__ import annotations

from os import PathLike

from treelu.estimators._showing import ShowMixin


class SaveMixin(ShowMixin):
    """Gives a fitted estimator its method `save`, and what it shows of itself."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into a folder that `treelu.load` reads; see `treelu.persistence`."""
        from treelu.persistence import save

        save(self, path)
