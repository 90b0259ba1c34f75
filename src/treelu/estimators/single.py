"""LCN, ALCN and LLN as scikit-learn estimators: one network each."""

from __future__ import annotations

from typing import ClassVar

from treelu.estimators._networks import SingleClassifier, SingleRegressor
from treelu.estimators._trees import TreeMixin
from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.nn.activations import ActivationKind
from treelu.tree import ObliqueTree


class LCNClassifier(TreeMixin, SingleClassifier):
    """A classifier that is an oblique decision tree: a locally constant network (LCN, §3.6).

    Two classes, more, or several 0/1 labels with NaN where one was not observed (a network for each).

    Parameters
    ----------
    depth : int or "auto"
        Number of neurons M; the tree has up to 2^M leaves. "auto" is 16, less with more than 128 features, so that the
        whole tree fits into 64 MB, and 12 with fewer than 500 rows or where more than half of the weights are dropped.
        The depth used is kept as `depth_`.
    drop_connect : float in [0, 1) or "auto"
        Share of the weights that training drops, drawn anew for each row. "auto" compares 0.05, 0.3 and 0.75 on rows
        held out (fifths in turn, or `eval_set`) and keeps the best as `drop_connect_`.
    hidden_layers : sequence of int
        Widths of the hidden ReLU layers of g_φ, which maps gradients to leaf values; none by default.
    epochs : int or "auto"
        Passes over the rows; "auto" sets the number of updates from the number of rows.
    learning_rate : float
        Step size at the start.
    weight_decay : float or "auto"
        Weight decay. "auto" is 0, except for linear leaves (LLN) with `drop_connect="auto"`: there decays of 0.3 and 2
        without dropping are compared with drop rates of 0.05 and 0.3. The decay used is kept as `weight_decay_`.
    standardize : bool or "auto"
        Scale the features for training, by mean and standard deviation; "auto" leaves binary and sparse ones as they
        are and scales those with heavy tails by median and quartiles. The tree reads raw features in any case. Unless
        False, a regressor scales its targets as well.
    early_stopping : bool or int
        Stop after this many epochs (True: 10) without a better score on `eval_set`, or on a tenth of the rows held out.
    cv : int, splitter, iterable of (train, test) or None
        The folds on which hyper-parameters are chosen and probabilities calibrated, and of which `early_stopping`
        takes the first: a number of random folds, one of scikit-learn's splitters (``GroupKFold()``,
        ``TimeSeriesSplit()``), or pairs of row numbers. None: up to five folds, by class; by group if `fit` is given
        `groups`.
    max_tree_features : int, optional
        The most features that the tree may use. A growing penalty removes features until those that the loss needs
        most are left; the network is then fitted to these alone. None: no limit, except that on tables of more than 32
        features and fewer than five rows for each, `drop_connect="auto"` also tries a limit of 16. The limit used is
        kept as `max_tree_features_`.
    missing : {"auto", "error", "indicator"}
        What to do with NaN in X. "indicator": fill it with the feature's median and add an indicator column, which the
        tree then reads as one more feature. "auto": the same in columns that lack values in training; elsewhere NaN is
        an error. "error": refuse it.
    categorical_features : "from_dtype", or array of names, numbers or truth values
        Columns that hold categories, besides those whose type says so; see the guide "Data frames".
    class_weight : dict, "balanced" or None
        Weights of the classes. As in scikit-learn they move the probabilities too: those of "balanced" are of classes
        of equal frequency.
    warm_start : bool
        Whether `fit` continues training the fitted network.
    device : str or torch.device
        Where to train.
    n_jobs : int, optional
        Threads for several labels and several initialisations.
    callbacks : sequence of callables, optional
        Called as callback(record, network) after each epoch; training stops where one returns a true value.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState or None
    training : dict or treelu.training.Settings, optional
        Batch size, optimiser, schedule and other settings that are rarely changed: ``{"optimizer": "sgd"}``; see
        :class:`treelu.training.Settings`.

    Attributes
    ----------
    network_ : LocallyConstantNetwork
        On the raw features, in float64.
    tree_ : ObliqueTree
        The same function as a tree, for every row: it has all 2^depth leaves, of which training rows reach
        `tree_.n_visited_leaves`. Built on first access. `to_tree(visited_by=X)` has those leaves only that rows X
        reach; past depth 16 there is no other.
    history_ : History
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn.
    class_order_ : array of shape (classes,)
        The numbers of the classes by frequency, ties by first row: the order in which training has them, so that their
        names do not matter.
    estimators_ : list of LCNClassifier
        One per label, where y has several.

    References
    ----------
    Lee & Jaakkola, "Oblique Decision Trees from Derivatives of ReLU Networks", ICLR 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = LCNClassifier(depth=3, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.9
    True
    >>> classifier.tree_.n_leaves, classifier.tree_.n_visited_leaves <= 8
    (8, True)
    """

    _network_class: ClassVar[type[NeuronChain]] = LocallyConstantNetwork


class LCNRegressor(TreeMixin, SingleRegressor):
    """A regressor that is an oblique decision tree: a locally constant network (LCN, §3.6).

    Parameters
    ----------
    smoothing : float in [0, 1] or "auto"
        How far the targets are moved, before training, towards the outputs of a locally linear network (LLN) trained
        first, so that constant leaves follow less of the noise. 0 is the paper's; "auto" is 0.7 for LCN, 0 for the
        others.
    depth, drop_connect, hidden_layers, epochs, learning_rate, weight_decay, standardize, early_stopping, cv
        As for `LCNClassifier`. Unless `standardize` is False, targets are scaled as well.
    max_tree_features, missing, categorical_features, warm_start, device, n_jobs, callbacks, verbose, random_state, \
training
        As for `LCNClassifier`.

    Attributes
    ----------
    network_, tree_, history_, n_features_in_, feature_names_in_, feature_importances_
        As for `LCNClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> regressor = LCNRegressor(depth=4, random_state=0).fit(X, X[:, 0] > 0)
    >>> regressor.score(X, X[:, 0] > 0) > 0.8
    True
    """

    _network_class: ClassVar[type[NeuronChain]] = LocallyConstantNetwork
    _default_smoothing: ClassVar[float] = 0.7


class Smooth:
    """The error of networks that are not trees."""

    @property
    def tree_(self) -> ObliqueTree:
        """There is none: an AttributeError that says why."""
        name = type(self).__name__
        raise AttributeError(
            f"{name} has no tree_: its activation stays smooth, so its output changes from point to point and is not "
            f"constant on leaves; {name.removeprefix('A')} is the network that is a tree"
        )


class ALCNClassifier(Smooth, SingleClassifier):
    """The approximately locally constant network (ALCN, §3.6): an LCN that stays smooth, and is no tree.

    Parameters, attributes and methods are those of `LCNClassifier`, except for the tree.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ALCNClassifier(depth=3, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _activation_kind: ClassVar[ActivationKind] = "softplus"


class ALCNRegressor(Smooth, SingleRegressor):
    """The approximately locally constant network (ALCN, §3.6) for real targets.

    Parameters, attributes and methods are those of `LCNRegressor`, except for the tree.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ALCNRegressor(depth=3, random_state=0).fit(X, y).score(X, y) > 0.4
    True
    """

    _activation_kind: ClassVar[ActivationKind] = "softplus"


class LLNClassifier(TreeMixin, SingleClassifier):
    """The locally linear network f_θ itself (LLN, §3.6): an oblique tree with linear leaves.

    Parameters, attributes and methods are those of `LCNClassifier`; `hidden_layers` must stay empty.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LLNClassifier(depth=3, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _network_class: ClassVar[type[NeuronChain]] = LocallyLinearNetwork


class LLNRegressor(TreeMixin, SingleRegressor):
    """The locally linear network f_θ (LLN, §3.6) for real targets: an oblique tree with linear leaves.

    Parameters, attributes and methods are those of `LCNRegressor`; `hidden_layers` must stay empty.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LLNRegressor(depth=3, random_state=0).fit(X, y)
    >>> model.tree_.leaf_weights.shape  # leaves, values, features
    (8, 1, 10)
    """

    _network_class: ClassVar[type[NeuronChain]] = LocallyLinearNetwork
