"""`treelu fit`: a table in; a saved model, its tree and a report out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from treelu import estimators
from treelu.cli.balance import class_weights, correct_probabilities, corrected_tree
from treelu.cli.check import check_folder
from treelu.cli.compare import MOST_CELLS, comparison, comparison_line, n_cells, other_command
from treelu.cli.interrupt import Interrupted, check_not_interrupted
from treelu.cli.messages import InputError, Notes, count, flush_output, progress_bar, say, step, tell, write_json
from treelu.cli.pages import (
    Predictions,
    Summaries,
    add_queries,
    file_words,
    held_out_predictions,
    pages,
    score_lines,
    summarize_model,
)
from treelu.cli.prepare import ColumnChoice, Prepared, Source, TableRows, prepare_files
from treelu.cli.trees import tree_text, visited_trees
from treelu.cli.tune import choose_for_molecules, tune, wants_choice
from treelu.estimators._large import SAMPLE_ROWS, n_windows
from treelu.persistence import save
from treelu.persistence.files import MANIFEST, check_beside
from treelu.report import fit_cart
from treelu.report.queries import SECONDS
from treelu.report.scores import positive_class
from treelu.tables import TableModel, Task
from treelu.training import Settings
from treelu.training.config import plan_training
from treelu.tree import ObliqueTree
from treelu.tree.rows import is_frame, take_rows

REPORT = "report.html"
FAMILIES = {"tree": "ObliqueTree", "stacked": "Stacked"}  # of estimators; the others are the method in capitals
ENSEMBLES = ("elcn", "stacked")
_KINDS = (("tree", "txt"), ("tree", "json"), ("report", "html"))
_SHOWN_PARAMETERS = (
    "max_leaf_nodes", "max_terms", "depth", "drop_connect", "weight_decay", "epochs", "random_state",
)  # fmt: skip
MAX_JSON_WEIGHTS = 2_000_000  # of a tree; more would be some 40 MB of text, which `treelu export` writes on demand


def fit_table(
    source: Source,
    out: Path,
    *,
    method: str | None,
    parameters: dict[str, Any],
    threshold: float | None,
    folds: int | None,
    with_cart: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
    store: Path | None = None,
    scheduler: str | None = None,
    compare: bool = False,
    refit: bool = True,
    typed: Sequence[str] = (),
) -> None:
    """Read, train, save, score, report, and say what was done."""
    check_folder(out, force)
    seed = source.seed
    prepared = prepare_files(source, Notes(quiet=quiet), store=store, on_cluster=scheduler is not None)
    with prepared as table:
        check_files(out, table)
        _check_threshold(threshold, table)
        estimator = _choose(table, method, parameters, source.columns, folds=folds, seed=seed, quiet=quiet)
        unfitted = clone(estimator)
        decision = Decision("class_weight" in parameters, threshold)
        with step(_training_words(estimator, table), quiet):
            first = train(estimator, table, quiet=quiet, with_cart=with_cart, scheduler=scheduler, decision=decision)
    fitted = Fitted(first, table.held_out)
    if refit and table.whole is not None and not table.is_sample:
        fitted = _fit_all_rows(unfitted, first, table, decision, quiet)
    check_not_interrupted()
    with step(f"saving the model in {out}", quiet):
        files = tree_files(fitted.model)
        save(fitted.model, out, beside=files)
    outcome = _report(fitted, out, files, title=Path(source.data).name, seed=seed, quiet=quiet)
    if not as_json:  # whatever ends the comparison does not cost the scores
        _say_scores(fitted, outcome, source.valid)
    compared = None
    if compare and first.method == "tree" and outcome.error is None:
        flush_output()
        compared = _compare(first, table, decision, seed, quiet)
    if as_json:
        n_held_out = 0 if table.held_out is None else len(table.held_out)
        write_json(_for_machines(fitted.model, n_held_out, outcome, out) | {"compared": compared})
    else:
        _say_other(out, fitted.model, compared, typed)
        _say_next(out, outcome.files, fitted.model)
    if outcome.error is not None:
        _say_failed(outcome.error, out, source)
        raise outcome.error


@dataclass(frozen=True)
class Fitted:
    """The model to be saved, the rows held out, and what another fit without these rows predicts for them."""

    model: TableModel
    held_out: TableRows | None
    predictions: Predictions | None = None


@dataclass
class Outcome:
    """The outcome of the report: its summaries, the files of the model's folder, and what ended it before its time."""

    summaries: Summaries
    files: list[str]
    error: BaseException | None = None


def _fit_all_rows(unfitted: Any, first: TableModel, table: Prepared, decision: Decision, quiet: bool) -> Fitted:
    """Fit the same once more, to all rows; the rows held out keep the predictions of the first fit."""
    assert table.whole is not None
    assert table.held_out is not None
    whole = table.whole()
    decision = replace(decision, threshold=first.threshold, positive=first.positive)
    with step(f"fitting it again, to all {count(whole.n_rows, 'row')}; the scores are of the first fit", quiet):
        model = train(unfitted, whole, quiet=quiet, with_cart=bool(first.carts), decision=decision)
    model = replace(model, warnings=first.warnings, n_rows_scored=first.n_rows)
    return Fitted(model, whole.held_out, held_out_predictions(first, table.held_out, model))


def _report(fitted: Fitted, out: Path, files: dict[str, bytes], *, title: str, seed: int, quiet: bool) -> Outcome:
    """Score, ask and draw; whatever ends this costs the report only, as the model and `files` are saved."""
    outcome, model, rows = Outcome({}, [MANIFEST, *files]), fitted.model, fitted.held_out
    try:
        with step("measuring scores", quiet):
            outcome.summaries = summarize_model(model, rows, title=title, seed=seed, predictions=fitted.predictions)
        with step(f"writing the report (its queries may take {SECONDS:g} s)", quiet):
            add_queries(model, rows, outcome.summaries)
            check_not_interrupted()
            files = files | pages(outcome.summaries)
            save(model, out, beside=files)
            outcome.files = [MANIFEST, *files]
    except (Exception, Interrupted, KeyboardInterrupt) as error:
        outcome.error = error
    return outcome


def _check_threshold(threshold: float | None, table: Prepared) -> None:
    if threshold is not None and (table.task != "classification" or len(set(table.training.y.tolist())) != 2):
        raise InputError("--threshold is for a target of two classes; leave it out")


def _training_words(estimator: Any, table: Prepared) -> str:
    rows = f"{count(table.n_rows, 'row')}, {count(len(table.encoder.feature_names), 'feature')}"
    depth = "" if getattr(estimator, "depth", "auto") == "auto" else f" (depth {estimator.depth})"
    return f"training {type(estimator).__name__}{depth} on {rows}"


def _compare(model: TableModel, table: Prepared, decision: Decision, seed: int, quiet: bool) -> dict[str, Any] | None:
    """The small tree beside the large one; None where no rows are held out or the table is large."""
    if table.held_out is None:
        return None
    if table.is_sample or n_cells(table.training) > MOST_CELLS:
        if not quiet:
            say("the table is large: the large tree (LCN) is not fitted for comparison")
        return None
    weight = model.estimator.get_params().get("class_weight")
    large = make_estimator("lcn", model.task, {} if weight is None else {"class_weight": weight}, seed)
    with step(f"training {type(large).__name__}, the large tree, for comparison", quiet):
        return comparison(model, train(large, table, quiet=quiet, with_cart=False, decision=decision), table)


def _choose(
    table: Prepared,
    method: str | None,
    parameters: dict[str, Any],
    columns: ColumnChoice,
    *,
    folds: int | None,
    seed: int,
    quiet: bool,
) -> Any:
    """An unfitted estimator with the parameters given, and others chosen where `folds` or molecules ask for it."""
    if method is None:
        method = default_method(table.task, [*parameters, *("tune",) * (folds is not None)], columns)
    if method in ENSEMBLES and table.is_sample:
        raise InputError(f"--method {method} needs a table that fits into memory; use another method, or fewer rows")
    if method in ENSEMBLES and (table.task == "labels" or len(set(table.training.y.tolist())) == 2):
        # A threshold decides, and an ensemble's probabilities are not those of one score that could be corrected.
        parameters = {name: value for name, value in parameters.items() if name != "class_weight"}
    estimator = make_estimator(method, table.task, parameters, seed)
    if table.windows is not None:
        from treelu.cli.cluster import dask_class

        dask_class(estimator)  # or an error, before anything is trained
    if folds is not None:
        return tune(estimator, table.training, table.task, fixed=parameters, folds=folds, seed=seed, quiet=quiet)
    if method in ("lcn", "alcn") and table.task != "regression" and wants_choice(table.training, parameters):
        return choose_for_molecules(estimator, table.training, table.task, seed=seed, quiet=quiet)
    return estimator


def default_method(task: Task, given: Sequence[str], columns: ColumnChoice) -> str:
    """The small tree, unless the target or the options given are for networks.

    Examples
    --------
    >>> default_method("regression", ["max_terms"], ColumnChoice())
    'tree'
    >>> default_method("regression", ["depth"], ColumnChoice())
    'lcn'
    """
    for_networks = set(given) - {"max_leaf_nodes", "max_terms", "class_weight"}
    return "lcn" if task == "labels" or columns.smiles or for_networks else "tree"


def make_estimator(method: str, task: Task, parameters: dict[str, Any], seed: int) -> Any:
    """An unfitted estimator of a method for a task."""
    if method == "tree" and task == "labels":
        raise InputError("--method tree is for one target; for several labels use --method lcn")
    family = FAMILIES.get(method, method.upper())
    kind = getattr(estimators, family + ("Regressor" if task == "regression" else "Classifier"))
    known = kind().get_params()
    own, of_member = parameters, {}
    if method in ENSEMBLES:  # all other options are its members'
        member = getattr(estimators, f"ALCN{kind.__name__.removeprefix(family)}")
        own = {name: value for name, value in parameters.items() if name in known}
        of_member = {name: value for name, value in parameters.items() if name not in known}
        known |= member().get_params()
    options = {
        "n_estimators": "--members",
        "training": "--batch-size",
        "class_weight": "--balanced",
        "max_leaf_nodes": "--leaves",
        "max_terms": "--terms",
    }
    for name in parameters:
        if name not in known:
            what = "regression" if name == "class_weight" else f"--method {method}"
            option = options.get(name, f"--{name.replace('_', '-')}")
            raise InputError(f"{option} does not go with {what}; leave it out")
    if of_member:
        own = {**own, "estimator": member(**of_member)}
    return kind(**own, random_state=seed)


def train(
    estimator: Any,
    table: Prepared,
    *,
    quiet: bool,
    with_cart: bool,
    scheduler: str | None = None,
    decision: Decision | None = None,
) -> TableModel:
    """Fit the estimator and CART; returns them with the trees they are."""
    n_networks = len(table.targets) if table.task == "labels" else 1
    rounds = n_rounds(estimator, len(table.training), table.training.X.shape[1])
    if table.store is not None and hasattr(estimator, "epochs"):
        n_rows = min(SAMPLE_ROWS, len(table.store))
        rounds = n_rounds(estimator, n_rows, table.training.X.shape[1]) + n_windows(table.store)
    with progress_bar("training", rounds * n_networks, quiet) as advance:
        # The bar is a callback, which would not outlive the process: it is taken out again.
        calls_back = "callbacks" in estimator.get_params() and scheduler is None
        if calls_back:
            estimator.set_params(callbacks=[lambda record, network: _go_on(advance)])
        if table.is_sample:
            _fit_all(estimator, table, scheduler)
        else:
            estimator.fit(table.training.X, table.training.y, groups=table.training.groups)
        of_labels = estimator.estimators_ if table.task == "labels" else ()
        for fitted in (estimator, *of_labels) if calls_back else ():
            fitted.set_params(callbacks=None)
    positive, threshold = _decided(decision or Decision(), estimator, table)
    model = TableModel(
        table.encoder,
        estimator,
        table.task,
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
    if with_cart:
        if not quiet:
            say("fitting CART, scikit-learn's decision tree, for comparison")
        model = replace(model, carts=_fit_carts(model, table.training))
    return model


@dataclass(frozen=True)
class Decision:
    """How a class is decided: with equal weights of the classes, from a probability of the positive one on."""

    balanced: bool = False
    threshold: float | None = None
    positive: int | None = None


def _decided(decision: Decision, estimator: Any, table: Prepared) -> tuple[int, float]:
    """The positive class and the threshold, and the probabilities of a fitted estimator corrected for --balanced."""
    y, notes = table.training.y, table.notes
    positive = _positive(estimator, table) if decision.positive is None else decision.positive
    threshold = 0.5 if decision.threshold is None else decision.threshold
    if not decision.balanced:
        return positive, threshold
    two = table.task == "classification" and len(estimator.classes_) == 2
    if _is_weighted(estimator) and (two or table.task == "labels"):
        correct_probabilities(estimator, table.training.X, y)
    if two:
        name = estimator.classes_[positive]
        threshold = float(f"{np.mean(y == name):.4g}") if decision.threshold is None else threshold
        notes(
            f"--balanced: the classes have equal weights in training, the probabilities are corrected for that; "
            f"{str(name)!r} is predicted from a probability of {threshold:g} on"
        )
    elif table.task == "classification":
        notes.warn(
            "--balanced: with more than two classes the probabilities are those of classes of equal frequency, not of "
            "these rows; leave --balanced out for probabilities"
        )
    return positive, threshold


def _is_weighted(estimator: Any) -> bool:
    return getattr(estimator, "class_weight", None) is not None


def _fit_all(estimator: Any, table: Prepared, scheduler: str | None) -> None:
    """Fit to all rows, and give the estimator their features' names, which stored rows have not."""
    if scheduler is None:
        estimator.fit(table.store)
    else:
        from treelu.cli.cluster import fit_on_cluster

        fit_on_cluster(estimator, table, scheduler)
    if is_frame(table.training.X):
        estimator.feature_names_in_ = np.array(table.training.X.columns, dtype=object)


def _positive(estimator: Any, table: Prepared) -> int:
    """The number of the class that recall and precision speak of."""
    if table.task != "classification" or len(estimator.classes_) != 2:
        return 1
    return positive_class(estimator.classes_, table.training.y == estimator.classes_[1])


def _go_on(advance: Callable[[], None]) -> None:
    """After each epoch: move the bar, and end if a Ctrl-C got lost."""
    check_not_interrupted()
    advance()


def n_rounds(estimator: Any, n_rows: int, n_features: int) -> int:
    """How often an estimator calls back for one target: once a member or an epoch."""
    if hasattr(estimator, "n_members"):
        return int(estimator.n_members(n_features))
    if not hasattr(estimator, "epochs"):
        return 1
    return plan_training(n_rows, estimator.epochs, Settings.of(estimator.training).batch_size).epochs


def _fit_carts(model: TableModel, training: TableRows) -> tuple[ObliqueTree, ...]:
    """CART for each target; beside a small tree, with no more leaves than that has."""
    carts = []
    leaves = max([2, *(tree.n_leaves for tree in model.trees)]) if model.method == "tree" else None
    for column in training.y.T if training.y.ndim == 2 else [training.y]:
        known = np.flatnonzero(column == column)  # not NaN
        X = take_rows(training.X, known)
        weight = getattr(model.estimator, "class_weight", None)
        fitted = fit_cart(
            X, column[known], classifier=model.task != "regression", max_leaf_nodes=leaves, class_weight=weight
        )
        cart = ObliqueTree.from_sklearn(fitted)
        if weight is not None and len(set(column[known].tolist())) == 2:
            cart = corrected_tree(cart, class_weights(column))
        carts.append(replace(cart, feature_names=model.encoder.feature_names))
    return tuple(carts)


# The folder


def check_files(folder: Path, table: Prepared) -> None:
    """Raise if the folder has files of others by the names that the model's will have."""
    if folder.is_dir():
        words = file_words(table.targets).values()
        ends = ["", *(f"-{word}" for word in words)] if len(table.targets) > 1 else [""]
        check_beside(folder, [f"{name}{end}.{kind}" for end in ends for name, kind in _KINDS])


def tree_files(model: TableModel) -> dict[str, bytes]:
    """The trees of a model as text and as JSON, by the names of their files."""
    files = {}
    ends = [f"-{word}" for word in file_words(model.targets).values()] if model.task == "labels" else [""]
    for name, tree in zip(ends, model.trees, strict=False):
        files[f"tree{name}.txt"] = f"{tree_text(model, tree)}\n".encode()
        if tree.weights.size <= MAX_JSON_WEIGHTS:
            files[f"tree{name}.json"] = tree.to_json().encode()
    return files


# Speaking


def _for_machines(model: TableModel, n_held_out: int, outcome: Outcome, out: Path) -> dict[str, Any]:
    summaries = outcome.summaries
    parameters = model.estimator.get_params(deep=False)
    for name in ("depth", "drop_connect", "weight_decay"):  # as chosen, where they were left open
        if name in parameters:
            parameters[name] = getattr(model.estimator, f"{name}_", parameters[name])
    return {
        "model": str(out),
        "files": outcome.files,
        "method": type(model.estimator).__name__,
        "task": model.task,
        "targets": list(model.targets),
        "parameters": {name: parameters[name] for name in _SHOWN_PARAMETERS if name in parameters},
        "n_features": len(model.encoder.feature_names),
        "n_rows": model.n_rows,
        "n_training_rows": model.n_rows_scored or model.n_rows,
        "n_hold_out_rows": n_held_out,
        "trees": [{"leaves": tree.n_leaves, "depth": tree.depth} for tree in model.trees],
        "scores": {
            target: {entry["name"]: entry.get("scores") for entry in summary["models"]}
            for target, summary in summaries.items()
        },
        "baseline": {target: summary["baseline"] for target, summary in summaries.items()},
        "warnings": list(dict.fromkeys(line for summary in summaries.values() for line in summary["warnings"])),
        "notes": list(model.notes),
    }


def _say_scores(fitted: Fitted, outcome: Outcome, valid: str | None) -> None:
    where = f"rows of {valid}" if valid else "hold-out rows that training did not see"
    for line in score_lines(outcome.summaries, fitted.model, fitted.held_out, where):
        tell(line)
    model = fitted.model
    if fitted.predictions is not None:
        first, total = f"{model.n_rows_scored:,}", f"{model.n_rows:,}"
        tell(f"\nthe scores are of the fit to {first} rows; the model saved is fitted to all {total}")
    elif fitted.held_out is not None and valid is None:
        tell(f"\nthe model saved is this fit to {model.n_rows:,} rows; those held out are not among them")


def _say_failed(error: BaseException, out: Path, source: Source) -> None:
    """The message that the model is saved, whatever ended the report, and how to get the report."""
    words = "was interrupted" if isinstance(error, Interrupted | KeyboardInterrupt) else "failed"
    command = shlex.join(["treelu", "report", str(out), source.data])
    say(f"treelu: the report {words}; the model is saved in {out}, for a report: {command}")


def _say_other(out: Path, model: TableModel, compared: dict[str, Any] | None, typed: Sequence[str]) -> None:
    """How the other kind of tree does, where it was fitted, and the command for it."""
    if model.method not in ("tree", "lcn") or model.task == "labels":
        return
    if compared is not None:
        to = f"fitted to {model.n_rows_scored:,} rows: " if model.n_rows != model.n_rows_scored else ""
        tell(f"\n{to}{comparison_line(compared)}")
    if typed:
        small, compare = model.method == "tree", compared is not None
        what = "the large tree" if small else "a small tree, to read"
        what += ", which may be more accurate" if small and not compare else ""
        tell(f"{'' if compare else chr(10)}for {what}:\n  {other_command(typed, out, 'lcn' if small else 'tree')}")


def _say_next(out: Path, files: list[str], model: TableModel) -> None:
    tell(f"\nwrote {out}: {', '.join(files[:4])}{', …' if len(files) > 4 else ''}")
    quoted = shlex.quote(str(out))
    tell("next:")
    tell(f"  treelu predict {quoted} NEW.csv > scores.csv")
    if model.trees:
        label = f" --label {shlex.quote(model.targets[0])}" if model.task == "labels" else ""
        tell(f"  treelu export {quoted} --format text{label}")
    if REPORT in files:
        tell(f"  open {out / REPORT} in a browser")
