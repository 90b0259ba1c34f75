"""The two files of a saved model: checksums, atomic writing, reading that trusts nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.numpy import load as read_safetensors
from safetensors.numpy import save as write_safetensors

from treelu import __version__
from treelu.persistence.folder import Staged, locked, read_regular, remove_leftovers, sync_folder
from treelu.persistence.folder import write_atomically as write_atomically
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields, ModelFileError
from treelu.tree import ObliqueTree
from treelu.tree.check import MAX_UNSTORED
from treelu.tree.saved import describe_tree, restore_tree

FORMAT, FORMAT_VERSION = "treelu.model", 1
MANIFEST = "model.json"
MAX_MANIFEST = 1 << 26  # bytes; a model of a million feature names has some 20 MB
MAX_CONTAINERS = 1 << 21  # brackets in it: an empty object is 2 bytes of JSON, and 64 bytes in memory
_ARRAYS_NAME = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_BESIDE_NAME = re.compile(r"[^/\\\0.][^/\\\0]*")
_TRIES = 20  # of a reader, while others replace the model


def save(model: Any, path: str | os.PathLike[str], *, beside: Mapping[str, bytes] | None = None) -> Path:
    """Write a fitted estimator or a tree into a folder; an older model there is replaced in one step.

    Parameters
    ----------
    model : estimator of treelu, ObliqueTree or TableModel
    path : path of a folder
        Made where it is missing.
    beside : dict of bytes, optional
        Other files of the model, such as a report, by name. They go with the model: when it is replaced, they are
        removed. Other files of the folder are left alone.

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
    beside = dict(beside or {})
    manifest, arrays = dumps(model, beside=tuple(beside))
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"path must be a folder, but {folder} is a file")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder):
            _replace(folder, manifest, arrays, beside)
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise
    return folder


def _replace(folder: Path, manifest: bytes, arrays: bytes, beside: dict[str, bytes]) -> None:
    """Put a model into a folder that nobody else writes to; a full disk or an interrupt leaves the folder as it was.

    All files are on the disk under temporary names before any is renamed or removed. The earlier model's reports go
    before its manifest does, so that none stands beside another model.
    """
    earlier, name = own_files(folder), _arrays_name(arrays)
    check_beside(folder, list(beside))
    staged: dict[str, Staged] = {}
    try:
        for file, content in {name: arrays, MANIFEST: manifest, **beside}.items():
            staged[file] = Staged(folder / file)
            staged[file].write(content)
        staged[name].publish()
        for file in earlier.beside:
            (folder / file).unlink(missing_ok=True)
        for file in (MANIFEST, *beside):
            staged[file].publish()
    except BaseException:
        for unfinished in staged.values():
            unfinished.discard()
        with suppress(ModelFileError, OSError):
            if own_files(folder).arrays != name:
                (folder / name).unlink(missing_ok=True)
        raise
    sync_folder(folder)
    for path in folder.iterdir():  # the earlier model's, and those of writers that were killed
        if _ARRAYS_NAME.fullmatch(path.name) and path.name != name:
            path.unlink(missing_ok=True)
    remove_leftovers(folder, rf"({_ARRAYS_NAME.pattern}|{re.escape(MANIFEST)}|(report|tree)[^/]*)")


class OwnFiles(NamedTuple):
    """The files of the model in a folder, besides its manifest: the arrays' file, and the files beside them."""

    arrays: str | None = None
    beside: tuple[str, ...] = ()


def own_files(folder: Path) -> OwnFiles:
    """The files of the model in a folder; an error where its ``model.json`` is somebody else's."""
    try:
        manifest = json.loads(read_regular(folder / MANIFEST, MAX_MANIFEST))
        name = manifest["arrays"]["file"]
        beside = manifest["beside"] if "beside" in manifest else _beside_in_first_version(manifest)
        if manifest["format"] == FORMAT and _ARRAYS_NAME.fullmatch(name):
            return OwnFiles(name, tuple(file for file in beside if _BESIDE_NAME.fullmatch(file)))
    except FileNotFoundError:
        return OwnFiles()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise ModelFileError(f"{folder} has a {MANIFEST} that treelu did not write; remove it or choose another folder")


def _beside_in_first_version(manifest: dict[str, Any]) -> list[str]:
    """Files that `treelu fit` 0.1 wrote beside a model, which its manifest does not list."""
    model = manifest["model"]
    if manifest["treelu"] != "0.1.0" or model["kind"] != "TableModel":
        return []
    words = [re.sub(r"[^\w.-]+", "-", target).strip("-.") or "target" for target in model["targets"]]
    ends = ["", *(f"-{word}" for word in words)]
    return [name for end in ends for name in (f"tree{end}.txt", f"tree{end}.json", f"report{end}.html")]


def check_beside(folder: Path, names: list[str]) -> None:
    """Raise if a file of one of these names is there that does not belong to the folder's model."""
    known = own_files(folder).beside
    for name in names:
        if not _BESIDE_NAME.fullmatch(name) or name == MANIFEST or _ARRAYS_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a file beside a model")
        if name not in known and os.path.lexists(folder / name):
            raise ModelFileError(
                f"{folder / name} is there and belongs to no model; move it away or choose another folder"
            )


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator or a tree from a folder; it predicts bit for bit the same.

    Of a folder that `treelu fit` wrote it is the estimator that was fitted, which predicts data frames as
    `treelu predict` does. A threshold of the folder's own is not part of it, which a UserWarning says.

    Parameters
    ----------
    path : path of a folder

    Returns
    -------
    The estimator or ObliqueTree.

    Raises
    ------
    ModelFileError
        Where the folder holds no model, or one that is truncated, altered or from a later version.

    Examples
    --------
    >>> import tempfile
    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(tree, folder)) == tree
    True
    """
    model = load_as_saved(path)
    if type(model).__name__ != "TableModel":
        return model
    if model.has_threshold:
        decided = f"FixedThresholdClassifier(model, threshold={model.threshold:g}, pos_label={model.positive_label!r})"
        warnings.warn(
            f"the model was saved with a threshold of {model.threshold:g}, which the estimator's predict does not "
            f"know: it gives the more probable class; use predict_proba, or {decided} of sklearn.model_selection",
            UserWarning,
            stacklevel=2,
        )
    return model.estimator


def load_as_saved(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote as what it was: of a folder of `treelu fit` the TableModel with the facts of its report.

    Parameters
    ----------
    path : path of a folder

    Returns
    -------
    The estimator, ObliqueTree or TableModel.

    Raises
    ------
    ModelFileError
        As :func:`load`.

    Examples
    --------
    >>> import tempfile
    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_as_saved(save(tree, folder)) == tree
    True
    """
    folder = Path(path)
    try:
        if not folder.exists():
            raise ModelFileError(f"{folder} does not exist; give the folder of a saved model")
        if not folder.is_dir():
            raise ModelFileError(f"{folder} is a file; give the folder of a saved model")
    except OSError as error:  # such as a folder above it that may not be read
        raise ModelFileError(f"{folder} cannot be read: {error.strerror or error}") from None
    try:
        return loads(*_read_files(folder))
    except ModelFileError as error:
        raise ModelFileError(f"{folder} cannot be read: {error}") from None


def _read_files(folder: Path) -> tuple[bytes, bytes]:
    """The bytes of the two files, which another process may replace between two reads: at last writers are kept out."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            return _read_both(folder)
    with locked(folder, shared=True):
        try:
            return _read_both(folder)
        except FileNotFoundError as error:
            raise ModelFileError(f"{Path(error.filename).name} is missing; copy the whole folder") from None


def _read_both(folder: Path) -> tuple[bytes, bytes]:
    """The bytes of the two files, the second one only if it has the size it should have."""
    try:
        manifest = read_regular(folder / MANIFEST, MAX_MANIFEST)
    except FileNotFoundError:
        raise ModelFileError(f"it has no {MANIFEST}, so it is not a saved model") from None
    about = Fields(_read_manifest(manifest).any("arrays"), "arrays")
    name, wanted = about.text("file"), about.whole("bytes")
    if not _ARRAYS_NAME.fullmatch(name):
        raise ModelFileError(f"{name!r} is not the name of an arrays file")
    arrays = read_regular(folder / name, wanted)
    if len(arrays) != wanted:
        raise ModelFileError(f"{name} has {len(arrays)} bytes in place of {wanted}: it was cut or altered")
    return manifest, arrays


def dumps(model: Any, *, beside: tuple[str, ...] = ()) -> tuple[bytes, bytes]:
    """A model as the bytes of its two files: ``model.json`` and the arrays.

    ``beside`` are names of files that go with it, which the manifest lists.

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
        "beside": list(beside),
    }
    text = json.dumps(manifest | {"sha256": _checksum(manifest)}).encode()
    _check_size(text)
    return text, arrays


def loads(manifest: bytes, arrays: bytes) -> Any:
    """The model that `dumps` wrote.

    Raises
    ------
    ModelFileError
        Where the bytes are not those of a model.

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> loads(*dumps(tree)) == tree
    True
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
    _check_width(model, len(manifest) + len(arrays))
    return model


def _check_width(model: Any, n_bytes: int) -> None:
    """Raise for features that take no room in the files but would in memory, wherever the model is used."""
    width = getattr(model, "n_features", getattr(model, "n_features_in_", 0))
    if width > MAX_UNSTORED + n_bytes:
        raise ModelFileError(f"it states {width:,} features in {n_bytes:,} bytes; it was altered")


# Estimators and table models are imported when one is met: a saved tree needs neither torch nor scikit-learn.


def _describe(model: Any, arrays: ArrayWriter) -> dict[str, Any]:
    if isinstance(model, ObliqueTree):
        return {"kind": "ObliqueTree", **describe_tree(model, arrays)}
    from treelu.persistence.estimators import describe_estimator

    if type(model).__name__ != "TableModel":
        return describe_estimator(model, arrays)
    return {**describe_estimator(model.estimator, arrays), "record": _describe_record(model, arrays.under("record"))}


def _describe_record(model: Any, arrays: ArrayWriter) -> dict[str, Any]:
    """The record of a table model; its trees are on features, as the estimator has the encoder."""
    return {
        **model.to_dict(),
        "trees": [describe_tree(tree, arrays.under(f"tree{k}")) for k, tree in enumerate(model.trees)],
        "baselines": [
            [
                {"name": name, **describe_tree(tree, arrays.under(f"baseline{k}_{i}"))}
                for i, (name, tree) in enumerate(named.items())
            ]
            for k, named in enumerate(model.baselines)
        ],
    }


def _restore(fields: Fields, arrays: ArrayReader) -> Any:
    if fields.text("kind") == "ObliqueTree":
        return restore_tree(fields, arrays)
    from treelu.persistence.estimators import restore_estimator, restore_features_estimator

    if fields.text("kind") == "TableModel":  # of earlier versions, whose estimators were fitted to features
        return _restore_record(restore_features_estimator(fields, arrays), fields, arrays)
    estimator = restore_estimator(fields, arrays)
    return (
        _restore_record(estimator, fields.inner("record"), arrays.under("record")) if "record" in fields else estimator
    )


def _restore_record(estimator: Any, fields: Fields, arrays: ArrayReader) -> Any:
    """A table model from its estimator and the rest."""
    from treelu.persistence.table_model import TableModel

    trees = tuple(restore_tree(tree, arrays.under(f"tree{k}")) for k, tree in enumerate(fields.inners("trees")))
    return TableModel.from_dict(fields.data, estimator, trees, _restore_baselines(fields, arrays))


def _restore_baselines(fields: Fields, arrays: ArrayReader) -> tuple[dict[str, ObliqueTree], ...]:
    """The models beside a table model's, by name for each target; earlier versions had CART alone."""
    if "carts" in fields:
        carts = fields.inners("carts")
        return tuple({"CART": restore_tree(cart, arrays.under(f"cart{k}"))} for k, cart in enumerate(carts))
    found: list[dict[str, ObliqueTree]] = []
    for k, trees in enumerate(fields.items("baselines")):
        named = Fields({"trees": trees}, f"{fields.where}.baselines[{k}]").inners("trees")
        found.append(
            {tree.text("name"): restore_tree(tree, arrays.under(f"baseline{k}_{i}")) for i, tree in enumerate(named)}
        )
    return tuple(found)


# The manifest


def _read_manifest(manifest: bytes) -> Fields:
    """The checked fields of ``model.json``."""
    _check_size(manifest)
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


def _check_size(manifest: bytes) -> None:
    """Raise before a manifest that would fill the memory is read, or written."""
    if len(manifest) > MAX_MANIFEST:
        raise ModelFileError(f"{MANIFEST} is larger than {MAX_MANIFEST >> 20} MB; it is not a manifest of treelu")
    if manifest.count(b"{") + manifest.count(b"[") > MAX_CONTAINERS:
        raise ModelFileError(f"{MANIFEST} has more than {MAX_CONTAINERS:,} brackets; it is not a manifest of treelu")


def _checksum(manifest: dict[str, Any]) -> str:
    """SHA-256 of the content, however it is spaced."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return _sha256(text.encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _arrays_name(arrays: bytes) -> str:
    return f"arrays-{_sha256(arrays)[:16]}.safetensors"
