"""Hostile files, the kinds that need naming; the fuzzers of `tests.fuzz` try many more."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.models import GOLDEN, Files, joined_safetensors, signed, split_safetensors
from treelu.persistence import ModelFileError, loads


def golden(name: str) -> Files:
    folder: Path = GOLDEN / "version-1" / name
    return (folder / "model.json").read_bytes(), next(folder.glob("arrays-*")).read_bytes()


def with_integer(files: Files, end: str, place: int, number: int) -> Files:
    """Files with one integer replaced in the array whose name ends so."""
    header, data = split_safetensors(files[1])
    start, stop = header[next(key for key in header if key.endswith(end))]["data_offsets"]
    at = start + 8 * (place % ((stop - start) // 8))
    return signed(
        json.loads(files[0]), joined_safetensors(header, data[:at] + struct.pack("<q", number) + data[at + 8 :])
    )


def test_the_unaltered_is_read() -> None:
    for name in ("lcn_two_classes", "elcn", "tree_sparse"):
        manifest, arrays = golden(name)
        loads(*signed(json.loads(manifest), joined_safetensors(*split_safetensors(arrays))))


def test_files_that_want_memory_are_refused_before_they_get_it() -> None:
    """Headers that claim terabytes, and numbers in the manifest that would ask for them."""
    manifest, arrays = golden("lcn_two_classes")
    header, data = split_safetensors(arrays)
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [2**40]
    with pytest.raises(ModelFileError, match="not in the safetensors format"):
        loads(*signed(json.loads(manifest), joined_safetensors(header, data)))
    described = json.loads(manifest)
    described["model"]["n_features"] = 2**30
    described["model"]["feature_names"] = None
    with pytest.raises(ModelFileError, match="must be float64 of shape \\(1073741824\\)"):
        loads(*signed(described, arrays))


def test_deep_nesting_and_huge_numbers_are_refused() -> None:
    for text in (b"[" * 100_000, b'{"a":' * 100_000, b"1" * 100_000, b'{"format": "treelu.model", "version": 1e999}'):
        with pytest.raises(ModelFileError):
            loads(text, b"")


@pytest.mark.parametrize("value", [10**400, -(10**400), True, "1", [1]])
def test_numbers_that_no_float_can_hold_are_refused(value: Any) -> None:
    """Such as a loss of 10^400 in a history."""
    manifest, arrays = golden("lcn_two_classes")
    described = json.loads(manifest)
    described["model"]["history"]["train_loss"][0] = value
    if value is True:  # a number to JSON's readers
        loads(*signed(described, arrays))
        return
    with pytest.raises(ModelFileError, match="must hold lists of numbers"):
        loads(*signed(described, arrays))


@pytest.mark.parametrize("number", [-(2**63), -1, 3, 2**63 - 1])
def test_features_of_members_must_ascend_whatever_their_differences_are(number: int) -> None:
    """-2^63 minus a positive number is positive in int64."""
    with pytest.raises(ModelFileError, match="its features must be ascending numbers below 3"):
        loads(*with_integer(golden("elcn"), "/features", -1, number))


@pytest.mark.parametrize(("place", "number"), [(-1, 0), (0, 1), (1, 100_000), (1, -1), (-1, 2**62), (-1, -(2**63))])
def test_sparse_weights_whose_rows_end_elsewhere_are_refused(place: int, number: int) -> None:
    """SciPy lets the first pass and then writes beyond the arrays."""
    with pytest.raises(ModelFileError, match="indptr must ascend from 0"):
        loads(*with_integer(golden("tree_sparse"), "weights.indptr", place, number))


@pytest.mark.parametrize("number", [-1, 3, 2**31, 2**63 - 1, -(2**63)])
def test_sparse_weights_of_features_that_are_not_there_are_refused(number: int) -> None:
    with pytest.raises(ModelFileError, match="indices must be from 0 to 2"):
        loads(*with_integer(golden("tree_sparse"), "weights.indices", 0, number))


@pytest.mark.parametrize("number", [-1, 7, 2**40, 2**62])
def test_groups_of_a_stack_must_be_numbered_from_zero(number: int) -> None:
    """A huge number must not ask for memory either."""
    with pytest.raises(ModelFileError, match="numbered from 0"):
        loads(*with_integer(golden("stack_values"), "stack/groups", 0, number))


@pytest.mark.parametrize("number", [1e-320, 1e-200, 1e300, -1.0, 0.0])
def test_scales_beyond_arithmetic_are_refused(number: float) -> None:
    """Weights divided by them would be infinite, and answers no numbers."""
    as_integer = struct.unpack("<q", struct.pack("<d", number))[0]
    with pytest.raises(ModelFileError, match=r"scale must be positive|cannot be scaled"):
        loads(*with_integer(golden("elcn"), "scaling0/scale", 0, as_integer))
