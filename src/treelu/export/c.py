"""A program as one C99 header: no allocation, nothing but the standard library, `double` or `float`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from treelu.export import c_source as source
from treelu.export.examples import Cell, examples
from treelu.export.literals import comment, digits, fill, header, identifier
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
        places = {
            "HEADER": "\n".join(f" * {line}" for line in lines),
            "P": self.prefix,
            "GUARD": f"TREELU_{self.prefix.upper()}_H",
            "REAL": self.dtype,
            "COLUMNS": self._columns(),
            "SIZES": self._sizes(),
            "TABLES": self._tables(),
            "ENCODING": "" if self.plain else self._helpers() + self._encoding(),
            "PARTS": "\n".join(self._part(number) for number in range(len(self.program.parts))),
            "PREDICT": self._predict(),
            "CLASSES": self._class_names(),
            "ROW": self._row_arguments(),
            "CELLS": self._cells(),
            "ENCODE": self._encode_call(),
            "SELF_TEST": self._self_test(),
        }
        places["ROW_WORDS"] = source.ROW_WORDS[bool(self._of_kind("text"))]
        return fill(source.TEMPLATE, **places)

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

    def _of_kind(self, kind: str) -> list[int]:
        """The columns that are passed as texts, or as numbers: dates are, too."""
        return [
            number for number, column in enumerate(self.program.columns) if (column.kind == "text") == (kind == "text")
        ]

    def _place(self, column: int) -> str:
        """How a column's value is read."""
        kind = "text" if self.program.columns[column].kind == "text" else "number"
        return f"{kind}s[{self._of_kind(kind).index(column)}]"

    def _columns(self) -> str:
        lines = []
        used, names = set(self.program.used_columns), set[str]()
        for kind in ("number", "text"):
            for place, number in enumerate(self._of_kind(kind)):
                column = self.program.columns[number]
                name = f"{self.prefix}_{kind}_{identifier(column.name, 'column')}"
                name = f"{name}_{number}" if name in names else name
                names.add(name)
                unread = ": seconds since 1970, UTC" if column.kind == "date" else ""
                unread += "" if number in used else ", not read"
                lines.append(f"    {name} = {place}, /* {comment(column.name)}{unread} */")
        return "\n".join(lines)

    def _sizes(self) -> str:
        program = self.program
        sizes = {
            "n_numbers": len(self._of_kind("number")),
            "n_texts": len(self._of_kind("text")),
            "n_trees": len(program.trees),
            "n_outputs": len(program.outputs),
            "n_classes": len(program.parts[0].classes or ()),
        }
        return ",\n".join(f"    {self.prefix}_{name} = {size}" for name, size in sizes.items())

    def _row_arguments(self) -> str:
        texts = ", const char *const *texts" if self._of_kind("text") else ""
        return f"const {self.dtype} *numbers{texts}"

    def _cells(self) -> str:
        return "numbers, texts" if self._of_kind("text") else "numbers"

    # Constants

    def _array(self, kind: str, name: str, items: Iterable[str]) -> str:
        filled = list(items) or ["0"]  # C has no empty arrays
        lines = [", ".join(filled[start : start + 6]) for start in range(0, len(filled), 6)]
        body = ",\n    ".join(lines)
        return f"static const {kind} {self.prefix}_{name}[{len(filled)}] = {{\n    {body}\n}};\n"

    def _term_arrays(self, name: str, sums: Sequence[list[Term]]) -> str:
        """Terms of all sums, one after another, and where those of each begin."""
        terms = [term for terms in sums for term in terms]
        ends = accumulate(map(len, sums), initial=0)
        return (
            self._array("int", f"{name}_first", map(str, ends))
            + self._array("int", f"{name}_feature", (str(feature) for feature, _ in terms))
            + self._array(self.dtype, f"{name}_weight", (self._number(weight) for _, weight in terms))
        )

    def _tables(self) -> str:
        program = self.program
        splits = [linear_splits(tree) for tree in program.trees]
        flat = [split for tree in splits for split in tree]
        leaves = [part.leaf_outputs(tree) for part in program.parts for tree in part.trees]
        sizes = accumulate((sum(map(len, tree)) for tree in leaves), initial=0)
        text = self._array("int", "tree_first", map(str, accumulate(map(len, splits), initial=0)))
        text += self._term_arrays("term", [split.terms for split in flat])
        text += self._array(self.dtype, "bias", (self._number(split.bias) for split in flat))
        text += self._array("int", "left", (str(split.left) for split in flat))
        text += self._array("int", "right", (str(split.right) for split in flat))
        text += self._array("int", "leaf_first", map(str, sizes))
        values = (self._number(value) for tree in leaves for leaf in tree for value in leaf)
        return text + self._array(self.dtype, "leaf_value", values) + self._linear_tables() + self._label_tables()

    def _linear_tables(self) -> str:
        """Terms of linear leaves: a sum for each leaf value, numbered like these."""
        if all(tree.leaf_weights is None for tree in self.program.trees):
            return ""
        sums: list[list[Term]] = []
        for part in self.program.parts:
            for tree in part.trees:
                leaves = linear_terms(tree) or [[[]] * part.n_scores] * tree.n_leaves
                sums += [terms for leaf in leaves for terms in leaf]
        return self._term_arrays("linear", sums)

    def _label_tables(self) -> str:
        text = ""
        for number, part in enumerate(self.program.parts):
            if part.leaf_labels is not None:
                text += self._array("int", f"leaf_label_{number}", map(str, part.leaf_labels))
        return text

    # Encoding

    def _encode_call(self) -> str:
        if self.plain:
            return f"    const {self.dtype} *const x = numbers;"
        count = max(1, len(self.program.features))
        return f"    {self.dtype} x[{count}];\n    if ({self.prefix}_encode({self._cells()}, x)) return -1;"

    def _helpers(self) -> str:
        kinds = {column.kind for column in self.program.columns}
        if "date" in kinds and self.dtype == "float":
            raise ValueError("dates need more digits than dtype='float' has; use 'double'")
        texts = fill(source.TEXTS, P=self.prefix) if "text" in kinds else ""
        return texts + (fill(source.DATES, P=self.prefix) if "date" in kinds else "")

    def _encoding(self) -> str:
        written = [self._read(column) for column in self.program.used_columns]
        for place, feature in enumerate(self.program.features):
            value, arrays = self._feature(place, feature)
            written.append((f"    x[{place}] = {value};", arrays))
        ignored = "    (void)numbers;\n" + ("    (void)texts;\n" if self._of_kind("text") else "")
        body = "".join(f"{line}\n" for line, _ in written) or f"    (void)x;\n{ignored}"
        reads_numbers = any(self.program.columns[column].kind != "text" for column in self.program.used_columns)
        unused = "" if not written or reads_numbers else "    (void)numbers;\n"
        return (
            "".join(array for _, arrays in written for array in arrays)
            + f"\nstatic inline int {self.prefix}_encode({self._row_arguments()}, {self.dtype} *x)\n{{\n"
            + f"{unused}{body}    return 0;\n}}\n"
        )

    def _read(self, column: int) -> tuple[str, list[str]]:
        """The lines that read a column, and arrays for texts that are too long for a literal."""
        place = self._place(column)
        if self.program.columns[column].kind == "date":
            return f"    if (fabs({place}) > 1e12) return -1;", []
        if self.program.columns[column].kind == "number":
            return f"    if (isinf({place})) return -1;", []
        words = [
            self._equal(column, f"missing_{column}_{number}", text)
            for number, text in enumerate(self.program.columns[column].missing)
        ]
        absent = " || ".join([f"t{column}.length == 0", *(call for call, _ in words)])
        trimmed = f"    const {self.prefix}_text t{column} = {self.prefix}_trim({place});"
        arrays = [array for _, arrays in words for array in arrays]
        return f"{trimmed}\n    const int m{column} = {absent};", arrays

    def _feature(self, place: int, feature: Feature) -> tuple[str, list[str]]:
        """Its value, and arrays for texts that are too long for a literal."""
        one, zero, column = self._number(1.0), self._number(0.0), feature.column
        is_number = self.program.columns[column].kind != "text"
        missing = f"isnan({self._place(column)})" if is_number else f"m{column}"
        match feature:
            case Number(_, fill):
                value = self._place(column)
                return (value if fill is None else f"{missing} ? {self._number(fill)} : {value}"), []
            case Missing():
                return f"{missing} ? {one} : {zero}", []
            case Category(_, text):
                call, arrays = self._equal(column, f"{place}", text)
                return f"{call} && !{missing} ? {one} : {zero}", arrays
            case Other(_, known):
                calls = [self._equal(column, f"{place}_{number}", text) for number, text in enumerate(known)]
                test = " || ".join([missing, *(call for call, _ in calls)])
                return f"{test} ? {zero} : {one}", [array for _, arrays in calls for array in arrays]
            case DatePart(_, part, fill):
                found = f"{self.prefix}_date_part({self._place(column)}, {_PARTS.index(part)})"
                return f"{missing} ? {self._number(fill)} : {found}", []

    def _equal(self, column: int, name: str, text: str) -> tuple[str, list[str]]:
        data = text.encode()
        if len(data) <= _LONGEST_LITERAL:
            return f"{self.prefix}_equal(t{column}, (const unsigned char *){_literal(data)}, {len(data)})", []
        array = self._array("unsigned char", f"text_{name}", map(str, data))
        return f"{self.prefix}_equal(t{column}, {self.prefix}_text_{name}, {len(data)})", [array]

    # Answers

    def _part(self, number: int) -> str:
        part = self.program.parts[number]
        first = sum(len(earlier.trees) for earlier in self.program.parts[:number])
        places = {"P": self.prefix, "REAL": self.dtype, "NUMBER": str(number), "FIRST": str(first)}
        if part.is_lookup:
            label = f"{self.prefix}_leaf_label_{number}[leaf]" if part.classes is not None else "0"
            return fill(source.LOOKUP, LABEL=label, N=str(len(part.outputs)), **places)
        linear = any(tree.leaf_weights is not None for tree in part.trees)
        value = "@P@_sum(@P@_linear_feature, @P@_linear_weight, @P@_linear_first[place], @P@_linear_first[place + 1],"
        value += "\n                @P@_leaf_value[place], x)"
        count = len(part.trees)
        return fill(
            source.SCORES,
            N=str(part.n_scores),
            LAST=str(first + count),
            VALUE=fill(value, P=self.prefix) if linear else f"{self.prefix}_leaf_value[place]",
            MEAN=""
            if part.combine == "sum"
            else f"    for (k = 0; k < {part.n_scores}; k++) scores[k] /= {self._number(count)};\n",
            LINK=self._link(part),
            **places,
        )

    def _link(self, part: Part) -> str:
        """From scores to outputs and the number of the class."""
        places = {"ONE": self._number(1.0), "EXP": "exp" if self.dtype == "double" else "expf", "REAL": self.dtype}
        places |= {"ABS": "fabs" if self.dtype == "double" else "fabsf", "N": str(part.n_scores)}
        template = {"logistic": source.LOGISTIC, "softmax": source.SOFTMAX}.get(part.link, source.IDENTITY)
        kept = "outputs[k] = probability[k]" if part.only is None else f"outputs[k] = probability[{part.only}]"
        text = (
            fill(template, **places)
            if part.classes is not None or template is not source.IDENTITY
            else fill(source.VALUES, **places)
        )
        if part.threshold is not None:
            positive, least = part.threshold
            text += f"    label = probability[{positive}] >= {self._number(least)} ? {positive} : {1 - positive};\n"
        return text + f"    for (k = 0; k < {len(part.outputs)}; k++) {kept};\n"

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
        return fill(source.CLASS_NAME, P=self.prefix, NAMES=names, N=str(len(classes)))

    # Self-test

    def _self_test(self) -> str:
        rows = examples(self.program)
        used = set(self.program.used_columns)
        numbers = [column for column in self._of_kind("number") if column in used]
        texts = [column for column in self._of_kind("text") if column in used]
        place = {column: self._of_kind("number").index(column) for column in numbers}
        place |= {column: self._of_kind("text").index(column) for column in texts}
        cells = [
            self._array(
                self.dtype, "example_number", (_cell(row.row[c], self._number) for row in rows for c in numbers)
            ),
            self._array("int", "example_number_place", (str(place[column]) for column in numbers)),
            self._array("int", "example_leaf", (str(leaf) for row in rows for leaf in row.leaves)),
            self._array("int", "example_label", (str(row.label or 0) for row in rows)),
            self._array(self.dtype, "example_output", (self._number(v) for row in rows for v in row.outputs)),
        ]
        has_texts = bool(self._of_kind("text"))
        if has_texts:
            cells.append(self._text_array([row.row[column] for row in rows for column in texts]))
            cells.append(self._array("int", "example_text_place", (str(place[column]) for column in texts)))
        return fill(
            source.SELF_TEST,
            ARRAYS="".join(cells),
            P=self.prefix,
            REAL=self.dtype,
            ROWS=str(len(rows)),
            N_NUMBERS=str(max(1, len(self._of_kind("number")))),
            USED_NUMBERS=str(len(numbers)),
            TEXTS=fill(source.SELF_TEST_TEXTS, P=self.prefix, N=str(len(self._of_kind("text"))), USED=str(len(texts)))
            if has_texts
            else "",
            TEXT_DECLARATION=f"    const char *texts[{len(self._of_kind('text'))}];\n" if has_texts else "",
            ZERO=self._number(0.0),
            ONE=self._number(1.0),
            TOLERANCE=self._number(1e-9 if self.dtype == "double" else 1e-4),
            ABS="fabs" if self.dtype == "double" else "fabsf",
            CELLS=self._cells(),
        )

    def _text_array(self, texts: Sequence[object]) -> str:
        """Texts of example rows; those too long for a literal are left out there and then."""
        filled = ["0" if text is None else _literal(str(text).encode()) for text in texts] or ["0"]
        body = ",\n    ".join(filled)
        return f"static const char *const {self.prefix}_example_text[{len(filled)}] = {{\n    {body}\n}};\n"


def _cell(value: Cell, number: Callable[[float], str]) -> str:
    """A number, or a date as seconds since 1970."""
    if isinstance(value, str):
        return number(float(np.datetime64(value, "s").astype(np.int64)))
    return "NAN" if value is None else number(value)


def _literal(data: bytes) -> str:
    """Bytes as a string literal of plain ASCII: no trigraph, no escape that takes in what follows."""
    return '"' + "".join(chr(byte) if _PLAIN.match(bytes([byte])) else f"\\{byte:03o}" for byte in data) + '"'
