"""`fit_network`: one network, its hyper-parameters chosen, trained and calibrated. A fit is a value.

    fitted = fit_network(dataset, NetworkConfig(depth=4), reading, seed=0)
    fitted.network          # on the raw features, in float64

A fit takes these steps: `smoothed_targets`, `choose`, `train_once`, `refine`, `calibrate`, `FittedNetwork.of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.data.reading import ClassEncoding, Reading
from treelu.data.scaling import fold
from treelu.data.targets import Targets
from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.cpu.threads import limited, n_threads
from treelu.training.calibration import Tempering, prior_scores, refine_leaves, temper
from treelu.training.config import NetworkConfig, patience_of, plan_training
from treelu.training.history import History
from treelu.training.hyper_parameters import TRIAL_HASTE, Choice, HyperParameters, Race, folds, trial_share
from treelu.training.loop import best_fit, evaluate, train
from treelu.training.parallel import in_order, together
from treelu.training.pattern_counts import PatternCounts, count_patterns, feature_spread
from treelu.training.progress import epoch_bar
from treelu.training.settings import Settings
from treelu.training.sparsity import choose_features, path_step, proximal_step

PATH_SHARE = 1 / 6  # of the epochs, for each penalty on the way to max_tree_features
REFINEMENT = 10.0  # pseudo-rows of a leaf, for refine_leaves=True
HELD_OUT = 0.1  # the share of rows held out for early stopping when there are no validation rows
SMOOTHER = ("batch_size", "optimizer", "schedule", "annealing", "straight_through")  # what it takes from `training`


@dataclass(frozen=True)
class FittedNetwork:
    """A fitted network and what the fit remembers beside it."""

    network: NeuronChain  # on the raw features, in float64
    reading: Reading  # how rows are read: missing values, scaling, targets
    chosen: HyperParameters  # as given or chosen
    history: History | None
    n_passes: int  # epochs, or pieces of a stream
    patterns: PatternCounts  # training rows by activation pattern
    spread: NDArray[np.float64]  # (n_features,), the standard deviation of each raw feature

    @classmethod
    def of(
        cls,
        network: NeuronChain,
        dataset: Dataset,
        reading: Reading,
        chosen: HyperParameters,
        history: History | None,
        n_passes: int,
    ) -> FittedNetwork:
        """Rewrite a network on scaled features for the raw ones, and count its rows."""
        patterns, spread = count_patterns(network, dataset), feature_spread(dataset.table) * reading.scaling.scale
        return cls(raw_network(network, reading), reading, chosen, history, n_passes, patterns, spread)

    def scaled(self, config: NetworkConfig) -> NeuronChain:
        """The network on scaled features, in float32, ready to be trained: the inverse of `raw_network`."""
        scaled, encoding = self.network.copy(), self.reading.encoding
        fold(scaled, self.reading.scaling.inverse(), None if encoding.scaling is None else encoding.scaling.inverse())
        if isinstance(encoding, ClassEncoding):
            scaled.reorder_classes(np.argsort(encoding.places))
        scaled.drop_connect = config.resolve(self.chosen).drop_connect
        scaled.activation = replace(scaled.activation, straight_through=bool(config.training.straight_through))
        return scaled.copy(np.float32)


def raw_network(network: NeuronChain, reading: Reading) -> NeuronChain:
    """A copy on the raw features, in float64, with classes in their own order."""
    raw = network.copy(np.float64)
    raw.activation = replace(raw.activation, straight_through=False)
    fold(raw, reading.scaling, reading.encoding.scaling)
    if isinstance(reading.encoding, ClassEncoding):
        raw.reorder_classes(reading.encoding.places)
    if not all(np.isfinite(array).all() for array in raw.arrays().values()):
        raise FloatingPointError("training diverged (non-finite weights); scale features and targets first")
    return raw


def fit_network(
    dataset: Dataset,
    config: NetworkConfig,
    reading: Reading,
    seed: int,
    *,
    validation: Dataset | None = None,
    start: FittedNetwork | None = None,
    can_hold_out: bool = True,
) -> FittedNetwork:
    """Fit a network to scaled rows.

    Parameters
    ----------
    dataset, validation : Dataset
        Scaled rows to train on, and rows that are scored after each epoch.
    config : NetworkConfig
    reading : Reading
        How the rows were read.
    seed : int
    start : FittedNetwork, optional
        The network to continue from.
    can_hold_out : bool
        Whether early stopping may hold out a tenth of the rows where there is no `validation`.
    """
    if validation is None and config.early_stopping and can_hold_out:
        dataset, validation = hold_out(dataset, seed)
    if start is not None:
        start = replace(start, reading=reading)  # continued on features as they are scaled now
    targets = smoothed_targets(dataset, validation, config, seed)
    choice = choose(dataset, config, seed, validation, targets) if start is None else Choice(start.chosen, None)
    network, history = trained(dataset, targets, config, choice, seed, validation, start)
    chosen = config.resolve(choice.hyper_parameters)
    return FittedNetwork.of(network, dataset, reading, chosen, history, len(history))


def trained(
    dataset: Dataset,
    targets: Targets,
    config: NetworkConfig,
    choice: Choice,
    seed: int,
    validation: Dataset | None = None,
    start: FittedNetwork | None = None,
) -> tuple[NeuronChain, History]:
    """A network on scaled features, trained on the given targets from `n_init` starts, and calibrated."""
    smooth, chosen = replace(dataset, targets=targets), config.resolve(choice.hyper_parameters)
    seeds = [seed, *(int(s) for s in np.random.default_rng(seed).integers(2**31, size=config.training.n_init - 1))]
    fits = [partial(train_once, smooth, config, chosen, of_one, validation, start) for of_one in seeds]
    if len(fits) == 1:
        network, history = fits[0]()
    else:  # Ctrl-C keeps the networks there are and begins no more
        several = together(fits, config.n_jobs, lambda fit: fit[1].ended == "interrupted")
        network, history = best_fit(several, smooth, validation)
    refine(network, dataset, config)
    few = config.max_tree_features is not None and config.max_tree_features < dataset.table.shape[1]
    calibrate(network, dataset, config, validation, None if few else choice.tempering)  # found on all features
    return network, history


def smoothed_targets(dataset: Dataset, validation: Dataset | None, config: NetworkConfig, seed: int) -> Targets:
    """Regression targets moved towards the outputs of a locally linear network trained first, by `smoothing`.

    Constant leaves then follow less of the noise.
    """
    if not config.smoothing:
        return dataset.targets
    training = Settings(**{name: getattr(config.training, name) for name in SMOOTHER})
    smoother = NetworkConfig(
        LocallyLinearNetwork,
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        device=config.device,
        training=training,
    ).quiet
    chosen, tempering = choose(dataset, smoother, seed, validation)
    network, _ = train_once(dataset, smoother, chosen, seed, validation)
    calibrate(network, dataset, smoother, validation, tempering)
    y, rows = dataset.targets.y.copy(), dataset.rows
    y[rows] += np.float32(config.smoothing) * (evaluate(network, dataset.table, dataset.index) - y[rows])
    return replace(dataset.targets, y=y)


def choose(
    dataset: Dataset,
    config: NetworkConfig,
    seed: int,
    validation: Dataset | None = None,
    trained_on: Targets | None = None,
) -> Choice:
    """The hyper-parameters as given; for "auto" those with the least held-out loss.

    Networks are trained on the targets `trained_on`, and compared on the data set's own.
    """
    if dataset.index is not None:  # a row drawn twice must not be trained on and held out
        dataset = replace(dataset, index=np.unique(dataset.index))
    candidates = config.candidates(len(dataset), dataset.table.shape[1])
    if len(candidates) == 1 and (validation is not None or not config.training.temper):
        return Choice(candidates[0], None)  # validation rows give the tempering later
    race = Race(candidates, is_short=dataset.targets.task != "regression")
    share, haste = trial_share(dataset.targets.n_outputs), TRIAL_HASTE if race.is_short else 1
    by_user = dataset.targets.folding is not None and dataset.targets.folding.by_user
    for train_part, test in folds(dataset, seed) if validation is None else [(dataset, validation)]:
        part = train_part if trained_on is None else replace(train_part, targets=trained_on)
        n_jobs = min(n_threads(), len(race.left))
        networks = []
        if n_jobs > 1:  # the kernels run without Python's lock
            trial = partial(_train_in_one_thread, part, config.quiet, seed=seed, share=share, haste=haste)
            networks = list(in_order(trial, race.left, n_jobs))
        else:
            for candidate in race.left:
                networks.append(train_once(part, config.quiet, candidate, seed, share=share, haste=haste)[0])
        scores = [evaluate(network, test.table, test.index) for network in networks]
        race.add_fold(test, scores, config.title if config.verbose else None)
        if race.is_over and not by_user:
            break
    return race.choice()


def _train_in_one_thread(
    dataset: Dataset, config: NetworkConfig, chosen: HyperParameters, seed: int, share: float, haste: int
) -> NeuronChain:
    with limited(1):
        return train_once(dataset, config, chosen, seed, share=share, haste=haste)[0]


def train_once(
    dataset: Dataset,
    config: NetworkConfig,
    chosen: HyperParameters,
    seed: int,
    validation: Dataset | None = None,
    start: FittedNetwork | None = None,
    share: float = 1.0,
    haste: int = 1,
) -> tuple[NeuronChain, History]:
    """One network from one initialisation, for a share of the epochs; on few features where these are limited.

    Where the number of updates is planned, `haste` makes so many times fewer with a learning rate as many times higher.
    """
    network = config.new_network(dataset, chosen, seed) if start is None else _continued(start, dataset, config)
    penalise = proximal_step(config.training.feature_penalty)
    options, limit = loop_options(config, chosen, dataset, seed, share, haste), chosen.max_tree_features
    if limit is None or limit >= dataset.table.shape[1]:
        return network, train(network, dataset, validation=validation, after_step=penalise, **options)

    def go_on(penalty: float) -> None:
        step = path_step(penalty, config.training.optimizer)
        again = loop_options(config.quiet, chosen, dataset, seed, PATH_SHARE * share, haste)
        train(network, dataset, after_step=step, **again)

    train(network, dataset, **loop_options(config.quiet, chosen, dataset, seed, share, haste))
    features = choose_features(network, limit, go_on)
    few = replace(dataset, table=dataset.table.columns(features))
    few_valid = None if validation is None else replace(validation, table=validation.table.columns(features))
    small = config.new_network(few, chosen, seed)
    history = train(small, few, validation=few_valid, after_step=penalise, **options)
    return small.widen(features, network.in_features), history


def loop_options(
    config: NetworkConfig,
    chosen: HyperParameters,
    dataset: Dataset,
    seed: int | np.random.Generator,
    share: float = 1.0,
    haste: int = 1,
) -> dict[str, Any]:
    """The options of the training loop, for a share of its epochs; `haste` as in `train_once`."""
    how = config.training
    plan = plan_training(len(dataset), config.epochs, how.batch_size)
    epochs, n_updates, rate = max(1, round(share * plan.epochs)), plan.updates_per_epoch, config.learning_rate
    if n_updates is not None:
        n_updates, rate = -(-n_updates // haste), haste * rate
    return {
        "epochs": epochs,
        "batch_size": plan.batch_size,
        "updates_per_epoch": n_updates,
        "optimizer": how.optimizer,
        "learning_rate": rate,
        "schedule": how.schedule,
        "weight_decay": chosen.weight_decay,
        "annealing": float(how.annealing),
        "patience": patience_of(config.early_stopping),
        "callbacks": config.callbacks or (),
        "progress": epoch_bar(config.title, epochs) if config.verbose else None,
        "interruptible": config.interruptible,
        "make_stepper": config.make_stepper(),
        "rng": np.random.default_rng(seed),
    }


def _continued(start: FittedNetwork, dataset: Dataset, config: NetworkConfig) -> NeuronChain:
    """The fitted network, ready to be trained, where it is of the shape that is asked for."""
    old = start.network
    depth = config.resolve(start.chosen).depth
    asked = (dataset.table.shape[1], depth, dataset.targets.n_outputs)
    if (old.in_features, old.depth, old.out_features) != asked:
        raise ValueError(
            f"warm_start=True continues a network of {old.in_features} features, depth {old.depth} and "
            f"{old.out_features} outputs, but {asked[0]} features, depth={asked[1]} and {asked[2]} outputs are "
            "asked for; set warm_start=False"
        )
    hidden = old.hidden_layers if isinstance(old, LocallyConstantNetwork) else ()
    pairs = {
        "hidden_layers": (hidden, tuple(config.hidden_layers)),
        "negative_slope": (old.activation.negative_slope, float(config.training.negative_slope)),
    }
    for name, (was, given) in pairs.items():
        if was != given:
            raise ValueError(
                f"warm_start=True continues a network of {name}={was}, but {name}={given} is asked for; set "
                "warm_start=False"
            )
    return start.scaled(config)


def refine(network: NeuronChain, dataset: Dataset, config: NetworkConfig) -> None:
    """Correct the leaves by their rows, where `refine_leaves` asks for it."""
    strength = config.training.refine_leaves
    if strength:
        refine_leaves(network, dataset, REFINEMENT if isinstance(strength, bool | np.bool_) else float(strength))


def calibrate(
    network: NeuronChain,
    dataset: Dataset,
    config: NetworkConfig,
    validation: Dataset | None = None,
    tempering: Tempering | None = None,
) -> None:
    """Temper the outputs by the validation rows, or else as the rows held out of shorter trainings did."""
    if validation is not None:
        scores = evaluate(network, validation.table, validation.index).astype(np.float64)
        tempering = temper(scores, validation.targets, validation.rows).how
    if tempering is not None and config.training.temper:
        prior = prior_scores(dataset.targets, dataset.rows)
        network.rescale_outputs(1 / tempering.temperature, tempering.shift(prior))


def hold_out(dataset: Dataset, seed: int) -> tuple[Dataset, Dataset]:
    """Split a data set into training and validation rows: a tenth of each class, or of the groups.

    Of each class of two rows or more at least one is held out; with `cv` the first split that can be scored is taken.
    """
    targets, rows = dataset.targets, dataset.rows
    labels = targets.class_numbers(rows)
    for sides in targets.folds(rows, round(1 / HELD_OUT), seed, per_class=True):
        # without a class there is no AUC, but there is a log-loss
        if targets.task != "binary" or all(len(np.unique(labels[side])) == 2 for side in sides):
            return replace(dataset, index=rows[sides[0]]), replace(dataset, index=rows[sides[1]])
    of_what = " of each class" if targets.task == "binary" else ""
    which = "rows" if targets.folding is None else "groups, or a split of cv, with rows"
    raise ValueError(f"early_stopping needs at least two {which}{of_what} to hold one out; give an eval_set")
