"""The queries of a tree as its methods; each imports what it needs when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from treelu.tree.output_methods import TreeMethods

if TYPE_CHECKING:
    from treelu.tree.queries.columns import ColumnFeatures
    from treelu.tree.queries.counterfactual import Counterfactual
    from treelu.tree.queries.limits import Limits
    from treelu.tree.queries.properties import Verdict
    from treelu.tree.queries.ranges import OutputRange
    from treelu.tree.queries.robustness import Robustness
    from treelu.tree.queries.shapley import ShapValues


class QueryMethods(TreeMethods):
    """The methods of `ObliqueTree` that ask about single rows and about all rows."""

    @property
    def _own(self) -> ColumnFeatures | None:
        """The columns of the data frame that the tree was fitted to."""
        from treelu.tree.queries.columns import ColumnFeatures

        return None if self._tree.columns is None else ColumnFeatures(self._tree.columns)

    def _limits(
        self,
        limits: str | None,
        bounds: Any,
        whole: Iterable[Any],
        groups: Sequence[Iterable[Any]],
        scale: Any,
        *,
        everywhere: bool = True,
    ) -> Limits:
        """The rows that a query is about: `everywhere`, or around a row."""
        from treelu.tree.queries.limits import tree_limits

        given: dict[str, Any] = {"limits": limits, "bounds": bounds, "whole": whole, "groups": groups, "scale": scale}
        return tree_limits(self._tree, **given, everywhere=everywhere)

    def counterfactual(
        self,
        x: Any,
        target: Any = None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        output: int = 0,
        keep: Iterable[Any] = (),
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        rise: Iterable[Any] = (),
        fall: Iterable[Any] = (),
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
        norm: str = "l1",
        max_changes: int | None = None,
        n: int = 1,
        check: Callable[[Any], Any] | None = None,
        budget_seconds: float | None = None,
    ) -> Counterfactual:
        """The smallest change of a row that gives another answer.

        Each leaf is a polyhedron, and the nearest point of one is found by a linear programme (l1, l∞), a projection
        (l2), or branch and bound over integers. Leaves are taken in the order of a lower bound of their distance. The
        row that comes back is predicted as asked by `predict` itself. The result has one of three values: a row;
        proved that there is none, by certificates that are checked in exact arithmetic; or not decided, as where
        rounding decides, or the search was given up. Features that the tree does not use never change.

        Parameters
        ----------
        x : array, Series, one-row DataFrame or sparse row with n_features values
        target : class label, optional
            The class asked for; with ``at_least`` or ``at_most`` the class whose probability is meant. None: any
            class but the predicted one.
        at_least, at_most : float, optional
            Limits of the probability of ``target``; of the value, in regression.
        output : int
            Which value, in a regression of several.
        keep : features, by name or number
            They stay as they are.
        limits : {"observed", "anywhere"} or None
            Which rows may be answers. "observed": such as the training rows were, where the tree knows them
            (``tree.observed``): within their ranges, integers where all were, one of each one-hot group. A value of the
            row asked about that lies outside may stay or return. None or "anywhere": all rows.
        bounds : mapping or pair, optional
            The range of features, in place of the observed one: ``{"age": (18, 100)}``; an end that is None is the
            observed one, or open. Or a pair (low, high) for all, each a number or an array of n_features.
        rise, fall : features
            They may only rise, or only fall.
        whole : features
            They take whole numbers only.
        groups : sequence of features
            One-hot groups: exactly one feature of each is 1, the others 0.
        scale : array of shape (n_features,) or mapping, optional
            The unit of each feature: a change by it counts as 1. None: its spread in training, or 1 where the tree
            does not know that.
        norm : {"l1", "linf", "l2"}
            The sum of all changes, the largest, or the root of the sum of squares.
        max_changes : int, optional
            How many features may change; a group counts as one.
        n : int
            How many rows to find, each in another leaf, nearest first.
        check : callable, optional
            Rows of features, an array (n, n_features) → a truth value for each: whether it may be an answer. For
            models that round sums in another order than the tree.
        budget_seconds : float, optional
            After so many seconds of processor time the search ends, and what it has not decided is reported as such.
            None: no limit.

        Returns
        -------
        Counterfactual
            False as a truth value where there is none. In the columns of a data frame its numbers have few digits, a
            little beyond the nearest ones, where these get the same answer.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree(
        ...     [[1.0, 2.0]], [-100.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"],
        ...     feature_names=["income", "savings"],
        ... )
        >>> print(tree.counterfactual([50, 10], "yes"))
        predicted 'no'; the nearest row predicted 'yes' is 15 away (l1):
          savings  10  -> 25  +15
        >>> print(tree.counterfactual([50, 10], "yes", bounds={"savings": (0, 20)}))
        predicted 'no'; the nearest row predicted 'yes' is 20 away (l1):
          income   50  -> 60  +10
          savings  10  -> 20  +10
        >>> print(tree.counterfactual([50, 10], "yes", keep=["savings"], fall=["income"]))
        predicted 'no'; no permitted row is predicted 'yes': proved over 2 leaves
        """
        from treelu.tree.queries.counterfactual import predicted
        from treelu.tree.queries.goal import read_goal
        from treelu.tree.queries.limits import one_row
        from treelu.tree.queries.nearest import nearest

        tree, row = self._tree, one_row(self._tree, x)
        before = predicted(tree, row)
        goal = read_goal(tree, target, at_least=at_least, at_most=at_most, output=output, other_than=before)
        goal = goal if check is None else goal.also(check)
        own, permitted = self._own, self._limits(limits, bounds, whole, groups, scale, everywhere=False)
        if own is not None:
            keep = [*own.features_of(keep, "keep"), *own.still]
            rise, fall = own.numbers_of(rise, "rise"), own.numbers_of(fall, "fall")
        around = permitted.around(row, keep, rise, fall)
        found = nearest(row, goal, around, norm=norm, max_changes=max_changes, n=n, budget_seconds=budget_seconds)
        if own is None:
            return found
        holds: Callable[[Any], bool] = lambda after: around.holds(after) and bool(goal.holds(after[None])[0])  # noqa: E731
        return found.shortened(tree, row, around, holds).in_columns(own, row, x)

    def robustness(
        self,
        X: Any,
        norm: str = "l2",
        *,
        change: float | None = None,
        keep: Iterable[Any] = (),
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
        budget_seconds: float | None = None,
    ) -> Robustness:
        """How far rows are from the nearest other answer.

        Parameters
        ----------
        X : one row, or rows of shape (n_rows, n_features)
        norm : {"l1", "linf", "l2"}
        change : float
            In regression: the least difference of an output that counts as another answer.
        keep, limits, bounds, whole, groups, scale
            As in :meth:`counterfactual`.
        budget_seconds : float, optional
            For each search from a row. Then its distance is the lower bound that was reached. None: no limit.

        Returns
        -------
        Robustness

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[3.0, 4.0]], [-10.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=[0, 1])
        >>> print(tree.robustness([0, 0]))
        predicted 0; no permitted row nearer than 2 (l2) gets another answer
        >>> tree.robustness([[0, 0], [2, 1]], "linf").distances.round(6)
        array([1.428571, 0.      ])
        """
        from treelu.tree.queries.robustness import robustness

        permitted = self._limits(limits, bounds, whole, groups, scale, everywhere=False)
        if self._own is not None:
            keep = [*self._own.features_of(keep, "keep"), *self._own.still]
        return robustness(permitted, X, norm, change, keep, budget_seconds)

    def output_range(
        self,
        bounds: Any = None,
        *,
        limits: Literal["observed", "anywhere"] | None = "observed",
        target: Any = None,
        output: int = 0,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
        budget_seconds: float | None = None,
    ) -> OutputRange:
        """The least and the greatest value or probability within ranges, with rows that attain them.

        No permitted row lies beyond the two. Where a search is not decided, or its time is over, they are bounds
        without a row.

        Parameters
        ----------
        limits, bounds, whole, groups, scale
            As in :meth:`counterfactual`.
        target : class label, optional
            The class whose probability is meant; None: the second of two.
        output : int
            Which value, in a regression of several.
        budget_seconds : float, optional
            After so many seconds of processor time the search ends with the bounds that it has. None: no limit.

        Returns
        -------
        OutputRange

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0, 2.0]], [-4.0], [[1, 2]], [[0.0], [7.0]])
        >>> print(tree.output_range((0, 1)))
        the prediction is from 0 to 0 for every permitted row
        >>> tree.output_range((0, 2)).high
        7.0
        """
        from treelu.tree.queries.goal import read_output
        from treelu.tree.queries.ranges import output_range

        rows = self._limits(limits, bounds, whole, groups, scale)
        return output_range(rows, read_output(self._tree, target, output), budget_seconds)

    # Properties of the whole tree

    def rises(
        self,
        feature: Any,
        *,
        target: Any = None,
        output: int = 0,
        budget_seconds: float | None = None,
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
    ) -> Verdict:
        """Whether the prediction never falls when a feature rises and all others stay: proved, or refuted by two rows.

        Parameters
        ----------
        feature : name or number
        target : class label, optional
            The class whose probability is meant; None: the second of two.
        output : int
            Which value, in a regression of several.
        limits, bounds, whole, groups, scale
            As in :meth:`counterfactual`: the rows that the property is about.
        budget_seconds : float, optional
            After so many seconds of processor time the search ends, not decided. None: no limit.

        Returns
        -------
        Verdict
            True as a truth value where the property is proved. Otherwise it is refuted by ``rows``, or not decided:
            see ``decided``.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree(
        ...     [[1.0, -1.0], [0.0, 1.0]], [0.0, -5.0], [[2, 1], [3, 4]], [[0.0], [1.0], [0.5]],
        ...     feature_names=["income", "age"],
        ... )
        >>> print(tree.rises("income"))
        proved: the prediction never falls when income rises
        >>> broken = tree.rises("age")
        >>> bool(broken)
        False
        >>> first, second = tree.predict(broken.rows)  # the same income, and a higher age in the second
        >>> first > second
        np.True_
        """
        rows = self._limits(limits, bounds, whole, groups, scale)
        return self._monotone(rows, feature, 1, target=target, output=output, budget_seconds=budget_seconds)

    def falls(
        self,
        feature: Any,
        *,
        target: Any = None,
        output: int = 0,
        budget_seconds: float | None = None,
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
    ) -> Verdict:
        """Whether the prediction never rises when a feature rises; see :meth:`rises`."""
        rows = self._limits(limits, bounds, whole, groups, scale)
        return self._monotone(rows, feature, -1, target=target, output=output, budget_seconds=budget_seconds)

    def _monotone(self, rows: Limits, feature: Any, sign: int, **asked: Any) -> Verdict:
        """Whether an output goes with a feature, or with a column of numbers or dates."""
        from treelu.tree.queries.properties import monotone, monotone_date

        own = self._own
        if own is None:
            return monotone(rows, feature, sign, **asked)
        if feature in own.dates:
            return monotone_date(rows, own, feature, sign, **asked).in_columns(own)
        (place,) = own.numbers_of([feature], "feature")
        return monotone(rows, place, sign, **asked).in_columns(own)

    def independent(
        self,
        features: Any,
        *,
        of: str = "answer",
        target: Any = None,
        output: int = 0,
        tolerance: float = 0.0,
        budget_seconds: float | None = None,
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
    ) -> Verdict:
        """Whether the answer is the same whatever some features are: proved, or refuted by two rows.

        Parameters
        ----------
        features : names or numbers
            A feature of a one-hot group stands for the whole group.
        of : {"answer", "value"}
            The predicted class, or the probability of ``target``. In regression both are the value.
        target, output
            As in :meth:`rises`.
        tolerance : float
            A difference of values up to this is none.
        limits, bounds, whole, groups, scale
            As in :meth:`counterfactual`.
        budget_seconds : float, optional
            As in :meth:`rises`.

        Returns
        -------
        Verdict

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0, 0.0]], [0.0], [[1, 2]], [[0.0], [1.0]], feature_names=["income", "sex"])
        >>> print(tree.independent("sex"))
        proved: the prediction never depends on sex
        """
        from treelu.tree.queries.properties import independent

        rows = self._limits(limits, bounds, whole, groups, scale)
        own = self._own
        features = features if own is None else own.features_of(features, "features")
        found = independent(rows, features, of, tolerance, target=target, output=output, budget_seconds=budget_seconds)
        return found if own is None else found.in_columns(own)

    def at_most(
        self,
        limit: float,
        *,
        target: Any = None,
        output: int = 0,
        budget_seconds: float | None = None,
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
    ) -> Verdict:
        """Whether the prediction is at most ``limit`` for every permitted row: proved, or refuted by a row.

        Parameters
        ----------
        limit : float
            Of the value, or of the probability of ``target``.
        target, output, limits, bounds, whole, groups, scale, budget_seconds
            As in :meth:`rises`.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0]], [-3.0], [[1, 2]], [[0.0], [1.0]], feature_names=["age"])
        >>> print(tree.at_most(0.5, bounds={"age": (0, 2)}))
        proved: the prediction is at most 0.5
        """
        from treelu.tree.queries.properties import limited

        rows = self._limits(limits, bounds, whole, groups, scale)
        found = limited(rows, limit, 1, target=target, output=output, budget_seconds=budget_seconds)
        return found if self._own is None else found.in_columns(self._own)

    def at_least(
        self,
        limit: float,
        *,
        target: Any = None,
        output: int = 0,
        budget_seconds: float | None = None,
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
    ) -> Verdict:
        """Whether the prediction is at least ``limit`` for every permitted row; see :meth:`at_most`."""
        from treelu.tree.queries.properties import limited

        rows = self._limits(limits, bounds, whole, groups, scale)
        found = limited(rows, limit, -1, target=target, output=output, budget_seconds=budget_seconds)
        return found if self._own is None else found.in_columns(self._own)

    # Shares of a prediction

    def shap_values(
        self,
        X: Any,
        background: Any,
        *,
        target: Any = None,
        raw: bool = False,
        max_exact: int = 14,
        n_permutations: int = 8,
        random_state: int = 0,
    ) -> ShapValues:
        """Shares of the features in predictions: interventional Shapley values.

        Exact where the tree uses at most ``max_exact`` features, by 2^u mixtures of each row with each background row.
        Otherwise by pairs of permutations, with a standard error for each share. The shares of a row and the base value
        sum to its prediction in both cases.

        Parameters
        ----------
        X : rows of shape (n_rows, n_features)
        background : rows of shape (n_background, n_features)
            What "without a feature" means: its value is taken from these rows in turn.
        target : class label, optional
            The class whose probability is explained. None: the second of two, or all of more.
        raw : bool
            Explain the scores before the link instead of probabilities.
        max_exact : int
            Features up to which the values are exact.
        n_permutations : int
            Pairs of permutations with each background row, where they are not.
        random_state : int

        Returns
        -------
        ShapValues
            Its attributes have the names of `shap.Explanation`; ``.explanation()`` makes one, for shap's plots.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0, 1.0]], [-1.5], [[1, 2]], [[0.0], [1.0]])
        >>> shares = tree.shap_values([[1.0, 1.0]], [[0.0, 0.0]])
        >>> shares.values
        array([[0.5, 0.5]])
        >>> print(shares)
        shares of 1 row over 2 features, exact
        """
        from treelu.tree.queries.shapley import Outputs, shap_values

        options = {"max_exact": max_exact, "n_permutations": n_permutations, "random_state": random_state}
        return shap_values(Outputs(self._tree, target, raw), X, background, **options)
