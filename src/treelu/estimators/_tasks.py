"""Callbacks of scikit-learn (`set_callbacks`, from 1.9 on): a fit is a task, each epoch or member one below it.

They are set on the estimator or, those that are passed on, on a `Pipeline` or a search around it. The parameter
`callbacks` is ours, and older: functions of a record and the network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    with_callbacks: Any

    class CallbackSupportMixin:
        """Of scikit-learn."""

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:  # scikit-learn 1.8

        class CallbackSupportMixin:
            """Nothing: this version has no callbacks."""

        def with_callbacks(method: Any) -> Any:
            """The method as it is."""
            return method


Fit = TypeVar("Fit", bound=Callable[..., Any])


def as_task(fit: Fit) -> Fit:
    """The method `fit` as a task of scikit-learn's callbacks, where some are set."""

    @wraps(fit)
    def fit_as_task(self: Any, X: Any, y: Any = None, sample_weight: Any = None, *others: Any, **named: Any) -> Any:
        if not {"_skl_callbacks", "_parent_callback_ctx"} & vars(self).keys():
            return fit(self, X, y, sample_weight, *others, **named)
        data = {"X": X, "y": y, "metadata": None if sample_weight is None else {"sample_weight": sample_weight}}
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self, **data)
        fit(self, X, y, sample_weight, *others, **named)
        task.call_on_fit_task_end(estimator=self, **data, reconstruction_attributes={})
        return self

    fit_in_context: Fit = with_callbacks(fit_as_task)
    return fit_in_context


def part_tasks(estimator: Any, name: str) -> list[Callable[[Any, Any], bool]]:
    """What to call after each epoch or member of a fit, so that it is a task below: a stop is asked for by True."""
    task = vars(estimator).get("_callback_fit_ctx")
    if task is None:
        return []
    taking_turns = Lock()  # several initialisations train in threads

    def part(record: Any, network: Any) -> bool:
        with taking_turns:
            below = task.subcontext(task_name=name)
        below.call_on_fit_task_begin(estimator=estimator)
        return bool(below.call_on_fit_task_end(estimator=estimator))

    return [part]
