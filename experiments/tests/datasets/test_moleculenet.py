"""MoleculeNet's tables from the cache folder, and by download from a real HTTP server on loopback."""

import gzip
import hashlib
import http.server
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.datasets import MOLECULENET_NAMES, load_moleculenet, moleculenet

SHAPES = {
    "bace": (1513, 1, "classification"),
    "hiv": (41127, 1, "classification"),
    "sider": (1427, 27, "classification"),
    "tox21": (7831, 12, "classification"),
    "esol": (1128, 1, "regression"),
    "freesolv": (642, 1, "regression"),
    "lipo": (4200, 1, "regression"),
}

# A few lines in the form of each of MoleculeNet's original files.
ORIGINALS = {
    "bace": "mol,CID,Class,Model,pIC50,canvasUID\nCCO,BACE_1,1,Train,9.15,1\nc1ccccc1,BACE_2,0,Test,4.0,2\n",
    "hiv": "smiles,activity,HIV_active\nCCO,CI,0\nc1ccccc1,CM,1\n",
    "sider": 'smiles,Eye disorders,"Injury, poisoning and procedural complications"\nCCO,1,0\nc1ccccc1,0,1\n',
    "tox21": ",".join(moleculenet._TOX21)
    + ",mol_id,smiles\n"
    + "0,1,,0,,0,0,1,0,0,0,0,TOX3021,CCO\n,,,,,,,,,,,1,TOX3020,c1ccccc1\n",
    "esol": "Compound ID,ESOL predicted log solubility in mols per litre,Minimum Degree,"
    'measured log solubility in mols per litre,smiles\n"a,b",-0.974,1,-0.77,CCO \nd,-2,1,-3.30,c1ccccc1\n',
    "freesolv": 'iupac,smiles,expt,calc\n"1,2-x",CCO,-11.01,-9.625\ny,c1ccccc1,-4.870,-6.219\n',
    "lipo": "CMPD_CHEMBLID,exp,smiles\nCHEMBL1,3.54,CCO\nCHEMBL2,-1.18,c1ccccc1\n",
}


@pytest.mark.parametrize("name", MOLECULENET_NAMES)
def test_tables_in_the_folder(shared_data, name):
    table = load_moleculenet(name, shared_data, download=False)
    rows, labels, task = SHAPES[name]
    assert (len(table), len(table.label_names), table.task) == (rows, labels, task)
    assert table.y.shape == ((rows,) if labels == 1 else (rows, labels))
    assert all(isinstance(text, str) for text in table.smiles)
    if name in ("bace", "hiv"):
        assert table.y.dtype == np.int64
        assert set(table.y) == {0, 1}
    if table.split is not None:
        assert max(map(np.max, table.split)) < rows


def test_missing_labels_of_tox21_are_nan(shared_data):
    y = load_moleculenet("tox21", shared_data).y
    assert np.isnan(y).sum() == 16026
    assert set(y[~np.isnan(y)]) == {0.0, 1.0}


def test_folder_by_environment_variable(shared_data, monkeypatch):
    monkeypatch.setenv("TREELU_DATA", str(shared_data))
    assert len(load_moleculenet("freesolv", download=False)) == 642


def test_unknown_name():
    with pytest.raises(ValueError, match=r"one of bace, hiv, .*; got 'qm9'"):
        load_moleculenet("qm9")


class Server(http.server.ThreadingHTTPServer):
    """Serves files from memory; ``faults`` says what goes wrong with the next answers."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.faults, self.requests = {}, [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/datasets/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rpartition("/")[2]
        self.server.requests.append(name)
        fault = self.server.faults.pop(0) if self.server.faults else None
        content = self.server.files.get(name)
        if content is None or fault == "503":
            self.send_error(503 if fault == "503" else 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault == "partial":
            content = content[: len(content) // 2]  # and the connection is closed
        elif fault == "garbled":
            content = content[:-1] + b"#"
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """A server with the short originals, whose hashes replace those of the real ones."""
    server = Server()
    for name, text in ORIGINALS.items():
        source = moleculenet._SOURCES[name]
        content = text.encode()
        if source.file.endswith(".gz"):
            content = gzip.compress(content, mtime=0)
        server.files[source.file] = content
        known = replace(source, hash="sha256:" + hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(moleculenet._SOURCES, name, known)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)  # no waiting between attempts
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", MOLECULENET_NAMES)
def test_download_gives_the_tables_columns(server, tmp_path, name):
    table = load_moleculenet(name, tmp_path, base_url=server.url)
    assert table.smiles.tolist() == ["CCO", "c1ccccc1"]
    expected = {
        "bace": [1, 0],
        "hiv": [0, 1],
        "sider": [[1, 0], [0, 1]],
        "tox21": [[0, 1, np.nan, 0, np.nan, 0, 0, 1, 0, 0, 0, 0], [*[np.nan] * 11, 1]],
        "esol": [-0.77, -3.3],
        "freesolv": [-11.01, -4.87],
        "lipo": [3.54, -1.18],
    }
    np.testing.assert_array_equal(table.y, expected[name])
    assert table.split is None


@pytest.mark.parametrize("name", MOLECULENET_NAMES)
def test_columns_of_the_written_table_are_those_of_the_shared_one(server, tmp_path, shared_data, name):
    load_moleculenet(name, tmp_path, base_url=server.url)
    ours = pd.read_csv(tmp_path / "moleculenet" / f"{name}.csv.gz").columns.tolist()
    theirs = pd.read_csv(shared_data / "moleculenet" / f"{name}.csv.gz", nrows=1).columns.tolist()
    if name == "sider":  # the short original has two of the 27 labels
        assert set(ours) < set(theirs)
    else:
        assert ours == theirs


def test_downloads_once_and_then_needs_no_server(server, tmp_path, capfd):
    load_moleculenet("bace", tmp_path, base_url=server.url)
    assert "100%" in capfd.readouterr().err  # progress is shown
    again = load_moleculenet("bace", tmp_path, base_url="http://127.0.0.1:9/", download=False)
    assert again.y.tolist() == [1, 0]
    assert server.requests == ["bace.csv"]
    # The original alone will do as well: no second download.
    (tmp_path / "moleculenet" / "bace.csv.gz").unlink()
    assert load_moleculenet("bace", tmp_path, base_url=server.url).y.tolist() == [1, 0]
    assert server.requests == ["bace.csv"]


def files_below(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("fault", ["partial", "garbled", "503"])
def test_retries_after_a_fault(server, tmp_path, fault):
    server.faults = [fault, fault]
    table = load_moleculenet("hiv", tmp_path, base_url=server.url)
    assert table.y.tolist() == [0, 1]
    assert len(server.requests) == 3
    assert files_below(tmp_path) == ["HIV.csv", "hiv.csv.gz"]


@pytest.mark.parametrize(
    ("fault", "reason"), [("partial", "IncompleteRead"), ("garbled", "hash"), ("503", "503 Server Error")]
)
def test_gives_up_and_leaves_nothing_half_done(server, tmp_path, fault, reason):
    server.faults = [fault] * 3
    with pytest.raises(FileNotFoundError, match=f"HIV.csv failed: .*{reason}.*original/HIV.csv"):
        load_moleculenet("hiv", tmp_path, base_url=server.url)
    assert len(server.requests) == 3
    assert files_below(tmp_path) == []
    assert load_moleculenet("hiv", tmp_path, base_url=server.url).y.tolist() == [0, 1]


def test_not_found(server, tmp_path):
    del server.files["Lipophilicity.csv"]
    with pytest.raises(FileNotFoundError, match="404 Client Error"):
        load_moleculenet("lipo", tmp_path, base_url=server.url, retries=0)
    assert len(server.requests) == 1


def test_offline_without_cache_says_which_file_to_put_where(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load_moleculenet("tox21", tmp_path, base_url="http://127.0.0.1:9/data", retries=0)
    message = str(caught.value)
    for part in (
        "http://127.0.0.1:9/data/tox21.csv.gz",
        str(tmp_path / "moleculenet"),
        "tox21.csv.gz",
        "smiles, NR-AR,",
        "original",
        "TREELU_DATA",
    ):
        assert part in message
    with pytest.raises(FileNotFoundError, match="download is False"):
        load_moleculenet("tox21", tmp_path, download=False)


def test_a_corrupted_original_is_replaced(server, tmp_path):
    original = tmp_path / "moleculenet" / "original" / "SAMPL.csv"
    original.parent.mkdir(parents=True)
    original.write_text("iupac,smi")
    assert load_moleculenet("freesolv", tmp_path, base_url=server.url).y.tolist() == [-11.01, -4.87]


def test_an_original_without_the_columns_is_refused(server, tmp_path, monkeypatch):
    server.files["SAMPL.csv"] = b"a,b\n1,2\n"
    digest = hashlib.sha256(b"a,b\n1,2\n").hexdigest()
    known = replace(moleculenet._SOURCES["freesolv"], hash=f"sha256:{digest}")
    monkeypatch.setitem(moleculenet._SOURCES, "freesolv", known)
    with pytest.raises(FileNotFoundError, match=r"lacks the columns \['smiles', 'expt'\]"):
        load_moleculenet("freesolv", tmp_path, base_url=server.url)
