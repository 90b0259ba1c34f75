"""A program as one JavaScript (ES) module without dependencies, for browsers, Node, Deno and Bun."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from treelu.export.examples import examples
from treelu.export.literals import digits, header
from treelu.export.program import (
    BLANKS,
    Category,
    Column,
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

_SAFE_INTEGER = 2**53
_DIRECTIVES = {
    **dict.fromkeys("mdHIMS", "(\\d{1,2})"),
    **{"Y": "(\\d{4})", "y": "(\\d{2})", "b": "([A-Za-z]{3})", "B": "([A-Za-z]+)", "p": "([AaPp][Mm])"},
    **{"f": "(\\d{1,6})", "z": "(Z|[-+]\\d{2}:?\\d{2})"},
}


def to_javascript(model: ObliqueTree | Program, *, name: str | None = None, trained: str | None = None) -> str:
    """A tree or a program as an ES module.

    It exports ``predict(row)`` for an object with a property for each column, ``apply(row)`` for the leaves, and
    ``selfTest()``, the number of example rows that are not answered as expected.

    Parameters
    ----------
    model : ObliqueTree or Program
    name, trained : str, optional
        For the header: what it is called, and the day of training.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> print(tree.to_javascript(name="growth"))
    // growth: 1 tree, 2 leaves, 2 of 2 columns used
    ...
    """
    whole = as_program(model, name, trained)
    program = whole.compacted()
    return fill(
        _TEMPLATE,
        HEADER="\n".join(f"// {line}" for line in header(whole)),
        BLANKS=_text(BLANKS),
        COLUMNS=_lines(_column(program, number) for number in program.used_columns),
        FEATURES=_lines(_feature(program, feature) for feature in program.features),
        QUESTIONS=_trees(program, _questions),
        LEAVES=_trees(program, _leaves),
        LINEAR=_trees(program, _linear),
        PARTS=_lines(_parts(program)),
        EXAMPLES=_lines(_examples(program)),
    )


def _text(text: str) -> str:
    """A string literal, in which nothing ends a script element either."""
    return json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _value(value: Any) -> str:
    """A label or a cell."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return f"{value}n" if abs(value) > _SAFE_INTEGER else str(value)
    return digits(value) if isinstance(value, float) else _text(str(value))


def _lines(items: Iterable[str]) -> str:
    return "".join(f"  {item},\n" for item in items)


def _column(program: Program, number: int) -> str:
    column = program.columns[number]
    return f'[{_text(column.name)}, "{column.kind}", {_texts(column.missing)}, {_style(column)}]'


def _style(column: Column) -> str:
    """How numbers or dates are written as texts: a regular expression and what its groups are."""
    if column.kind == "number" and (column.decimal, column.thousands, column.marks) != (".", "", ()):
        return f"[{_text(column.decimal)}, {_text(column.thousands)}, {_texts(column.marks)}]"
    if column.kind == "date" and column.format is not None:
        pattern, groups = _date_pattern(column.format)
        return f"[new RegExp({_text(pattern)}), {_text(groups)}]"
    return "null"


def _date_pattern(format: str) -> tuple[str, str]:
    """The regular expression of a format of `strptime`, and the letter of each of its groups."""
    pattern, groups, place = "", "", 0
    while place < len(format):
        if format[place] != "%":
            pattern += f"\\u{ord(format[place]):04x}"
            place += 1
            continue
        letter = format[place + 1]
        if letter not in _DIRECTIVES:
            raise ValueError(f"a format of dates with %{letter} cannot be written as JavaScript: {format!r}")
        pattern, groups, place = pattern + _DIRECTIVES[letter], groups + letter, place + 2
    return f"^{pattern}$", groups

def _feature(program: Program, feature: Feature) -> str:
    column = program.used_columns.index(feature.column)
    if isinstance(feature, Number):
        return f'["number", {column}, {"NaN" if feature.fill is None else digits(feature.fill)}]'
    if isinstance(feature, Missing):
        return f'["missing", {column}]'
    if isinstance(feature, Category):
        return f'["category", {column}, {_text(feature.text)}]'
    if isinstance(feature, Other):
        return f'["other", {column}, {_texts(feature.known)}]'
    if isinstance(feature, DatePart):
        return f'["date", {column}, "{feature.part}", {digits(feature.fill)}]'
    raise TypeError(f"features of the kind {type(feature).__name__} cannot be written as JavaScript")


def _trees(program: Program, write: Callable[[Part, ObliqueTree], str]) -> str:
    return "".join(f"  [\n{write(part, tree)}  ],\n" for part in program.parts for tree in part.trees)


def _written(terms: list[Term]) -> str:
    return "[" + ", ".join(f"{feature}, {digits(weight)}" for feature, weight in terms) + "]"


def _questions(part: Part, tree: ObliqueTree) -> str:
    return "".join(
        f"    [{_written(asked.terms)}, {digits(asked.bias)}, {asked.left}, {asked.right}],\n"
        for asked in questions(tree)
    )


def _leaves(part: Part, tree: ObliqueTree) -> str:
    values = part.leaf_answers()[0] if part.is_lookup else part.leaf_values(tree).tolist()
    return "".join(f"    [{', '.join(map(digits, leaf))}],\n" for leaf in values)


def _linear(part: Part, tree: ObliqueTree) -> str:
    return "".join(f"    [{', '.join(map(_written, leaf))}],\n" for leaf in linear_terms(tree) or [])


def _parts(program: Program) -> list[str]:
    lines, first = [], 0
    for part in program.parts:
        labels = part.leaf_answers()[1] if part.is_lookup else None
        fields = {
            "first": str(first),
            "count": str(len(part.trees)),
            "mean": _value(part.combine != "sum"),
            "link": _text("lookup" if part.is_lookup else part.link),
            "only": json.dumps(part.only),
            "classes": "null" if part.classes is None else f"[{', '.join(map(_value, part.classes))}]",
            "leafLabels": json.dumps(labels),
            "names": _texts(part.outputs),
        }
        lines.append("{ " + ", ".join(f"{name}: {value}" for name, value in fields.items()) + " }")
        first += len(part.trees)
    return lines


def _examples(program: Program) -> list[str]:
    lines = []
    names = _texts(program.columns[number].name for number in program.used_columns)
    for example in examples(program):
        row = ", ".join(_value(example.row[number]) for number in program.used_columns)
        outputs = ", ".join(map(digits, example.outputs))
        label = "null" if example.label is None else str(example.label)
        lines.append(f"[[{row}], {list(example.leaves)}, {label}, [{outputs}]]")
    return [names, *lines]


_TEMPLATE = r"""@HEADER@
//
// predict(row) takes an object with a property for each column: numbers, texts, null where one is missing.

const BLANKS = new Set(@BLANKS@);
// name, kind, texts that count as missing, how numbers or dates are written
const COLUMNS = [
@COLUMNS@];
// kind, column, what it is compared with or filled with
const FEATURES = [
@FEATURES@];
// for each tree its questions: terms (feature, weight, ...), bias, next node if the sum is below 0, otherwise
const QUESTIONS = [
@QUESTIONS@];
// for each tree the outputs of its leaves
const LEAVES = [
@LEAVES@];
// for each tree with linear leaves the terms of each output of each leaf
const LINEAR = [
@LINEAR@];
const PARTS = [
@PARTS@];
// names of the columns; then rows, leaves, number of the class, outputs
const EXAMPLES = [
@EXAMPLES@];

function readText(value, missing) {
  if (value === null || value === undefined || Number.isNaN(value)) return null;
  const text = String(value);
  let start = 0;
  let end = text.length;
  while (start < end && BLANKS.has(text[start])) start += 1;
  while (end > start && BLANKS.has(text[end - 1])) end -= 1;
  const kept = text.slice(start, end);
  return kept === "" || missing.includes(kept) ? null : kept;
}

// A text as a number, null where it is none.
function writtenNumber(text, style) {
  let core = text;
  let [decimal, thousands, marks] = [".", "", []];
  if (style !== null) {
    [decimal, thousands, marks] = style;
    core = core.replace(/[\u00a0\u202f\u2009]/g, " ").replace(/\u2212/g, "-").replace(/\u2019/g, "'").trim();
    for (const mark of marks) core = core.replace(mark, "");
    core = core.trim();
    if (core.startsWith("(") && core.endsWith(")")) core = `-${core.slice(1, -1).trim()}`;
    core = core.replace(/^([-+])\s+/, "$1");
  }
  const exact = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const groups = thousands === "" ? "" : `|\\d{1,3}(?:${exact(thousands)}\\d{3})+`;
  const point = exact(decimal);
  const whole = `^[-+]?(?:(?:\\d+${groups})(?:${point}\\d*)?|${point}\\d+)(?:[eE][-+]?\\d+)?$`;
  if (!new RegExp(whole).test(core)) return null;
  if (thousands !== "") core = core.split(thousands).join("");
  return Number(core.replace(decimal, "."));
}

function readNumber(name, value, missing, style) {
  let number = value;
  if (typeof value === "string") {
    const text = readText(value, missing);
    if (text === null) return null;
    const lower = text.toLowerCase();
    number = lower === "true" ? 1 : lower === "false" ? 0 : writtenNumber(text, style);
    if (number === null) throw new TypeError(`column ${JSON.stringify(name)}: ${JSON.stringify(value)} is not a number`);
  } else if (typeof value === "boolean" || typeof value === "bigint") number = Number(value);
  if (number === null || number === undefined || Number.isNaN(number)) return null;
  if (typeof number !== "number") throw new TypeError(`column ${JSON.stringify(name)}: not a number`);
  if (!Number.isFinite(number)) throw new RangeError(`column ${JSON.stringify(name)}: infinity; null if it is unknown`);
  return number;
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const ISO = [/^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[-+]\d{2}:?\d{2})?)?$/, "YmdHMSfz"];

// A text as microseconds since 1970 in UTC, null where it is no date.
function writtenDate(text, [pattern, letters]) {
  const found = pattern.exec(text);
  if (found === null) return null;
  const parts = Object.fromEntries([...letters].map((letter, place) => [letter, found[place + 1]]));
  const number = (letter, otherwise) => (parts[letter] === undefined ? otherwise : Number(parts[letter]));
  const short = number("y", 0);
  const year = number("Y", short < 69 ? 2000 + short : 1900 + short);
  const word = parts.b ?? parts.B;
  const month = word === undefined ? number("m", 1) - 1 : MONTHS.indexOf(word.slice(0, 3).toLowerCase());
  const half = parts.p === undefined ? 0 : parts.p.toLowerCase() === "pm" ? 12 : 0;
  const hour = parts.I === undefined ? number("H", 0) : (number("I", 0) % 12) + half;
  const [minute, second] = [number("M", 0), number("S", 0)];
  const moment = new Date(0);
  moment.setUTCFullYear(year, month, number("d", 1));
  if (month < 0 || moment.getUTCMonth() !== month || moment.getUTCDate() !== number("d", 1)) return null;
  if (hour > 23 || minute > 59 || second > 59) return null;
  const zone = /^([-+])(\d{2}):?(\d{2})$/.exec(parts.z ?? "");
  const ahead = zone === null ? 0 : Number(`${zone[1]}1`) * (Number(zone[2]) * 60 + Number(zone[3]));
  const seconds = moment.getTime() / 1000 + hour * 3600 + (minute - ahead) * 60 + second;
  return seconds * 1e6 + Number((parts.f ?? "0").padEnd(6, "0"));
}

function readDate(name, value, missing, style) {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.getTime() * 1000;
  const text = readText(value, missing);
  if (text === null) return null;
  const moment = (style === null ? null : writtenDate(text, style)) ?? writtenDate(text, ISO);
  if (moment === null) throw new TypeError(`column ${JSON.stringify(name)}: ${JSON.stringify(value)} is not a date`);
  return moment;
}

function datePart(moment, part) {
  if (part === "days since 1970") return moment / 86400000000;
  const date = new Date(Math.floor(moment / 1000));
  if (part === "year") return date.getUTCFullYear();
  if (part === "month") return date.getUTCMonth() + 1;
  return part === "hour" ? date.getUTCHours() : ((date.getUTCDay() + 6) % 7) + 1;
}

const READERS = { number: readNumber, text: (name, value, missing) => readText(value, missing), date: readDate };

/** The features that the trees ask about; NaN where a value is missing and nothing stands in for it. */
export function encode(row) {
  const cells = COLUMNS.map(([name, kind, missing, style]) => {
    if (!Object.prototype.hasOwnProperty.call(row, name)) {
      throw new TypeError(`the row has no column ${JSON.stringify(name)}`);
    }
    return READERS[kind](name, row[name], missing, style);
  });
  return FEATURES.map(([kind, column, other, fill]) => {
    const cell = cells[column];
    if (kind === "number") return cell === null ? other : cell;
    if (kind === "missing") return cell === null ? 1 : 0;
    if (kind === "category") return cell === other ? 1 : 0;
    if (kind === "date") return cell === null ? fill : datePart(cell, other);
    return cell === null || other.includes(cell) ? 0 : 1;
  });
}

function sum(terms, last, x) {
  if (terms.length === 0) return last;
  let total = terms[1] * x[terms[0]];
  for (let i = 2; i < terms.length; i += 2) total += terms[i + 1] * x[terms[i]];
  return total + last;
}

function route(tree, x) {
  const questions = QUESTIONS[tree];
  let node = 0;
  while (node < questions.length) {
    const [terms, bias, left, right] = questions[node];
    const score = sum(terms, bias, x);
    if (!Number.isFinite(score)) {
      throw new RangeError("a number that the tree asks for is missing, or the numbers are too large to add up");
    }
    node = score >= 0 ? right : left;
  }
  return node;
}

/** The number of the leaf that the row reaches in each tree. */
export function apply(row) {
  const x = encode(row);
  return QUESTIONS.map((_, tree) => route(tree, x));
}

function leafOutputs(tree, leaf, x) {
  const values = LEAVES[tree][leaf];
  if (LINEAR[tree].length === 0) return values;
  return values.map((value, output) => sum(LINEAR[tree][leaf][output], value, x));
}

function probabilities(link, scores) {
  if (link === "logistic") {
    const small = Math.exp(-Math.abs(scores[0]));
    const low = small / (1 + small);
    const high = 1 / (1 + small);
    return scores[0] > 0 ? [low, high] : [high, low];
  }
  if (link === "softmax") {
    const largest = scores.reduce((a, b) => Math.max(a, b));
    const parts = scores.map((score) => Math.exp(score - largest));
    const whole = parts.reduce((a, b) => a + b);
    return parts.map((part) => part / whole);
  }
  return scores;
}

function answerPart(part, x) {
  let leaf = route(part.first, x) - QUESTIONS[part.first].length;
  let scores = leafOutputs(part.first, leaf, x);
  if (part.link === "lookup") return [part.leafLabels === null ? null : part.leafLabels[leaf], scores];
  for (let tree = part.first + 1; tree < part.first + part.count; tree += 1) {
    leaf = route(tree, x) - QUESTIONS[tree].length;
    const more = leafOutputs(tree, leaf, x);
    scores = scores.map((score, output) => score + more[output]);
  }
  if (part.mean) scores = scores.map((score) => score / part.count);
  const label = part.link === "logistic" ? Number(scores[0] > 0) : scores.indexOf(scores.reduce((a, b) => Math.max(a, b)));
  const outputs = probabilities(part.link, scores);
  return [label, part.only === null ? outputs : [outputs[part.only]]];
}

/** The answers by name: the class as "prediction" and probabilities, or values. */
export function predict(row) {
  const x = encode(row);
  const answers = [];
  for (const part of PARTS) {
    const [label, outputs] = answerPart(part, x);
    if (part.classes !== null) answers.push(["prediction", part.classes[label]]);
    part.names.forEach((name, output) => answers.push([name, outputs[output]]));
  }
  return Object.fromEntries(answers);
}

/** The number of example rows whose leaf or answer is not the expected one. */
export function selfTest() {
  const [names, ...examples] = EXAMPLES;
  let failures = 0;
  for (const [cells, leaves, label, outputs] of examples) {
    const row = Object.fromEntries(names.map((name, place) => [name, cells[place]]));
    const found = PARTS.map((part) => answerPart(part, encode(row)));
    const numbers = found.flatMap(([, values]) => values);
    const close = numbers.every((value, place) => Math.abs(value - outputs[place]) <= 1e-9 * (1 + Math.abs(outputs[place])));
    const same = apply(row).every((leaf, tree) => leaf === leaves[tree]);
    if (!close || !same || (label !== null && found[0][0] !== label)) failures += 1;
  }
  return failures;
}
"""
