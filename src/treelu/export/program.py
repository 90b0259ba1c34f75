"""An exported program in a neutral form, from which each language is written.

The original columns of a row become features, the features go through the splits of one or several trees, the leaves
give the answers. `ObliqueTree` alone is such a program with a column for each feature; models of tables add how their
columns are encoded (`treelu.tables.programs`). A new kind of column is a new class of feature here; the type checker
then names the writers that do not write it yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treelu.export.json import to_json
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.rows import csr_row

# What str.strip() removes, which is what tables are read with: written out, because every language has its own idea.
BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
BLANKS += "\u2028\u2029\u202f\u205f\u3000"


@dataclass(frozen=True)
class Column:
    """A column that the program reads.

    Attributes
    ----------
    name : str
    kind : {"number", "text", "date"}
    missing : tuple of str
        Texts that count as missing, besides an empty one.
    decimal, thousands, marks
        How numbers are written where they come as texts: "$1,234.50" with ".", "," and ("$",).
    format : str, optional
        How dates are written where they come as texts, as for `strptime`; ISO 8601 is read besides, without a time of
        day where the format has none.
    codes : tuple of str
        Categories that numbers may stand for: 120.0 is "120" where "120.0" is none of them, and the other way round.
    required : bool
        Whether a missing text or date is refused, because no training row had one.
    """

    name: str
    kind: Literal["number", "text", "date"] = "number"
    missing: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    marks: tuple[str, ...] = ()
    format: str | None = None
    codes: tuple[str, ...] = ()
    required: bool = False

    @property
    def is_styled(self) -> bool:
        """Whether it holds numbers that are written otherwise than in programs."""
        return self.kind == "number" and (self.decimal, self.thousands, self.marks) != (".", "", ())

    @property
    def rewritten(self) -> dict[str, str]:
        """From the text of a number to the category that it stands for, where they are written in two ways."""
        others = {code.removesuffix(".0") if code.endswith(".0") else f"{code}.0": code for code in self.codes}
        return {text: code for text, code in others.items() if text not in self.codes}

    @property
    def is_day(self) -> bool:
        """Whether it holds dates without a time of day."""
        return self.format is not None and "%H" not in self.format and "%I" not in self.format


@dataclass(frozen=True)
class Number:
    """The number of a column, `fill` where it is missing; without `fill` a missing one is refused."""

    column: int
    fill: float | None = None


@dataclass(frozen=True)
class Missing:
    """1 where the value of a column is missing, else 0."""

    column: int


@dataclass(frozen=True)
class Category:
    """1 where a column holds this text, else 0."""

    column: int
    text: str


@dataclass(frozen=True)
class Other:
    """1 where a column holds a text that is none of these, else 0."""

    column: int
    known: tuple[str, ...]


@dataclass(frozen=True)
class DatePart:
    """A part of a date, `fill` where it is missing.

    Year, month and hour as they are called, the day of the week from 1 (Monday) to 7; "days since 1970" has decimals:
    the microseconds since then, divided by those of a day.
    """

    column: int
    part: Literal["year", "month", "day of week", "hour", "days since 1970"]
    fill: float


Feature: TypeAlias = Number | Missing | Category | Other | DatePart
Combine: TypeAlias = Literal["sum", "mean", "vote"]
Term: TypeAlias = tuple[int, float]  # a feature and its weight


class LinearSplit(NamedTuple):
    """A row goes right where the terms, added in this order, and then the bias are 0 or more."""

    terms: list[Term]
    bias: float
    left: int
    right: int


@dataclass(frozen=True)
class Part:
    """The trees that together answer for one target.

    Attributes
    ----------
    trees : tuple of ObliqueTree
        On the features of the program.
    combine : {"sum", "mean", "vote"}
        How several trees make one answer: by the sum or the mean of their outputs, or by the mean of their
        probabilities.
    outputs : tuple of str
        Names of the numbers it answers: a probability for each class, or a value for each target.
    only : int, optional
        Answer with this output alone and without a label: the probability of a 1, where there are several labels.
    threshold : pair of int and float, optional
        One of two classes, and the probability from which it is the answer; by default the more probable one is.
    """

    trees: tuple[ObliqueTree, ...]
    outputs: tuple[str, ...]
    combine: Combine = "sum"
    only: int | None = None
    threshold: tuple[int, float] | None = None

    @property
    def classes(self) -> list[Any] | None:
        """The labels, plain Python values; None in regression and for one of several labels."""
        classes = self.trees[0].classes
        if classes is None or self.only is not None:
            return None
        return [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]

    @property
    def link(self) -> str:
        """The link from combined outputs to predictions; "probability" and "identity" leave them as they are."""
        return "probability" if self.combine == "vote" else self.trees[0].link

    @property
    def is_lookup(self) -> bool:
        """Whether a leaf has its answer: there is one tree, and its leaves are constant."""
        return len(self.trees) == 1 and self.trees[0].leaf_weights is None

    @property
    def n_scores(self) -> int:
        """Numbers that a leaf gives before the link."""
        return int(self.leaf_values(self.trees[0]).shape[1])

    def leaf_values(self, tree: ObliqueTree) -> NDArray[np.float64]:
        """The contribution of each leaf of a tree to the scores (n_leaves, n_scores)."""
        if self.combine != "vote":
            return tree.values
        return np.asarray(tree.link_outputs(tree.values), dtype=np.float64)

    def answers(self, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Outputs (n, len(outputs)) of rows of features, and the number of each row's class."""
        total = np.zeros((len(X), self.n_scores))
        for tree in self.trees:
            raw = tree.decision_function(X)
            total += tree.link_outputs(raw) if self.combine == "vote" else raw.reshape(len(X), -1)
        return self._linked(total if self.combine == "sum" else total / len(self.trees))

    def _linked(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Outputs of scores and the numbers of the classes; of equal scores the first."""
        outputs = scores if self.combine == "vote" else self.trees[0].link_outputs(scores)
        if self.only is not None:
            return outputs[:, [self.only]], None
        if self.classes is None:
            return outputs, None
        if self.threshold is not None:
            positive, least = self.threshold
            return outputs, np.where(outputs[:, positive] >= least, positive, 1 - positive)
        return outputs, (scores[:, 0] > 0).astype(np.int64) if self.link == "logistic" else scores.argmax(axis=1)

    def leaf_outputs(self, tree: ObliqueTree) -> list[list[float]]:
        """The values of a tree's leaves: predictions where it is alone, else contributions to the scores."""
        return (self._linked(self.leaf_values(tree))[0] if self.is_lookup else self.leaf_values(tree)).tolist()

    @property
    def leaf_labels(self) -> list[int] | None:
        """The number of the class that each leaf answers, where a leaf has its answer."""
        labels = self._linked(self.leaf_values(self.trees[0]))[1] if self.is_lookup else None
        return None if labels is None else labels.tolist()


@dataclass(frozen=True)
class Program:
    """All that is exported.

    Attributes
    ----------
    columns : tuple of Column
        The original columns, in their order.
    features : tuple of Feature
        The inputs of the trees' splits.
    parts : tuple of Part
        One, or one for each of several labels.
    name : str
    trained : str
        The day of training as YYYY-MM-DD, empty where it is not known.
    """

    columns: tuple[Column, ...]
    features: tuple[Feature, ...]
    parts: tuple[Part, ...]
    name: str = "tree"
    trained: str = ""

    def __post_init__(self) -> None:
        texts = [column.name for column in self.columns] + [name for part in self.parts for name in part.outputs]
        texts += [text for column in self.columns for text in column.missing]
        texts += [feature.text for feature in self.features if isinstance(feature, Category)]
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{text[:60]!r} holds half a character and cannot be written to a file") from None
        if any(tree.n_features != len(self.features) for tree in self.trees):
            raise ValueError(f"a tree of the program does not fit its {len(self.features)} features")

    @property
    def trees(self) -> list[ObliqueTree]:
        """The trees of all parts, in their order."""
        return [tree for part in self.parts for tree in part.trees]

    @property
    def is_plain(self) -> bool:
        """Whether the features are the columns themselves, numbers that may not be missing."""
        return self.features == tuple(Number(column) for column in range(len(self.columns)))

    @property
    def has_label(self) -> bool:
        """Whether the first answer is a class, named "prediction"."""
        return self.parts[0].classes is not None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numbers that are answered, of all parts."""
        return tuple(name for part in self.parts for name in part.outputs)

    @property
    def used_columns(self) -> list[int]:
        """The columns that some split or linear leaf reads, ascending."""
        return sorted({self.features[feature].column for feature in self.used_features})

    @cached_property
    def used_features(self) -> list[int]:
        """The features that some split or linear leaf has a weight for, ascending."""
        return sorted({feature for tree in self.trees for feature in tree.used_features().tolist()})

    def compacted(self) -> Program:
        """The same program without the features that no split reads; the columns stay."""
        used = self.used_features
        if len(used) == len(self.features):
            return self
        parts = tuple(
            replace(part, trees=tuple(_on_features(tree, used) for tree in part.trees)) for part in self.parts
        )
        return replace(self, features=tuple(self.features[feature] for feature in used), parts=parts)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the JSON of a lone tree; else of its columns and features and all trees, a line each."""
        trees = [to_json(tree) for tree in self.trees]
        if len(trees) == 1 and self.is_plain and self.parts[0].threshold is None:
            return hashlib.sha256(trees[0].encode()).hexdigest()
        columns = [asdict(column) for column in self.columns]
        for column in columns:
            del column["codes"]  # which are in the features
            if not column["required"]:  # as in programs before there was such a word
                del column["required"]
        recipe = {
            "columns": columns,
            "features": [{"kind": type(feature).__name__, **asdict(feature)} for feature in self.features],
            "parts": [[p.combine, list(p.outputs), p.only, p.threshold, len(p.trees)] for p in self.parts],
        }
        return hashlib.sha256("\n".join([json.dumps(recipe), *trees]).encode()).hexdigest()


def _on_features(tree: ObliqueTree, used: list[int]) -> ObliqueTree:
    """A tree on some of its features, which are all that it reads."""
    weights: Any = tree.weights
    leaf_weights = None if tree.leaf_weights is None else tree.leaf_weights[:, :, used]
    spreads = None if tree.spreads is None else tree.spreads[used]
    parts = {"weights": weights[:, used], "leaf_weights": leaf_weights, "spreads": spreads, "observed": None}
    return replace(tree, **parts, feature_names=None, missing=None, columns=None)


def as_program(model: ObliqueTree | Program, name: str | None = None, trained: str | None = None) -> Program:
    """A tree as a program; a program as it is, with another name or day of training where they are given."""
    program = model if isinstance(model, Program) else tree_program(model)
    return replace(
        program,
        name=program.name if name is None else name,
        trained=program.trained if trained is None else trained,
    )


def tree_program(
    trees: ObliqueTree | Sequence[ObliqueTree], *, combine: Combine = "sum", name: str = "tree", trained: str = ""
) -> Program:
    """A tree, or several that answer together, as a program on the trees' own features.

    Of trees that accept missing values, on the columns from which these are filled; of trees that were fitted to a
    data frame, on its columns.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> program = tree_program(tree)
    >>> [column.name for column in program.columns], program.outputs
    (['height', 'age'], ('prediction',))
    >>> linear_splits(program.trees[0])
    [LinearSplit(terms=[(0, 1.0), (1, -1.0)], bias=0.5, left=1, right=2)]
    """
    several = (trees,) if isinstance(trees, ObliqueTree) else tuple(trees)
    if not several or not all(isinstance(tree, ObliqueTree) for tree in several):
        raise TypeError(
            f"only trees and programs can be exported, got {type(trees).__name__}; ObliqueTree.from_sklearn(model) is "
            "the tree of an estimator or a pipeline"
        )
    first = several[0]
    if combine == "vote" and any(tree.leaf_weights is not None for tree in several):
        raise ValueError("combine='vote' needs trees with constant leaves; these are linear")
    if first.columns is not None:
        columns, features = recipes_of(first.columns)
        several = tuple(replace(tree, columns=None, feature_names=None) for tree in several)
    else:
        features = _numbers(first.n_features, first.missing)
        columns = tuple(Column(first.feature_name(place)) for place in range(first.n_features - _n_indicators(first)))
        several = tuple(replace(tree, missing=None) for tree in several)
    return Program(columns, features, (Part(several, output_names(first), combine),), name, trained)


def recipes_of(columns: Any, *, of_file: bool = False) -> tuple[tuple[Column, ...], tuple[Feature, ...]]:
    """The columns of a data frame and a tree's features of them, which take what `predict` takes."""
    from treelu.export.columns import column_recipes

    return column_recipes(columns, of_file=of_file)


def _numbers(n_features: int, missing: MissingValues | None) -> tuple[Feature, ...]:
    """Features that are columns of numbers; with missing values, filled and followed by their indicators."""
    if missing is None:
        return tuple(Number(place) for place in range(n_features))
    fills = [None if np.isnan(value) else float(value) for value in missing.fills]
    return (*(Number(place, fill) for place, fill in enumerate(fills)), *(Missing(int(gap)) for gap in missing.gaps))


def _n_indicators(tree: ObliqueTree) -> int:
    return 0 if tree.missing is None else len(tree.missing.gaps)


def estimator_trees(estimator: Any) -> tuple[tuple[ObliqueTree, ...], Combine]:
    """The trees of a fitted estimator, and how they answer together; an AttributeError where it is no tree.

    Examples
    --------
    >>> from treelu import ELCNRegressor, LCNRegressor
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> member = LCNRegressor(depth=2, drop_connect=0, epochs=2)
    >>> model = ELCNRegressor(member, n_estimators=3, combine="average", random_state=0).fit(X, X[:, 0])
    >>> trees, combine = estimator_trees(model)
    >>> len(trees), combine
    (3, 'mean')
    """
    if hasattr(type(estimator), "trees_"):
        ways: dict[str, Combine] = {"boost": "sum", "average": "mean", "vote": "vote"}
        return tuple(estimator.trees_), ways[estimator.ensemble_.combine]
    return (estimator.tree_,), "sum"


def estimator_program(
    estimator: Any,
    *,
    name: str = "tree",
    trained: str = "",
    targets: Sequence[str] = (),
    of_file: bool = False,
    encoded: bool = False,
    trees: Sequence[ObliqueTree] = (),
) -> Program:
    """A fitted estimator as a program on the columns it was fitted on; filling of missing values included.

    Parameters
    ----------
    estimator : fitted estimator
        A tree, or several that answer together; an AttributeError says why another is none.
    name, trained : str
        As of `Program`.
    targets : sequence of str
        Names of several labels or values, for those of the outputs; by default they are numbered.
    of_file : bool
        Read cells as `treelu predict` reads those of a text file, where words such as "NA" are missing values.
    encoded : bool
        Of a data frame: on its encoded features, numbers all of them, molecules included.
    trees : sequence of ObliqueTree
        The tree of each label, or the only one, in place of the estimator's, such as one with the branches that some
        rows reach.

    Examples
    --------
    >>> import pandas as pd
    >>> from treelu import LCNClassifier
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, None, 4.0], "colour": ["red", "blue", "red", "blue"]})
    >>> model = LCNClassifier(depth=1, epochs=1, random_state=0).fit(frame, [0, 0, 1, 1])
    >>> estimator_program(model).features
    (Number(column=0, fill=2.0), Missing(column=0), Category(column=1, text='blue'), Category(column=1, text='red'))
    >>> [column.name for column in estimator_program(model, encoded=True).columns]
    ['size', 'size=(missing)', 'colour=blue', 'colour=red']
    """
    members = estimator.estimators_ if isinstance(getattr(estimator, "classes_", None), list) else None
    parts = []
    for number, member in enumerate(members or [estimator]):
        own, combine = ((trees[number],), "sum") if trees else estimator_trees(member)
        names = output_names(own[0], targets)
        if members is not None:
            names = (f"probability_{targets[number] if targets else number}",)
        missing, frame = own[0].missing, vars(estimator).get("encoder_", own[0].columns)
        own = tuple(replace(tree, feature_names=None, missing=None, columns=None) for tree in own)
        parts.append(Part(own, names, combine, None if members is None else 1))
    if frame is not None:
        numbers = tuple(map(Column, frame.feature_names)), _numbers(len(frame.feature_names), None)
        return Program(*(numbers if encoded else recipes_of(frame, of_file=of_file)), tuple(parts), name, trained)
    given = getattr(estimator, "feature_names_in_", [f"x{place}" for place in range(estimator.n_features_in_)])
    columns = tuple(Column(str(column)) for column in given)
    return Program(columns, _numbers(len(columns), missing), tuple(parts), name, trained)


def output_names(tree: ObliqueTree, targets: Sequence[str] = ()) -> tuple[str, ...]:
    """The names that `treelu predict` gives to its columns of numbers."""
    if tree.classes is not None:
        return tuple(f"probability_{label}" for label in tree.classes.tolist())
    if tree.n_outputs == 1:
        return ("prediction",)
    return tuple(f"prediction_{target}" for target in (targets or range(tree.n_outputs)))


def linear_splits(tree: ObliqueTree) -> list[LinearSplit]:
    """The splits of a tree, their terms in the order in which they are added."""
    splits = []
    for node, (left, right) in enumerate(tree.children.tolist()):
        splits.append(LinearSplit(_terms(tree.weights, node), float(tree.biases[node]), left, right))
    return splits


def linear_terms(tree: ObliqueTree) -> list[list[list[Term]]] | None:
    """The terms of each output of each linear leaf; None for constant leaves."""
    if tree.leaf_weights is None:
        return None
    return [[_terms(weights, output) for output in range(tree.n_outputs)] for weights in tree.leaf_weights]


def _terms(weights: Any, row: int) -> list[Term]:
    if isinstance(weights, np.ndarray):
        columns = np.flatnonzero(weights[row])
        return list(zip(columns.tolist(), weights[row][columns].tolist(), strict=True))
    columns, data = csr_row(weights, row)
    order = np.argsort(columns)
    return [(int(columns[place]), float(data[place])) for place in order if data[place] != 0]
