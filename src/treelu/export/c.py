"""A program as one C99 header: no allocation, nothing but the standard library, `double` or `float`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from treelu.export.examples import Cell, examples
from treelu.export.literals import comment, digits, header, identifier
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
    linear_terms,
    questions,
)
from treelu.export.templates import fill
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
        places["ROW_WORDS"] = _ROW_WORDS[bool(self._of_kind("text"))]
        return fill(_TEMPLATE, **places)

    # Numbers and columns

    def _number(self, value: float) -> str:
        if self.dtype == "double":
            return digits(value)
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
        asked = [questions(tree) for tree in program.trees]
        flat = [question for tree in asked for question in tree]
        leaves = [
            part.leaf_answers()[0] if part.is_lookup else part.leaf_values(tree).tolist()
            for part in program.parts
            for tree in part.trees
        ]
        sizes = accumulate((sum(map(len, tree)) for tree in leaves), initial=0)
        text = self._array("int", "tree_first", map(str, accumulate(map(len, asked), initial=0)))
        text += self._term_arrays("term", [question.terms for question in flat])
        text += self._array(self.dtype, "bias", (self._number(question.bias) for question in flat))
        text += self._array("int", "left", (str(question.left) for question in flat))
        text += self._array("int", "right", (str(question.right) for question in flat))
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
            labels = part.leaf_answers()[1] if part.is_lookup else None
            if labels is not None:
                text += self._array("int", f"leaf_label_{number}", map(str, labels))
        return text

    # Encoding

    def _encode_call(self) -> str:
        if self.plain:
            return "    const @REAL@ *const x = numbers;".replace("@REAL@", self.dtype)
        count = max(1, len(self.program.features))
        return f"    {self.dtype} x[{count}];\n    if ({self.prefix}_encode({self._cells()}, x)) return -1;"

    def _helpers(self) -> str:
        kinds = {column.kind for column in self.program.columns}
        if "date" in kinds and self.dtype == "float":
            raise ValueError("dates need more digits than dtype='float' has; use 'double'")
        texts = fill(_TEXTS, P=self.prefix) if "text" in kinds else ""
        return texts + (fill(_DATES, P=self.prefix) if "date" in kinds else "")

    def _encoding(self) -> str:
        written = [self._read(column) for column in self.program.used_columns]
        for place, feature in enumerate(self.program.features):
            value, arrays = self._feature(place, feature)
            written.append((f"    x[{place}] = {value};", arrays))
        body = "".join(f"{line}\n" for line, _ in written) or "    (void)x;\n" + self._ignore()
        unused = "" if not written or self._reads_numbers() else "    (void)numbers;\n"
        return (
            "".join(array for _, arrays in written for array in arrays)
            + f"\nstatic inline int {self.prefix}_encode({self._row_arguments()}, {self.dtype} *x)\n{{\n"
            + f"{unused}{body}    return 0;\n}}\n"
        )

    def _reads_numbers(self) -> bool:
        return any(self.program.columns[column].kind != "text" for column in self.program.used_columns)

    def _ignore(self) -> str:
        texts = "    (void)texts;\n" if self._of_kind("text") else ""
        return f"    (void)numbers;\n{texts}"

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
        if isinstance(feature, Number):
            value = self._place(column)
            return (value if feature.fill is None else f"{missing} ? {self._number(feature.fill)} : {value}"), []
        if isinstance(feature, Missing):
            return f"{missing} ? {one} : {zero}", []
        if isinstance(feature, Category):
            call, arrays = self._equal(column, f"{place}", feature.text)
            return f"{call} && !{missing} ? {one} : {zero}", arrays
        if isinstance(feature, Other):
            calls = [self._equal(column, f"{place}_{number}", text) for number, text in enumerate(feature.known)]
            test = " || ".join([missing, *(call for call, _ in calls)])
            return f"{test} ? {zero} : {one}", [array for _, arrays in calls for array in arrays]
        if isinstance(feature, DatePart):
            part = f"{self.prefix}_date_part({self._place(column)}, {_PARTS.index(feature.part)})"
            return f"{missing} ? {self._number(feature.fill)} : {part}", []
        raise TypeError(f"features of the kind {type(feature).__name__} cannot be written as C")

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
            return fill(_LOOKUP, LABEL=label, N=str(len(part.outputs)), **places)
        linear = any(tree.leaf_weights is not None for tree in part.trees)
        value = "@P@_sum(@P@_linear_feature, @P@_linear_weight, @P@_linear_first[place], @P@_linear_first[place + 1],"
        value += "\n                @P@_leaf_value[place], x)"
        count = len(part.trees)
        return fill(
            _SCORES,
            N=str(part.n_scores),
            LAST=str(first + count),
            VALUE=fill(value, P=self.prefix) if linear else f"{self.prefix}_leaf_value[place]",
            MEAN="" if part.combine == "sum" else f"    for (k = 0; k < {part.n_scores}; k++) scores[k] /= {self._number(count)};\n",
            LINK=self._link(part),
            **places,
        )

    def _link(self, part: Part) -> str:
        """From scores to outputs and the number of the class."""
        places = {"ONE": self._number(1.0), "EXP": "exp" if self.dtype == "double" else "expf", "REAL": self.dtype}
        places |= {"ABS": "fabs" if self.dtype == "double" else "fabsf", "N": str(part.n_scores)}
        template = {"logistic": _LOGISTIC, "softmax": _SOFTMAX}.get(part.link, _IDENTITY)
        kept = "outputs[k] = chances[k]" if part.only is None else f"outputs[k] = chances[{part.only}]"
        text = fill(template, **places) if part.classes is not None or template is not _IDENTITY else fill(_VALUES, **places)
        return text + f"    for (k = 0; k < {len(part.outputs)}; k++) {kept};\n"

    def _predict(self) -> str:
        lines, place = [], 0
        for number, part in enumerate(self.program.parts):
            call = f"{self.prefix}_part_{number}(x, outputs + {place})"
            lines.append(f"    if ((label = {call}) < 0) return -1;")
            place += len(part.outputs)
        return "\n".join(lines)

    def _class_names(self) -> str:
        classes = self.program.parts[0].classes
        if classes is None:
            return ""
        names = ", ".join(_literal(str(label)[:500].encode()) for label in classes)
        return fill(_CLASS_NAME, P=self.prefix, NAMES=names, N=str(len(classes)))

    # Self-test

    def _self_test(self) -> str:
        rows = examples(self.program)
        used = set(self.program.used_columns)
        numbers = [column for column in self._of_kind("number") if column in used]
        texts = [column for column in self._of_kind("text") if column in used]
        place = {column: self._of_kind("number").index(column) for column in numbers}
        place |= {column: self._of_kind("text").index(column) for column in texts}
        cells = [
            self._array(self.dtype, "example_number", (_cell(row.row[c], self._number) for row in rows for c in numbers)),
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
            _SELF_TEST,
            ARRAYS="".join(cells),
            P=self.prefix,
            REAL=self.dtype,
            ROWS=str(len(rows)),
            N_NUMBERS=str(max(1, len(self._of_kind("number")))),
            USED_NUMBERS=str(len(numbers)),
            TEXTS=fill(_SELF_TEST_TEXTS, P=self.prefix, N=str(len(self._of_kind("text"))), USED=str(len(texts)))
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


_ROW_WORDS = {
    False: " * numbers: the columns above in their order; NAN where one is missing.",
    True: (
        " * numbers: the columns above that begin with number, in their order; NAN where one is missing.\n"
        " * texts: those that begin with text, UTF-8; NULL where one is missing. Blanks around a text do not count."
    ),
}

_TEMPLATE = """\
/*
@HEADER@
 *
 * Needs -lm only where probabilities of sums of trees or of linear leaves are computed.
 */
#ifndef @GUARD@
#define @GUARD@

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

/* Rows on a boundary take the right side only if every product and every sum is rounded once, to @REAL@. */
#ifndef TREELU_ANY_ARITHMETIC
#if defined(__FAST_MATH__)
#error "compile without -ffast-math, or define TREELU_ANY_ARITHMETIC and accept other answers on boundaries"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "compile with FLT_EVAL_METHOD 0 (-msse2 -mfpmath=sse), or define TREELU_ANY_ARITHMETIC"
#endif
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

/* The columns: their places among the numbers@TEXT_WORD@ */
enum {
@COLUMNS@
@SIZES@
};

@TABLES@@ENCODING@
static inline @REAL@ @P@_sum(const int *feature, const @REAL@ *weight, int first, int end, @REAL@ last, const @REAL@ *x)
{
    @REAL@ total, product;
    int term;
    if (first == end) return last;
    total = weight[first] * x[feature[first]];
    for (term = first + 1; term < end; term++) {
        product = weight[term] * x[feature[term]];
        total = total + product;
    }
    return total + last;
}

/* The number of the leaf in one tree, -1 where a sum is not finite. */
static inline int @P@_route(const @REAL@ *x, int tree)
{
    const int first = @P@_tree_first[tree];
    const int count = @P@_tree_first[tree + 1] - first;
    int node = 0;
    while (node < count) {
        const int asked = first + node;
        const @REAL@ score = @P@_sum(@P@_term_feature, @P@_term_weight, @P@_term_first[asked], @P@_term_first[asked + 1],
            @P@_bias[asked], x);
        if (!isfinite(score)) return -1;
        node = score >= 0 ? @P@_right[asked] : @P@_left[asked];
    }
    return node;
}

@PARTS@
/*
 * Predicts for one row. Returns the number of the class (0 where there are none), or -1 where a number that is asked for
 * is missing, infinite or too large.
@ROW_WORDS@
 * outputs: room for @P@_n_outputs numbers: probabilities or values.
 */
static inline int @P@_predict(@ROW@, @REAL@ *outputs)
{
    int label = 0;
@ENCODE@
@PREDICT@
    return label;
}

/* The leaf that a row reaches in each tree; returns 0, or -1 as above. leaves: room for @P@_n_trees numbers. */
static inline int @P@_apply(@ROW@, int *leaves)
{
    int tree;
@ENCODE@
    for (tree = 0; tree < @P@_n_trees; tree++) {
        leaves[tree] = @P@_route(x, tree);
        if (leaves[tree] < 0) return -1;
    }
    return 0;
}
@CLASSES@
@SELF_TEST@
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#endif
"""
_TEMPLATE = _TEMPLATE.replace("@TEXT_WORD@", " and, where there are any, among the texts.")

_TEXTS = """\
typedef struct {
    const unsigned char *start;
    size_t length;
} @P@_text;

/* The width of the blank that begins here, 0 if there is none; those of Unicode, in UTF-8. */
static inline size_t @P@_blank(const unsigned char *s, size_t n)
{
    if (n >= 1 && ((s[0] >= 9 && s[0] <= 13) || (s[0] >= 28 && s[0] <= 32))) return 1;
    if (n >= 2 && s[0] == 0xC2 && (s[1] == 0x85 || s[1] == 0xA0)) return 2;
    if (n < 3) return 0;
    if (s[0] == 0xE1 && s[1] == 0x9A && s[2] == 0x80) return 3;
    if (s[0] == 0xE2 && s[1] == 0x81 && s[2] == 0x9F) return 3;
    if (s[0] == 0xE3 && s[1] == 0x80 && s[2] == 0x80) return 3;
    if (s[0] != 0xE2 || s[1] != 0x80) return 0;
    return (s[2] >= 0x80 && s[2] <= 0x8A) || s[2] == 0xA8 || s[2] == 0xA9 || s[2] == 0xAF ? 3 : 0;
}

static inline @P@_text @P@_trim(const char *text)
{
    @P@_text result;
    size_t width;
    result.start = (const unsigned char *)text;
    result.length = text == NULL ? 0 : strlen(text);
    while (result.length > 0 && (width = @P@_blank(result.start, result.length)) > 0) {
        result.start += width;
        result.length -= width;
    }
    do {
        for (width = 3; width > 0; width--) {
            if (result.length >= width && @P@_blank(result.start + result.length - width, width) == width) break;
        }
        result.length -= width;
    } while (width > 0);
    return result;
}

static inline int @P@_equal(@P@_text text, const unsigned char *other, size_t length)
{
    return text.length == length && (length == 0 || memcmp(text.start, other, length) == 0);
}

"""

_DATES = """\
/* A part of a moment in seconds since 1970: year, month, day of the week (Monday is 1), hour, days since 1970. */
static inline double @P@_date_part(double seconds, int part)
{
    const long long day = 86400000000LL;
    const long long moment = (long long)(seconds * 1e6 + (seconds < 0 ? -0.5 : 0.5)); /* microseconds */
    const long long days = moment / day - (moment % day < 0);
    const long long era_days = days + 719468, era = era_days / 146097 - (era_days % 146097 < 0);
    const long long in_era = era_days - era * 146097; /* years begin in March here */
    const long long year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    const long long in_year = in_era - (365 * year + year / 4 - year / 100);
    const long long month = (5 * in_year + 2) / 153 + ((5 * in_year + 2) / 153 < 10 ? 3 : -9);
    if (part == 0) return (double)(year + era * 400 + (month <= 2));
    if (part == 1) return (double)month;
    if (part == 2) return (double)(((days + 3) % 7 + 7) % 7 + 1);
    if (part == 3) return (double)((moment - days * day) / 3600000000LL);
    return (double)moment / 86400000000.0;
}

"""

_LOOKUP = """\
static inline int @P@_part_@NUMBER@(const @REAL@ *x, @REAL@ *outputs)
{
    int leaf = @P@_route(x, @FIRST@), k;
    if (leaf < 0) return -1;
    leaf -= @P@_tree_first[@FIRST@ + 1] - @P@_tree_first[@FIRST@];
    for (k = 0; k < @N@; k++) outputs[k] = @P@_leaf_value[@P@_leaf_first[@FIRST@] + leaf * @N@ + k];
    return @LABEL@;
}
"""

_SCORES = """\
static inline int @P@_part_@NUMBER@(const @REAL@ *x, @REAL@ *outputs)
{
    @REAL@ scores[@N@] = { 0 }, chances[@N@ + 1];
    int tree, k, label = 0;
    for (tree = @FIRST@; tree < @LAST@; tree++) {
        int leaf = @P@_route(x, tree), place;
        if (leaf < 0) return -1;
        leaf -= @P@_tree_first[tree + 1] - @P@_tree_first[tree];
        for (k = 0; k < @N@; k++) {
            place = @P@_leaf_first[tree] + leaf * @N@ + k;
            scores[k] += @VALUE@;
        }
    }
@MEAN@@LINK@    return label;
}
"""

_VALUES = """\
    for (k = 0; k < @N@; k++) chances[k] = scores[k];
"""

_IDENTITY = """\
    for (k = 0; k < @N@; k++) {
        if (scores[k] > scores[label]) label = k;
        chances[k] = scores[k];
    }
"""

_LOGISTIC = """\
    {
        const @REAL@ small = @EXP@(-@ABS@(scores[0]));
        label = scores[0] > 0;
        chances[label] = @ONE@ / (@ONE@ + small);
        chances[1 - label] = small / (@ONE@ + small);
    }
"""

_SOFTMAX = """\
    {
        @REAL@ whole = 0;
        for (k = 0; k < @N@; k++) if (scores[k] > scores[label]) label = k;
        for (k = 0; k < @N@; k++) whole += chances[k] = @EXP@(scores[k] - scores[label]);
        for (k = 0; k < @N@; k++) chances[k] /= whole;
    }
"""

_CLASS_NAME = """
/* The name of a class by its number. */
static inline const char *@P@_class_name(int label)
{
    static const char *const names[@N@] = { @NAMES@ };
    return label >= 0 && label < @N@ ? names[label] : NULL;
}
"""

_SELF_TEST = """\
@ARRAYS@
/* The number of example rows whose leaf or answer is not the expected one: 0. */
static inline int @P@_self_test(void)
{
    @REAL@ numbers[@N_NUMBERS@], outputs[@P@_n_outputs] = { 0 };
@TEXT_DECLARATION@    int leaves[@P@_n_trees], row, k, wrong, failures = 0;
    for (row = 0; row < @ROWS@; row++) {
        for (k = 0; k < @N_NUMBERS@; k++) numbers[k] = @ZERO@;
        for (k = 0; k < @USED_NUMBERS@; k++) numbers[@P@_example_number_place[k]] = @P@_example_number[row * @USED_NUMBERS@ + k];
@TEXTS@        wrong = @P@_predict(@CELLS@, outputs) != @P@_example_label[row] || @P@_apply(@CELLS@, leaves) != 0;
        for (k = 0; k < @P@_n_trees && !wrong; k++) wrong = leaves[k] != @P@_example_leaf[row * @P@_n_trees + k];
        for (k = 0; k < @P@_n_outputs && !wrong; k++) {
            const @REAL@ wanted = @P@_example_output[row * @P@_n_outputs + k];
            wrong = !(@ABS@(outputs[k] - wanted) <= @TOLERANCE@ * (@ONE@ + @ABS@(wanted)));
        }
        failures += wrong;
    }
    return failures;
}
"""

_SELF_TEST_TEXTS = """\
        for (k = 0; k < @N@; k++) texts[k] = NULL;
        for (k = 0; k < @USED@; k++) texts[@P@_example_text_place[k]] = @P@_example_text[row * @USED@ + k];
"""
