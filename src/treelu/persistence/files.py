"""The two files of a saved model: checksums, atomic writing, reading that trusts nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as read_safetensors
from safetensors.numpy import save as write_safetensors

from treelu import __version__
from treelu.persistence.trees import describe_tree, restore_tree
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields, ModelFileError
from treelu.tables import TableModel
from treelu.tree import ObliqueTree

FORMAT, FORMAT_VERSION = "treelu.model", 1
MANIFEST = "model.json"
MAX_MANIFEST = 1 << 28  # bytes; a model of a million feature names has some 20 MB
_ARRAYS_NAME = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")


def save(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator or a tree into a folder; an older model there is replaced at one stroke.

    Parameters
    ----------
    model : estimator of treelu, ObliqueTree or TableModel
    path : path of a folder
        Made where it is missing.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(tree, folder)) == tree
    True
    """
    folder = Path(path)
    manifest, arrays = dumps(model)
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"path must be a folder, but {folder} is a file")
    earlier = _arrays_of_earlier_model(folder)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    name = _arrays_name(arrays)
    try:
        write_atomically(folder / name, arrays)
        write_atomically(folder / MANIFEST, manifest)
    except BaseException:
        if name != earlier:
            (folder / name).unlink(missing_ok=True)
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise
    if earlier not in (None, name):
        (folder / str(earlier)).unlink(missing_ok=True)
    return folder


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote; it predicts bit for bit the same.

    Parameters
    ----------
    path : path of a folder

    Returns
    -------
    The estimator, ObliqueTree or TableModel.

    Raises
    ------
    ModelFileError
        Where the folder holds no model, or one that is truncated, altered or from a later version.
    """
    folder = Path(path)
    if not folder.exists():
        raise ModelFileError(f"{folder} does not exist; give the folder of a saved model")
    if not folder.is_dir():
        raise ModelFileError(f"{folder} is a file; give the folder of a saved model")
    try:
        return loads(*_read_files(folder))
    except ModelFileError as error:
        raise ModelFileError(f"{folder} cannot be read: {error}") from None


def _read_files(folder: Path, lost: str | None = None) -> tuple[bytes, bytes]:
    """The bytes of the two files, the second one only if it has the size it should have.

    Another process may replace the model between the two reads: then a second file is `lost`, and the manifest names
    a new one.
    """
    try:
        with (folder / MANIFEST).open("rb") as file:
            manifest = file.read(MAX_MANIFEST + 1)
    except FileNotFoundError:
        raise ModelFileError(f"it has no {MANIFEST}, so it is no saved model") from None
    about = Fields(_read_manifest(manifest).any("arrays"), "arrays")
    name, wanted = about.text("file"), about.whole("bytes")
    if not _ARRAYS_NAME.fullmatch(name):
        raise ModelFileError(f"{name!r} is no name of an arrays file")
    try:
        size = (folder / name).stat().st_size
        if size != wanted:
            raise ModelFileError(f"{name} has {size} bytes in place of {wanted}: it was cut or altered")
        return manifest, (folder / name).read_bytes()
    except FileNotFoundError:
        if name != lost:
            return _read_files(folder, name)
        raise ModelFileError(f"{name} is missing; copy the whole folder") from None


def dumps(model: Any) -> tuple[bytes, bytes]:
    """A model as the bytes of its two files: ``model.json`` and the arrays.

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> manifest, arrays = dumps(ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]]))
    >>> json.loads(manifest)["model"]["kind"]
    'ObliqueTree'
    """
    writer = ArrayWriter()
    description = _describe(model, writer)
    for name, default in writer.left_out.items():
        warnings.warn(
            f"{name} holds code or moving state and cannot be saved; the saved model has {name}={default}",
            stacklevel=2,
        )
    arrays = write_safetensors(writer.arrays)
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "treelu": __version__,
        "arrays": {"file": _arrays_name(arrays), "bytes": len(arrays), "sha256": _sha256(arrays)},
        "model": description,
    }
    return json.dumps(manifest | {"sha256": _checksum(manifest)}).encode(), arrays


def loads(manifest: bytes, arrays: bytes) -> Any:
    """The model that `dumps` wrote.

    Raises
    ------
    ModelFileError
        Where the bytes are not those of a model.
    """
    fields = _read_manifest(manifest)
    about = Fields(fields.any("arrays"), "arrays")
    if len(arrays) != about.whole("bytes") or _sha256(arrays) != about.text("sha256"):
        raise ModelFileError("the arrays do not fit their checksum: the file was cut or altered")
    try:
        reader = ArrayReader(read_safetensors(arrays))
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise ModelFileError(f"the arrays are not in the safetensors format: {error}") from None
    try:
        model = _restore(fields.inner("model"), reader)
    except ModelFileError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise ModelFileError(f"the model does not fit together: {error}") from None
    reader.check_all_taken()
    return model


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then give it its own; never leaves a part of it."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# Estimators are imported when one is met: a saved tree needs neither torch nor scikit-learn.


def _describe(model: Any, arrays: ArrayWriter) -> dict[str, Any]:
    if isinstance(model, ObliqueTree):
        return {"kind": "ObliqueTree", **describe_tree(model, arrays)}
    if isinstance(model, TableModel):
        return {
            "kind": "TableModel",
            **model.to_dict(),
            "estimator": _describe(model.estimator, arrays.under("estimator")),
            "trees": [describe_tree(tree, arrays.under(f"tree{k}")) for k, tree in enumerate(model.trees)],
            "carts": [describe_tree(tree, arrays.under(f"cart{k}")) for k, tree in enumerate(model.carts)],
        }
    from treelu.persistence.estimators import describe_estimator

    return describe_estimator(model, arrays)


def _restore(fields: Fields, arrays: ArrayReader) -> Any:
    kind = fields.text("kind")
    if kind == "ObliqueTree":
        return restore_tree(fields, arrays)
    if kind == "TableModel":
        estimator = _restore(fields.inner("estimator"), arrays.under("estimator"))
        trees, carts = (
            tuple(
                restore_tree(Fields(tree, f"{fields.where}.{name}s[{k}]"), arrays.under(f"{name}{k}"))
                for k, tree in enumerate(fields.items(f"{name}s"))
            )
            for name in ("tree", "cart")
        )
        return TableModel.from_dict(fields.data, estimator, trees, carts)
    from treelu.persistence.estimators import restore_estimator

    return restore_estimator(fields, arrays)


# The manifest


def _read_manifest(manifest: bytes) -> Fields:
    """The checked fields of ``model.json``."""
    if len(manifest) > MAX_MANIFEST:
        raise ModelFileError(f"{MANIFEST} is larger than {MAX_MANIFEST >> 20} MB; it is no manifest of treelu")
    try:
        data = json.loads(manifest)
    except (ValueError, RecursionError):
        raise ModelFileError(f"{MANIFEST} is not JSON: it was cut or altered, or is not treelu's") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFileError(f"{MANIFEST} was not written by treelu")
    version = data.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"its format is version {version!r}, and this treelu ({__version__}) reads up to {FORMAT_VERSION}; "
            "update treelu"
        )
    checksum = data.pop("sha256", None)
    try:
        fits = checksum == _checksum(data)
    except (ValueError, RecursionError):  # NaN, which JSON does not have, or a surrogate half
        fits = False
    if not fits:
        raise ModelFileError(f"{MANIFEST} does not fit its checksum: it was altered")
    return Fields(data, "model")


def _checksum(manifest: dict[str, Any]) -> str:
    """SHA-256 of the content, however it is spaced."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return _sha256(text.encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _arrays_name(arrays: bytes) -> str:
    return f"arrays-{_sha256(arrays)[:16]}.safetensors"


def _arrays_of_earlier_model(folder: Path) -> str | None:
    """The arrays file of a model in the folder; an error where its ``model.json`` is somebody else's."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            manifest = json.loads(file.read(MAX_MANIFEST))
        name = manifest["arrays"]["file"]
        if manifest["format"] == FORMAT and _ARRAYS_NAME.fullmatch(name):
            return str(name)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ModelFileError(f"{folder} has a {MANIFEST} that treelu did not write; remove it or choose another folder")
