"""A PostgreSQL server that the tests of exports share."""

from collections.abc import Iterator

import pytest

from benchmarks import engines


@pytest.fixture(scope="session")
def server() -> Iterator[engines.Postgres]:
    """A server of its own, on a socket in a temporary folder."""
    with engines.postgres() as running:
        yield running
