"""Fixtures that several tests share."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# a busy machine is no failure, and the same code gives the same result; --hypothesis-profile=explore draws new examples
settings.register_profile("treelu", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("treelu")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data: TREELU_DATA, or shared/data beside the project; absent: skip, or fail where CI=true."""
    folder = Path(os.environ.get("TREELU_DATA") or Path(__file__).resolve().parents[1] / "shared" / "data")
    if not folder.is_dir():
        message = "no folder of real data: set TREELU_DATA"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder
