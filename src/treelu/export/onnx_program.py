"""A whole program as an ONNX model: texts and missing values in, the encoding inside, sums of trees."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from treelu.export.examples import examples
from treelu.export.literals import header
from treelu.export.onnx import _classification, _Graph, _import_onnx, _leaf_scores, _route, serialised
from treelu.export.program import BLANKS, Category, DatePart, Feature, Missing, Number, Other, Part, Program
from treelu.tree import ObliqueTree

_OPSET = 20  # the first with RegexFullMatch
_DAY = 86_400_000_000  # microseconds
_INT64 = 7  # TensorProto.INT64
_OUTPUTS = ("label", "probabilities", "variable")


def program_to_onnx(
    program: Program, path: str | Path | None = None, *, dtype: Literal["float32", "float64"] = "float64"
) -> bytes:
    """A program as an ONNX model that takes the original columns.

    There is an input of shape (rows, 1) for each column that is used, named like it: numbers, NaN where one is missing;
    texts, empty where one is missing; dates as seconds since 1970 in UTC, NaN where one is missing. A program on the
    features of trees alone has one input ``X`` (rows, features).
    Outputs are as of :func:`treelu.export.onnx.to_onnx`, NaN included; with several labels ``probabilities`` has one
    for each. The header, the names of inputs and outputs and the example rows are in the metadata.

    Parameters
    ----------
    program : Program
    path : str or Path, optional
        Write the model there, too.
    dtype : {"float32", "float64"}
        Type of numbers and sums. With float64 each row reaches the leaf that the tree gives it.

    Returns
    -------
    bytes
        The serialised model. It needs a runtime for opset 20, such as onnxruntime 1.17.
    """
    onnx = _import_onnx()
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}")
    whole, program = program, program if program.is_plain else program.compacted()
    graph = _Graph(onnx, np.dtype(dtype))
    names = _input_names(program)
    scope = "treelu"
    while any(name.startswith(scope) for name in names.values()):
        scope += "_"
    graph.scope = f"{scope}/"
    inputs = _inputs(graph, program, names)
    outputs = _answers(graph, program, scope)
    proto = onnx.helper.make_graph(graph.nodes, "treelu_program", inputs, outputs, graph.constants)
    return serialised(onnx, proto, _OPSET, "\n".join(header(whole)), _properties(whole, names), path)


def _properties(program: Program, names: dict[int, str]) -> dict[str, str]:
    rows = [
        {
            "row": {names[number]: example.row[number] for number in names},
            "leaves": example.leaves,
            "label": example.label,
            "outputs": example.outputs,
        }
        for example in examples(program)
    ]
    return {
        "header": "\n".join(header(program)),
        "inputs": json.dumps({name: program.columns[number].name for number, name in names.items()}),
        "outputs": json.dumps(program.outputs),
        "examples": json.dumps(rows),
    }


def _input_names(program: Program) -> dict[int, str]:
    """The inputs' names: those of the columns, but for one that is empty or the name of an output."""
    names: dict[int, str] = {}
    for number in program.used_columns:
        name = program.columns[number].name or "column"
        while name in _OUTPUTS or name in names.values():
            name += "_"
        names[number] = name
    return names


def _inputs(graph: _Graph, program: Program, names: dict[int, str]) -> list[Any]:
    """The inputs of the model; the features that they become are the graph's rows from then on."""
    onnx = graph.onnx
    helper, string = onnx.helper, onnx.TensorProto.STRING
    if program.is_plain:
        return [helper.make_tensor_value_info("X", graph.elem_type, ["rows", len(program.columns)])]
    inputs = [
        helper.make_tensor_value_info(
            name, string if program.columns[number].kind == "text" else graph.elem_type, ["rows", 1]
        )
        for number, name in names.items()
    ]
    if graph.dtype == np.float32 and any(column.kind == "date" for column in program.columns):
        raise ValueError("dates need more digits than dtype='float32' has; use 'float64'")
    if not inputs:
        raise ValueError("the model asks no question and has no inputs: its answer is a constant, see its text")
    cells = _Cells(graph, program, names)
    graph.rows = graph.node("Concat", *(cells.feature(feature) for feature in program.features), axis=1)
    return inputs


class _Cells:
    """Features of columns; what several of them need is computed once."""

    def __init__(self, graph: _Graph, program: Program, names: dict[int, str]) -> None:
        self.graph, self.program, self.names = graph, program, names
        self.known: dict[tuple[int, str | None], str] = {}
        self.dates: dict[tuple[int, str], str] = {}

    def feature(self, feature: Feature) -> str:
        """The name of a feature (rows, 1); NaN where a value is missing that must not be."""
        graph, column = self.graph, feature.column
        found = self._feature(feature)
        if not self.program.columns[column].required:
            return found
        return graph.node("Where", self.missing(column), graph.constant(np.array(np.nan), "nan"), found)

    def _feature(self, feature: Feature) -> str:
        graph, column = self.graph, feature.column
        match feature:
            case Number(_, fill):
                if fill is None:
                    return self.names[column]
                constant = graph.constant(np.array(float(fill)), f"fill_{column}")
                return graph.node("Where", self.missing(column), constant, self.names[column])
            case Missing():
                return self._as_number(self.missing(column))
            case Category(_, text):
                return self._as_number(self.equal(column, text))
            case Other(_, known):
                found = self.missing(column)
                for text in known:
                    found = graph.node("Or", found, self.equal(column, text))
                return self._as_number(graph.node("Not", found))
            case DatePart():
                return self._date_part(feature)

    def missing(self, column: int) -> str:
        """Whether a value is missing."""
        if (column, None) not in self.known:
            if self.program.columns[column].kind != "text":
                found = self.graph.node("IsNaN", self.names[column])
            else:
                words = "|".join(map(_pattern, ("", *self.program.columns[column].missing)))
                found = self._matches(column, f"(?:{words})")
            self.known[column, None] = found
        return self.known[column, None]

    def equal(self, column: int, text: str) -> str:
        """Whether a column holds a text, blanks around it aside."""
        if (column, text) not in self.known:
            found = self._matches(column, _pattern(text))
            if text in self.program.columns[column].missing:
                found = self.graph.node("And", found, self.graph.node("Not", self.missing(column)))
            self.known[column, text] = found
        return self.known[column, text]

    def _date_part(self, feature: DatePart) -> str:
        """A part of a date that is given as seconds since 1970, by integers of microseconds."""
        graph, column = self.graph, feature.column
        fill = graph.constant(np.array(float(feature.fill)), f"fill_{column}_{feature.part}")
        if (column, feature.part) not in self.dates:
            million, nothing = graph.constant(np.array(1e6), "million"), graph.constant(np.array(0.0), "nothing")
            seconds = graph.node("Where", self.missing(column), nothing, self.names[column])
            moment = graph.node("Cast", graph.node("Round", graph.node("Mul", seconds, million)), to=_INT64)
            self.dates |= {(column, part): name for part, name in _Whole(graph).date_parts(moment).items()}
        return graph.node("Where", self.missing(column), fill, self.dates[column, feature.part])

    def _matches(self, column: int, pattern: str) -> str:
        blanks = f"[{''.join(map(_pattern, BLANKS))}]*"
        return self.graph.node("RegexFullMatch", self.names[column], pattern=f"{blanks}{pattern}{blanks}")

    def _as_number(self, truth: str) -> str:
        return self.graph.node("Cast", truth, to=self.graph.elem_type)


class _Whole:
    """Arithmetic of integers in a graph."""

    def __init__(self, graph: _Graph) -> None:
        self.graph = graph

    def _do(self, operator: str, first: str, second: int | str) -> str:
        if isinstance(second, int):
            second = self.graph.constant(np.array(second), f"whole_{second}")
        return self.graph.node(operator, first, second)

    def _divided(self, value: str, by: int) -> str:
        """Rounded down, below 0 as well: Mod takes the divisor's sign."""
        return self._do("Div", self._do("Sub", value, self._do("Mod", value, by)), by)

    def date_parts(self, moment: str) -> dict[str, str]:
        """Parts of a moment in microseconds since 1970, as numbers of the model."""
        do, divided = self._do, self._divided
        days = divided(moment, _DAY)
        shifted = do("Add", days, 719468)  # eras of 400 years that begin in March
        in_era = do("Mod", shifted, 146097)
        leaps = do("Sub", divided(in_era, 36524), do("Add", divided(in_era, 1460), divided(in_era, 146096)))
        year = divided(do("Add", in_era, leaps), 365)
        before = do("Add", do("Mul", year, 365), do("Sub", divided(year, 4), divided(year, 100)))
        month = divided(do("Add", do("Mul", do("Sub", in_era, before), 5), 2), 153)
        late = self.graph.node("Cast", do("GreaterOrEqual", month, 10), to=_INT64)  # January and February
        parts = {
            "year": do("Add", do("Add", year, do("Mul", divided(shifted, 146097), 400)), late),
            "month": do("Sub", do("Add", month, 3), do("Mul", late, 12)),
            "day of week": do("Add", do("Mod", do("Add", days, 3), 7), 1),
            "hour": divided(do("Mod", moment, _DAY), 3_600_000_000),
        }
        as_number = {part: self.graph.node("Cast", name, to=self.graph.elem_type) for part, name in parts.items()}
        whole = self.graph.node("Cast", moment, to=self.graph.elem_type)
        as_number["days since 1970"] = self.graph.node("Div", whole, self.graph.constant(np.array(float(_DAY)), "day"))
        return as_number


def _pattern(text: str) -> str:
    """A regular expression that matches this text only."""
    return "".join(char if re.match(r"[A-Za-z0-9 ]", char) else f"\\x{{{ord(char):x}}}" for char in text)


def _answers(graph: _Graph, program: Program, scope: str) -> list[Any]:
    probabilities, outputs = [], []
    for number, part in enumerate(program.parts):
        tree = replace(part.trees[0], feature_names=None)
        scores = _scores(graph, part, f"{scope}/{number}")
        graph.scope = f"{scope}/{number}/"
        if part.only is not None:
            probabilities.append(_one_label(graph, part, scores))
        elif part.classes is None:
            graph.node("Identity", scores, name="variable")
            helper = graph.onnx.helper
            outputs.append(helper.make_tensor_value_info("variable", graph.elem_type, ["rows", part.n_scores]))
        else:
            outputs += _classification(
                graph, _as_votes(tree) if part.combine == "vote" else tree, scores, part.threshold
            )
    if probabilities:
        graph.node("Concat", *probabilities, axis=1, name="probabilities")
        info = graph.onnx.helper.make_tensor_value_info("probabilities", graph.elem_type, ["rows", len(probabilities)])
        outputs.append(info)
    return outputs


def _scores(graph: _Graph, part: Part, scope: str) -> str:
    """Combined outputs of the leaves of all trees of a part."""
    total = ""
    for number, tree in enumerate(part.trees):
        graph.scope = f"{scope}/{number}/"
        voting = _as_votes(tree) if part.combine == "vote" else tree
        scores = _leaf_scores(graph, voting, *_route(graph, voting))
        total = graph.node("Add", total, scores) if total else scores
    if part.combine == "sum":
        return total
    return graph.node("Div", total, graph.constant(np.array(float(len(part.trees))), "n_trees"))


def _as_votes(tree: ObliqueTree) -> ObliqueTree:
    """The same tree with probabilities in its leaves."""
    return replace(tree, values=tree.link_outputs(tree.values), link="probability")


def _one_label(graph: _Graph, part: Part, scores: str) -> str:
    """The probability of one class, (rows, 1)."""
    if part.link == "logistic":
        return graph.node("Sigmoid", scores if part.only == 1 else graph.node("Neg", scores))
    probabilities = graph.node("Softmax", scores) if part.link == "softmax" else scores
    return graph.node("Gather", probabilities, graph.constant(np.array([part.only]), "only"), axis=1)
