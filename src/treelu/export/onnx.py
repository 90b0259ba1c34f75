"""An ObliqueTree as an ONNX model of standard operators, and what single precision costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treelu.export.program import tree_program
from treelu.tree import ObliqueTree
from treelu.tree.rows import dense, node_scores

_OPSET, _IR_VERSION = 18, 9


def to_onnx(
    tree: ObliqueTree, path: str | Path | None = None, *, dtype: Literal["float32", "float64"] = "float32"
) -> bytes:
    """The tree as an ONNX model, inputs and outputs as skl2onnx names them.

    The input is ``X`` (rows, features); for a tree that accepts missing values, the rows that ``tree.read_rows`` fills,
    with its indicators. A classifier returns ``label`` (rows,) and ``probabilities``
    (rows, classes), a regression tree ``variable`` (rows, outputs). The model follows each row from node to node, so
    that a row costs as many products as its path has nodes. Probabilities and values are NaN where a number that the
    tree reads is NaN, infinite or too large; the label then means nothing. Feature names and notes are in the metadata.

    Parameters
    ----------
    tree : ObliqueTree
    path : str or Path, optional
        Write the model there, too.
    dtype : {"float32", "float64"}
        Type of X and of all sums. In float32, a row very near to a hyperplane may fall on the other side:
        :func:`rows_in_doubt` names these rows, :func:`compare_onnx` counts them.

    Returns
    -------
    bytes
        The serialised model.

    Examples
    --------
    >>> import onnxruntime
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]])
    >>> session = onnxruntime.InferenceSession(tree.to_onnx())
    >>> session.run(None, {"X": np.array([[0, 0], [0, 1]], dtype=np.float32)})[0]
    array([[4.  ], [0.25]], dtype=float32)
    """
    if tree.columns is not None:
        from treelu.export.onnx_program import program_to_onnx

        return program_to_onnx(tree_program(tree), path, dtype=dtype)
    onnx = _import_onnx()
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64', got {dtype!r}")
    graph = _Graph(onnx, np.dtype(dtype))
    scores = _leaf_scores(graph, tree, *_route(graph, tree))
    outputs = _regression(graph, tree, scores) if tree.classes is None else _classification(graph, tree, scores)
    value = onnx.helper.make_tensor_value_info("X", graph.elem_type, ["rows", tree.n_features])
    proto = onnx.helper.make_graph(graph.nodes, "oblique_tree", [value], outputs, graph.constants)
    names = [tree.feature_name(feature) for feature in range(tree.n_features)]
    properties = {"feature_names": "\n".join(names), "notes": "\n".join(tree.notes)}
    return serialised(onnx, proto, _OPSET, repr(tree), properties, path)


def serialised(
    onnx: ModuleType, graph: Any, opset: int, about: str, properties: dict[str, str], path: str | Path | None
) -> bytes:
    """A graph as a checked model, in bytes; written to a file too where one is given."""
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", opset)],
        ir_version=_IR_VERSION,
        producer_name="treelu",
        doc_string=about,
    )
    onnx.helper.set_model_props(model, properties)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    if path is not None:
        Path(path).write_bytes(data)
    return data


def _import_onnx() -> ModuleType:
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'treelu[onnx]'") from error
    return onnx


def _converted(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """The numbers in another type; refused where one becomes infinite, or all weights of a node or all values 0."""
    with np.errstate(over="ignore", under="ignore"):
        found = array.astype(dtype)
    axis = -1 if name.endswith("weights") else 0
    lost = array.ndim > 0 and ((array != 0).any(axis=axis) & ~(found != 0).any(axis=axis)).any()
    if np.isinf(found).any() or lost:
        sizes = np.abs(array[array != 0])
        raise ValueError(
            f"dtype='{dtype}' cannot hold the tree's {name.replace('_', ' ')}, which are {sizes.min():.3g} to "
            f"{sizes.max():.3g} in size; use dtype='float64', or fit to columns in other units"
        )
    return found


class _Graph:
    """Nodes and constants of a model in the making; each method returns the name of a result."""

    def __init__(self, onnx: ModuleType, dtype: np.dtype[Any]) -> None:
        self.onnx, self.dtype = onnx, dtype
        self.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.taken: set[str] = set()
        self.rows = "X"  # the name of the features
        self.scope = ""  # before the names of constants: one for each of several trees

    def constant(self, array: Any, name: str) -> str:
        """A constant, once for each name; floats take the type of the model."""
        name = f"{self.scope}{name}"
        if name in self.taken:
            return name
        self.taken.add(name)
        array = np.asarray(array)
        if array.dtype.kind == "f":
            array = _converted(array, self.dtype, name)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """The result of an operator."""
        name = name or f"{self.scope}{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def _route(graph: _Graph, tree: ObliqueTree) -> tuple[str, str | None]:
    """The leaf of each row, counted from 0: as many steps as the tree is deep; a row at its leaf stays there.

    And what its outputs are to be added to: 0, or NaN where a score on its way is not finite (None: 0 for all rows).
    """
    rows = graph.node("Shape", graph.rows, start=0, end=1)
    zero = graph.onnx.numpy_helper.from_array(np.zeros(1, dtype=np.int64))
    node = graph.node("ConstantOfShape", rows, value=zero)
    if tree.n_splits == 0:
        return node, None
    stay = np.repeat(np.arange(tree.n_splits, tree.n_nodes)[:, None], 2, axis=1)
    w, b = graph.constant(dense(tree.weights), "weights"), graph.constant(tree.biases, "biases")
    following = graph.constant(np.concatenate([tree.children, stay]).ravel(), "following")
    last = graph.constant(np.array(tree.n_splits - 1), "last_split")
    two = graph.constant(np.array(2), "two")
    null = graph.constant(np.array(0.0), "zero")
    lost = ""
    for _ in range(tree.depth):
        split = graph.node("Min", node, last)  # at a leaf any split will do
        products = _products(graph, graph.node("Gather", w, split), graph.rows, dense(tree.weights))
        score = graph.node("Add", _sum_terms(graph, products), graph.node("Gather", b, split))
        read = graph.node("Where", graph.node("Equal", split, node), score, null)
        lost = graph.node("Add", lost, read) if lost else read
        lost = graph.node("Mul", lost, null)  # NaN of what is not finite
        right = graph.node("Cast", graph.node("GreaterOrEqual", score, null), to=graph.onnx.TensorProto.INT64)
        place = graph.node("Add", graph.node("Mul", node, two), right)
        node = graph.node("Gather", following, place)
    return graph.node("Sub", node, graph.constant(np.array(tree.n_splits), "n_splits")), lost


def _products(graph: _Graph, weights: str, rows: str, numbers: NDArray[np.float64]) -> str:
    """Weights times features; 0 where the weight is 0, whatever the feature: the tree does not read it."""
    products = graph.node("Mul", rows, weights)
    if (numbers != 0).all():
        return products
    null = graph.constant(np.array(0.0), "zero")
    return graph.node("Where", graph.node("Equal", weights, null), null, products)


def _sum_terms(graph: _Graph, products: str, axis: int = 1) -> str:
    """The sum over the features, the last axis, of (rows, features) or (rows, outputs, features).

    In float64 from the first feature to the last, the order in which the tree itself adds, so that a row on a boundary
    takes the same side: ReduceSum is free to take any order, CumSum adds one after another.
    """
    if graph.dtype == np.float32:
        return graph.node("ReduceSum", products, graph.constant(np.array([axis]), f"axis_{axis}"), keepdims=0)
    first = graph.constant(np.array(0), "first_axis")
    last = graph.constant(np.array([-1]), "last_feature")
    sums = graph.node("CumSum", graph.node("Transpose", products, perm=[axis, *range(axis)]), first)
    total = graph.node("Gather", sums, last, axis=0)
    return graph.node("Squeeze", total, graph.constant(np.array([0]), "outer_axis"))


def _leaf_scores(graph: _Graph, tree: ObliqueTree, leaf: str, lost: str | None) -> str:
    """Outputs before the link, (rows, outputs); `leaf` and `lost` as `_route` gives them."""
    scores = graph.node("Gather", graph.constant(tree.values, "values"), leaf)
    if lost is not None:
        scores = graph.node("Add", scores, graph.node("Unsqueeze", lost, graph.constant(np.array([1]), "outputs_axis")))
    if tree.leaf_weights is None:
        return scores
    forms = graph.node("Gather", graph.constant(tree.leaf_weights, "leaf_weights"), leaf)  # (rows, outputs, features)
    rows = graph.node("Unsqueeze", graph.rows, graph.constant(np.array([1]), "outputs_axis"))
    products = _products(graph, forms, rows, tree.leaf_weights)
    linear = _sum_terms(graph, products, axis=2)
    null, axis = graph.constant(np.array(0.0), "zero"), graph.constant(np.array([1]), "outputs_axis")
    lost = graph.node("ReduceSum", graph.node("Mul", linear, null), axis)  # NaN for all outputs where one is not finite
    return graph.node("Add", scores, graph.node("Add", linear, lost))


def _regression(graph: _Graph, tree: ObliqueTree, scores: str) -> list[Any]:
    graph.node("Identity", scores, name="variable")
    return [graph.onnx.helper.make_tensor_value_info("variable", graph.elem_type, ["rows", tree.n_outputs])]


def _classification(
    graph: _Graph, tree: ObliqueTree, scores: str, threshold: tuple[int, float] | None = None
) -> list[Any]:
    """Probabilities and the label: the most probable class, or of two the one whose probability is the threshold's."""
    assert tree.classes is not None
    if tree.link == "logistic":
        both = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
        graph.node("Sigmoid", both, name="probabilities")
        best = graph.node("ArgMax", both, axis=1, keepdims=0)  # of equal scores the first, as in the tree
    else:
        graph.node("Softmax" if tree.link == "softmax" else "Identity", scores, name="probabilities")
        best = graph.node("ArgMax", scores, axis=1, keepdims=0)
    if threshold is not None:
        best = _by_threshold(graph, *threshold)
    classes = _labels(tree.classes, graph.dtype)
    graph.constants.append(graph.onnx.numpy_helper.from_array(classes, "classes"))
    graph.node("Gather", "classes", best, name="label")
    helper = graph.onnx.helper
    label_type = (
        graph.onnx.TensorProto.STRING if classes.dtype == object else helper.np_dtype_to_tensor_dtype(classes.dtype)
    )
    return [
        helper.make_tensor_value_info("label", label_type, ["rows"]),
        helper.make_tensor_value_info("probabilities", graph.elem_type, ["rows", len(classes)]),
    ]


def _by_threshold(graph: _Graph, positive: int, least: float) -> str:
    """Of two classes the number of each row's."""
    place = graph.constant(np.array(positive), "positive")
    probability = graph.node("Gather", "probabilities", place, axis=1)
    reached = graph.node("GreaterOrEqual", probability, graph.constant(np.array(least), "threshold"))
    return graph.node("Where", reached, place, graph.constant(np.array(1 - positive), "negative"))


def _labels(classes: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Classes in a type that ONNX has and that changes none of them.

    Integers become int64 and strings otherwise (uint64 from 2^63), floats the model's type and float64 otherwise
    (such as 2^24 + 1, which is no float32), all else strings.

    Examples
    --------
    >>> _labels(np.array([0, 2**63], dtype=np.uint64), np.dtype("float32"))
    array(['0', '9223372036854775808'], dtype=object)
    >>> _labels(np.array([0.5, 16777217.0]), np.dtype("float32")).dtype
    dtype('float64')
    """
    if classes.dtype.kind in "biu" and not (classes > np.iinfo(np.int64).max).any():
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return classes.astype(dtype if (classes.astype(dtype) == classes).all() else np.float64)
    texts = np.array([str(label) for label in classes.tolist()], dtype=object)
    if len(set(texts)) < len(texts):
        raise ValueError(f"classes must differ as texts to become ONNX labels, got {classes.tolist()}")
    return texts


# What single precision costs


def rows_in_doubt(tree: ObliqueTree, X: Any) -> np.ndarray:
    """Rows that pass a hyperplane nearer than float32 can tell: bool (n_rows,).

    With n products in a sum, float32 weights and float32 rows, a score may be off by as much as
    (n + 3)·2⁻²⁴·(Σ|w x| + |b|). A row is in doubt if at any node of its path its score is not larger than that.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.0], [[1, 2]], [[0], [1]])
    >>> rows_in_doubt(tree, [[1.0, 1.0 + 1e-9], [1.0, 1.1]])
    array([ True, False])
    """
    rows: Any = tree.read_rows(X, every_column=True)
    uncertain = np.zeros(rows.shape[0], dtype=bool)
    sizes, filled = abs(rows), rows != 0
    path = tree.decision_path(rows).tocsc()
    for node in range(tree.n_splits):
        here = path.indices[path.indptr[node] : path.indptr[node + 1]]
        if not here.size:
            continue
        weights = tree.node_weights(node)
        largest = sizes[here] @ np.abs(weights) + abs(tree.biases[node])
        terms = filled[here] @ (weights != 0).astype(np.float64)
        score = node_scores(rows, here, tree.weights, tree.biases, node)
        uncertain[here] |= np.abs(score) <= (terms + 3) * 2.0**-24 * largest
    return uncertain


@dataclass(frozen=True)
class OnnxComparison:
    """How an ONNX model's answers compare with the tree's.

    ``n_in_doubt`` of ``n_rows`` lie nearer to a hyperplane than float32 can tell; ``n_on_other_leaf`` rows get
    another leaf's answer, ``n_unexplained`` of these without being in doubt; ``largest_difference`` is that of the
    probabilities or values of all other rows, ``n_other_label`` the number of these with another label: classes whose
    scores are equal, or so near that float32 cannot tell.
    """

    n_rows: int
    n_in_doubt: int
    n_on_other_leaf: int
    n_unexplained: int
    largest_difference: float
    n_other_label: int = 0


def compare_onnx(tree: ObliqueTree, model: bytes, X: Any, *, tolerance: float = 1e-4) -> OnnxComparison:
    """Run a model with onnxruntime and compare its answers with the tree's on the rows X.

    Parameters
    ----------
    tree : ObliqueTree
    model : bytes
        From :func:`to_onnx`.
    X : array or sparse matrix of shape (n_rows, n_features)
    tolerance : float
        A row whose answer differs by more, relative to 1 + the largest size of an answer, counts as on another leaf.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.0], [[1, 2]], [[0], [1]])
    >>> compare_onnx(tree, tree.to_onnx(), [[1.0, 1.0 + 1e-9], [1.0, 1.1]])
    OnnxComparison(n_rows=2, n_in_doubt=1, n_on_other_leaf=1, n_unexplained=0, largest_difference=0.0, n_other_label=0)
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("compare_onnx needs onnxruntime: pip install 'treelu[onnx]'") from error
    rows = tree.read_rows(X, every_column=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    double = session.get_inputs()[0].type == "tensor(double)"
    outputs = session.run(None, {"X": dense(rows).astype(np.float64 if double else np.float32)})
    answer = outputs[-1]
    wanted = tree.link_outputs(tree.decision_function(rows))
    difference = np.abs(answer - wanted).max(axis=1, initial=0.0)
    other = ~(difference <= tolerance * (1 + np.abs(wanted).max(initial=0.0)))
    uncertain = rows_in_doubt(tree, rows)
    unlike = np.zeros(len(uncertain), dtype=bool)
    if tree.classes is not None:
        labels = tree.predict(rows)
        unlike = outputs[0] != (labels.astype(str) if outputs[0].dtype == object else labels)
    return OnnxComparison(
        n_rows=len(uncertain),
        n_in_doubt=int(uncertain.sum()),
        n_on_other_leaf=int(other.sum()),
        n_unexplained=int((other & ~uncertain).sum()),
        largest_difference=float(difference[~other].max(initial=0.0)),
        n_other_label=int((unlike & ~other).sum()),
    )
