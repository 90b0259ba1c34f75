"""`treelu fit` and `treelu predict` on many files, and on tables that do not fit into memory."""

import errno
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import QUICK, Type
from treelu.cli import fit as fitting
from treelu.cli import large
from treelu.cli.prepare import TableRows
from treelu.data import blocks
from treelu.data import store as stores
from treelu.data.store import RowStore
from treelu.estimators import _large
from treelu.persistence import load_as_saved

pytestmark = pytest.mark.slow


def rows(n: int = 900, seed: int = 0) -> pd.DataFrame:
    """Numbers, a text, a missing value now and then, and a target of three classes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"size": rng.normal(5, 2, n).round(3), "weight": rng.normal(0, 1, n).round(3)})
    frame["colour"] = rng.choice(["red", "blue", "green"], n)
    frame["kind"] = np.where(frame["size"] > 6, "large", np.where(frame.weight > 0, "small", "light"))
    frame.loc[::17, "weight"] = np.nan
    return frame


def write_parts(folder: Path, frame: pd.DataFrame, ending: str, n_parts: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), n_parts)):
        path = folder / f"part-{number}{ending}"
        if ending == ".parquet":
            frame.iloc[part].to_parquet(path)
        else:
            frame.iloc[part].to_csv(path, index=False)


@pytest.fixture
def tiny_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory for some hundred rows."""
    monkeypatch.setattr(large, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(large, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 150)
    monkeypatch.setattr(_large, "ROW_VISITS", 4000)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 50)
    monkeypatch.setattr("treelu.tables.pieces.PIECE_ROWS", 70)


@pytest.mark.parametrize(("ending", "as_pattern"), [(".csv", True), (".csv.gz", False), (".parquet", True)])
def test_many_files_are_fitted_as_one_would_be(tmp_path: Path, type_: Type, ending: str, as_pattern: bool) -> None:
    write_parts(tmp_path / "data", rows(200), ending)
    rows(200).to_csv(tmp_path / "one.csv", index=False)
    data = tmp_path / "data" / f"*{ending}" if as_pattern else tmp_path / "data"
    options = ("--target", "kind", *QUICK, "--no-cart", "--quiet")
    assert type_("fit", data, *options, "--out", tmp_path / "many").code == 0
    assert type_("fit", tmp_path / "one.csv", *options, "--out", tmp_path / "one").code == 0
    many, one = (load_as_saved(tmp_path / name) for name in ("many", "one"))
    assert many.encoder == one.encoder
    np.testing.assert_array_equal(many.estimator.predict(rows(50, 1)), one.estimator.predict(rows(50, 1)))
    apart = type_("predict", tmp_path / "one", tmp_path / "data")
    assert apart.out == type_("predict", tmp_path / "one", tmp_path / "one.csv").out


@pytest.mark.parametrize(("method", "ending"), [("lcn", ".csv"), ("tree", ".parquet")])
def test_a_table_larger_than_memory(tmp_path: Path, type_: Type, tiny_memory: None, method: str, ending: str) -> None:
    write_parts(tmp_path / "data", rows(), ending)
    (tmp_path / "store").mkdir()
    quick = ("--depth", 3, "--epochs", 30) if method == "lcn" else ("--leaves", 4)
    typed = type_(
        "fit", tmp_path / "data", "--target", "kind", "--method", method, *quick, "--store", tmp_path / "store",
        "--out", tmp_path / "m", "--json",
    )  # fmt: skip
    assert typed.code == 0, typed.err
    assert "900 rows in 3 files; the encoding is learned from a sample" in typed.err
    assert f"of encoded rows to {tmp_path / 'store'}; they are removed at the end" in typed.err
    told = json.loads(typed.out)
    assert (told["n_training_rows"], told["n_hold_out_rows"]) == (850, 50)
    assert not list((tmp_path / "store").iterdir())
    model = load_as_saved(tmp_path / "m")
    new = rows(300, seed=1)
    assert np.mean(model.estimator.predict(new) == new.kind) > 0.5
    assert model.trees[0].feature_names == model.encoder.feature_names
    if method == "tree":
        assert model.trees[0].n_samples[0] == 850


def test_held_out_rows_are_not_trained_on(
    tmp_path: Path, type_: Type, tiny_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the store and those held out are together the table, each row once."""
    frame = rows().drop(columns="colour").assign(weight=np.arange(900.0))
    write_parts(tmp_path / "data", frame, ".parquet")
    seen: list[np.ndarray] = []
    fit = _large._fit

    def spied(estimator: object, rows: blocks.BlockRows, eval_set: object) -> object:
        seen.append(rows.read(np.arange(rows.n_blocks)).X[:, 1])
        return fit(estimator, rows, eval_set)

    monkeypatch.setattr(_large, "_fit", spied)
    summarize = fitting.summarize_model

    def spied_too(model: object, rows: TableRows, **how: object) -> object:
        seen.append(rows.X["weight"].to_numpy())
        return summarize(model, rows, **how)

    monkeypatch.setattr(fitting, "summarize_model", spied_too)
    typed = type_("fit", tmp_path / "data", "--target", "kind", *QUICK, "--out", tmp_path / "m", "--quiet", "--no-cart")
    assert typed.code == 0, typed.err
    assert sorted(np.concatenate(seen)) == list(range(900))


def test_a_rare_class_is_in_the_sample(tmp_path: Path, type_: Type, tiny_memory: None) -> None:
    frame = rows()
    frame.loc[[801, 803], "kind"] = "rare"
    write_parts(tmp_path / "data", frame, ".csv")
    typed = type_("fit", tmp_path / "data", "--target", "kind", *QUICK, "--out", tmp_path / "m", "--quiet")
    assert typed.code == 0, typed.err
    assert load_as_saved(tmp_path / "m").estimator.classes_.tolist() == ["large", "light", "rare", "small"]


def test_values_and_a_partitioned_data_set(tmp_path: Path, type_: Type, tiny_memory: None) -> None:
    for year in ("2023", "2024"):
        write_parts(tmp_path / "data" / f"year={year}", rows(400, int(year)), ".parquet", 2)
    typed = type_("fit", tmp_path / "data", "--target", "size", *QUICK, "--out", tmp_path / "m", "--quiet")
    assert typed.code == 0, typed.err
    model = load_as_saved(tmp_path / "m")
    assert model.task == "regression"
    assert "year" in {column.name for column in model.encoder.columns}
    out = type_("predict", tmp_path / "m", tmp_path / "data", "--keep", "year").out.splitlines()
    assert len(out) == 801
    assert out[0].startswith("year,")


def test_what_later_pieces_have_is_noted_with_its_file(tmp_path: Path, type_: Type, tiny_memory: None) -> None:
    frame = rows()
    frame["weight"] = frame.weight.fillna(0.0).astype(object)
    frame.loc[850, "colour"] = "violet"
    frame.loc[853, "weight"] = "heavy"
    write_parts(tmp_path / "data", frame, ".csv")
    (tmp_path / "data" / "part-9.csv").write_text("size,weight,colour,kind\n")
    seed = 1  # with which these rows are not drawn
    typed = type_(
        "fit", tmp_path / "data", "--target", "kind", *QUICK, "--out", tmp_path / "m", "--no-cart", "--seed", seed
    )
    assert typed.code == 0, typed.err
    last = tmp_path / "data" / "part-2.csv"
    assert f"{last}: column 'colour': 1 value not seen in training ('violet'), in row " in typed.err
    assert f"{last}: column 'weight': heavy among numbers count as missing" in typed.err
    assert f"{tmp_path / 'data' / 'part-9.csv'} has no rows and is passed over" in typed.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("part-9.csv", "size,weight,kind\n1,2,small\n", "part-9.csv has no column 'colour', unlike .*part-0.csv"),
        ("part-9.csv", "size,weight,colour,kind\n1,inf,red,small\n", "part-9.csv: column 'weight', row 1: infinity"),
        ("part-9.csv", 'size,weight\n"1', "part-9.csv"),
        ("part-9.csv.gz", "\x1f\x8bdamaged", "part-9.csv.gz is cut short or damaged"),
        ("part-9.parquet", "no parquet", "part-0.csv is text and .*part-9.parquet is parquet; all files of a table"),
    ],
)
def test_a_bad_file_is_named(
    tmp_path: Path, type_: Type, tiny_memory: None, name: str, content: str, message: str
) -> None:
    write_parts(tmp_path / "data", rows(), ".csv")
    (tmp_path / "data" / name).write_bytes(content.encode("latin-1"))
    (tmp_path / "store").mkdir()
    typed = type_(
        "fit", tmp_path / "data", "--target", "kind", *QUICK, "--out", tmp_path / "m", "--store", tmp_path / "store"
    )
    assert typed.code == 2
    assert re.search(message, typed.err.splitlines()[-1])
    assert not (tmp_path / "m").exists()
    assert not list((tmp_path / "store").iterdir())


def test_parquet_files_with_other_types_are_named(tmp_path: Path, type_: Type) -> None:
    write_parts(tmp_path / "data", rows(), ".parquet")
    rows(50).assign(size="big").to_parquet(tmp_path / "data" / "part-9.parquet")
    typed = type_("fit", tmp_path / "data", "--target", "kind", "--out", tmp_path / "m")
    assert typed.code == 2
    assert "part-9.parquet: column 'size' holds text, but in " in typed.err
    assert "part-0.parquet numbers; make the files alike" in typed.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "kind", "--method", "elcn"), "--method elcn needs a table that fits into memory"),
        (("--target", "kind", "--store", "nowhere"), "--store nowhere is not a folder; make it first"),
        (("--target", "a,b"), "several labels must; fit one --target at a time"),
    ],
)
def test_what_needs_memory_is_said(
    tmp_path: Path, type_: Type, tiny_memory: None, options: tuple[str, ...], message: str
) -> None:
    write_parts(tmp_path / "data", rows().assign(a=lambda t: t["size"] > 5, b=lambda t: t["size"] > 6), ".csv")
    typed = type_("fit", tmp_path / "data", *options, "--out", tmp_path / "m")
    assert typed.code == 2
    assert message in typed.err


def test_a_full_disk_is_foreseen(
    tmp_path: Path, type_: Type, tiny_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    write_parts(tmp_path / "data", rows(), ".csv")
    typed = type_("fit", tmp_path / "data", "--target", "kind", "--out", tmp_path / "m")
    assert typed.code == 2
    assert "give another --store" in typed.err


def test_a_disk_that_fills_up_or_cannot_be_written_ends_the_fit(
    tmp_path: Path, type_: Type, tiny_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line; no store is left, and the model that was there stays."""
    write_parts(tmp_path / "data", rows(), ".csv")
    (tmp_path / "store").mkdir()
    words = (
        "fit",
        tmp_path / "data",
        "--target",
        "kind",
        *QUICK,
        "--out",
        tmp_path / "m",
        "--store",
        tmp_path / "store",
    )
    assert type_(*words, "--quiet", "--no-cart").code == 0
    before = (tmp_path / "m" / "model.json").read_bytes()
    n_written: list[int] = []

    def full(file: Any, array: np.ndarray, write: Any = stores._write_all) -> None:
        n_written.append(array.nbytes)
        if sum(n_written) > 5000:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, array)

    def read_only(**where: Any) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    for owner, name, put, message in [
        (stores, "_write_all", full, "treelu: .* No space left on device; the rows take [0-9,]+ bytes so far"),
        (
            stores,
            "tempfile",
            SimpleNamespace(mkdtemp=read_only),
            "Permission denied: rows cannot be stored in .*",
        ),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, put)
            typed = type_(*words, "--force")
        assert typed.code == 1
        assert re.search(message, typed.err.splitlines()[-1])
        assert not list((tmp_path / "store").iterdir())
        assert (tmp_path / "m" / "model.json").read_bytes() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_store_does_not_outlive_its_fit(tmp_path: Path, type_: Type, number: int) -> None:
    """After Ctrl-C it is gone at once, after a kill at the next start; there is no half a model."""
    write_parts(tmp_path / "data", rows(), ".csv")
    (tmp_path / "store").mkdir()
    words = ["fit", str(tmp_path / "data"), "--target", "kind", "--out", str(tmp_path / "m"), *QUICK, "--no-cart"]
    words += ["--store", str(tmp_path / "store")]
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "from treelu.cli import large, main\n"
        "from treelu.estimators import _large\n"
        "large.IN_MEMORY_BYTES, large.SAMPLE_ROWS = 0, 200\n"
        "def wait(*arguments):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(100)\n"
        "_large._fit = wait\n"
        f"sys.argv = ['treelu', *{words!r}]\n"
        "sys.exit(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert len(list((tmp_path / "store").iterdir())) == 1
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert len(list((tmp_path / "store").iterdir())) == (0 if number == signal.SIGINT else 1)
    assert not (tmp_path / "m").exists()
    RowStore.create(tmp_path / "store", 1).remove()
    assert not list((tmp_path / "store").iterdir())


@pytest.mark.parametrize("method", ["lcn", "tree"])
def test_a_fit_on_a_cluster(tmp_path: Path, type_: Type, tiny_memory: None, method: str) -> None:
    distributed = pytest.importorskip("distributed")
    write_parts(tmp_path / "data", rows(), ".csv")
    quick = ("--depth", 3, "--epochs", 30) if method == "lcn" else ("--leaves", 4)
    with distributed.LocalCluster(
        n_workers=2, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        typed = type_(
            "fit", tmp_path / "data", "--target", "kind", "--method", method, *quick, "--out", tmp_path / "m", "--json",
            "--scheduler", cluster.scheduler_address,
        )  # fmt: skip
    assert typed.code == 0, typed.err
    assert "900 rows in 3 files, which the workers read themselves" in typed.err
    told = json.loads(typed.out)
    assert (told["n_training_rows"], told["n_hold_out_rows"]) == (850, 50)
    model, new = load_as_saved(tmp_path / "m"), rows(300, seed=1)
    assert np.mean(model.estimator.predict(new) == new.kind) > 0.5
    if method == "tree":
        assert model.trees[0].n_samples[0] == 850


SCRIPT = """
import sys
from treelu.cli import main
if __name__ == "__main__":
    import psutil
    import treelu.dask as on_dask
    from treelu.cli import large
    on_dask.SAMPLE_ROWS, on_dask.ROW_VISITS = 300, 4000
    fit = on_dask.DaskLCNClassifier.fit_windows
    def watched(self, client, windows):
        import signal
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        doors = {door.laddr.ip for one in family for door in one.net_connections() if door.status == "LISTEN"}
        handlers = client.run(lambda: signal.getsignal(signal.SIGINT) == signal.SIG_IGN)
        fitted = fit(self, client, windows)
        print(f"doors {sorted(doors)}, deaf {set(handlers.values())}, rounds {fitted.n_rounds_ > 0}", file=sys.stderr)
        return fitted
    on_dask.DaskLCNClassifier.fit_windows = watched
    sys.exit(main())
"""


def test_a_fit_on_the_processors_of_this_machine(tmp_path: Path) -> None:
    """As `treelu` itself is started: workers are processes that import the script anew, and listen to nobody else."""
    pytest.importorskip("distributed")
    write_parts(tmp_path / "data", rows(), ".csv")
    (tmp_path / "treelu").write_text(SCRIPT)
    words = "fit data --target kind --method lcn --depth 3 --epochs 30 --out m --scheduler local --no-cart --no-compare"
    done = subprocess.run(
        [sys.executable, "treelu", *words.split()],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "doors ['127.0.0.1'], deaf {True}, rounds True" in done.stderr
    assert done.stderr.count("which the workers read themselves") == 1
    assert "distributed" not in done.stderr
    model, new = load_as_saved(tmp_path / "m"), rows(300, seed=1)
    assert np.mean(model.estimator.predict(new) == new.kind) > 0.5


def test_what_a_cluster_cannot_do_is_said(tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("treelu.cli.large.PATIENCE", "1s")
    write_parts(tmp_path / "data", rows(), ".csv")
    words = ("fit", tmp_path / "data", "--target", "kind", *QUICK, "--out", tmp_path / "m", "--scheduler")
    typed = type_(*words, "tcp://127.0.0.1:1")
    assert typed.code == 2
    assert "--scheduler tcp://127.0.0.1:1: no Dask scheduler answers there" in typed.err
    typed = type_(*words, "local", "--method", "alcn")
    assert typed.code == 2
    assert "--scheduler goes with --method tree, lcn or lln" in typed.err
