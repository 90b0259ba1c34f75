"""The folder of a saved model: replaced at one stroke, and clear errors where it is not whole."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.persistence.models import table_model
from treelu.persistence import ModelFileError, dumps, load, loads, save
from treelu.persistence.estimators import today
from treelu.persistence.files import MANIFEST, write_atomically
from treelu.persistence.folder import Staged
from treelu.persistence.values import ArrayWriter
from treelu.tree import ObliqueTree


def stump(value: float) -> ObliqueTree:
    return ObliqueTree([[1.0]], [0.0], [[1, 2]], [[value], [-value]])


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_model_replaces_the_old_one_and_leaves_other_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    save(stump(1), folder)
    (folder / "mine.txt").write_text("mine")
    before = files(folder)
    save(stump(2), folder)
    assert load(folder) == stump(2)
    assert len(files(folder)) == len(before) == 3
    save(stump(2), folder)  # the same arrays once more
    assert load(folder) == stump(2)
    assert (folder / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("failing", ["arrays", MANIFEST])
def test_a_failed_write_keeps_the_old_model_and_no_scraps(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(stump(1), tmp_path / "model")
    before = files(tmp_path / "model")
    replace = Path.replace

    def fail(self: Path, target: Path) -> Path:
        if Path(target).name.startswith(failing):
            raise OSError("no space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    for folder in ("model", "new"):
        with pytest.raises(OSError, match="no space left"):
            save(stump(2), tmp_path / folder)
    assert files(tmp_path / "model") == before
    assert load(tmp_path / "model") == stump(1)
    assert not (tmp_path / "new").exists()


def test_whoever_reads_while_another_writes_gets_a_whole_model(tmp_path: Path) -> None:
    save(stump(0), tmp_path)
    writer = threading.Thread(target=lambda: [save(stump(value), tmp_path) for value in range(40)])
    writer.start()
    seen = 0
    while writer.is_alive() or seen == 0:
        tree = load(tmp_path)
        assert tree == stump(tree.values[0, 0])
        seen += 1
    writer.join()
    assert load(tmp_path) == stump(39)


def test_a_file_never_shows_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert files(tmp_path) == ["file"]


def change(folder: Path, **fields: object) -> None:
    """Alter the manifest without its checksum."""
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | fields))


def test_messages_of_folders_that_are_not_whole(tmp_path: Path) -> None:
    def message(folder: Path) -> str:
        with pytest.raises(ModelFileError) as error:
            load(folder)
        return str(error.value).replace(str(tmp_path), "").replace(os.sep, "/")

    assert message(tmp_path / "none") == "/none does not exist; give the folder of a saved model"
    (tmp_path / "file").write_text("")
    assert message(tmp_path / "file") == "/file is a file; give the folder of a saved model"
    (tmp_path / "empty").mkdir()
    assert message(tmp_path / "empty") == "/empty cannot be read: it has no model.json, so it is not a saved model"
    folder = save(stump(1), tmp_path / "m")
    arrays = next(folder.glob("arrays-*"))
    whole, manifest = arrays.read_bytes(), (folder / MANIFEST).read_bytes()

    arrays.write_bytes(whole[:-8])
    assert f"bytes in place of {len(whole)}: it was cut or altered" in message(folder)
    arrays.write_bytes(whole[:-1] + b"\x01")
    assert "the arrays do not fit their checksum: the file was cut or altered" in message(folder)
    arrays.unlink()
    assert f"{arrays.name} is missing; copy the whole folder" in message(folder)
    arrays.write_bytes(whole)

    (folder / MANIFEST).write_bytes(manifest[:-20])
    assert "model.json is not JSON: it was cut or altered, or is not treelu's" in message(folder)
    (folder / MANIFEST).write_bytes(b'{"some": "other"}')
    assert "model.json was not written by treelu" in message(folder)
    with pytest.raises(ModelFileError, match="did not write; remove it or choose another folder"):
        save(stump(2), folder)
    for altered, expected in (
        ({"treelu": "9"}, "model.json does not fit its checksum: it was altered"),
        ({"version": 2}, "its format is version 2, and this treelu"),
        ({"version": "1"}, "its format is version '1'"),
        ({"format": "other"}, "model.json was not written by treelu"),
    ):
        (folder / MANIFEST).write_bytes(manifest)
        change(folder, **altered)
        assert expected in message(folder)
    with pytest.raises(ModelFileError, match="path must be a folder"):
        save(stump(1), tmp_path / "file")


def test_spacing_of_the_manifest_does_not_matter() -> None:
    manifest, arrays = dumps(stump(1))
    assert loads(json.dumps(json.loads(manifest), indent=4, sort_keys=True).encode(), arrays) == stump(1)


def test_a_saved_tree_needs_neither_torch_nor_scikit_learn(tmp_path: Path) -> None:
    save(stump(1), tmp_path)
    code = (
        "import sys, treelu; tree = treelu.load(sys.argv[1]); print(tree.predict([[1.0]])[0]); "
        "print(sorted({'torch', 'sklearn', 'pandas', 'pickle5'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == ["-1.0", "[]"]


def test_nothing_that_is_loaded_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pickle nor eval, exec or imports by name take part in loading."""
    import builtins
    import pickle

    folder = save(stump(1), tmp_path / "m")
    load(folder)  # imports what it needs

    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError("loading must not execute what it reads")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    for name in ("eval", "exec", "compile"):
        monkeypatch.setattr(builtins, name, forbidden)
    assert np.array_equal(load(folder).values, stump(1).values)


def test_a_staged_file_appears_whole(tmp_path: Path) -> None:
    staged = Staged(tmp_path / "a.txt")
    staged.file.write(b"whole")
    assert not (tmp_path / "a.txt").exists()
    staged.publish()
    assert (tmp_path / "a.txt").read_bytes() == b"whole"


def test_parameters_of_earlier_versions() -> None:
    _, parameters = today("ELCNRegressor", {"member": "lcn", "depth": 3, "n_estimators": 4})
    assert parameters["estimator"]["estimator"] == "LCNRegressor"
    found = today("ELCNClassifier", {"combine": "stack", "n_trees": 200, "shrinkage": 0.1})
    assert found == ("StackedClassifier", {"n_trees": 200})


def test_labels_as_json() -> None:
    assert ArrayWriter().labels(np.array(["no", "yes"])) == {"dtype": "str", "values": ["no", "yes"]}


def test_reports_of_others_beside_a_table_model_stay(tmp_path: Path) -> None:
    save(table_model(), tmp_path)
    (tmp_path / "report.html").write_text("mine")
    save(table_model(), tmp_path)
    assert (tmp_path / "report.html").read_text() == "mine"
