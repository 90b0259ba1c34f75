"""For the reference: where a docstring describes several parameters at once, each has its own type and default.

Griffe gives all names of an entry such as ``epochs, batch_size, optimizer`` the annotation, default and text of the
first; here the text stands once.
"""

from typing import Any

from griffe import Class, DocstringSectionParameters, Extension, Function, Module, Object

REPEATED = 60  # characters of a text that may well stand twice


class OwnDefaults(Extension):
    """Take each parameter's default, and its type unless the docstring states one, from the signature."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Go through all classes and functions once a package is loaded."""
        self._visit(pkg)

    def _visit(self, where: Object) -> None:
        for member in where.members.values():
            if member.is_alias:
                continue
            if isinstance(member, Class | Function) and member.docstring is not None:
                _correct(member)
            if isinstance(member, Module | Class):
                self._visit(member)


def _correct(what: Class | Function) -> None:
    assert what.docstring is not None
    for section in what.docstring.parsed:
        if not isinstance(section, DocstringSectionParameters):
            continue
        by_text = {entry.description: entry for entry in reversed(section.value)}
        for entry in section.value:
            first = by_text[entry.description]
            if first is entry or not {first.name, entry.name} <= {parameter.name for parameter in what.parameters}:
                continue
            entry.value = what.parameters[entry.name].default
            if len(entry.description) > REPEATED:
                entry.description = f"See `{first.name}`."
            if str(first.annotation) == str(what.parameters[first.name].annotation):  # the docstring states no type
                entry.annotation = what.parameters[entry.name].annotation
