"""The PDBbind table, and the reader of the authors' pickle, which must not run what a pickle asks for."""

import gzip
import pickle
import shutil

import numpy as np
import pytest

from experiments.datasets import load_pdbbind, read_grid_features


def six_arrays(dtype=float):
    rng = np.random.default_rng(0)
    arrays = []
    for rows in (5, 3, 2):
        arrays += [rng.integers(0, 9, (rows, 4)).astype(dtype), rng.normal(size=rows).round(2)]
    return arrays


def write(path, content):
    path.write_bytes(gzip.compress(content))
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("module", [b"numpy._core", b"numpy.core"])
def test_reads_arrays_of_every_protocol_and_numpy(tmp_path, protocol, module):
    arrays = six_arrays()
    arrays[0] = np.asfortranarray(arrays[0])
    content = pickle.dumps(tuple(arrays), protocol)
    if module == b"numpy.core" and protocol < 4:  # as NumPy 1 wrote it; names are not length-coded there
        content = content.replace(b"numpy._core", module)
    found = read_grid_features(write(tmp_path / "grid.pkl.gz", content))
    assert found._fields == ("X_train", "y_train", "X_valid", "y_valid", "X_test", "y_test")
    for ours, expected in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_reads_numpy_1_names_in_protocol_4(tmp_path):
    # Protocol 4 codes the length of names and of frames; NumPy 1's shorter name changes both.
    content = pickle.dumps(six_arrays(), 4)
    long, short = b"numpy._core.multiarray", b"numpy.core.multiarray"
    content = content.replace(bytes([len(long)]) + long, bytes([len(short)]) + short)
    frame = int.from_bytes(content[3:11], "little") - 1
    content = content[:3] + frame.to_bytes(8, "little") + content[11:]
    found = read_grid_features(write(tmp_path / "grid.pkl.gz", content))
    np.testing.assert_array_equal(found.y_test, six_arrays()[-1])


@pytest.mark.parametrize("dtype", ["?", "i1", ">i4", "u8", "f2", "<f4", ">f8"])
def test_reads_every_number_type(tmp_path, dtype):
    arrays = [array.astype(dtype) for array in six_arrays(int)]
    found = read_grid_features(write(tmp_path / "grid.pkl.gz", pickle.dumps(arrays, 4)))
    for ours, expected in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(ours, expected.astype(float))
        assert ours.flags.writeable


def test_reads_arrays_of_python_2(tmp_path):
    # Protocol 2 of Python 2: the bytes of an array are a short string, not encoded text.
    one = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR(I1\n(I%d\n%stcnumpy\ndtype\n"
    kind = b"(U\x02f8I0\nI1\ntR(I3\nU\x01<NNNI-1\nI-1\nI0\ntbI00\nU%c%stb"
    arrays = [array.astype("<f8") for array in six_arrays()]
    content = b"\x80\x02("
    for array in arrays:
        shape = (array.shape[0], b"I%d\n" % array.shape[1] if array.ndim == 2 else b"")
        content += one % shape + kind % (array.nbytes, array.tobytes())
    found = read_grid_features(write(tmp_path / "grid.pkl.gz", content + b"t."))
    for ours, expected in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_columns_of_targets_become_vectors(tmp_path):
    arrays = [a if a.shape[1:] else a[:, None] for a in six_arrays(np.int8)]
    found = read_grid_features(write(tmp_path / "grid.pkl.gz", pickle.dumps(arrays)))
    assert found.y_train.shape == (5,)
    assert found.X_train.dtype == np.float64


class Hostile:
    """On reading, calls a function with an argument."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("hidden", [False, True])
def test_hostile_pickle_is_refused_before_it_runs(tmp_path, protocol, hidden):
    victim = tmp_path / "precious"
    victim.mkdir()
    attack = Hostile(shutil.rmtree, str(victim))
    arrays = six_arrays()
    if hidden:  # inside an object array, which NumPy itself unpickles
        arrays[1] = np.array([attack] * 5, dtype=object)
    else:
        arrays.append(attack)
    path = write(tmp_path / "grid.pkl.gz", pickle.dumps(arrays, protocol))
    asked = "an array of type 'O8'" if hidden else "shutil.rmtree"
    with pytest.raises(ValueError, match=f"NumPy arrays only: it asks for {asked}"):
        read_grid_features(path)
    assert victim.exists()


@pytest.mark.parametrize(
    "function", [eval, exec, print, getattr, np.load, np.fromfile, np.lib.format.open_memmap, pickle.loads]
)
def test_other_functions_are_refused_too(tmp_path, function):
    path = write(tmp_path / "grid.pkl.gz", pickle.dumps([Hostile(function, "1")]))
    with pytest.raises(ValueError, match="it asks for"):
        read_grid_features(path)


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy.core.multiarray\n_reconstruct\n(cbuiltins\nobject\n(I0\ntS'b'\ntR.",
        b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
        b"cnumpy\nload\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.fill\x93.",
        b"\x82\x01.",
        b"not a pickle",
        b"",
    ],
)
def test_crafted_content_is_refused(tmp_path, content):
    with pytest.raises(ValueError, match="not a gzipped pickle of NumPy arrays only"):
        read_grid_features(write(tmp_path / "grid.pkl.gz", content))


def test_plain_file_is_refused(tmp_path):
    path = tmp_path / "grid.pkl.gz"
    path.write_bytes(pickle.dumps(six_arrays()))
    with pytest.raises(ValueError, match="not a gzipped pickle"):
        read_grid_features(path)


def test_truncated_file_is_refused(tmp_path):
    path = write(tmp_path / "grid.pkl.gz", pickle.dumps(six_arrays()))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="not a gzipped pickle"):
        read_grid_features(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_grid_features(tmp_path / "nothing.pkl.gz")


def test_arrays_that_do_not_fit(tmp_path):
    def refused(content, message):
        with pytest.raises(ValueError, match=message):
            read_grid_features(write(tmp_path / "grid.pkl.gz", pickle.dumps(content)))

    arrays = six_arrays()
    refused(arrays[:5], "must hold six arrays")
    refused(np.zeros(6), "must hold six arrays")
    refused([*arrays[:5], "text"], "y_test must be an array, got str")
    refused([*arrays[:5], np.array(["a", "b"])], "asks for an array of type 'U1'")
    refused([*arrays[:5], arrays[5][:1]], "do not fit together")
    refused([*arrays[:4], arrays[4][:, :2], arrays[5]], "do not fit together")


def test_table_in_the_folder(shared_data):
    table = load_pdbbind(shared_data)
    assert table.X.shape == (4631, 222)
    assert table.feature_names[0] == "contact_000"
    assert table.feature_names[-1] == "vina_5"
    assert [len(part) for part in table.split] == [3941, 338, 352]
    train, _, test = table.split
    # The mean predictor's error as the data's own README states it.
    assert np.sqrt(np.mean((table.y[test] - table.y[train].mean()) ** 2)) == pytest.approx(2.180, abs=5e-4)


def test_without_split_file_the_split_is_by_release(shared_data, tmp_path):
    (tmp_path / "pdbbind").mkdir()
    (tmp_path / "pdbbind" / "rfscore_v2.csv.gz").symlink_to(shared_data / "pdbbind" / "rfscore_v2.csv.gz")
    ours, published = load_pdbbind(tmp_path).split, load_pdbbind(shared_data).split
    for part, expected in zip(ours, published, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_absent_table_says_where_it_should_be(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"rfscore_v2.csv.gz. Put it there.*TREELU_DATA"):
        load_pdbbind(tmp_path)
