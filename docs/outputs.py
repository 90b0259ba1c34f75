"""The code of the documentation: run it, and write what it prints below it.

``python -m docs.outputs`` from the project's root runs the Python blocks and ``treelu`` commands of every page, in
order, and replaces each ``text`` block that follows one by what was printed; ``python -m docs.outputs FILE …`` those
of some pages. A block after the line ``<!-- not run -->`` is left alone.
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treelu.cli import main as treelu

ROOT = Path(__file__).resolve().parents[1]
# Written from results by their own commands.
DERIVED = {"paper.md", "speed.md", "quality.md", "ensembles-study.md", "results.md"}
_FENCE = re.compile(
    r"^(?P<skip><!-- not run -->\n)?```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```\n"
    r"(?P<shown>\n```text\n(?P<text>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of code on a page, and the span of the text below it that shows its output."""

    language: str
    code: str
    line: int
    shown: tuple[int, int] | None


def pages() -> list[Path]:
    """The README and every page that is written by hand."""
    found = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name not in DERIVED)
    return [ROOT / "README.md", *found]


def blocks(text: str) -> list[Block]:
    """The Python and shell blocks of a page that are to be run.

    Examples
    --------
    >>> blocks("Some words.\\n\\n```python\\nprint(1)\\n```\\n")
    [Block(language='python', code='print(1)\\n', line=4, shown=None)]
    """
    found = []
    for match in _FENCE.finditer(text):
        if match["skip"] is None and match["language"] in ("python", "bash"):
            line = text.count("\n", 0, match.start("code")) + 1
            found.append(
                Block(
                    match["language"], match["code"], line, match.span("text") if match["shown"] is not None else None
                )
            )
    return found


def run_page(page: Path) -> list[tuple[Block, str]]:
    """Run the blocks of a page in the current folder, in one namespace; returns what each printed."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for block in blocks(page.read_text("utf-8")):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            if block.language == "bash":
                _run_commands(block.code)
            else:  # as many empty lines before it as it has on the page, for tracebacks
                exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), namespace)
        printed.append((block, out.getvalue()))
    return printed


def _run_commands(code: str) -> None:
    """Run the lines that begin with ``treelu``; others are for the reader."""
    for line in code.replace("\\\n", " ").splitlines():
        command, _, target = line.partition(" > ")
        if not command.startswith("treelu "):
            continue
        with contextlib.redirect_stdout(io.StringIO()) if target else contextlib.nullcontext() as out:
            code_ = treelu(shlex.split(command, comments=True)[1:])
        if code_ != 0:
            raise RuntimeError(f"{line!r} ended with exit code {code_}")
        if out is not None:
            Path(target.strip()).write_text(out.getvalue(), encoding="utf-8")


def fill(page: Path) -> None:
    """Run a page in a temporary folder and write the outputs into it."""
    text, home = page.read_text("utf-8"), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            printed = run_page(page)
        finally:
            os.chdir(home)
    for block, output in reversed(printed):
        if block.shown is not None:
            start, end = block.shown
            lines = [line.rstrip() for line in output.strip("\n").splitlines()]
            text = text[:start] + "\n".join(lines) + "\n" + text[end:]
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Fill the pages named on the command line, or all."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        print(page.relative_to(ROOT), flush=True)
        fill(page)


if __name__ == "__main__":
    main()
