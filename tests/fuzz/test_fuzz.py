"""A short run of every fuzzer; ``python -m tests.fuzz all --count 5000`` is a long one."""

from __future__ import annotations

import sys

import pytest

from tests.fuzz.__main__ import FUZZERS, main
from tests.fuzz.cases import run_cases

pytestmark = pytest.mark.slow

SHORT = {"models": 300, "trees": 1500, "integers": 12, "tables": 120, "proofs": 300, "linear": 15, "groups": 100}


@pytest.mark.parametrize("name", FUZZERS)
def test_a_short_run(name: str) -> None:
    if name == "integers" and sys.platform == "win32":
        pytest.skip("needs fork")
    tally = FUZZERS[name](0, SHORT[name])
    assert not tally.failures
    assert tally.tried == SHORT[name]
    assert tally.outcomes["proved" if name in ("proofs", "linear", "groups") else "refused"] > 0


def test_failures_are_counted_and_can_be_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    def case(rng: object) -> str:
        if rng.random() < 0.5:  # type: ignore[attr-defined]
            raise KeyError("x")
        return "read"

    tally = run_cases(case, 0, 20)
    assert tally.tried == 20 == tally.read + len(tally.failures)
    number = int(tally.failures[0].split()[1].rstrip(":"))
    with pytest.raises(KeyError):
        run_cases(case, 0, 20, only=number)
    assert main(["trees", "--count", "3"]) == 0
    assert "3 tried" in capsys.readouterr().out
