"""What a release needs: one version, one list of dependencies, licences that permit any use."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import yaml
from packaging.requirements import Requirement

import treelu

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CORE = [Requirement(text) for text in PROJECT["dependencies"]]
COPYLEFT = re.compile(r"\b([AL]?GPL|MPL|EPL|General Public License|Mozilla Public)", re.IGNORECASE)
OTHER_NAMES = {"matplotlib": "matplotlib-base"}  # conda-forge's


def closure(names: list[str]) -> set[str]:
    """Installed distributions that some need, themselves included."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower()
        if name in found:
            continue
        found.add(name)
        for text in requires(name) or []:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting.append(need.name)
    return found


def licence(name: str) -> str:
    """The licence that a distribution states."""
    fields = metadata(name)
    classifiers = [text for text in fields.get_all("Classifier") or [] if text.startswith("License")]
    own = fields.get("License-Expression") or " ".join(classifiers) or fields.get("License") or ""
    return own.splitlines()[0] if own else ""


def test_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    recipe = (ROOT / "release" / "conda" / "meta.yaml").read_text("utf-8")
    assert citation["version"] == treelu.__version__
    assert f'set version = "{treelu.__version__}"' in recipe
    assert f"## {treelu.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"version = {{{treelu.__version__}}}" in (ROOT / "docs" / "index.md").read_text("utf-8")


def test_conda_recipe_has_the_dependencies_of_the_wheel() -> None:
    recipe = (ROOT / "release" / "conda" / "meta.yaml").read_text("utf-8")
    run = recipe.split("  run:\n")[1].split("\n\n")[0]
    stated = {line.strip(" -") for line in run.splitlines()} - {"python >=3.11"}
    names = {need: OTHER_NAMES.get(need.name, need.name.lower()) for need in CORE}
    assert stated == {f"{name} {need.specifier}" for need, name in names.items()}


def test_lowest_constraints_are_the_lower_bounds() -> None:
    text = (ROOT / "constraints-lowest.txt").read_text("utf-8")
    pinned = dict(line.split("==") for line in text.splitlines() if "==" in line)
    for need in CORE:
        (bound,) = need.specifier
        assert bound.operator == ">="
        assert pinned[need.name].startswith(bound.version), need.name


def test_licences_of_the_core_are_listed() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    assert [need.name for need in CORE if f"| {need.name} |" not in page] == []


def test_core_has_no_copyleft_dependency() -> None:
    unknown = []
    for name in closure([need.name for need in CORE]):
        try:
            stated = licence(name)
        except PackageNotFoundError:
            continue
        assert not COPYLEFT.search(stated), f"{name}: {stated}"
        if not stated:
            unknown.append(name)
    assert unknown == []
