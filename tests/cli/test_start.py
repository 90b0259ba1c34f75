"""The command line starts quickly and answers for itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Type
from treelu import __version__
from treelu.cli import app, main


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from treelu.cli import main; code = main(['--help']); "
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'pandas', 'rdkit', 'matplotlib', 'rich'}; "
        "print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "0 []"
    for command in ("demo", "fit", "predict", "export", "report"):
        assert f"\n  {command} " in result.stdout


def test_help_of_every_command_fits_a_terminal(type_: Type) -> None:
    for command in ("demo", "fit", "predict", "export", "report"):
        typed = type_(command, "--help")
        assert typed.code == 0
        assert typed.out.startswith(f"Usage: treelu {command} ")


def test_version(type_: Type) -> None:
    assert type_("--version") == (0, f"treelu {__version__}\n", "")


def test_python_runs_the_package_as_the_command() -> None:
    shown = subprocess.run([sys.executable, "-m", "treelu", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"treelu {__version__}\n"
    assert subprocess.run([sys.executable, "-m", "treelu"], capture_output=True).returncode == 2


def test_a_bare_command_shows_the_help(type_: Type) -> None:
    typed = type_()
    assert typed.code == 2
    assert typed.out.startswith("Usage: treelu")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fot"], "treelu: No such command 'fot'. Did you mean 'fit'? (see: treelu --help)"),
        (["fit"], "treelu: Missing argument 'DATA'. (see: treelu fit --help)"),
        (["fit", "x.csv"], "treelu: Missing option '--target'. (see: treelu fit --help)"),
        (["fit", "x.csv", "--target", "y"], "treelu: Missing option '--out'. (see: treelu fit --help)"),
        (
            ["fit", "x.csv", "--target", "y", "--out", "m", "--method", "cart"],
            "treelu: Invalid value for '--method': 'cart' is not one of 'tree', 'lcn', 'alcn', 'lln', 'elcn', "
            "'stacked'. (see: treelu fit --help)",
        ),
    ],
)
def test_what_the_option_parser_says_is_one_line(words: list[str], message: str, type_: Type) -> None:
    assert type_(*words) == (2, "", f"{message}\n")


@pytest.mark.parametrize(
    "words", [["--targt", "y"], ["--method", "x"], ["--depth", "0"], ["--depth", "two"], ["--hold-out", "2"]]
)
def test_wrong_options_are_one_line_that_names_them(words: list[str], type_: Type) -> None:
    typed = type_("fit", "x.csv", "--target", "y", "--out", "m", *words)
    assert typed.code == 2
    assert typed.err.count("\n") == 1
    assert words[0] in typed.err
    assert "Traceback" not in typed.err


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (RuntimeError("some\nthing"), 1, "treelu: RuntimeError: some thing (TREELU_TRACEBACK=1 shows where)\n"),
        (ImportError("needs x: pip install x"), 1, "treelu: needs x: pip install x\n"),
        (MemoryError(), 1, "treelu: not enough memory\n"),
        (OSError(28, "No space left on device"), 1, "treelu: [Errno 28] No space left on device\n"),
        (FloatingPointError("the loss became nan"), 1, "treelu: the loss became nan\n"),
        (KeyboardInterrupt(), 130, "treelu: stopped\n"),
    ],
)
def test_other_failures_are_one_line_too(
    failure: BaseException, code: int, message: str, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise failure

    monkeypatch.setattr("treelu.cli.demo.run_demo", fail)
    assert type_("demo") == (code, "", message)
    if code == 1:
        monkeypatch.setenv("TREELU_TRACEBACK", "1")
        with pytest.raises(type(failure)):
            main(["demo"])


@pytest.mark.slow
def test_a_reader_that_stops_reading_is_no_error(table: Path, model: Path, tmp_path: Path) -> None:
    big = tmp_path / "big.csv"
    text = table.read_text().split("\n", 1)
    big.write_text(text[0] + "\n" + text[1] * 300)
    code = f"import sys; from treelu.cli import main; sys.exit(main(['predict', {str(model)!r}, {str(big)!r}]))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith("prediction,")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_warnings_for_the_user_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    app._show_warning(UserWarning("mind this"), UserWarning, "file", 1)
    app._show_warning(DeprecationWarning("not for users"), DeprecationWarning, "file", 1)
    assert capsys.readouterr().err == "  mind this\n"


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        ("x;y\n1;2\n", ["--delimiter", ","], "it seems to be separated by semicolons; add --delimiter ';'"),
        ("x,y\n1,2\n", ["--target", "z"], "the table has no column 'z'"),
        ("x,y,x\n1,2,3\n", [], "two columns named 'x', columns 1 and 3"),
        ("x,y\n1,2\n", ["--valid", "none.csv"], "none.csv does not exist"),
        ("x,y\n1,2\n", ["--smiles", "m"], "--smiles: the table has no column 'm'"),
    ],
)
def test_a_bad_header_is_refused_before_anything_heavy_is_imported(
    content: str, words: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text(content)
    typed = ["fit", str(tmp_path / "data.csv"), "--target", "y", "--out", str(tmp_path / "m"), *words]
    code = (
        f"import sys; from treelu.cli import main; code = main({typed!r}); "
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'pandas', 'rdkit', 'matplotlib', 'rich'}; "
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "2 []"
    assert message in result.stderr
