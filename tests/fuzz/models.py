"""Altered files of saved models: each loads whole and predicts, or raises ModelFileError."""

from __future__ import annotations

import json
import random
import struct
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.cases import Tally, altered_bytes, run_cases
from tests.fuzz.hostile import altered_document
from tests.persistence.models import outputs
from treelu.persistence import ModelFileError, loads
from treelu.persistence.files import MANIFEST, _checksum, _sha256

Files = tuple[bytes, bytes]
GOLDEN = Path(__file__).parents[1] / "golden"


@cache
def saved() -> list[Files]:
    """The files of a model of every kind, as the test suite keeps them."""
    folders = sorted(path.parent for path in GOLDEN.glob(f"version-*/*/{MANIFEST}"))
    found = [((folder / MANIFEST).read_bytes(), next(folder.glob("arrays-*")).read_bytes()) for folder in folders]
    return [files for files in found if len(files[1]) < 100_000]


@cache
def predicted(number: int) -> list[np.ndarray]:
    """What the unaltered model predicts."""
    return outputs(loads(*saved()[number]))


def signed(manifest: dict[str, Any], arrays: bytes) -> Files:
    """Files with fitting checksums, as whoever means harm would write them."""
    manifest = json.loads(json.dumps({key: value for key, value in manifest.items() if key != "sha256"}))
    if isinstance(manifest.get("arrays"), dict):
        manifest["arrays"] |= {"bytes": len(arrays), "sha256": _sha256(arrays)}
    try:
        checksum = _checksum(manifest)
    except ValueError:  # NaN, which has none
        checksum = ""
    return json.dumps(manifest | {"sha256": checksum}).encode(), arrays


def split_safetensors(arrays: bytes) -> tuple[dict[str, Any], bytes]:
    """The header and the data of a safetensors file."""
    (length,) = struct.unpack("<Q", arrays[:8])
    return json.loads(arrays[8 : 8 + length]), arrays[8 + length :]


def joined_safetensors(header: dict[str, Any], data: bytes, length: int | None = None) -> bytes:
    """The inverse of `split_safetensors`, with any length of the header."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def altered_arrays(rng: random.Random, files: Files) -> Files:
    """One array with another shape, type, place, name or number."""
    shapes = [[], [0], [1], [2**62, 4], [2**40], [-1], [3, 0], [1, 1, 1, 1, 1, 1]]
    header, data = split_safetensors(files[1])
    name = rng.choice([key for key in header if key != "__metadata__"])
    entry, kind, length = header[name], rng.randrange(9), None
    if kind == 0:
        entry["shape"] = rng.choice(shapes)
    elif kind == 1:
        entry["dtype"] = rng.choice(["F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "X", 3])
    elif kind == 2:
        entry["data_offsets"] = [rng.choice([0, 8, 2**63, -8]), rng.choice([0, 16, 2**63, len(data)])]
    elif kind == 3:
        header[rng.choice(["new", "../x", "", "network/weight"])] = header.pop(name)
    elif kind == 4:
        del header[name]
    elif kind == 5:
        length = rng.choice([0, 1, 2**20, 2**40, 2**64 - 1])
    elif kind == 6:
        entry["shape"] = entry["shape"][::-1]
    else:
        data = with_other_number(rng, entry, data)
    return signed(json.loads(files[0]), joined_safetensors(header, data, length))


def with_other_number(rng: random.Random, entry: dict[str, Any], data: bytes) -> bytes:
    """The data with one number of an array replaced: NaN, infinity, a huge, a tiny or a negative one."""
    start, end = entry["data_offsets"]
    if end == start:
        return data
    place = start + 8 * rng.randrange((end - start) // 8) if end - start >= 8 else start
    special = rng.choice([np.nan, np.inf, -1e308, 1e-320, -1.0, 1e300])
    integer = rng.choice([-1, -(2**63), 2**63 - 1, 2**62, 2**31, 10**6, 1, 0])
    number = struct.pack("<d", special) if entry["dtype"].startswith("F") else struct.pack("<q", integer)
    size = min(8, end - start)
    return data[:place] + number[:size] + data[place + size :]


def case(rng: random.Random) -> str:
    """One altered model."""
    number = rng.randrange(len(saved()))
    files = manifest, arrays = saved()[number]
    kind = rng.choice(["bytes", "manifest", "arrays"])
    if kind == "bytes":
        which = rng.randrange(2)
        mutated = (altered_bytes(rng, manifest), arrays) if which else (manifest, altered_bytes(rng, arrays))
    elif kind == "manifest":
        mutated = signed(altered_document(rng, json.loads(manifest)), arrays)
    else:
        mutated = altered_arrays(rng, files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = loads(*mutated)
        except ModelFileError:
            return "refused"
        _check_works(model, number, same=kind == "bytes")
    return "read"


def _check_works(model: Any, number: int, *, same: bool) -> None:
    """A model that was read predicts finite numbers, or says what is wrong with the rows; `same`: the old ones."""
    try:
        found = outputs(model)
    except (ValueError, KeyError):  # other features or columns than the rows have
        if same:
            raise
        return
    if same:  # what the checksum does not notice means the same: other spacing, a capital in an escape
        assert all(np.array_equal(a, b) for a, b in zip(found, predicted(number), strict=True)), "another prediction"
    for result in found:
        assert result.dtype.kind != "f" or not np.isnan(result).any(), "NaN predicted"


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Altered model files."""
    return run_cases(case, seed, count, only)
