"""A short run of the soak's cheap parts; ``python -m tests.faults --count 50`` is a long one of all."""

from __future__ import annotations

import sys

import pytest

from tests.faults.__main__ import main, soak
from tests.faults.trials import trials

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs fork")]


@pytest.mark.parametrize("name", ["save, killed", "sweep, killed", "full disk"])
def test_a_short_run(name: str) -> None:
    assert soak(trials()[name], name, 0, 3) == []


def test_the_table_counts_what_failed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(rng: object, folder: object) -> None:
        raise AssertionError("half a file")

    monkeypatch.setattr("tests.faults.__main__.trials", lambda: {"a part": broken})
    assert main(["a part", "--count", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["a", "part", "2", "2"]
    assert lines[2] == "    0: AssertionError: half a file"
