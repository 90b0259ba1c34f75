"""Run the soak: ``python -m tests.faults --count 50``."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests import faults
from tests.faults.trials import Trial, trials


def soak(trial: Trial, name: str, seed: int, count: int) -> list[str]:
    """Run a trial so many times; returns what failed."""
    failures = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                trial(random.Random(f"{seed}/{name}/{number}"), Path(folder))
            except Exception as error:
                failures.append(f"{number}: {type(error).__name__}: {error}")
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were named, or all; the exit code is 1 where one failed."""
    known = trials()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=faults.__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(known)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20, help="trials of each part")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; they are {', '.join(known)}")
    import treelu.cli.demo  # noqa: F401  everything that the forked processes need

    print(f"{'':<18}{'tried':>7}{'failed':>8}{'seconds':>9}")
    failed = 0
    for name in options.parts or known:
        started = time.monotonic()
        failures = soak(known[name], name, options.seed, options.count)
        print(f"{name:<18}{options.count:>7}{len(failures):>8}{time.monotonic() - started:>9.0f}", flush=True)
        for failure in failures[:5]:
            print(f"    {failure}")
        failed += len(failures)
    return int(failed > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
