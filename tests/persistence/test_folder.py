"""Folders of models under stress: several writers, killed writers, and files that are no files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from scipy.sparse import csr_array

from tests.persistence.test_files import files, stump
from treelu.persistence import ModelFileError, dumps, load, loads, save
from treelu.persistence import files as saved_files
from treelu.persistence.files import MANIFEST, _checksum
from treelu.persistence.folder import Staged, read_regular, replacing, write_atomically
from treelu.tree import ObliqueTree
from treelu.tree.check import MAX_UNSTORED

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and flock are of POSIX")


# Several writers


@pytest.mark.slow
@posix
def test_two_writers_and_a_reader(tmp_path: Path) -> None:
    """Two processes save different models in turn; every load in between finds one of them, and nothing is left."""
    code = (
        "import sys; from treelu.persistence import save; from treelu.tree import ObliqueTree\n"
        "for k in range(60):\n"
        "    value = float(sys.argv[2]) + k % 2\n"
        "    save(ObliqueTree([[1.0]], [0.0], [[1, 2]], [[value], [-value]]), sys.argv[1])\n"
    )
    save(stump(1), tmp_path)
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(value)]) for value in (10, 20)]
    loads_done = 0
    while any(writer.poll() is None for writer in writers):
        tree = load(tmp_path)
        assert tree == stump(tree.values[0, 0])
        loads_done += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert loads_done > 0
    assert load(tmp_path) in (stump(11), stump(21))
    assert len(files(tmp_path)) == 2


@pytest.mark.slow
@posix
def test_two_threads_write_one_folder(tmp_path: Path) -> None:
    def write(value: float) -> None:
        for k in range(25):
            save(stump(value + k % 2), tmp_path)

    threads = [threading.Thread(target=write, args=(value,)) for value in (10.0, 20.0, 30.0)]
    for thread in threads:
        thread.start()
    while not (tmp_path / MANIFEST).exists():
        pass
    while any(thread.is_alive() for thread in threads):
        tree = load(tmp_path)
        assert tree == stump(tree.values[0, 0])
    assert len(files(tmp_path)) == 2


# Killed writers


@posix
def test_leftovers_of_killed_writers_go_at_the_next_write_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    name = "arrays-0123456789abcdef.safetensors"
    for leftover in (
        f".{name}-0123456789abcdef",
        f".{MANIFEST}-0123456789abcdef",
        ".report.html-0123456789abcdef",
        name,
    ):
        (tmp_path / leftover).write_text("of a writer that was killed")
    for other in (".hidden-0123456789abcdef", f".{name}-mine", "arrays-mine.safetensors"):
        (tmp_path / other).write_text("somebody else's")
    alive = Staged(tmp_path / MANIFEST)
    (tmp_path / ".tree-a.txt-0123456789abcdef.part").write_text("of a writer that was killed")
    save(stump(1), tmp_path, beside={"report.html": b"page"})
    assert alive.temporary.exists()
    alive.discard()
    mine = {".hidden-0123456789abcdef", f".{name}-mine", "arrays-mine.safetensors"}
    left = {path for path in files(tmp_path) if path not in mine}
    assert left == {MANIFEST, "report.html", saved_files._arrays_name(dumps(stump(1))[1])}
    assert mine <= set(files(tmp_path))


@posix
def test_a_process_killed_while_it_writes_leaves_what_the_next_write_removes(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from treelu.persistence.folder import replacing\n"
        "with replacing(Path(sys.argv[1])) as file:\n"
        "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "scores.csv"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    assert len(files(tmp_path)) == 1
    write_atomically(path, b"whole")
    assert files(tmp_path) == ["scores.csv"]
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert files(tmp_path) == ["scores.csv"]
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("step", range(6))
def test_an_interrupt_at_any_step_leaves_one_whole_model(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are the renames; before each, and after the last, the folder must be whole."""
    save(stump(1), tmp_path, beside={"report.html": b"1", "tree.txt": b"1"})
    replace, steps = Path.replace, iter(range(9))

    def interrupted(self: Path, target: Path) -> Path:
        if next(steps) == step // 2:
            if step % 2:
                replace(self, target)
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(stump(2), tmp_path, beside={"report.html": b"2"})
    monkeypatch.undo()
    now = load(tmp_path)
    assert now in (stump(1), stump(2))
    for path in (tmp_path / "report.html", tmp_path / "tree.txt"):  # never one of another model
        assert not path.exists() or path.read_bytes() == b"%d" % now.values[0, 0]
    assert not [name for name in files(tmp_path) if name.startswith(".")]
    save(stump(3), tmp_path)
    assert len(files(tmp_path)) == 2


def test_names_beside_a_model_are_plain_names(tmp_path: Path) -> None:
    for name in ("../x", "a/b", "", ".hidden", MANIFEST, "a\\b", "arrays-0123456789abcdef.safetensors"):
        with pytest.raises(ValueError, match="cannot be the name of a file beside a model"):
            save(stump(1), tmp_path / "m", beside={name: b""})
    assert not (tmp_path / "m").exists()
    folder = save(stump(1), tmp_path / "m")
    manifest = json.loads((folder / MANIFEST).read_text())
    (tmp_path / "mine").write_text("mine")
    (folder / MANIFEST).write_text(json.dumps(manifest | {"beside": ["../mine", str(tmp_path / "mine"), 3]}))
    with pytest.raises(ModelFileError, match="did not write"):  # 3 is no name
        save(stump(2), folder)
    (folder / MANIFEST).write_text(json.dumps(manifest | {"beside": ["../mine", str(tmp_path / "mine")]}))
    save(stump(2), folder)
    assert (tmp_path / "mine").read_text() == "mine"


# Files that are no files


@posix
@pytest.mark.parametrize("which", ["manifest", "arrays"])
@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "loop", "endless"])
def test_what_is_no_regular_file_is_refused_unread(kind: str, which: str, tmp_path: Path) -> None:
    folder = save(stump(1), tmp_path / "m")
    path = folder / MANIFEST if which == "manifest" else next(folder.glob("arrays-*"))
    path.unlink()
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)  # a terabyte of nothing
    with pytest.raises(ModelFileError, match=f"{path.name} (is a folder, a device|cannot be read|has 1,099)"):
        load(folder)
    if which == "manifest":
        with pytest.raises(ModelFileError, match="did not write"):
            save(stump(2), folder)


@posix
def test_links_to_files_are_fine(tmp_path: Path) -> None:
    """As in caches that keep one copy of equal files."""
    folder = save(stump(1), tmp_path / "m")
    for path in list(folder.iterdir()):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    assert load(folder) == stump(1)


def test_no_more_is_read_than_expected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ModelFileError, match="file has 5 bytes; at most 4 are expected"):
        read_regular(tmp_path / "file", 4)


@posix
def test_a_file_of_holes_is_refused_unread(tmp_path: Path) -> None:
    """4 GB that are not on the disk were read and hashed before they were refused."""
    save(stump(1), tmp_path)
    (arrays,) = tmp_path.glob("arrays-*.safetensors")
    size = 1 << 32
    os.truncate(arrays, size)
    if arrays.stat().st_blocks * 512 >= size:
        pytest.skip("a file system without holes")
    manifest = json.loads((tmp_path / MANIFEST).read_bytes())
    del manifest["sha256"]
    manifest["arrays"]["bytes"] = size
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | {"sha256": _checksum(manifest)}))
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=r"states 4,294,967,296 bytes, of which [\d,]+ are on the disk"):
        load(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_features_that_take_no_room_in_the_files_are_bounded() -> None:
    """The vectors of 1e8 features take 800 MB each, wherever the tree is used."""
    few, many = (csr_array(([1.0], [0], [0, 1]), shape=(1, n)) for n in (MAX_UNSTORED, 10**8))
    tree = ObliqueTree(few, [0.0], [[1, 2]], [[0.0], [1.0]])
    assert loads(*dumps(tree)) == tree
    assert ObliqueTree.from_json(tree.to_json()) == tree
    bomb = ObliqueTree(many, [0.0], [[1, 2]], [[0.0], [1.0]])
    with pytest.raises(ModelFileError, match=r"100,000,000 features in [\d,]+ bytes"):
        loads(*dumps(bomb))
    with pytest.raises(ValueError, match="n_features is 100,000,000 in a text of"):
        ObliqueTree.from_json(bomb.to_json())


@posix
def test_a_manifest_that_would_fill_the_memory_is_refused_unparsed() -> None:
    """0.1 took 6.7 GB for 256 MB of empty objects. A process of its own, to measure its memory."""
    code = (
        "import resource; from treelu.persistence import ModelFileError, loads\n"
        "from treelu.persistence.files import MAX_MANIFEST\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for one in (b'{},', b'[],', b'[[', b'{\"a\":['):\n"
        "    try: loads(b'[' + one * (MAX_MANIFEST // len(one) - 2) + b'0]', b'')\n"
        "    except ModelFileError as error: assert 'brackets' in str(error), error\n"
        "    else: raise AssertionError\n"
        "used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "assert used < 400_000, used\n"  # KB
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_load_would_refuse_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, arrays = dumps(stump(1))
    assert loads(manifest, arrays) == stump(1)
    monkeypatch.setattr(saved_files, "MAX_MANIFEST", len(manifest) - 1)
    with pytest.raises(ModelFileError, match="is larger than 0 MB"):
        dumps(stump(1))
    monkeypatch.undo()
    monkeypatch.setattr(saved_files, "MAX_CONTAINERS", 3)
    with pytest.raises(ModelFileError, match="more than 3 brackets"):
        dumps(stump(1))
