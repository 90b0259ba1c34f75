"""The command line: the only room that knows all the others. Its start imports nothing heavy."""

from treelu.cli.app import main

__all__ = ["main"]
