"""What all estimators share: validating, scaling, training a network, and the network on raw features."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from treelu.estimators._folding import read_folding
from treelu.estimators._plan import plan_training
from treelu.estimators._rows import (
    GAPS_REMEDY,
    check_continues,
    check_weight,
    counted_rows,
    finite_scores,
    hold_out,
    learn_gaps,
    learned_before,
    plain_gaps,
    refuse_text_columns,
    rows_that_count,
    tags_of_missing,
    takes_gaps,
    warn_of_few_rows,
)
from treelu.estimators._saved import NetworkState
from treelu.estimators._setting import Choice, Setting, choose_setting, settings_for, trial_lines, trial_share
from treelu.estimators._trees import count_visits, feature_spread, unseen_features
from treelu.estimators._words import OtherWords
from treelu.nn import Activation, LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain, Table
from treelu.nn.activations import ActivationKind
from treelu.training import (
    History,
    KernelStepper,
    Sample,
    Settings,
    best_fit,
    evaluate,
    train,
)
from treelu.training.calibration import Tempering, prior_scores, refine_leaves, temper
from treelu.training.folds import Folding
from treelu.training.loop import AfterStep, MakeStepper
from treelu.training.progress import epoch_bar
from treelu.training.scaling import Scaling, check_scaled, fit_scaling, fold
from treelu.training.settings import NAMES
from treelu.training.sparsity import choose_features, path_step, proximal_step
from treelu.training.targets import Targets
from treelu.training.together import together

if TYPE_CHECKING:
    from treelu.estimators._stream import Stream

PATIENCE = 10  # epochs, for early_stopping=True
PATH_SHARE = 1 / 6  # of the epochs, for each penalty on the way to max_tree_features
REFINEMENT = 10.0  # pseudo-rows of a leaf, for refine_leaves=True
BLOCK = 2**21  # entries that are scaled at once
MAX_NEURONS = 256  # the work for a row grows with their cube


class NetworkEstimator(OtherWords, NetworkState, BaseEstimator, ABC):
    """A scikit-learn estimator around one network.

    Subclasses build the network, turn y into targets, and turn raw scores into predictions.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "depth": [Interval(Integral, 1, MAX_NEURONS, closed="both"), StrOptions({"auto"})],
        "drop_connect": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "hidden_layers": ["array-like"],
        "epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "standardize": ["boolean", StrOptions({"auto"})],
        "max_tree_features": [None, Interval(Integral, 1, None, closed="left")],
        "missing": [StrOptions({"error", "indicator"})],
        "early_stopping": ["boolean", Interval(Integral, 1, None, closed="left")],
        "cv": ["cv_object"],
        "warm_start": ["boolean"],
        "device": "no_validation",  # a string, or torch's own kind, which torch checks
        "n_jobs": [None, Integral],
        "callbacks": [None, "array-like"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "training": [None, dict, Settings],
    }
    _elsewhere: ClassVar[dict[str, str]] = {name: f"training={{{name!r}: …}}" for name in NAMES} | {
        "max_features": "max_tree_features=…"
    }
    # which network, and whether it is kept smooth
    _network_class: ClassVar[type[NeuronChain]] = LocallyConstantNetwork
    _activation_kind: ClassVar[ActivationKind] = "relu"
    _is_member = False  # of an ensemble, which calls back, shows progress and is interrupted itself
    stream_: Stream  # the rows kept by partial_fit
    network_: Any  # a NeuronChain of `_network_class`

    @property
    def _how(self) -> Settings:
        """How to train: the parameter `training`, with defaults filled in."""
        return Settings.of(self.training)

    @abstractmethod
    def _read_targets(self, y: Any, weight: NDArray[Any] | None, *, first: bool) -> Targets:
        """y → targets. `first` learns the classes or the targets' scale; otherwise they are given."""

    @property
    @abstractmethod
    def _target_scaling(self) -> Scaling | None:
        """How the targets are scaled; None for classes."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags_of_missing(tags, self)

    # Fitting

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any, eval_set: Any, groups: Any) -> Self:
        """Fit to raw input, with the parameters checked."""
        goes_on = self.warm_start and (hasattr(self, "network_") or hasattr(self, "ensemble_"))
        before = learned_before(self) if goes_on else {}
        X, targets = self._read_sample(X, y, sample_weight, self.cv, groups, first=True)
        check_continues(before, learned_before(self))
        warn_of_few_rows(X.shape[0])
        self.scaling_ = fit_scaling(X, self.standardize)
        validation = self._read_eval_set(eval_set)
        return self._fit_sample(Sample(self._scaled_table(X), targets), validation)

    def _fit_sample(self, sample: Sample, validation: Sample | None, *, can_hold_out: bool = True) -> Self:
        """Train a network on scaled rows, of which early stopping holds some out where there are no others.

        The network is kept on the raw features, in float64.
        """
        seed = self._seeds(1)[0]
        if validation is None and self.early_stopping and can_hold_out:
            sample, validation = hold_out(sample, seed)
        network, history = self._train_network(sample, validation, seed)
        self._describe_rows(network, sample, n_passes=len(history))
        self.network_, self.history_ = self._folded(network), history
        self.__dict__.pop("stream_", None)  # its rows are not these
        return self

    def _choice_for(self, X: Any, y: Any, sample_weight: Any, folding: Folding | None) -> Choice:
        """The setting and the tempering that `fit` would choose for these rows, without the training that follows."""
        X, targets = self._read_sample(X, y, sample_weight, first=True)
        targets = replace(targets, folding=folding)
        self.scaling_ = fit_scaling(X, self.standardize)
        sample, seed = Sample(self._scaled_table(X), targets), self._seeds(1)[0]
        return self._choose_setting(sample, None, seed, self._targets_to_train_on(sample, None, seed))

    def _train_network(self, sample: Sample, validation: Sample | None, seed: int) -> tuple[NeuronChain, History]:
        """Choose a setting, train a network on scaled rows, and calibrate it."""
        trained_on = self._targets_to_train_on(sample, validation, seed)
        choice = self._choose_setting(sample, validation, seed, trained_on)
        self.depth_, self.drop_connect_, self.weight_decay_, chosen = choice.setting
        self.max_tree_features_ = chosen if self.max_tree_features is None else int(self.max_tree_features)
        seeds = [seed, *(int(s) for s in np.random.default_rng(seed).integers(2**31, size=self._how.n_init - 1))]
        rows_to_train_on = replace(sample, targets=trained_on)
        fits = [partial(self._train, rows_to_train_on, validation, seed) for seed in seeds]
        # Ctrl-C keeps the networks there are and begins no more
        trained = together(fits, self.n_jobs, lambda fit: fit[1].ended == "interrupted")
        network, history = best_fit(trained, rows_to_train_on, validation)
        self._refine(network, sample)
        few = self.max_tree_features is not None and self.max_tree_features < sample.table.shape[1]
        self._temper(network, sample, validation, None if few else choice.tempering)  # found on all features
        return network, history

    def _refine(self, network: NeuronChain, sample: Sample) -> None:
        """Correct the leaves by their rows, where `refine_leaves` asks for it."""
        strength = self._how.refine_leaves
        if strength:
            refine_leaves(network, sample, REFINEMENT if isinstance(strength, bool | np.bool_) else float(strength))

    def _targets_to_train_on(self, sample: Sample, validation: Sample | None, seed: int) -> Targets:
        """The targets that are trained on; what is chosen and tempered is judged by the sample's own."""
        return sample.targets

    def _choose_setting(self, sample: Sample, validation: Sample | None, seed: int, trained_on: Targets) -> Choice:
        """Depth, drop rate and decay as given or fitted before; for "auto" those that do best on rows held out."""
        if self.warm_start and hasattr(self, "network_"):
            return Choice(self._setting(), None)
        n_features = sample.table.shape[1]
        if sample.index is not None:  # a row drawn twice must not be trained on and held out
            sample = replace(sample, index=np.unique(sample.index))

        def trial(setting: Setting, part: Sample) -> NeuronChain:
            share = trial_share(part.targets.n_outputs)
            return self._train_with(setting, replace(part, targets=trained_on), None, seed, share, quietly=True)[0]

        settings = self._settings(len(sample), n_features)
        if len(settings) == 1 and (validation is not None or not self._how.temper):
            return Choice(settings[0], None)  # validation rows give the tempering later
        on_trial = trial_lines(type(self).__name__) if self.verbose else None
        return choose_setting(trial, settings, sample, validation, seed, on_trial)

    def _temper(
        self, network: NeuronChain, sample: Sample, validation: Sample | None, tempering: Tempering | None
    ) -> None:
        """Temper the outputs as validation rows want, or else as the rows held out of shorter trainings did."""
        if validation is not None:
            scores = evaluate(network, validation.table, validation.index).astype(np.float64)
            tempering = temper(scores, validation.targets, validation.rows).how
        if tempering is not None and self._how.temper:
            prior = prior_scores(sample.targets, sample.rows)
            network.rescale_outputs(1 / tempering.temperature, tempering.shift(prior))

    def _train(self, sample: Sample, validation: Sample | None, seed: int) -> tuple[NeuronChain, History]:
        """One network from one initialisation, or from the fitted network."""
        return self._train_with(self._setting(), sample, validation, seed, start=self._start(sample, seed))

    def _train_with(
        self,
        setting: Setting,
        sample: Sample,
        validation: Sample | None,
        seed: int,
        share: float = 1.0,
        *,
        quietly: bool = False,
        start: NeuronChain | None = None,
    ) -> tuple[NeuronChain, History]:
        """A network with this setting, trained for a share of the epochs; on few features where it limits them."""
        network = self._network_for(sample, seed, setting) if start is None else start
        decay, limit, penalise = setting.decay, setting.max_features, proximal_step(self._how.feature_penalty)
        if limit is None or limit >= sample.table.shape[1]:
            return network, self._run(network, sample, validation, seed, penalise, share, quietly, decay)

        def go_on(penalty: float) -> None:
            step = path_step(penalty, self._how.optimizer)
            self._run(network, sample, None, seed, step, PATH_SHARE * share, quietly=True, decay=decay)

        self._run(network, sample, None, seed, None, share, quietly=True, decay=decay)
        chosen = choose_features(network, limit, go_on)
        few = replace(sample, table=sample.table.columns(chosen))
        few_valid = None if validation is None else replace(validation, table=validation.table.columns(chosen))
        small = self._network_for(few, seed, setting)
        history = self._run(small, few, few_valid, seed, penalise, share, quietly, decay)
        return small.widen(chosen, network.in_features), history

    def _run(
        self,
        network: NeuronChain,
        sample: Sample,
        validation: Sample | None,
        seed: int | np.random.Generator,
        after_step: AfterStep | None = None,
        share: float = 1.0,
        quietly: bool = False,
        decay: float | None = None,
    ) -> History:
        """The training loop with this estimator's settings, for a share of its epochs."""
        quietly = quietly or self._is_member
        how = self._how
        plan = plan_training(len(sample), self.epochs, how.batch_size)
        epochs = max(1, round(share * plan.epochs))
        return train(
            network,
            sample,
            epochs=epochs,
            batch_size=plan.batch_size,
            updates_per_epoch=plan.updates_per_epoch,
            optimizer=how.optimizer,
            learning_rate=self.learning_rate,
            schedule=how.schedule,
            weight_decay=self._setting().decay if decay is None else decay,
            annealing=float(how.annealing),
            validation=validation,
            patience=self._patience(),
            callbacks=() if quietly else self.callbacks or (),
            after_step=after_step,
            progress=epoch_bar(type(self).__name__, epochs) if self.verbose and not quietly else None,
            interruptible=not quietly,
            make_stepper=self._make_stepper(),
            rng=np.random.default_rng(seed),
        )

    def _fit_piece(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Learn from a piece of the rows; see `_stream`."""
        from treelu.estimators._stream import learn_piece

        learn_piece(self, X, y, sample_weight)
        return self

    def _describe_rows(self, network: NeuronChain, sample: Sample, n_passes: int) -> None:
        """What the tree says about the training rows: how many reach each node, how far each feature spreads."""
        self.n_passes_ = n_passes
        self.visits_ = count_visits(network, sample)
        self.spread_ = feature_spread(sample.table) * self.scaling_.scale

    # The network

    def _start(self, sample: Sample, seed: int) -> NeuronChain:
        """A fresh network on scaled features, or with warm_start the fitted one."""
        if self.warm_start and hasattr(self, "network_"):
            old, asked = self.network_, (sample.table.shape[1], self._setting().depth, sample.targets.n_outputs)
            if (old.in_features, old.depth, old.out_features) != asked:
                raise ValueError(
                    f"warm_start=True continues a network of {old.in_features} features, depth {old.depth} and "
                    f"{old.out_features} outputs, but {asked[0]} features, depth={asked[1]} and {asked[2]} outputs are "
                    "asked for; set warm_start=False"
                )
            self._check_goes_on(self.network_)
            return self._unfolded(self.network_)
        fresh = self._network_for(sample, seed)
        if hasattr(self, "start_from_"):  # a shallower network, from a search over depths
            fresh.start_with(self._unfolded(self.start_from_))
        return fresh

    def _check_goes_on(self, old: NeuronChain) -> None:
        """Raise where warm_start=True would leave parameters of the network as they were without a word."""
        pairs = {
            "hidden_layers": (getattr(old, "hidden_layers", ()), tuple(self.hidden_layers)),
            "negative_slope": (old.activation.negative_slope, float(self._how.negative_slope)),
        }
        for name, (was, asked) in pairs.items():
            if was != asked:
                raise ValueError(
                    f"warm_start=True continues a network of {name}={was}, but {name}={asked} is asked for; set "
                    "warm_start=False"
                )

    def _settings(self, n_rows: int, n_features: int) -> list[Setting]:
        """The settings to choose among."""
        linear = issubclass(self._network_class, LocallyLinearNetwork)
        given = self.depth, self.drop_connect, self.weight_decay
        try_few = self.max_tree_features is None and not self._is_member
        return settings_for(*given, n_rows, n_features, linear=linear, try_few_features=try_few)

    def _setting(self) -> Setting:
        """Depth, drop rate, decay and the limit of features as given, or else as chosen."""
        depth, rate, decay = (
            getattr(self, f"{name}_" if isinstance(getattr(self, name), str) else name)
            for name in ("depth", "drop_connect", "weight_decay")
        )
        limit = getattr(self, "max_tree_features_", None) if self.max_tree_features is None else self.max_tree_features
        return Setting(int(depth), float(rate), float(decay), limit)

    def _network_for(self, sample: Sample, seed: int, setting: Setting | None = None) -> NeuronChain:
        """A network for some rows, before training.

        Features that are 0 in all rows begin without weight, in the neurons and above. All gradients there are then 0,
        so that they end without weight too, and no part of what was trained rests on them.
        """
        depth, rate, *_ = setting or self._setting()
        kind, slope = self._activation_kind, float(self._how.negative_slope)
        if slope and kind == "relu":
            kind = "leaky_relu"
        activation = Activation(kind, slope, bool(self._how.straight_through))
        settings: dict[str, Any] = {"activation": activation, "drop_connect": rate, "seed": seed}
        if issubclass(self._network_class, LocallyConstantNetwork):
            settings["hidden_layers"] = tuple(self.hidden_layers)
        sizes = sample.table.shape[1], depth, sample.targets.n_outputs
        network = self._network_class(*sizes, dtype=np.float32, **settings)
        network.forget_features(unseen_features(sample.table))
        return network

    def _folded(self, network: NeuronChain) -> NeuronChain:
        """A copy on the raw features, in float64."""
        raw = network.copy(np.float64)
        raw.activation = replace(raw.activation, straight_through=False)
        fold(raw, self.scaling_, self._target_scaling)
        if not all(np.isfinite(array).all() for array in raw.arrays().values()):
            raise FloatingPointError("training led to numbers that are not finite; scale features and targets first")
        return raw

    def _unfolded(self, network: NeuronChain) -> NeuronChain:
        """The inverse of `_folded`."""
        scaled = network.copy()
        target = self._target_scaling
        fold(scaled, self.scaling_.inverse(), None if target is None else target.inverse())
        scaled.drop_connect = self._setting().rate
        scaled.activation = replace(scaled.activation, straight_through=bool(self._how.straight_through))
        return scaled.copy(np.float32)

    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        """The network's outputs (n, n_outputs) for raw rows."""
        check_is_fitted(self, "network_")
        X, _ = self._read_rows(X, first=False)
        return finite_scores(evaluate(self.network_, Table(X)))

    # Reading input

    def _check_parameters(self) -> None:
        """Everything that can be wrong before any data is looked at."""
        self._validate_params()
        _ = self._how
        if not all(isinstance(width, Integral) and int(width) >= 1 for width in self.hidden_layers):
            raise ValueError(f"hidden_layers must be widths of at least 1, got {self.hidden_layers!r}")
        if not issubclass(self._network_class, LocallyConstantNetwork) and len(self.hidden_layers):
            raise ValueError(
                f"hidden_layers must be () for {type(self).__name__}, which has no g_φ; got {self.hidden_layers!r}"
            )
        self._make_stepper()

    def _make_stepper(self) -> MakeStepper:
        """What makes updates: the kernels, or torch where another device is asked for."""
        device = str(self.device)
        if not isinstance(self.device, str) and type(self.device).__module__ != "torch":
            raise ValueError(f"device must be a string such as 'cpu' or a torch.device, got {self.device!r}")
        if device == "cpu":
            return KernelStepper
        from treelu.training.on_device import TorchStepper, check_device  # loads torch

        check_device(device)
        return partial(TorchStepper, device=device)

    def _read_sample(
        self, X: Any, y: Any, sample_weight: Any, cv: Any = None, groups: Any = None, *, first: bool
    ) -> tuple[Any, Targets]:
        """The rows that count, as of `_read_rows`, and their targets."""
        X = self._validated_rows(X, first=first)
        check_consistent_length(X, y)
        weight = check_weight(sample_weight, X)
        targets = self._read_targets(y, weight, first=first)
        folding = read_folding(cv, groups, X, y, counted_rows(weight), are_classes=is_classifier(self))
        X, targets = rows_that_count(X, targets)
        return self._filled_rows(X, first=first), replace(targets, folding=folding)

    def _read_rows(self, X: Any, y: Any = None, *, first: bool) -> tuple[Any, Any]:
        """Validated X (float32 or float64, dense or CSR) without gaps; y only has its length checked."""
        X = self._filled_rows(self._validated_rows(X, first=first), first=first)
        if y is not None:
            check_consistent_length(X, y)
        return X, y

    def _validated_rows(self, X: Any, *, first: bool) -> Any:
        """X in float32 or float64, dense or CSR; `first` learns the features' names."""
        refuse_text_columns(X)
        finite: bool | str = "allow-nan" if takes_gaps(self, first=first) else True
        with plain_gaps(type(self).__name__, GAPS_REMEDY):
            return validate_data(
                self, X, reset=first, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=finite
            )

    def _filled_rows(self, X: Any, *, first: bool) -> Any:
        """The same with gaps filled and marked if `missing="indicator"`; `first` learns what fills them."""
        if first:
            learn_gaps(self, X)
        return self.missing_values_.fill(X) if takes_gaps(self, first=first) else X

    def _read_eval_set(self, eval_set: Any) -> Sample | None:
        if eval_set is None:
            return None
        table, targets = self._read_pair(eval_set, lambda y: self._read_targets(y, None, first=False))
        if targets.task == "binary" and targets.y.min() == targets.y.max():
            raise ValueError("eval_set has one class only; its AUC is not defined")
        return Sample(table, replace(targets, weight=None))

    def _read_pair(self, eval_set: Any, read_y: Callable[[Any], Any]) -> tuple[Table, Any]:
        """Rows for validation, scaled, and what `read_y` makes of their targets."""
        if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
            raise ValueError("eval_set must be a pair (X_valid, y_valid)")
        try:
            X, y = self._read_rows(*eval_set, first=False)
            return self._scaled_table(X), read_y(y)
        except ValueError as error:
            raise ValueError(f"eval_set: {error}") from error

    def _scaled_table(self, X: Any) -> Table:
        """The rows as networks are trained on them: where they lie, or scaled in float32."""
        scaling = self.scaling_
        if scaling.is_identity and (hasattr(X, "tocsr") or X.flags.c_contiguous):
            return Table(X)
        if hasattr(X, "tocsr") and not scaling.center.any():
            return Table(scaling.transform(X), np.float32)
        scaled = np.empty(X.shape, np.float32)
        step = max(1, BLOCK // X.shape[1])
        for start in range(0, X.shape[0], step):
            with np.errstate(over="ignore"):  # what overflows is refused
                scaled[start : start + step] = scaling.transform(X[start : start + step])
            check_scaled(scaled[start : start + step], start)
        return Table(scaled)

    def _patience(self) -> int | None:
        """Epochs (of an ensemble: members) without a better score after which to stop."""
        if not self.early_stopping:
            return None
        return PATIENCE if isinstance(self.early_stopping, bool | np.bool_) else int(self.early_stopping)

    def _seeds(self, count: int) -> list[int]:
        """Seeds of single fits, the same for the same random_state."""
        draws = check_random_state(copy.deepcopy(self.random_state)).randint(2**31 - 1, size=count)
        return [int(seed) for seed in draws]
