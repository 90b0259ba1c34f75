"""From prepared rows to a fitted model: the estimator of the options, its trees, baselines, and how it decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.utils.class_weight import compute_class_weight

from treelu import estimators
from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, progress_bar, say
from treelu.cli.model import visited_trees
from treelu.cli.options import FitOptions
from treelu.cli.prepare import Prepared, TableRows
from treelu.cli.tune import choose_for_molecules, tune, wants_choice
from treelu.estimators._large import SAMPLE_ROWS, n_windows
from treelu.estimators._path_trees import KnownTrees, changed_trees
from treelu.estimators._rows import on_columns
from treelu.persistence.table_model import TableModel
from treelu.report import fit_yardsticks
from treelu.report.scores import positive_class
from treelu.report.yardsticks import LOGISTIC, RIDGE
from treelu.tables import Encoded, Task
from treelu.training import Settings
from treelu.training.config import plan_training
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name
from treelu.tree.rows import take_rows

FAMILIES = {"tree": "ObliqueTree", "stacked": "Stacked"}  # of estimators; the others are the method in capitals
ENSEMBLES = ("elcn", "stacked")
# Options that set a parameter of another name.
OPTIONS = {
    "n_estimators": "--members", "training": "--batch-size", "class_weight": "--balanced",
    "max_leaf_nodes": "--leaves", "max_terms": "--terms", "leaves": "--leaf-kind",
}  # fmt: skip


def choose_estimator(options: FitOptions, table: Prepared) -> Any:
    """An unfitted estimator with the parameters given, and others chosen where `--tune` or molecules ask for it."""
    parameters, task, rows = options.model.parameters(), table.task, table.training
    method = options.method or default_method(options, task)
    if method in ENSEMBLES and table.is_sample:
        raise InputError(f"--method {method} needs a table that fits into memory; use another method, or fewer rows")
    if method in ENSEMBLES and (task == "labels" or len(set(rows.y.tolist())) == 2):
        # A threshold decides, and an ensemble's probabilities are not those of one score that could be corrected.
        parameters.pop("class_weight", None)
    estimator = make_estimator(method, task, parameters, options.seed)
    if table.windows is not None:
        from treelu.cli.large import dask_class

        dask_class(estimator)  # or an error, before anything is trained
    if options.model.tune:
        return tune(estimator, rows, task, options, fixed=parameters)
    if method in ("lcn", "alcn") and task != "regression" and wants_choice(rows, parameters):
        return choose_for_molecules(estimator, rows, task, options)
    return estimator


def default_method(options: FitOptions, task: Task) -> str:
    """The small tree, unless the target or the options given are for networks."""
    for_networks = options.model.parameters().keys() - {"max_leaf_nodes", "max_terms", "leaves", "class_weight"}
    is_large = task == "labels" or options.columns.smiles or options.model.tune or for_networks
    return "lcn" if is_large else "tree"


def make_estimator(method: str, task: Task, parameters: dict[str, Any], seed: int) -> Any:
    """An unfitted estimator of a method for a task."""
    if method == "tree" and task == "labels":
        raise InputError("--method tree is for one target; for several labels use --method lcn")
    ending = "Regressor" if task == "regression" else "Classifier"
    kind = getattr(estimators, FAMILIES.get(method, method.upper()) + ending)
    known = kind().get_params()
    own, of_member = parameters, {}
    if method in ENSEMBLES:  # all other options are its members'
        member = getattr(estimators, f"ALCN{ending}")
        own = {name: value for name, value in parameters.items() if name in known}
        of_member = {name: value for name, value in parameters.items() if name not in known}
        known |= member().get_params()
    for name in parameters:
        if name not in known:
            what = "regression" if name == "class_weight" else f"--method {method}"
            option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
            raise InputError(f"{option} does not go with {what}; leave it out")
    if of_member:
        own = {**own, "estimator": member(**of_member)}
    return kind(**own, random_state=seed)


def train(estimator: Any, table: Prepared, options: FitOptions, like: TableModel | None = None) -> TableModel:
    """Fit the estimator and its baselines; returns them with the trees they are.

    `like`: the model whose decision is kept.
    """
    estimator = _fit(estimator, table, options)
    if hasattr(estimator, "path_trees_"):  # a saved model would train those of all other sizes
        chosen = int(np.argmax(estimator.path_["chosen"]))
        estimator.path_trees_ = KnownTrees(len(estimator.path_), {chosen: estimator.tree_})
    positive, threshold = _decided(estimator, table, options, like)
    model = TableModel(
        estimator,
        tuple(table.targets),
        notes=tuple(table.notes.texts),
        warnings=tuple(table.notes.warnings),
        styles=table.styles,
        digest=table.digest,
        positive=positive,
        threshold=threshold,
        trained=datetime.now(UTC).date().isoformat(),
        n_rows=table.n_rows,
        n_rows_scored=0 if table.held_out is None else table.n_rows,
    )
    counted = None if table.is_sample and model.method == "tree" else table.training
    model = replace(model, trees=visited_trees(model, counted, table.held_out))
    if options.cart:
        if not options.quiet:
            say(f"fitting scikit-learn's decision tree (CART) and a {_linear(model)}, for comparison")
        model = replace(model, baselines=_fit_baselines(model, table.training))
    return model


def _fit(estimator: Any, table: Prepared, options: FitOptions) -> Any:
    """The estimator fitted behind a progress bar."""
    with progress_bar("training", _n_rounds(estimator, table), options.quiet) as advance:
        # The bar is a callback, which would not outlive the process: it is taken out again.
        calls_back = "callbacks" in estimator.get_params() and options.scheduler is None
        if calls_back:
            estimator.set_params(callbacks=[lambda record, network: _go_on(advance)])
        if table.is_sample:
            estimator = _fit_all(estimator, table, options.scheduler)
        else:
            estimator.fit(table.training.encoded, table.training.y, groups=table.training.groups)
        of_labels = estimator.estimators_ if table.task == "labels" else ()
        for fitted in (estimator, *of_labels) if calls_back else ():
            fitted.set_params(callbacks=None)
    return estimator


def _fit_all(estimator: Any, table: Prepared, scheduler: str | None) -> Any:
    """The estimator fitted to all rows: stored rows are features, of which the encoder is given to it afterwards."""
    if scheduler is None:
        estimator.fit(table.store)
    else:
        from treelu.cli.large import fit_on_cluster

        fit_on_cluster(estimator, table, scheduler)
    return on_columns(estimator, table.encoder)


def _go_on(advance: Any) -> None:
    """After each epoch: move the bar, and end if a Ctrl-C got lost."""
    check_not_interrupted()
    advance()


def _n_rounds(estimator: Any, table: Prepared) -> int:
    """How often an estimator calls back: for each network once a member, an epoch or a window."""
    rows, n_rows, n_more = table.training, len(table.training), 0
    if hasattr(estimator, "n_members"):
        rounds = int(estimator.n_members(rows.X.shape[1]))
    elif not hasattr(estimator, "epochs"):
        rounds = 1
    else:
        if table.store is not None:
            n_rows, n_more = min(SAMPLE_ROWS, len(table.store)), n_windows(table.store)
        rounds = plan_training(n_rows, estimator.epochs, Settings.of(estimator.training).batch_size).epochs + n_more
    return rounds * (len(table.targets) if table.task == "labels" else 1)


def _linear(model: TableModel) -> str:
    return RIDGE if model.task == "regression" else LOGISTIC


def _fit_baselines(model: TableModel, training: TableRows) -> tuple[dict[str, ObliqueTree], ...]:
    """The models that each target's tree is compared with."""
    leaves = max(tree.n_leaves for tree in model.trees) if model.method == "tree" else None
    weight = getattr(model.estimator, "class_weight", None)
    baselines = []
    for column in training.targets:
        known = np.flatnonzero(column == column)  # not NaN
        fitted = fit_yardsticks(
            take_rows(training.X, known),
            column[known],
            classifier=model.task != "regression",
            max_leaf_nodes=leaves,
            class_weight=weight,
            groups=None if training.groups is None else training.groups[known],
        )
        if weight is not None and len(set(column[known].tolist())) == 2:
            fitted = {name: corrected_tree(tree, class_weights(column)) for name, tree in fitted.items()}
        names = model.encoder.feature_names
        baselines.append({name: replace(tree, feature_names=names) for name, tree in fitted.items()})
    return tuple(baselines)


def _positive(estimator: Any, y: Any, given: str | None) -> int:
    """Of two classes, the number of the one that --positive names, or else the one that scores speak of."""
    if given is None:
        return positive_class(estimator.classes_, y == estimator.classes_[1])
    names = [str(label) for label in estimator.classes_.tolist()]
    if given not in names:
        raise InputError(f"--positive {given}: the classes are {' and '.join(map(shown_name, names))}")
    return names.index(given)


# --balanced and --threshold: classes get the same weight in training, probabilities are corrected, a threshold decides.


def _decided(estimator: Any, table: Prepared, options: FitOptions, like: TableModel | None) -> tuple[int, float]:
    """The positive class and the threshold, and the probabilities of a fitted estimator corrected for --balanced."""
    y, notes, is_classification = table.training.y, table.notes, table.task == "classification"
    two = is_classification and len(estimator.classes_) == 2
    if like is not None:
        positive, threshold = like.positive, like.threshold
    else:
        positive = _positive(estimator, y, options.model.positive) if two else 1
        threshold = 0.5 if options.model.threshold is None else options.model.threshold
    if not options.model.balanced:
        return positive, threshold
    if getattr(estimator, "class_weight", None) is not None and (two or table.task == "labels"):
        correct_probabilities(estimator, table.training.encoded, y)
    if two:
        name = estimator.classes_[positive]
        if like is None and options.model.threshold is None:
            threshold = float(f"{np.mean(y == name):.4g}")
        notes(
            f"--balanced: the classes have equal weights in training, the probabilities are corrected for that; "
            f"{str(name)!r} is predicted from a probability of {threshold:g} on"
        )
    elif is_classification:
        notes.warn(
            "--balanced: with more than two classes the probabilities are those of classes of equal frequency, not of "
            "these rows; leave --balanced out for probabilities"
        )
    return positive, threshold


def class_weights(y: NDArray[Any]) -> NDArray[np.float64]:
    """The weight of each class (in sorted order) that gives all the same total; NaN is an unknown label."""
    known = y[y == y]
    return compute_class_weight("balanced", classes=np.unique(known), y=known)


def correct_probabilities(estimator: Any, X: Encoded, y: NDArray[Any]) -> None:
    """Correct a fitted classifier of two classes, or of several labels, for balanced class weights (prior shift).

    Weights w_k make probabilities proportional to w_k times those of the rows, which shifts scores by log(w_1 / w_0). A
    tree's leaves are divided by the weights. The scores of a network, whose weighted fit need not be exact, are shifted
    so that its mean probability in the training rows is the frequency of the class.
    """
    if y.ndim == 2:
        for member, column in zip(estimator.estimators_, y.T, strict=True):
            known = np.flatnonzero(column == column)  # not NaN
            correct_probabilities(member, X.take(known), column[known])
    elif hasattr(estimator, "path_trees_"):
        weights = class_weights(y)
        estimator.path_trees_ = changed_trees(estimator.path_trees_, lambda tree: corrected_tree(tree, weights))
        estimator.tree_ = estimator.path_trees_[int(np.argmax(estimator.path_["chosen"]))]
    else:
        frequency = np.mean(y == np.unique(y)[1])
        estimator.network_.rescale_outputs(1.0, -level_shift(estimator.decision_function(X), frequency))


def level_shift(scores: NDArray[np.float64], frequency: float) -> float:
    """The offset to subtract from scores so that their mean probability is a frequency."""
    bound = float(np.abs(scores).max()) + 50.0
    return float(brentq(lambda shift: expit(scores - shift).mean() - frequency, -bound, bound))


def corrected_tree(tree: ObliqueTree, weights: NDArray[np.float64]) -> ObliqueTree:
    """A tree of two classes whose leaves have the probabilities of rows without these class weights."""
    if tree.link == "probability":
        values = tree.values / weights
        return replace(tree, values=values / values.sum(axis=1, keepdims=True))
    shift = np.log(weights[1:] / weights[:1]) if tree.link == "logistic" else np.log(weights)
    return replace(tree, values=tree.values - shift)
