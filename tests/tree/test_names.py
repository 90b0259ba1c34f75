"""Names as they are shown: one line, nothing hidden, not too long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treelu.cli.messages import Notes
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_class, shown_name

HOSTILE = ["two\nlines", "\x1b[31mred", "\u202etxt.exe", "nul\x00", "a\u2028b", "half \ud800", "x" * 100_000]


@given(st.text(st.characters(), max_size=300), st.integers(1, 80))
def test_any_name_is_one_short_line(name, most):
    shown = shown_name(name, most)
    assert len(shown) <= most
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown
    shown.encode("utf-8")
    if name.isprintable() and len(name) <= most:
        assert shown == name


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_show_hostile_names_escaped_and_cut(name):
    tree = ObliqueTree(
        [[1.0, 2.0]], [0.5], [[1, 2]], [[0.2, 0.8], [0.6, 0.4]],
        feature_names=[name, "b"], link="probability", classes=[name + "0", name + "1"],
    )  # fmt: skip
    assert len(tree.export_text().splitlines()) == 3
    assert len(tree.describe([1.0, 2.0]).splitlines()) == 5
    assert len(tree.export_graphviz().splitlines()) == 9
    for text in (
        tree.export_text(),
        tree.describe([1, 2]),
        tree.export_graphviz(),
        tree.describe([1, 2])._repr_html_(),
    ):
        assert len(text) < 2500
        assert text.replace("\n", "").isprintable()
    for X in ([[1.0]], [["a", "b"]]):
        with pytest.raises(ValueError, match="X must"):
            tree.predict(X)


def test_classes_are_written_as_in_python():
    labels = [np.str_("no"), "it's", np.int64(3), np.bool_(True), 2.5]
    assert [shown_class(label) for label in labels] == ["'no'", '"it\'s"', "3", "True", "2.5"]


def test_notes_of_the_command_line_are_escaped_and_cut():
    notes = Notes(quiet=True)
    notes(f"column {'x' * 10_000!r} left out\n  a second line")
    notes.warn("column \x1b[31m only rises")
    (text,) = notes.texts
    assert [len(line) for line in text.split("\n")] == [600, 15]
    assert notes.warnings == ["column \\x1b[31m only rises"]
