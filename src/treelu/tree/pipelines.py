"""The steps of a scikit-learn pipeline folded into its tree, which then reads the raw columns.

An affine step gives out ``z = A x + c``, and a split on z is a split on x:

    w·z + b  =  (w A)·x + (b + w·c)

Steps compose, so the columns between any two steps are affine functions of the raw columns. Imputers add a number that
fills a raw column's missing values, and indicators of these. Nothing else is folded: a step that is not known to be
affine raises `NotAffineError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.categories import Layout, find_categories, is_missing, is_truth
from treelu.tree.columns import columns_from_dict
from treelu.tree.missing import MissingValues
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.observed import Observed

ROUNDING = 8 * np.finfo(np.float64).eps  # of a folded sum, relative to its parts


class NotAffineError(ValueError):
    """A step of a pipeline that cannot be folded into a tree."""


@dataclass(frozen=True)
class Columns:
    """Columns between two steps of a pipeline, as affine functions of its raw columns x.

    They are ``weights @ [x, x is missing] + offsets``, where x is filled with ``fills``.

    Attributes
    ----------
    weights : CSR array of shape (n_columns, 2 * n_raw)
        Of the raw columns, and of the indicators of their missing values.
    offsets : array of shape (n_columns,)
    fills : array of shape (n_raw,)
        What fills each raw column; NaN where no step has filled it.
    """

    weights: sparse.csr_array
    offsets: np.ndarray
    fills: np.ndarray
    layout: Layout | None = None  # where raw columns are categories: the features that they stand for

    @classmethod
    def raw(cls, n_raw: int) -> Columns:
        """The raw columns themselves."""
        return cls(sparse.csr_array(sparse.eye_array(n_raw, 2 * n_raw)), np.zeros(n_raw), np.full(n_raw, np.nan))

    @classmethod
    def of_layout(cls, n_raw: int, layout: Layout) -> Columns:
        """The raw columns, some of them categories: these have a weight of NaN until an encoder reads them."""
        ones = np.array([np.nan if j in layout.categories else 1.0 for j in range(n_raw)])
        entries = (ones, (np.arange(n_raw), np.array(layout.starts)))
        weights = sparse.csr_array(entries, shape=(n_raw, 2 * layout.n_features))
        return cls(weights, np.zeros(n_raw), np.full(layout.n_features, np.nan), layout)

    def categories(self) -> list[int | None]:
        """The raw column of categories that each of these is; None for numbers."""
        found: list[int | None] = []
        for row in range(len(self.offsets)):
            span = slice(self.weights.indptr[row], self.weights.indptr[row + 1])
            marked = self.weights.indices[span][np.isnan(self.weights.data[span])].tolist()
            alone = len(marked) == 1 and self.layout is not None
            found.append(self.layout.column_at(marked[0]) if alone and self.layout is not None else None)
        return found

    def affine(self, matrix: Any, constant: np.ndarray | float = 0.0) -> Columns:
        """The columns ``matrix @ z + constant`` of these columns z."""
        matrix = sparse.csr_array(matrix)
        return replace(self, weights=matrix @ self.weights, offsets=matrix @ self.offsets + constant)

    def take(self, places: np.ndarray) -> Columns:
        """Some of these columns, by their numbers."""
        return replace(self, weights=self.weights[places], offsets=self.offsets[places])

    def of_raw(self, places: np.ndarray) -> Columns:
        """The same on some of the raw columns, which are all that these depend on."""
        kept = np.concatenate([places, len(self.fills) + places])
        return replace(self, weights=self.weights[:, kept], fills=self.fills[places])

    def read(self) -> np.ndarray:
        """Which raw columns these depend on."""
        n_raw = len(self.fills)
        used = np.zeros(n_raw, dtype=bool)
        used[self.weights.indices[self.weights.data != 0] % n_raw] = True
        return used

    def fill(self, fills: np.ndarray, gaps: np.ndarray) -> Columns:
        """These columns with missing values filled, followed by the indicators of the columns ``gaps``.

        A missing value comes from one raw column: steps that combine several refuse NaN. A raw column that an earlier
        step has filled has none, and its indicator is always 0.
        """
        n_raw = len(self.fills)
        source, factor = single_terms(self.weights)
        gap = (source >= 0) & (source < n_raw)
        gap[gap] = np.isnan(self.fills[source[gap]])
        raw = self.fills.copy()
        with np.errstate(invalid="ignore"):
            raw[source[gap]] = (fills[gap] - self.offsets[gap]) / factor[gap]
        marked = np.flatnonzero(gap[gaps])
        ones = sparse.csr_array(
            (np.ones(len(marked)), (marked, n_raw + source[gaps[marked]])), shape=(len(gaps), 2 * n_raw)
        )
        weights = sparse.csr_array(sparse.vstack([self.weights, ones]))
        return replace(self, weights=weights, offsets=np.concatenate([self.offsets, np.zeros(len(gaps))]), fills=raw)


def single_terms(weights: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The column and the weight of each row with one term only; -1 and 1 for the other rows.

    Examples
    --------
    >>> single_terms(sparse.csr_array([[0.0, 2.0], [1.0, 1.0]]))
    (array([ 1, -1]), array([2., 1.]))
    """
    weights = weights.copy()
    weights.eliminate_zeros()
    alone = np.diff(weights.indptr) == 1
    column, factor = np.full(len(alone), -1), np.ones(len(alone))
    column[alone], factor[alone] = weights.indices[weights.indptr[:-1][alone]], weights.data[weights.indptr[:-1][alone]]
    return column, factor


def fold_pipeline(pipeline: Any, tree: ObliqueTree) -> ObliqueTree:
    """The tree of a pipeline's last step on the columns that its first step reads.

    Rounding may take a row across a split that it lies on. At a threshold of scikit-learn, which goes left, the split
    is therefore moved by more than the rounding of the folded sum.
    """
    steps = [(name, step) for name, step in pipeline.steps[:-1] if not _passes(step)]
    if not steps:
        return tree
    if tree.columns is not None:
        raise NotAffineError(
            f"step {steps[-1][0]!r} gives out a data frame whose columns the estimator has encoded itself, so that the "
            "steps cannot be folded into the tree: fit it to the data frame without these steps (it needs no scaling), "
            "or encode all columns in the steps"
        )
    n_raw = next((step.n_features_in_ for _, step in steps if hasattr(step, "n_features_in_")), tree.n_features)
    columns = Columns.raw(int(n_raw))
    found, problem = find_categories(steps, int(n_raw))
    if found:
        if problem is not None:
            raise NotAffineError(f"the pipeline cannot be folded into the tree: {problem}")
        columns = Columns.of_layout(int(n_raw), Layout.of(int(n_raw), found))
    for name, step in steps:
        columns = _through(step, columns, name)
    if tree.missing is not None:
        columns = columns.fill(tree.missing.fills, tree.missing.gaps)
    if len(columns.offsets) != tree.n_features:
        raise NotAffineError(
            f"the steps before the tree give out {len(columns.offsets)} columns, the tree reads {tree.n_features}"
        )
    if np.isnan(columns.weights.data).any():
        raise NotAffineError(
            "the pipeline cannot be folded into the tree: a column of categories reaches a step, or the tree, that "
            "is no one-hot or ordinal encoder"
        )
    if _has_thresholds(pipeline):
        sizes = np.abs(tree.biases) + abs(tree.weights) @ np.abs(columns.offsets)
        tree = replace(tree, biases=tree.biases - ROUNDING * sizes)
    names = getattr(steps[0][1], "feature_names_in_", None)
    if columns.layout is not None:
        return _on_frame(tree, columns, columns.layout, names, [name for name, _ in steps])
    if names is not None and _by_name(steps[0][1]):
        read = np.flatnonzero(columns.read())
        columns, names = columns.of_raw(read), np.asarray(names)[read]
    return _on_raw_columns(tree, columns, names, [name for name, _ in steps])


def _by_name(step: Any) -> bool:
    """Whether a step takes columns by their names, so that those that it does not take need not be numbers."""
    given = [places for name, _, places in getattr(step, "transformers_", ()) if name != "remainder"]
    return any(isinstance(place, str) for places in given for place in np.atleast_1d(np.asarray(places, dtype=object)))


def explain(pipeline: Any) -> ObliqueTree:
    """The tree of a fitted pipeline on the columns that the pipeline reads, to be read, asked and exported there.

    Steps that are linear in a column are folded into the splits: see :meth:`treelu.ObliqueTree.from_sklearn`; any other
    step is an error that names it. Of an estimator without steps it is its own tree.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]})
    >>> steps = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["size"]))
    >>> model = make_pipeline(steps, DecisionTreeClassifier(random_state=0)).fit(frame, [1, 0, 1, 0])
    >>> tree = explain(model)
    >>> tree.predict(frame).tolist()
    [1, 0, 1, 0]
    >>> sorted(set(tree.columns.places) - tree.unused_columns())
    ['colour']
    """
    from treelu.tree.from_sklearn import from_sklearn

    return from_sklearn(pipeline)


def _on_frame(tree: ObliqueTree, columns: Columns, layout: Layout, names: Any, steps: list[str]) -> ObliqueTree:
    """A tree on some columns as the tree on the raw columns of a data frame behind them."""
    n, matrix, read = layout.n_features, columns.weights, columns.read()
    gaps = set((matrix.indices[matrix.indices >= n] - n).tolist())
    kept: list[int] = []
    recipes: list[dict[str, Any]] = []
    for j, start in enumerate(layout.starts):
        own = layout.categories.get(j)
        places = range(start, start + (1 if own is None else own.n_features))
        if not read[list(places)].any():
            continue
        recipe: dict[str, Any] = {"name": f"x{j}" if names is None else str(names[j])}
        kept += places
        if own is not None:
            recipe |= {"kind": "text", "categories": own.texts(), "other": own.has_other, "missing": own.has_missing}
        else:
            fill = float(columns.fills[start])
            filled = not np.isnan(fill) or start in gaps
            kept += [n + start] * filled
            recipe |= {"kind": "number", "median": fill if filled else 0.0, "indicator": filled, "strays": []}
        recipes.append(recipe)
    leaf_weights, values = tree.leaf_weights, tree.values
    if leaf_weights is not None:
        values = values + leaf_weights @ columns.offsets
        leaf_weights = np.stack([(leaf @ matrix)[:, kept] for leaf in leaf_weights])
    weights = sparse.csr_array(sparse.csr_array(tree.weights) @ matrix)[:, kept]
    return replace(
        tree,
        weights=weights if sparse.issparse(tree.weights) else weights.toarray(),
        biases=tree.biases + tree.weights @ columns.offsets,
        values=values,
        leaf_weights=leaf_weights,
        feature_names=None,
        spreads=None,
        observed=None,
        missing=None,
        columns=columns_from_dict({"columns": recipes}),
        notes=(*tree.notes, f"{', '.join(steps)} folded into the splits: exact up to rounding at a split"),
    )


def _has_thresholds(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, is a tree of scikit-learn."""
    while hasattr(estimator, "named_steps"):
        estimator = estimator.steps[-1][1]
    return not isinstance(estimator.tree_, ObliqueTree)


def _on_raw_columns(tree: ObliqueTree, columns: Columns, names: Any, steps: list[str]) -> ObliqueTree:
    """A tree on some columns as the tree on the raw columns behind them."""
    n_raw, matrix = len(columns.fills), columns.weights
    gaps = np.unique(matrix.indices[matrix.indices >= n_raw]).astype(np.int64) - n_raw
    kept = np.concatenate([np.arange(n_raw), n_raw + gaps])
    missing = None
    if len(gaps) or not np.isnan(columns.fills).all():
        missing = MissingValues(np.where(columns.read(), columns.fills, 0.0), gaps)
    leaf_weights, values = tree.leaf_weights, tree.values
    if leaf_weights is not None:
        values = values + leaf_weights @ columns.offsets
        leaf_weights = np.stack([(leaf @ matrix)[:, kept] for leaf in leaf_weights])
    weights = sparse.csr_array(sparse.csr_array(tree.weights) @ matrix)[:, kept]
    biases = tree.biases + tree.weights @ columns.offsets
    size = np.abs(single_terms(weights)[1])  # a split on one column is a threshold of it: its weight is 1 or -1
    weights = sparse.csr_array(sparse.diags_array(1 / size) @ weights)
    given = None if names is None else tuple(str(name) for name in names)
    return replace(
        tree,
        weights=weights if sparse.issparse(tree.weights) else weights.toarray(),
        biases=biases / size,
        values=values,
        leaf_weights=leaf_weights,
        feature_names=tuple(missing.names(given)) if missing is not None and len(gaps) else given,
        spreads=_raw_spreads(tree.spreads, matrix, kept),
        observed=_raw_observed(tree.observed, columns, kept),
        missing=missing,
        columns=None,
        notes=(*tree.notes, f"{', '.join(steps)} folded into the splits: exact up to rounding at a split"),
    )


def _raw_spreads(spreads: np.ndarray | None, matrix: sparse.csr_array, kept: np.ndarray) -> np.ndarray | None:
    """Spreads of the raw columns, where each column comes from one of them; 0 for those that are not read."""
    source, factor = single_terms(matrix)
    if spreads is None or (source < 0).any():
        return None
    raw = np.zeros(matrix.shape[1])
    raw[source] = spreads / np.abs(factor)
    return raw[kept]


def _raw_observed(observed: Observed | None, columns: Columns, kept: np.ndarray) -> Observed | None:
    """Ranges of the raw columns, where each column comes from one of them; infinite for those that are not read.

    The steps round, so ends are given with 12 digits, and a raw column of integers is known only where the
    steps left it as it was.
    """
    source, factor = single_terms(columns.weights)
    if observed is None or (source < 0).any():
        return None
    ends = [(end - columns.offsets) / factor for end in (observed.low, observed.high)]
    same = (factor == 1) & (columns.offsets == 0)
    size = np.where(np.isfinite(ends[0]), np.maximum(np.abs(ends[0]), np.abs(ends[1])), 1.0)
    low, high = (np.where(same, end, _to_digits(end, size)) for end in np.sort(ends, axis=0))
    n_raw = columns.weights.shape[1]
    raw_low, raw_high, integers = np.full(n_raw, -np.inf), np.full(n_raw, np.inf), np.zeros(n_raw, dtype=bool)
    np.maximum.at(raw_low, source, low)
    np.minimum.at(raw_high, source, high)
    integers[source[same]] = observed.integers[same]
    raw_low[len(columns.fills) :] = np.maximum(raw_low[len(columns.fills) :], 0.0)
    raw_high[len(columns.fills) :] = np.minimum(raw_high[len(columns.fills) :], 1.0)
    integers[len(columns.fills) :] = True
    place = {int(j): k for k, j in enumerate(kept)}
    groups = tuple(tuple(place[int(source[j])] for j in group) for group in observed.groups
                   if same[list(group)].all() and len({int(source[j]) for j in group}) == len(group))  # fmt: skip
    return Observed(raw_low[kept], raw_high[kept], integers[kept], groups)


def _to_digits(ends: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The numbers with the 12 digits that the steps' rounding leaves, relative to a size."""
    unit = 10.0 ** (np.floor(np.log10(np.maximum(size, 1e-290))) - 11)
    return np.array([float(f"{end:.12g}") for end in np.rint(ends / unit) * unit + 0.0])


# The steps


def _through(step: Any, columns: Columns, where: str) -> Columns:
    """The columns that a fitted step gives out for these."""
    if _passes(step):
        return columns
    if hasattr(step, "named_steps"):
        for name, inner in step.steps:
            columns = _through(inner, columns, f"{where} → {name}")
        return columns
    kind = type(step).__name__ if type(step).__module__.startswith("sklearn.") else ""
    if kind in _STEPS:
        known = _STEPS[kind](step, columns, where)
        if known is not None:
            return known
    elif _selects(step):
        return columns.take(step.get_support(indices=True))
    raise NotAffineError(
        f"step {where!r} ({type(step).__name__}) cannot be folded into the tree: it is not known to be affine. "
        "ObliqueTree.from_sklearn(pipeline[-1]) is the tree on the columns that the steps before it give out; its rows "
        "are pipeline[:-1].transform(X), and feature_names=pipeline[:-1].get_feature_names_out() names them"
    )


def _passes(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _selects(step: Any) -> bool:
    """Whether a step only selects columns, by scikit-learn's own `transform`."""
    from sklearn.feature_selection import SelectorMixin

    return isinstance(step, SelectorMixin) and type(step).transform is SelectorMixin.transform


def _scaled(columns: Columns, scale: Any, centre: Any) -> Columns:
    """(z - centre) / scale, each None where the step leaves it out."""
    ones = np.ones(len(columns.offsets))
    scale = ones if scale is None else scale
    return columns.affine(sparse.diags_array(ones / scale), 0.0 if centre is None else -centre / scale)


def _standard(step: Any, columns: Columns, where: str) -> Columns:
    return _scaled(columns, step.scale_ if step.with_std else None, step.mean_ if step.with_mean else None)


def _robust(step: Any, columns: Columns, where: str) -> Columns:
    return _scaled(columns, step.scale_ if step.with_scaling else None, step.center_ if step.with_centering else None)


def _largest(step: Any, columns: Columns, where: str) -> Columns | None:
    return None if getattr(step, "clip", False) else _scaled(columns, step.scale_, None)


def _range(step: Any, columns: Columns, where: str) -> Columns | None:
    return None if step.clip else columns.affine(sparse.diags_array(step.scale_), step.min_)


def _function(step: Any, columns: Columns, where: str) -> Columns | None:
    return columns if step.func is None else None


def _projection(step: Any, columns: Columns, where: str) -> Columns:
    return columns.affine(step.components_)


def _principal(step: Any, columns: Columns, where: str) -> Columns:
    components = step.components_
    if step.whiten:
        deviations = np.sqrt(step.explained_variance_)
        components = components / np.maximum(deviations, np.finfo(deviations.dtype).eps)[:, None]
    return columns.affine(components, 0.0 if step.mean_ is None else -components @ step.mean_)


def _one_hot(step: Any, columns: Columns, where: str) -> Columns | None:
    """OneHotEncoder: a column for each category that is not dropped, and one for those that are infrequent together."""
    rare = getattr(step, "infrequent_categories_", None) or [None] * len(step.categories_)
    if step.drop_idx_ is not None and any(values is not None for values in rare):
        return None
    drop = step.drop_idx_ if step.drop_idx_ is not None else [None] * len(step.categories_)
    parts = []
    for place, encoded in enumerate(_encoded(step, columns)):
        if encoded is None:
            part = _one_hot_truth(columns.take(np.array([place])), step.categories_[place])
        else:
            part = _of_features(columns, [dict.fromkeys(places, 1.0) for places in encoded])
        if part is None:
            return None
        kept = [number for number in range(len(part.offsets)) if number != drop[place]]
        part = part.take(np.array(kept, np.int64))
        parts.append(part if rare[place] is None else _infrequent(step, place, part, columns))
    weights = sparse.csr_array(sparse.vstack([part.weights for part in parts]))
    return replace(columns, weights=weights, offsets=np.concatenate([part.offsets for part in parts]))


def _one_hot_truth(column: Columns, values: Any) -> Columns | None:
    """Truth values, which are numbers: false is 1 - x, true is x; None for other numbers."""
    if not is_truth(values):
        return None
    return column.affine([[-1.0], [1.0]], np.array([1.0, 0.0]))


def _infrequent(step: Any, place: int, part: Columns, columns: Columns) -> Columns:
    """The columns of all categories, with one for those that are infrequent behind the others."""
    rare = set(step.infrequent_categories_[place].tolist())
    known = step.categories_[place].tolist()
    matrix = np.eye(len(known))[[value not in rare for value in known]]
    together = part.affine(np.vstack([matrix, [[float(value in rare) for value in known]]]))
    j = columns.categories()[place]
    if j is not None and columns.layout is not None and step.handle_unknown in ("infrequent_if_exist", "warn"):
        weights = together.weights.tolil()
        weights[-1, columns.layout.starts[j] + columns.layout.categories[j].other] = 1.0
        together = replace(together, weights=sparse.csr_array(weights))
    return together


def _ordinal(step: Any, columns: Columns, where: str) -> Columns | None:
    """OrdinalEncoder: the number of the category."""
    if getattr(step, "_infrequent_enabled", False):
        return None
    rows: list[dict[int, float]] = []
    for j, encoded, values in zip(columns.categories(), _encoded(step, columns), step.categories_, strict=True):
        if encoded is None or j is None or columns.layout is None:
            return None
        codes = {place: float(number) for number, places in enumerate(encoded) for place in places}
        own, start = columns.layout.categories[j], columns.layout.starts[j]
        if own.has_missing and any(map(is_missing, values)):
            codes[start + own.missing] = float(step.encoded_missing_value)
        if own.has_other:
            codes[start + own.other] = float(step.unknown_value)
        if not np.isfinite(list(codes.values())).all():
            return None
        rows.append(codes)
    return _of_features(columns, rows)


def _encoded(step: Any, columns: Columns) -> list[list[list[int]] | None]:
    """The features that make each category of each column of an encoder; None for a column of numbers."""
    found: list[list[list[int]] | None] = []
    for j, values in zip(columns.categories(), step.categories_, strict=True):
        if j is None or columns.layout is None:
            found.append(None)
            continue
        own, start = columns.layout.categories[j], columns.layout.starts[j]
        known = np.asarray(values, dtype=object).tolist()
        found.append([[start + place for place in own.places_of(value)] for value in known])
    return found


def _of_features(columns: Columns, rows: list[dict[int, float]]) -> Columns:
    """Columns that are sums of features."""
    weights = sparse.lil_array((len(rows), columns.weights.shape[1]))
    for number, row in enumerate(rows):
        for place, value in row.items():
            weights[number, place] = value
    return replace(columns, weights=sparse.csr_array(weights), offsets=np.zeros(len(rows)))


def _imputed(step: Any, columns: Columns, where: str) -> Columns | None:
    """SimpleImputer: a column whose values were all missing is dropped; indicators follow the columns."""
    categories = columns.categories()
    if any(j is not None for j in categories):  # what fills them is known to their encoder
        return None if step.add_indicator or None in categories else columns
    numbers = all(isinstance(value, Real) for value in (step.missing_values, *step.statistics_))
    if not numbers or not np.isnan(step.missing_values):
        return None
    statistics = step.statistics_.astype(np.float64)  # objects where a constant fills
    gaps = step.indicator_.features_ if step.add_indicator else np.zeros(0, np.int64)
    filled = columns.fill(statistics, gaps)
    kept = np.concatenate([~np.isnan(statistics), np.ones(len(gaps), bool)])
    return filled.take(np.flatnonzero(kept))


def _by_columns(step: Any, columns: Columns, where: str) -> Columns:
    """ColumnTransformer: each transformer on its own columns."""
    parts = []
    for name, inner, _ in step.transformers_:
        places = np.asarray(step._transformer_to_input_indices.get(name, []), np.int64)
        if len(places) and not (isinstance(inner, str) and inner == "drop"):
            parts.append((name, _through(inner, columns.take(places), f"{where} → {name}")))
    return _side_by_side(step, parts, columns, where)


def _union(step: Any, columns: Columns, where: str) -> Columns:
    """FeatureUnion: each transformer on all columns."""
    given = [(name, inner) for name, inner in step.transformer_list if not (isinstance(inner, str) and inner == "drop")]
    parts = [(name, _through(inner, columns, f"{where} → {name}")) for name, inner in given]
    return _side_by_side(step, parts, columns, where)


def _side_by_side(step: Any, parts: Sequence[tuple[str, Columns]], before: Columns, where: str) -> Columns:
    """The columns of several transformers; those that read the same raw column must fill it in the same way."""
    if not parts:
        return before.take(np.zeros(0, np.int64))
    weight = step.transformer_weights or {}
    fills, read = before.fills.copy(), np.zeros(len(before.fills), bool)
    for name, part in parts:
        mine = part.read()
        both = mine & read
        if not np.allclose(fills[both], part.fills[both], rtol=1e-12, atol=0, equal_nan=True):
            raise NotAffineError(
                f"step {where!r} cannot be folded into the tree: its transformer {name!r} fills the missing values of "
                "a column otherwise than another does"
            )
        fills[mine], read = part.fills[mine], read | mine
    weights = sparse.vstack([part.weights * weight.get(name, 1.0) for name, part in parts])
    offsets = np.concatenate([part.offsets * weight.get(name, 1.0) for name, part in parts])
    return replace(before, weights=sparse.csr_array(weights), offsets=offsets, fills=fills)


_STEPS: dict[str, Callable[[Any, Columns, str], Columns | None]] = {  # None: not affine with these parameters
    "ColumnTransformer": _by_columns,
    "FeatureUnion": _union,
    "FunctionTransformer": _function,
    "GaussianRandomProjection": _projection,
    "IncrementalPCA": _principal,
    "MaxAbsScaler": _largest,
    "MinMaxScaler": _range,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "PCA": _principal,
    "RobustScaler": _robust,
    "SimpleImputer": _imputed,
    "SparseRandomProjection": _projection,
    "StandardScaler": _standard,
    "TruncatedSVD": _projection,
}
