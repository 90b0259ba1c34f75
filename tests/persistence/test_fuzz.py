"""Eleven thousand altered and hostile files: each loads whole, or raises ModelFileError, and nothing else happens."""

import copy
import json
import random
import struct
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.persistence.models import CLASSES, ROWS, SMALL, graph_networks, outputs, table_model
from treelu import ELCNClassifier, LCNClassifier, LCNClassifierCV
from treelu.baselines import HHCARTClassifier
from treelu.persistence import ModelFileError, dumps, loads
from treelu.persistence.files import _checksum, _sha256

Files = tuple[bytes, bytes]
GAPS = np.where(np.arange(ROWS.size).reshape(ROWS.shape) % 7 == 1, np.nan, ROWS)


@pytest.fixture(scope="module")
def saved() -> list[tuple[Any, Files]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            LCNClassifier(**SMALL).fit(ROWS, CLASSES),
            ELCNClassifier(**SMALL, n_estimators=1, member="lcn", feature_fraction=0.7).fit(ROWS, CLASSES),
            table_model(),
            HHCARTClassifier(max_depth=1).fit(ROWS, CLASSES),
            LCNClassifier(**SMALL, refine_leaves=True, missing="indicator").fit(GAPS, CLASSES),
            LCNClassifierCV(depths=[1], drop_rates=[0.1], cv=2, estimator=LCNClassifier(epochs=1)).fit(ROWS, CLASSES),
            graph_networks()["gcn"],
        ]
    return [(model, dumps(model)) for model in models]


def signed(manifest: dict[str, Any], arrays: bytes) -> Files:
    """Files with fitting checksums, as whoever means harm would write them."""
    manifest = {key: value for key, value in manifest.items() if key != "sha256"}
    if isinstance(manifest.get("arrays"), dict):
        manifest["arrays"] |= {"bytes": len(arrays), "sha256": _sha256(arrays)}
    return json.dumps(manifest | {"sha256": _checksum(manifest)}).encode(), arrays


def try_all(
    saved: list[tuple[Any, Files]],
    mutate: Callable[[random.Random, Files], Files],
    times: int,
    *,
    must_be_same: bool = False,
) -> int:
    """Load mutated files; returns how many were refused. One that loads must still predict, or refuse the rows."""
    rng = random.Random(0)
    refused = 0
    for number in range(times):
        model, files = saved[number % len(saved)]
        mutated = mutate(rng, files)
        try:
            loaded = loads(*mutated)
        except ModelFileError:
            refused += 1
            continue
        if must_be_same:
            assert all(np.array_equal(a, b) for a, b in zip(outputs(loaded), outputs(model), strict=True))
        elif number % 10 == 0:
            try:
                outputs(loaded)
            except (ValueError, KeyError):  # other features or columns than the rows have
                assert type(loaded) is not type(model) or mutated != files
    return refused


def altered_bytes(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    place = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[place:]
    elif kind == 2:
        data[place:place] = rng.randbytes(rng.randrange(1, 9))
    elif kind == 3:
        del data[place : place + rng.randrange(1, 40)]
    else:
        data[place : place + 8] = rng.randbytes(8)
    return bytes(data)


def test_altered_bytes_are_noticed(saved: list[tuple[Any, Files]]) -> None:
    def mutate(rng: random.Random, files: Files) -> Files:
        manifest, arrays = files
        if rng.random() < 0.5:
            return altered_bytes(rng, manifest), arrays
        return manifest, altered_bytes(rng, arrays)

    # What is not noticed must mean the same: other spacing, or a capital in an escape.
    refused = try_all(saved, mutate, 6000, must_be_same=True)
    assert refused >= 5950


HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63, 10**30, -(10**400), 0.5, 1e308, "", "a", "float32", "__class__",
    "../../etc/passwd", "LCNClassifier", "TableModel", "ObliqueTree", "os.system", "\ud800", "x" * 5000, [], {}, [None],
    [[]], [1, 2, 3], {"pairs": [[1, 2]]}, {"pairs": [[[], 1]]}, {"pairs": 3}, {"dtype": "str", "values": ["a", "b"]},
    {"__reduce__": ["os.system", ["true"]]}, {"kind": "ObliqueTree"}, [[[[[[[[[[]]]]]]]]]],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON document."""
    found = [path] if path else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += places(inner, (*path, key))
    return found


def test_hostile_manifests_are_refused(saved: list[tuple[Any, Files]]) -> None:
    ways = {files: places(json.loads(files[0])) for _, files in saved}

    def mutate(rng: random.Random, files: Files) -> Files:
        manifest = json.loads(files[0])
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            *way, last = rng.choice(ways[files])
            target = manifest
            try:
                for key in way:
                    target = target[key]
                if isinstance(target, dict) != isinstance(last, str):
                    continue
                if rng.random() < 0.2:
                    del target[last]
                elif isinstance(target, dict) and rng.random() < 0.1:
                    target["new"] = target.pop(last)
                else:
                    target[last] = copy.deepcopy(rng.choice(HOSTILE))
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change took the way there
        return signed(manifest, files[1])

    refused = try_all(saved, mutate, 3000)
    assert refused > 1500


def split_safetensors(arrays: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", arrays[:8])
    return json.loads(arrays[8 : 8 + length]), arrays[8 + length :]


def joined_safetensors(header: dict[str, Any], data: bytes, length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def test_hostile_arrays_are_refused(saved: list[tuple[Any, Files]]) -> None:
    shapes = [[], [0], [1], [2**62, 4], [2**40], [-1], [3, 0], [1, 1, 1, 1, 1, 1]]

    def mutate(rng: random.Random, files: Files) -> Files:
        header, data = split_safetensors(files[1])
        name = rng.choice([key for key in header if key != "__metadata__"])
        entry, kind, length = header[name], rng.randrange(8), None
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
        else:  # other numbers: NaN, infinities, huge and negative ones
            start, end = entry["data_offsets"]
            if end > start:
                place = start + 8 * rng.randrange((end - start) // 8) if end - start >= 8 else start
                special = rng.choice([np.nan, np.inf, -1e308, 1e-320, -1.0])
                integer = rng.choice([-1, 2**62, 10**6, 0])
                number = struct.pack("<d", special) if entry["dtype"].startswith("F") else struct.pack("<q", integer)
                data = data[:place] + number[: min(8, end - start)] + data[place + min(8, end - start) :]
        return signed(json.loads(files[0]), joined_safetensors(header, data, length))

    refused = try_all(saved, mutate, 2500)
    assert refused > 1200


def test_files_that_want_memory_are_refused_before_they_get_it(saved: list[tuple[Any, Files]]) -> None:
    """Headers that claim terabytes, and numbers in the manifest that would ask for them."""
    _, (manifest, arrays) = saved[0]
    header, data = split_safetensors(arrays)
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [2**40]
    with pytest.raises(ModelFileError, match="not in the safetensors format"):
        loads(*signed(json.loads(manifest), joined_safetensors(header, data)))
    described = json.loads(manifest)
    described["model"]["n_features"] = 2**30
    with pytest.raises(ModelFileError, match="must be float64 of shape \\(1073741824\\)"):
        loads(*signed(described, arrays))


def test_deep_nesting_and_huge_numbers_are_refused() -> None:
    for text in (b"[" * 100_000, b'{"a":' * 100_000, b"1" * 100_000, b'{"format": "treelu.model", "version": 1e999}'):
        with pytest.raises(ModelFileError):
            loads(text, b"")
