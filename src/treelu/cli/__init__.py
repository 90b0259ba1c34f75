"""The command line: the only package that imports all the others. Its start imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence

from treelu.cli.interrupt import EXIT_CODE, Interrupted, one_interrupt_ends_all

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; every error is one line on standard error.

    Parameters
    ----------
    arguments : sequence of str, optional
        What was typed after ``treelu``; by default that of this process, which then ends with the command.

    Returns
    -------
    int
        The exit code: 0; 2 for what was typed or given, 1 for any other failure, 130 for Ctrl-C.
    """
    try:
        with one_interrupt_ends_all(last=arguments is None):
            from treelu.cli.app import run  # within the block: even this may be interrupted

            return run(arguments)
    except (Interrupted, KeyboardInterrupt):
        from treelu.cli.messages import say

        say("treelu: stopped")
        return EXIT_CODE
