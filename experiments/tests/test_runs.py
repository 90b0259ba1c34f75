"""Results on disk: keys, atomic writing, packing, claims."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.runs import Claims, Run, Store, _factor, _merge, _nested, _table


def run(seed: int = 1, **setting: object) -> Run:
    return Run("bace", "Class", "lcn", setting, seed)


def result(test: float, **config: object) -> dict:
    scores = {"train": 1.0, "valid": 0.5, "test": test}
    return {"config": {"estimator": "LCNClassifier", **config}, "scores": {"best": scores, "last": scores}}


def test_keys_tell_runs_apart():
    runs = [run(), run(2), run(depth=1), run(depth=2), run(depth=2, drop_connect=0.25), run(depth=2, drop_connect=0.5)]
    assert len({one.key for one in runs}) == len(runs)
    assert run(a=1, b=2).key == run(b=2, a=1).key


def test_label_names_make_safe_file_names(tmp_path: Path):
    odd = Run("sider", "Injury,_poisoning/and: things", "lcn", {}, 1)
    store = Store(tmp_path)
    store.write(odd, result(0.5))
    assert store.path(odd).parent == tmp_path / "runs" / "sider" / "lcn"
    assert store.results("sider", "lcn")[0]["label"] == odd.label


def test_finished_knows_single_and_packed_results(tmp_path: Path):
    store, other = Store(tmp_path), run(depth=9)
    runs = [run(depth=depth) for depth in (2, 3, 4)]
    store.write(runs[0], result(0.25))
    store.write(runs[1], result(0.75))
    (packed,) = store.pack()
    assert packed == tmp_path / "bace" / "lcn.json"
    store.path(runs[0]).unlink()
    store.write(runs[2], result(0.5))
    assert store.finished([*runs, other]) == {one.key for one in runs}
    assert [one["scores"]["best"]["test"] for one in store.results("bace", "lcn")] == [0.25, 0.75, 0.5]


def test_packing_keeps_every_result_and_is_smaller(tmp_path: Path):
    store = Store(tmp_path)
    for seed in range(20):
        store.write(run(seed, depth=3), result(seed / 20, epochs=30, schedule="step", depth=3))
    before = store.results("bace", "lcn")
    (packed,) = store.pack()
    singles = list((tmp_path / "runs").rglob("*.json"))
    assert packed.stat().st_size < sum(path.stat().st_size for path in singles)
    for path in singles:
        path.unlink()
    assert store.results("bace", "lcn") == before


configs = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 2), max_size=3)


@given(st.lists(st.fixed_dictionaries({"config": configs, "seed": st.integers(0, 2)}), min_size=1, max_size=5))
def test_factor_and_merge_are_inverses(results: list[dict]):
    shared, own = _factor(results)
    assert [_merge(shared, one) for one in own] == results


@given(st.lists(st.fixed_dictionaries({"config": configs, "seed": st.integers(0, 2)}), min_size=1, max_size=5))
def test_a_table_of_results_gives_them_back(results: list[dict]):
    names, rows = _table(results)
    assert [_nested(dict(zip(names, row, strict=True))) for row in rows] == results


def test_a_half_written_result_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = Store(tmp_path)

    def killed(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(SystemExit):
        store.write(run(), result(0.5))
    assert store.finished([run()]) == set()
    assert store.results("bace", "lcn") == []


HOLDER = """
import sys
from experiments.runs import Claims, _nested, _table
claims = Claims(sys.argv[1])
print(claims.take("a"), claims.take("b"), flush=True)
sys.stdin.readline()
"""


def test_a_claim_excludes_other_processes_until_its_holder_dies(tmp_path: Path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True True\n"
    claims = Claims(tmp_path)
    assert not claims.take("a")
    assert claims.take("c")
    holder.kill()  # -9: it cannot clean up
    holder.wait()
    assert claims.take("a")
    assert claims.take("b")
    claims.close()


def test_results_are_plain_json(tmp_path: Path):
    store = Store(tmp_path)
    store.write(run(depth=2), result(0.5))
    assert json.loads(store.path(run(depth=2)).read_text())["setting"] == {"depth": 2}
