"""A program as one C99 header: no allocation, nothing but the standard library, `double` or `float`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal

import numpy as np

from treelu.export.examples import Cell, examples
from treelu.export.literals import comment, digits, fill, header, identifier, sections
from treelu.export.program import (
    Category,
    DatePart,
    Feature,
    Missing,
    Number,
    Other,
    Part,
    Program,
    Term,
    as_program,
    linear_splits,
    linear_terms,
)
from treelu.tree import ObliqueTree

_LONGEST_LITERAL = 2000  # bytes; C99 promises 4095 characters
_PARTS = ("year", "month", "day of week", "hour", "days since 1970")
_PLAIN = re.compile(rb"[A-Za-z0-9 _.,:;=+()-]")


def to_c(
    model: ObliqueTree | Program,
    *,
    dtype: Literal["double", "float"] = "double",
    name: str | None = None,
    trained: str | None = None,
) -> str:
    """A tree or a program as a C99 header.

    For a model named ``tree`` it defines ``tree_predict``, ``tree_apply`` and ``tree_self_test``, which say in comments
    how they are called, and a constant for the place of each column.

    Parameters
    ----------
    model : ObliqueTree or Program
    dtype : {"double", "float"}
        Type of numbers and sums. In float a row very near to a boundary may fall on the other side:
        :func:`treelu.export.onnx.rows_in_doubt` names these rows.
    name, trained : str, optional
        What it is called (functions begin with this name), and the day of training.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> "static inline int growth_predict(const double *numbers, double *outputs)" in tree.to_c(name="growth")
    True
    """
    if dtype not in ("double", "float"):
        raise ValueError(f"dtype must be 'double' or 'float', got {dtype!r}")
    whole = as_program(model, name, trained)
    program = whole if whole.is_plain else whole.compacted()
    return _Writer(program, identifier(whole.name), dtype, whole.is_plain).header(header(whole))


@dataclass(frozen=True)
class _Writer:
    """A program with the prefix of its names and its type of numbers; `plain` programs read the columns as they are."""

    program: Program
    prefix: str
    dtype: str
    plain: bool

    def header(self, lines: list[str]) -> str:
        """The whole text."""
        return self._fill(
            "TEMPLATE",
            HEADER="\n".join(f" * {line}" for line in lines),
            GUARD=f"TREELU_{self.prefix.upper()}_H",
            COLUMNS=self._columns(),
            SIZES=self._sizes(),
            TABLES=self._tables(),
            ENCODING="" if self.plain else self._helpers() + self._encoding(),
            PARTS="\n".join(map(self._part, range(len(self.program.parts)))),
            PREDICT=self._predict(),
            CLASSES=self._class_names(),
            ENCODE=self._encode_call(),
            SELF_TEST=self._self_test(),
            ROW_WORDS=self._sources["NUMBERS_AND_TEXTS" if self.texts else "NUMBERS_ONLY"].rstrip("\n"),
        )

    @cached_property
    def _sources(self) -> dict[str, str]:
        return sections("program.h.txt")

    @cached_property
    def _common(self) -> dict[str, str]:
        """The places that all sections may have."""
        double = self.dtype == "double"
        return {
            "P": self.prefix,
            "REAL": self.dtype,
            "ROW": f"const {self.dtype} *numbers" + (", const char *const *texts" if self.texts else ""),
            "CELLS": "numbers, texts" if self.texts else "numbers",
            "ZERO": self._number(0.0),
            "ONE": self._number(1.0),
            "EXP": "exp" if double else "expf",
            "ABS": "fabs" if double else "fabsf",
        }

    def _fill(self, section: str, **places: str) -> str:
        return fill(self._sources[section], **self._common, **places)

    # Numbers and columns

    def _number(self, value: float) -> str:
        if self.dtype == "double":
            return digits(value)
        with np.errstate(over="ignore"):
            single = np.float32(value)
        if not np.isfinite(single):
            raise ValueError(f"{value:g} is too large for dtype='float'; use 'double'")
        text = f"{single:.9g}"
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"

    @cached_property
    def numbers(self) -> list[int]:
        """The columns that are passed as numbers: dates are, too."""
        return [number for number, column in enumerate(self.program.columns) if column.kind != "text"]

    @cached_property
    def texts(self) -> list[int]:
        """The columns that are passed as texts."""
        return [number for number, column in enumerate(self.program.columns) if column.kind == "text"]

    def _place(self, column: int) -> str:
        """How a column's value is read."""
        return (
            f"texts[{self.texts.index(column)}]" if column in self.texts else f"numbers[{self.numbers.index(column)}]"
        )

    def _columns(self) -> str:
        lines = []
        used, names = set(self.program.used_columns), set[str]()
        for kind, columns in (("number", self.numbers), ("text", self.texts)):
            for place, number in enumerate(columns):
                column = self.program.columns[number]
                name = f"{self.prefix}_{kind}_{identifier(column.name, 'column')}"
                name = f"{name}_{number}" if name in names else name
                names.add(name)
                about = ": seconds since 1970, UTC" if column.kind == "date" else ""
                about += "" if number in used else ", not read"
                lines.append(f"    {name} = {place}, /* {comment(column.name)}{about} */")
        return "\n".join(lines)

    def _sizes(self) -> str:
        sizes = {
            "n_numbers": len(self.numbers),
            "n_texts": len(self.texts),
            "n_trees": len(self.program.trees),
            "n_outputs": len(self.program.outputs),
            "n_classes": len(self.program.parts[0].classes or ()),
        }
        return ",\n".join(f"    {self.prefix}_{name} = {size}" for name, size in sizes.items())

    # Constants

    def _array(self, kind: str, name: str, items: Iterable[object], per_line: int = 6) -> str:
        """A constant array; floats as numbers of the model's type."""
        filled = [self._number(item) if isinstance(item, float) else str(item) for item in items]
        filled = filled or ["0"]  # C has no empty arrays
        lines = [", ".join(filled[start : start + per_line]) for start in range(0, len(filled), per_line)]
        body = ",\n    ".join(lines)
        return f"static const {kind} {self.prefix}_{name}[{len(filled)}] = {{\n    {body}\n}};\n"

    def _term_arrays(self, name: str, sums: Sequence[list[Term]]) -> str:
        """Terms of all sums, one after another, and where those of each begin."""
        terms = [term for terms in sums for term in terms]
        return (
            self._array("int", f"{name}_first", accumulate(map(len, sums), initial=0))
            + self._array("int", f"{name}_feature", (feature for feature, _ in terms))
            + self._array(self.dtype, f"{name}_weight", (weight for _, weight in terms))
        )

    def _tables(self) -> str:
        splits = [linear_splits(tree) for tree in self.program.trees]
        flat = [split for tree in splits for split in tree]
        leaves = [part.leaf_outputs(tree) for part in self.program.parts for tree in part.trees]
        sizes = accumulate((sum(map(len, tree)) for tree in leaves), initial=0)
        text = self._array("int", "tree_first", accumulate(map(len, splits), initial=0))
        text += self._term_arrays("term", [split.terms for split in flat])
        text += self._array(self.dtype, "bias", (split.bias for split in flat))
        text += self._array("int", "left", (split.left for split in flat))
        text += self._array("int", "right", (split.right for split in flat))
        text += self._array("int", "leaf_first", sizes)
        text += self._array(self.dtype, "leaf_value", (value for tree in leaves for leaf in tree for value in leaf))
        if any(tree.leaf_weights is not None for tree in self.program.trees):
            text += self._linear_tables()
        for number, part in enumerate(self.program.parts):
            if part.leaf_labels is not None:
                text += self._array("int", f"leaf_label_{number}", part.leaf_labels)
        return text

    def _linear_tables(self) -> str:
        """Terms of linear leaves: a sum for each leaf value, numbered like these."""
        sums: list[list[Term]] = []
        for part in self.program.parts:
            for tree in part.trees:
                leaves = linear_terms(tree) or [[[]] * part.n_scores] * tree.n_leaves
                sums += [terms for leaf in leaves for terms in leaf]
        return self._term_arrays("linear", sums)

    # Encoding

    def _encode_call(self) -> str:
        if self.plain:
            return f"    const {self.dtype} *const x = numbers;"
        count = max(1, len(self.program.features))
        return f"    {self.dtype} x[{count}];\n    if ({self.prefix}_encode({self._common['CELLS']}, x)) return -1;"

    def _helpers(self) -> str:
        has_dates = any(column.kind == "date" for column in self.program.columns)
        if has_dates and self.dtype == "float":
            raise ValueError("dates need more digits than dtype='float' has; use 'double'")
        return (self._fill("TEXTS") if self.texts else "") + (self._fill("DATES") if has_dates else "")

    def _encoding(self) -> str:
        """The function that makes features of columns, below arrays for texts that are too long for a literal."""
        arrays: list[str] = []
        lines = [self._read(column, arrays) for column in self.program.used_columns]
        lines += [
            f"    x[{place}] = {self._feature(place, feature, arrays)};\n"
            for place, feature in enumerate(self.program.features)
        ]
        unused = [] if lines else ["x"]
        unused += ["numbers"] if not set(self.numbers) & set(self.program.used_columns) else []
        unused += ["texts"] if self.texts and not lines else []
        body = "".join([*(f"    (void){name};\n" for name in unused), *lines])
        start = f"\nstatic inline int {self.prefix}_encode({self._common['ROW']}, {self.dtype} *x)\n{{\n"
        return f"{''.join(arrays)}{start}{body}    return 0;\n}}\n"

    def _read(self, column: int, arrays: list[str]) -> str:
        """The lines that read a column."""
        place = self._place(column)
        if self.program.columns[column].kind == "date":
            unknown = f"isnan({place}) || " if self.program.columns[column].required else ""
            return f"    if ({unknown}fabs({place}) > 1e12) return -1;\n"
        if self.program.columns[column].kind == "number":
            return f"    if (isinf({place})) return -1;\n"
        absent = [f"t{column}.length == 0"]
        for number, text in enumerate(self.program.columns[column].missing):
            absent.append(self._equal(column, f"missing_{column}_{number}", text, arrays))
        trimmed = f"    const {self.prefix}_text t{column} = {self.prefix}_trim({place});"
        refused = f"    if (m{column}) return -1;\n" if self.program.columns[column].required else ""
        return f"{trimmed}\n    const int m{column} = {' || '.join(absent)};\n{refused}"

    def _feature(self, place: int, feature: Feature, arrays: list[str]) -> str:
        """The value of a feature."""
        one, zero, column = self._common["ONE"], self._common["ZERO"], feature.column
        value = self._place(column)
        missing = f"m{column}" if column in self.texts else f"isnan({value})"
        match feature:
            case Number(_, fill):
                return value if fill is None else f"{missing} ? {self._number(fill)} : {value}"
            case Missing():
                return f"{missing} ? {one} : {zero}"
            case Category(_, text):
                return f"{self._equal(column, f'{place}', text, arrays)} && !{missing} ? {one} : {zero}"
            case Other(_, known):
                equal = [self._equal(column, f"{place}_{n}", text, arrays) for n, text in enumerate(known)]
                return f"{' || '.join([missing, *equal])} ? {zero} : {one}"
            case DatePart(_, part, fill):
                found = f"{self.prefix}_date_part({value}, {_PARTS.index(part)})"
                return f"{missing} ? {self._number(fill)} : {found}"

    def _equal(self, column: int, name: str, text: str, arrays: list[str]) -> str:
        """Whether a column holds a text."""
        data = text.encode()
        literal = f"(const unsigned char *){_literal(data)}"
        if len(data) > _LONGEST_LITERAL:
            literal = f"{self.prefix}_text_{name}"
            arrays.append(self._array("unsigned char", f"text_{name}", data))
        return f"{self.prefix}_equal(t{column}, {literal}, {len(data)})"

    # Answers

    def _part(self, number: int) -> str:
        part = self.program.parts[number]
        first = sum(len(earlier.trees) for earlier in self.program.parts[:number])
        places = {"NUMBER": str(number), "FIRST": str(first)}
        if part.is_lookup:
            label = f"{self.prefix}_leaf_label_{number}[leaf]" if part.classes is not None else "0"
            return self._fill("LOOKUP", LABEL=label, N=str(len(part.outputs)), **places)
        value, count, n = f"{self.prefix}_leaf_value[place]", len(part.trees), part.n_scores
        if any(tree.leaf_weights is not None for tree in part.trees):
            value = self._fill("LINEAR_VALUE").rstrip("\n")
        mean = f"    for (k = 0; k < {n}; k++) scores[k] /= {self._number(count)};\n" if part.combine != "sum" else ""
        link = self._link(part)
        return self._fill("SCORES", N=str(n), LAST=str(first + count), VALUE=value, MEAN=mean, LINK=link, **places)

    def _link(self, part: Part) -> str:
        """From scores to outputs and the number of the class."""
        section = {"logistic": "LOGISTIC", "softmax": "SOFTMAX"}.get(part.link)
        text = self._fill(section or ("VALUES" if part.classes is None else "IDENTITY"), N=str(part.n_scores))
        if part.threshold is not None:
            positive, least = part.threshold
            text += f"    label = probability[{positive}] >= {self._number(least)} ? {positive} : {1 - positive};\n"
        kept = "k" if part.only is None else part.only
        return text + f"    for (k = 0; k < {len(part.outputs)}; k++) outputs[k] = probability[{kept}];\n"

    def _predict(self) -> str:
        lines, place = [], 0
        for number, part in enumerate(self.program.parts):
            call = f"{self.prefix}_part_{number}(x, outputs + {place})"
            lines.append(f"    if ({f'(label = {call})' if self.program.has_label else call} < 0) return -1;")
            place += len(part.outputs)
        return "\n".join(lines)

    def _class_names(self) -> str:
        classes = self.program.parts[0].classes
        if classes is None:
            return ""
        names = ", ".join(_literal(str(label)[:500].encode()) for label in classes)
        return self._fill("CLASS_NAME", NAMES=names, N=str(len(classes)))

    # Self-test

    def _self_test(self) -> str:
        rows = examples(self.program)
        used = set(self.program.used_columns)
        numbers, texts = ([column for column in columns if column in used] for columns in (self.numbers, self.texts))
        arrays = [
            self._array(self.dtype, "example_number", (_cell(row.row[column]) for row in rows for column in numbers)),
            self._array("int", "example_number_place", map(self.numbers.index, numbers)),
            self._array("int", "example_leaf", (leaf for row in rows for leaf in row.leaves)),
            self._array("int", "example_label", (row.label or 0 for row in rows)),
            self._array(self.dtype, "example_output", (value for row in rows for value in row.outputs)),
        ]
        declared = filled = ""
        if self.texts:
            cells = (row.row[column] for row in rows for column in texts)
            literals = ("0" if text is None else _literal(str(text).encode()) for text in cells)
            arrays.append(self._array("char *const", "example_text", literals, per_line=1))
            arrays.append(self._array("int", "example_text_place", map(self.texts.index, texts)))
            declared = f"    const char *texts[{len(self.texts)}];\n"
            filled = self._fill("SELF_TEST_TEXTS", N=str(len(self.texts)), USED=str(len(texts)))
        return self._fill(
            "SELF_TEST",
            ARRAYS="".join(arrays),
            ROWS=str(len(rows)),
            N_NUMBERS=str(max(1, len(self.numbers))),
            USED_NUMBERS=str(len(numbers)),
            TEXTS=filled,
            TEXT_DECLARATION=declared,
            TOLERANCE=self._number(1e-9 if self.dtype == "double" else 1e-4),
        )


def _cell(value: Cell) -> float | str:
    """A number, or a date as seconds since 1970."""
    if isinstance(value, str):
        return float(np.datetime64(value, "s").astype(np.int64))
    return "NAN" if value is None else value


def _literal(data: bytes) -> str:
    """Bytes as a string literal of plain ASCII: no trigraph, no escape that takes in what follows."""
    return '"' + "".join(chr(byte) if _PLAIN.match(bytes([byte])) else f"\\{byte:03o}" for byte in data) + '"'
