"""The parts of a saved model: named arrays, JSON fields and labels, each checked where it is read."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_NUMBER = 2**53  # integers beyond this are not counts
# Labels are class names and the like: JSON keeps the values, and with them their NumPy type.
LABEL_TYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "str",
    "object",
)  # fmt: skip


class ModelFileError(ValueError):
    """A saved model that cannot be read: missing, truncated, altered, foreign or from a later version.

    Examples
    --------
    >>> from treelu.persistence import load
    >>> load("no-such-folder")
    Traceback (most recent call last):
        ...
    treelu.persistence.values.ModelFileError: ...
    """


class ArrayWriter:
    """Collects the arrays of a model under names such as ``network/weight``, and what could not be saved."""

    def __init__(self, outer: ArrayWriter | None = None, prefix: str = "") -> None:
        self.arrays: dict[str, NDArray[Any]] = {} if outer is None else outer.arrays
        self.left_out: dict[str, str] = {} if outer is None else outer.left_out  # parameter → what is saved instead
        self._prefix = prefix

    def under(self, name: str) -> ArrayWriter:
        """A writer into the same collection, whose names begin with ``name/``."""
        return ArrayWriter(self, f"{self._prefix}{name}/")

    def put(self, name: str, array: Any) -> None:
        """Add one array; safetensors wants its numbers in one piece."""
        self.arrays[self._prefix + name] = np.ascontiguousarray(array)

    def labels(self, labels: NDArray[Any]) -> dict[str, Any]:
        """An array of labels as JSON, for `Fields.labels`; the file has no array for it."""
        name = {"U": "str", "O": "object", "T": "object"}.get(labels.dtype.kind, labels.dtype.name)
        values = labels.tolist()
        odd = [value for value in values if not isinstance(value, str | bool | int | float)]
        if odd or name not in LABEL_TYPES:
            raise TypeError(f"classes must be numbers, strings or booleans to be saved, got {(odd or values)[0]!r}")
        return {"dtype": name, "values": values}


class ArrayReader:
    """Hands out the arrays of a saved model, each with its type and shape checked."""

    def __init__(self, arrays: dict[str, NDArray[Any]], taken: set[str] | None = None, prefix: str = "") -> None:
        self.arrays = arrays
        self.taken: set[str] = set() if taken is None else taken
        self._prefix = prefix

    def under(self, name: str) -> ArrayReader:
        """A reader of the same collection, whose names begin with ``name/``."""
        return ArrayReader(self.arrays, self.taken, f"{self._prefix}{name}/")

    def has(self, name: str) -> bool:
        return self._prefix + name in self.arrays

    def floats(self, name: str, *shape: int | None, dtype: Any = np.float64, gaps: bool = False) -> NDArray[Any]:
        """A finite array of the given shape (None: any length); `gaps` permits NaN."""
        array = self._take(name, dtype, shape)
        if not (np.isfinite(array) | (gaps & np.isnan(array))).all():
            raise ModelFileError(f"the array {self._prefix}{name} holds NaN or infinity")
        return array

    def integers(self, name: str, *shape: int | None) -> NDArray[np.int64]:
        """An int64 array of the given shape (None: any length)."""
        return self._take(name, np.int64, shape)

    def _take(self, name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
        name = self._prefix + name
        if name not in self.arrays:
            raise ModelFileError(f"the array {name} is missing")
        array = self.arrays[name]
        fits = array.ndim == len(shape) and all(
            wanted is None or wanted == given for wanted, given in zip(shape, array.shape, strict=True)
        )
        if array.dtype != dtype or not fits:
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise ModelFileError(
                f"the array {name} must be {np.dtype(dtype).name} of shape ({wanted}), "
                f"got {array.dtype.name} of shape {array.shape}"
            )
        self.taken.add(name)
        return array

    def error(self, text: str) -> ModelFileError:
        """The error where arrays do not fit together."""
        return ModelFileError(text)

    def check_all_taken(self) -> None:
        """Raise if there are arrays that no part of the model asked for."""
        foreign = sorted(set(self.arrays) - self.taken)
        if foreign:
            raise ModelFileError(f"the array {foreign[0]!r} belongs to no part of the model")


class Fields:
    """A JSON object being read: each value's type is checked where it is taken, and named by the method."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise ModelFileError(f"{where} must be an object, got {_shown(data)}")
        self.data, self.where = data, where

    def __contains__(self, name: str) -> bool:
        return self.data.get(name) is not None

    def any(self, name: str) -> Any:
        if name not in self.data:
            raise ModelFileError(f"{self.where} has no field {name!r}")
        return self.data[name]

    def text(self, name: str) -> str:
        return self._of(name, str, "a string")

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false")

    def items(self, name: str) -> list[Any]:
        return self._of(name, list, "a list")

    def texts(self, name: str) -> list[str]:
        values = self.items(name)
        if not all(isinstance(value, str) for value in values):
            raise ModelFileError(f"{self.where}: {name} must be a list of strings")
        return values

    def inner(self, name: str) -> Fields:
        return Fields(self.any(name), f"{self.where}.{name}")

    def inners(self, name: str) -> list[Fields]:
        return [Fields(item, f"{self.where}.{name}[{number}]") for number, item in enumerate(self.items(name))]

    def known_inners(self, name: str) -> dict[int, Fields]:
        """The objects of a list that may have nulls, by their number."""
        items = enumerate(self.items(name))
        return {number: Fields(item, f"{self.where}.{name}[{number}]") for number, item in items if item is not None}

    def labels(self, name: str) -> NDArray[Any]:
        """The inverse of `ArrayWriter.labels`."""
        fields = self.inner(name)
        values, kind = fields.items("values"), fields.text("dtype")
        if not values or not all(isinstance(value, str | bool | int | float) for value in values):
            raise fields.error("values must be a list of labels")
        if kind not in LABEL_TYPES:
            raise fields.error(f"labels cannot be of type {kind!r}")
        if kind == "str" and not all(isinstance(value, str) for value in values):
            raise fields.error("labels of type 'str' must be strings")
        try:
            labels = np.array(values, dtype=kind)
        except (TypeError, ValueError, OverflowError) as error:
            raise fields.error(str(error)) from None
        if labels.tolist() != values or len(set(values)) != len(values):
            raise fields.error(f"the labels must be distinct and of type {kind}")
        return labels

    def error(self, text: str) -> ModelFileError:
        """The error where values do not fit together."""
        return ModelFileError(f"{self.where}: {text}")

    def whole(self, name: str, low: int = 0, high: int = MAX_NUMBER) -> int:
        """An integer within bounds."""
        value = self.any(name)
        if type(value) is not int or not low <= value <= high:
            raise ModelFileError(f"{self.where}: {name} must be an integer from {low}, got {_shown(value)}")
        return value

    def number(self, name: str) -> float:
        value = self.any(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
            raise ModelFileError(f"{self.where}: {name} must be a finite number, got {_shown(value)}")
        return float(value)

    def _of(self, name: str, kind: type, word: str) -> Any:
        value = self.any(name)
        if not isinstance(value, kind):
            raise ModelFileError(f"{self.where}: {name} must be {word}, got {_shown(value)}")
        return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
