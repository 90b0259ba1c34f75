"""MoleculeNet's tables by name: from the cache folder, or downloaded into it once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.datasets._home import cached_split, data_folder, downloader
from treelu.chem.splits import Split

MOLECULENET_URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/"

_NUCLEAR_RECEPTORS = ("AR", "AR-LBD", "AhR", "Aromatase", "ER", "ER-LBD", "PPAR-gamma")
_STRESS_RESPONSES = ("ARE", "ATAD5", "HSE", "MMP", "p53")
_TOX21 = [f"NR-{name}" for name in _NUCLEAR_RECEPTORS] + [f"SR-{name}" for name in _STRESS_RESPONSES]


@dataclass(frozen=True)
class MoleculeTable:
    """Molecules and what was measured on them.

    Attributes
    ----------
    name : str
    smiles : object array of shape (n_rows,)
    y : array of shape (n_rows,), or (n_rows, n_labels) for several labels
        Classes (int64) or values (float64); several labels are float64 with NaN where one is missing.
    label_names : tuple of str
    task : "classification" or "regression"
    split : Split or None
        The split that lies beside the table as ``splits/<name>.json``.
    """

    name: str
    smiles: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    label_names: tuple[str, ...]
    task: str
    split: Split | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.smiles)


@dataclass(frozen=True)
class _Source:
    """The original file of a table, and how its columns are called here."""

    file: str
    hash: str  # as several independent projects state it
    labels: dict[str, str] | None  # column of the original: ours; None: every column but the SMILES
    task: str = "classification"
    smiles: str = "smiles"


_SOURCES = {
    "bace": _Source(
        "bace.csv",
        "sha256:f3fb9ce90bada3e2bd6148b0df13f8f8145a357bf87df0dd5b391ede974fc737",
        {"Class": "Class"},
        smiles="mol",
    ),
    "hiv": _Source(
        "HIV.csv",
        "sha256:9ffa7fe57dc86c342627ee1d5255e937e2ab812393c73c4d16c697022f6e1d22",
        {"HIV_active": "HIV_active"},
    ),
    "sider": _Source("sider.csv.gz", "md5:77c0ef421f7cc8ce963c5836c8761fd2", None),
    "tox21": _Source(
        "tox21.csv.gz",
        "sha256:45d09792492ce049039dd24aa27b07fc79ce20c573187d4d90bcd178c0c0d360",
        {label: label for label in _TOX21},
    ),
    "esol": _Source(
        "delaney-processed.csv",
        "sha256:8c06a76f0c6487d29ab0f903e6a7a7139f189ab3c1178f159c8be8964602f189",
        {"measured log solubility in mols per litre": "logSolubility"},
        "regression",
    ),
    "freesolv": _Source(
        "SAMPL.csv",
        "sha256:ab5895d914ee87cb563bd7b9611e869527bba45bec6b014d34dc495a0f9dcb72",
        {"expt": "freesolv"},
        "regression",
    ),
    "lipo": _Source(
        "Lipophilicity.csv",
        "sha256:aed41590cb30609d51d8e08ad3ff06495a76e80e211358801f596b10da69bacd",
        {"exp": "lipo"},
        "regression",
    ),
}

MOLECULENET_NAMES = tuple(_SOURCES)


def load_moleculenet(
    name: str,
    data_home: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    base_url: str = MOLECULENET_URL,
    retries: int = 2,
) -> MoleculeTable:
    """A table of MoleculeNet.

    The table is read from ``<data_home>/moleculenet/<name>.csv.gz``. Where it is not there, MoleculeNet's
    original file is downloaded into ``<data_home>/moleculenet/original``, its hash is checked, and the table
    is made from it.

    Parameters
    ----------
    name : {"bace", "hiv", "sider", "tox21", "esol", "freesolv", "lipo"}
    data_home : path, optional
        The cache folder; by default the environment variable TREELU_DATA, else a folder in the user's cache.
    download : bool, default True
        False: raise an error where the file is not there.
    base_url : str
        Where MoleculeNet's original files lie.
    retries : int, default 2
        Further attempts after a download that broke off or has the wrong hash.

    Returns
    -------
    MoleculeTable

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> from experiments.datasets import load_moleculenet
    >>> with tempfile.TemporaryDirectory() as home:
    ...     pathlib.Path(home, "moleculenet").mkdir()
    ...     table = pd.DataFrame({"smiles": ["CCO", "CCCC"], "logSolubility": [1.1, -2.6]})
    ...     table.to_csv(pathlib.Path(home, "moleculenet", "esol.csv.gz"), index=False)
    ...     load_moleculenet("esol", home)
    MoleculeTable(name='esol', label_names=('logSolubility',), task='regression')
    """
    if name not in _SOURCES:
        raise ValueError(f"name must be one of {', '.join(_SOURCES)}; got {name!r}")
    source = _SOURCES[name]
    base_url = base_url.rstrip("/") + "/"
    home = data_folder(data_home)
    path = home / "moleculenet" / f"{name}.csv.gz"
    if not path.exists():
        if not download:
            raise FileNotFoundError(_what_to_put_where(name, path, "download is False"))
        try:
            original = _fetch(source, path.parent / "original", base_url, retries)
            _normalise(original, source, path)
        except (OSError, ValueError) as error:  # requests' errors are OSErrors; pooch: ValueError
            raise FileNotFoundError(
                _what_to_put_where(name, path, f"{base_url}{source.file} failed: {error}")
            ) from error
    return _read(name, path, cached_split(name, home))


def _what_to_put_where(name: str, path: Path, reason: str) -> str:
    source = _SOURCES[name]
    labels = "the labels" if source.labels is None else ", ".join(source.labels.values())
    return (
        f"no MoleculeNet table {name!r} in {path.parent} ({reason}). Put there either {path.name} (a gzipped "
        f"CSV with the columns smiles, {labels}), or MoleculeNet's file as {Path('original', source.file)} "
        f"({source.hash}), or name the folder that has it by data_home or the variable TREELU_DATA"
    )


def _fetch(source: _Source, folder: Path, base_url: str, retries: int) -> Path:
    """Download a file unless it is there; what breaks off or has the wrong hash never gets its name."""
    fetcher = downloader().create(
        path=folder,
        base_url=base_url,
        registry={source.file: source.hash},
        retry_if_failed=retries,
    )
    return Path(fetcher.fetch(source.file, progressbar=True))


def _normalise(original: Path, source: _Source, path: Path) -> None:
    """Write the table with the columns smiles and labels, its values letter for letter as they were."""
    import pandas as pd

    raw = pd.read_csv(original, dtype=str, keep_default_na=False)
    labels = source.labels
    if labels is None:
        labels = {column: column.replace(" ", "_") for column in raw.columns if column != source.smiles}
    absent = [column for column in (source.smiles, *labels) if column not in raw.columns]
    if absent:
        raise ValueError(f"{original} lacks the columns {absent}; it has {list(raw.columns)}")
    table = raw[[source.smiles, *labels]].rename(columns={source.smiles: "smiles", **labels})
    table["smiles"] = table["smiles"].str.strip()
    # Written beside the target and then renamed: a reader never sees half a table.
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    table.to_csv(partial, index=False, compression={"method": "gzip", "mtime": 0})
    os.replace(partial, path)


def _read(name: str, path: Path, split: Split | None) -> MoleculeTable:
    import pandas as pd

    table = pd.read_csv(path, dtype={"smiles": str})
    labels = [column for column in table.columns if column != "smiles"]
    if "smiles" not in table.columns or not labels:
        raise ValueError(f"{path} must have a column smiles and labels, it has {list(table.columns)}")
    task = _SOURCES[name].task
    y: Any = table[labels].to_numpy(dtype=np.float64)
    if len(labels) == 1:
        y = y[:, 0].astype(np.int64) if task == "classification" else y[:, 0]
    return MoleculeTable(name, table["smiles"].to_numpy(dtype=object), y, tuple(labels), task, split)
