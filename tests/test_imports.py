"""Imports point one way, from the tree to the command line, and `import treelu` loads next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import treelu

PACKAGE = Path(treelu.__file__).parent

# The packages in the order in which they may import: a package sees those before it. A new package needs a place here.
PACKAGES = (
    "kernels",
    "tree",
    "nn",
    "convert",
    "data",
    "tables",
    "training",
    "estimators",
    "dask",
    "view",
    "export",
    "chem",
    "report",
    "persistence",
    "cli",
)
# Modules whose methods import from later packages when they are called, and which packages those are.
LATER_PACKAGES = {
    "treelu.tables.columns": {"chem"},
    "treelu.tree.columns": {"tables"},
    "treelu.tree.output_methods": {"view", "export", "report", "persistence"},
    "treelu.estimators._output_methods": {"persistence", "view", "report"},
}


def package_of(module: str) -> str:
    """ "treelu.nn.rows" → "nn"."""
    return module.split(".")[1]


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The name and the syntax of each module but the package's own `__init__`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts in (("__init__",), ("__main__",)):
            continue
        name = ".".join(("treelu", *(part for part in parts if part != "__init__")))
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def top_imports(syntax: ast.Module) -> Iterator[str]:
    """What a module imports when it is itself imported: not inside functions, not for type checkers only."""
    pending: list[ast.AST] = list(syntax.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from _targets_of(node)
        pending += ast.iter_child_nodes(node)


def all_imports(syntax: ast.Module) -> Iterator[str]:
    """What a module imports at any time, inside functions too; not what only type checkers see."""
    hidden = {
        id(inner)
        for node in ast.walk(syntax)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(syntax):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and id(node) not in hidden:
            yield from _targets_of(node)


def _targets_of(node: ast.ImportFrom) -> Iterator[str]:
    """`from treelu import LCNClassifier` reaches into the package where that name lives."""
    if node.module != "treelu":
        yield str(node.module)
        return
    for alias in node.names:
        if alias.name in treelu._HOMES:
            yield treelu._HOMES[alias.name]
        elif (PACKAGE / alias.name).exists() or (PACKAGE / f"{alias.name}.py").exists():
            yield f"treelu.{alias.name}"


MODULES = dict(modules())


def test_every_module_has_a_package() -> None:
    homeless = {name for name in MODULES if package_of(name) not in PACKAGES}
    assert not homeless, "give these modules a place in PACKAGES"


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    """Imports inside functions count like those at the top; only output methods may import from a later package."""
    here = PACKAGES.index(package_of(module))
    packages = {package_of(name) for name in all_imports(MODULES[module]) if name.startswith("treelu.")}
    later = {package for package in packages if PACKAGES.index(package) > here}
    assert later == LATER_PACKAGES.get(module, set()), f"{module} imports from packages after its own"


@pytest.mark.parametrize("module", MODULES)
def test_the_package_imports_nothing_that_a_wheel_does_not_carry(module: str) -> None:
    outside = {name.split(".")[0] for name in all_imports(MODULES[module])}
    assert not outside & {"experiments", "benchmarks", "tests", "docs", "examples"}


@pytest.mark.parametrize(
    "module", [name for name in MODULES if package_of(name) == "tree" and name != "treelu.tree.from_sklearn"]
)
def test_the_tree_stands_on_numpy_and_scipy_alone(module: str) -> None:
    outside = {name.split(".")[0] for name in top_imports(MODULES[module])} - set(sys.stdlib_module_names)
    assert outside <= {"numpy", "scipy", "treelu"}


@pytest.mark.parametrize("module", [name for name in MODULES if package_of(name) == "nn"])
def test_networks_know_neither_sklearn_nor_files(module: str) -> None:
    outside = {name.split(".")[0] for name in top_imports(MODULES[module])}
    allowed = {"numpy", "torch", "treelu", "__future__", "abc", "collections", "concurrent"}
    allowed |= {"contextlib", "contextvars", "copy", "dataclasses", "functools", "importlib", "itertools", "math"}
    allowed |= {"os", "sys", "threading", "typing", "warnings"}
    assert outside <= allowed
    calls = {
        node.func.id
        for node in ast.walk(MODULES[module])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"open", "exec", "eval", "__import__"}
    attributes = {node.attr for node in ast.walk(MODULES[module]) if isinstance(node, ast.Attribute)}
    assert not attributes & {"save", "load", "tofile", "fromfile", "memmap", "savez"}


@pytest.mark.parametrize("module", MODULES)
def test_torch_is_asked_for_in_few_places(module: str) -> None:
    """Networks as torch modules and other devices; all the rest runs without torch."""
    outside = {name.split(".")[0] for name in all_imports(MODULES[module])}
    assert module.startswith(("treelu.nn.torch.", "treelu.training.on_device")) or "torch" not in outside


@pytest.mark.parametrize("module", [name for name in MODULES if package_of(name) == "training"])
def test_training_knows_no_sklearn(module: str) -> None:
    assert not [name for name in top_imports(MODULES[module]) if name.startswith("sklearn")]


def loaded_after(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


HEAVY = {"torch", "sklearn", "scipy", "numpy", "pandas", "matplotlib", "rdkit", "rich", "onnx"}


def test_importing_treelu_loads_nothing_heavy() -> None:
    assert not loaded_after("import treelu; dir(treelu)") & HEAVY


def test_the_tree_loads_neither_torch_nor_sklearn() -> None:
    assert not loaded_after("from treelu import ObliqueTree") & (HEAVY - {"numpy", "scipy"})


def test_networks_load_no_sklearn() -> None:
    assert not loaded_after("import treelu.nn, treelu.training, treelu.data.scaling") & {
        "sklearn",
        "pandas",
        "matplotlib",
    }


@pytest.mark.parametrize("name", treelu.__all__)
def test_public_names_are_found(name: str) -> None:
    assert getattr(treelu, name).__name__ == name
    assert name in dir(treelu)


@pytest.mark.slow
def test_packages_are_found_after_import_treelu() -> None:
    packages = sorted(set(PACKAGES) - {"cli"})  # the command line is no library
    present = [name for name in packages if {"dask": find_spec("distributed")}.get(name, True)]
    code = f"import treelu; print(all(getattr(treelu, name).__name__ == f'treelu.{{name}}' for name in {present}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.stdout == "True\n", run.stderr
    assert set(packages) <= set(dir(treelu))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'treelu' has no attribute 'Forest'"):
        _ = treelu.Forest


@pytest.mark.slow
def test_estimators_load_no_plots_and_no_compiler() -> None:
    later = {"torch", "matplotlib", "typer", "jinja2", "numba"}
    assert not loaded_after("import treelu; treelu.LCNClassifier, treelu.ObliqueTreeClassifier") & later
