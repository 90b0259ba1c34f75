"""Hostile integers in arrays, one process for each case: compiled code that trusts an index dies there, not here."""

from __future__ import annotations

import json
import os
import random
import signal

from tests.fuzz.cases import Tally, run_cases
from tests.fuzz.models import Files, joined_safetensors, saved, signed, split_safetensors
from tests.fuzz.trees import some_tree, use
from tests.persistence.models import outputs  # imports all that loading needs, before the processes part
from treelu.persistence import ModelFileError, estimators, loads  # noqa: F401
from treelu.tree import ObliqueTree

SECONDS = 60  # for a case
NUMBERS = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 100, 10**5, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1]


def altered_model(rng: random.Random) -> Files:
    """A saved model with several integers of one array replaced."""
    with_integers = [files for files in saved() if '"I64"' in json.dumps(split_safetensors(files[1])[0])]
    manifest, arrays = rng.choice(with_integers)
    header, data = split_safetensors(arrays)
    entry = header[rng.choice([key for key, about in header.items() if about.get("dtype") == "I64"])]
    start, end = entry["data_offsets"]
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        if end > start:
            place = start + 8 * rng.randrange((end - start) // 8)
            content[place : place + 8] = rng.choice(NUMBERS).to_bytes(8, "little", signed=True)
    return signed(json.loads(manifest), joined_safetensors(header, bytes(content)))


def altered_tree(rng: random.Random) -> str:
    """JSON of a tree with integers of its sparse weights or of its children replaced, or taken out."""
    document = some_tree(rng).to_dict()
    while not document["children"]:
        document = some_tree(rng).to_dict()
    sparse_weights = document["weights"] if isinstance(document["weights"], dict) else {}
    targets = [sparse_weights[name] for name in ("indptr", "indices") if sparse_weights] + list(document["children"])
    for _ in range(rng.choice((1, 1, 2, 5))):
        target = rng.choice(targets)
        if target and rng.random() < 0.2:
            target.pop()
        elif target:
            target[rng.randrange(len(target))] = rng.choice(NUMBERS)
    if sparse_weights and rng.random() < 0.2:
        sparse_weights["indices"], sparse_weights["data"] = [], []
    return json.dumps(document)


def work(rng: random.Random) -> str:
    """What the process does."""
    try:
        if rng.random() < 0.5:
            use(ObliqueTree.from_json(altered_tree(rng)))
        else:
            model = loads(*altered_model(rng))
            try:
                outputs(model)
            except (ValueError, KeyError) as error:
                if isinstance(error, ModelFileError):
                    raise
    except ValueError:
        return "refused"
    return "read"


def case(rng: random.Random) -> str:
    """One case in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            signal.alarm(SECONDS)
            code = {"read": 0, "refused": 1}[work(rng)]
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status < 0:
        raise RuntimeError(f"the process died of {signal.Signals(-status).name}")
    if status == 3:
        raise RuntimeError("the process raised what it should not; --only shows it")
    return ("read", "refused")[status]


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Hostile integers; a single case runs in this process, to show its traceback."""
    return run_cases(case if only is None else work, seed, count, only)
