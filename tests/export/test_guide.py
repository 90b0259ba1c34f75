"""The C and JavaScript of the guide on deploying: as they stand there, with the files that its commands write."""

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import engines
from docs.outputs import run_page

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "deploying.md"


def test_c_and_javascript_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if engines.absent("c") or engines.absent("javascript"):
        pytest.skip("no gcc or no node")
    monkeypatch.chdir(tmp_path)
    run_page(PAGE)
    text = PAGE.read_text("utf-8")
    (c,), (javascript,) = (re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S) for language in ("c", "js"))
    (tmp_path / "main.c").write_text(c)
    (tmp_path / "main.mjs").write_text(javascript)
    compiled = ["gcc", "-std=c99", "-O2", *engines.WARNINGS, "main.c", "-o", "main", "-lm"]
    subprocess.run(compiled, check=True)
    printed = [
        subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for words in (["./main"], ["node", "main.mjs"])
    ]
    assert printed[0].endswith(", failed: 0\n")
    assert printed[1].endswith(" 0\n")
    assert printed[0].split()[0] == printed[1].split()[0]
