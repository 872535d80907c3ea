"""Classifiers of scikit-learn: a calibrator around a classifier, and one whose features are logits."""

import copy
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from calibench import calibrators
from calibench.calibrators.base import Calibrator
from calibench.messages.errors import near_matches
from calibench.messages.foreign_methods import ExplainsForeignMethods
from calibench.plugins.import_paths import explain_arguments
from calibench.tensors.arrays import Floats, names_of_columns
from calibench.tensors.labels import class_order
from calibench.tensors.row_names import refuse_shuffled_rows

_NESTED = "calibrator__"  # what scikit-learn's names of a calibrator's arguments begin with
_ARGUMENTS_OF_OTHERS = {
    "method": '`calibrator="IsotonicCalibration"`, or "PlattScaling" for the method `sigmoid`',
    "base_estimator": "`estimator` is the classifier",
    "ensemble": "leave it out, one classifier and one calibrator are fitted",
    "n_jobs": "leave it out, folds are fitted one after the other",
}
"""Arguments of scikit-learn's `CalibratedClassifierCV`, with what to write instead."""
_LEAST = 1e-12  # what a probability of exactly 0 counts as


_FITTED = "`classifier.fit(X, y)` sets it"
_METHODS_OF_OTHERS = {
    **dict.fromkeys(("classes_", "calibrator_", "estimator_"), _FITTED),
    **dict.fromkeys(
        ("calibrators_", "calibrated_classifiers_", "calibrators", "temperature", "temperature_"),
        "`classifier.calibrator_` is the fitted calibrator",
    ),
    **dict.fromkeys(
        ("calibrate", "transform", "fit_transform", "predict_calibrated"),
        "`classifier.predict_proba(X)` gives calibrated probabilities",
    ),
    **dict.fromkeys(
        ("evaluate", "ece", "report", "plot"),
        "`calibench.evaluate(classifier.predict_proba(X), y)` measures it",
    ),
    **dict.fromkeys(("save", "dump", "to_pickle"), "`joblib.dump(classifier, FILE)` writes it"),
}
"""Attributes of classifiers in other libraries, with what to write here."""


class LogitsClassifier(ExplainsForeignMethods, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classifier of scikit-learn that calibrates logits (this package); made by `as_estimator`.

    Args:
        calibrator: The calibrator; `fit` leaves it alone and fits a copy.

    Attributes:
        calibrator_: The fitted copy.
        classes_: The classes, in the order of the columns: the sorted labels.
    """

    foreign_methods = _METHODS_OF_OTHERS

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator: Any = calibrator  # `CalibratedClassifier` takes a name as well

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` adds those of the calibrator, `calibrator__n_bins`, for searches over them."""
        parameters: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            with suppress(
                AttributeError, TypeError, ValueError
            ):  # no calibrator, or one that does not keep them
                arguments = _calibrator(self.calibrator).constructor_arguments
                parameters |= {_NESTED + name: value for name, value in arguments.items()}
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; those of the calibrator build another one.

        Raises:
            ValueError: If there is no such parameter, or the calibrator refuses its value.
        """
        nested = {name: value for name, value in params.items() if name.startswith(_NESTED)}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested:
            changed = {name.removeprefix(_NESTED): value for name, value in nested.items()}
            self.calibrator = _with_arguments(_calibrator(self.calibrator), changed)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on logits X (N, K) and labels y (N,), of which there are K.

        Raises:
            ValueError: If there is not one label for each column.
        """
        refuse_shuffled_rows(X, y, "X", "y")
        self.classes_, target = np.unique(np.asarray(y), return_inverse=True)
        logits = np.asarray(self._in_order_of_classes(X))
        if len(self.classes_) != logits.shape[1]:
            raise ValueError(
                f"`y` must hold one label for each of the {logits.shape[1]} columns of `X`, got {len(self.classes_)}."
            )
        self.calibrator_ = copy.deepcopy(self.calibrator).fit(logits, target)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated probabilities of logits, (N, K) -> (N, K)."""
        predicted: Floats = self.calibrator_.predict_proba(self._in_order_of_classes(X))
        return predicted

    def _in_order_of_classes(self, X: Any) -> Any:
        """Logits of a data frame in the order of `classes_`, where its columns have their names; others as they are."""
        names, classes = names_of_columns(X), [str(name) for name in self.classes_]
        if names is None or not {*names} & {*classes}:
            return X
        return X.iloc[:, class_order(names, classes, "`X`", "`y`")].to_numpy()

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row, (N, K) -> (N,)."""
        probs = self.predict_proba(X)
        predicted: npt.NDArray[Any] = self.classes_[probs.argmax(axis=1)]
        return predicted


class CalibratedClassifier(MetaEstimatorMixin, LogitsClassifier):  # type: ignore[misc]
    """Classifier of scikit-learn with calibrated probabilities: any classifier, and a calibrator after it.

    As `CalibratedClassifierCV(ensemble=False)` does it: the calibrator is fitted on the scores that the classifier
    gives to examples which it was not trained on, each fold's by a copy trained on the other folds; then the classifier
    is trained on all of them. Scores are its `decision_function`, or else the logarithm of `predict_proba`. One that is
    trained already is kept by scikit-learn's `FrozenEstimator`.

    Args:
        estimator: The classifier; logistic regression if None. `fit` leaves it alone and trains copies.
        calibrator: A name of `calibench list calibrators`, or a calibrator; `fit` leaves it alone and fits a copy.
        cv: Number of stratified folds, or what else scikit-learn's `check_cv` takes.

    Attributes:
        estimator_: The trained classifier.
        calibrator_: The fitted calibrator.
        classes_: The classes, in the order of the columns.

    Examples:
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.naive_bayes import GaussianNB
        >>> import calibench
        >>> inputs, labels = load_breast_cancer(return_X_y=True)
        >>> plain = GaussianNB().fit(inputs[:300], labels[:300])
        >>> classifier = calibench.CalibratedClassifier(GaussianNB(), cv=3).fit(inputs[:300], labels[:300])
        >>> for model in (plain, classifier):
        ...     probs = model.predict_proba(inputs[300:])
        ...     print(round(calibench.metrics.smooth_calibration_error(probs, labels[300:]), 3))
        0.046
        0.024
    """

    @partial(explain_arguments, hints=_ARGUMENTS_OF_OTHERS)
    def __init__(
        self,
        estimator: Any = None,
        calibrator: str | Calibrator = "TemperatureScaling",
        cv: Any = 5,
    ) -> None:
        self.estimator = estimator
        self.calibrator = calibrator
        self.cv = cv

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Train the classifier and fit the calibrator.

        Args:
            X: Examples, as the classifier takes them.
            y: Their labels, (N,).
            **fit_params: Further arguments of the classifier's `fit`.

        Raises:
            ValueError: If there is no such calibrator, or the classifier has not one score for each class.
        """
        calibrator = _calibrator(self.calibrator)
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        estimator = self._estimator()
        method = _method(estimator)
        self.estimator_ = clone(estimator).fit(X, labels, **fit_params)
        self.classes_ = self.estimator_.classes_
        if len(self.classes_) < 2:
            raise ValueError("`y` must hold two classes or more, got one class.")
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        folds = check_cv(self.cv, labels, classifier=True)
        scores = cross_val_predict(
            estimator, X, labels, cv=folds, method=method, params=fit_params or None
        )
        target = np.searchsorted(self.classes_, labels)
        self.calibrator_ = calibrator.fit(self._logits(scores, method), target)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated probabilities, (N, K)."""
        check_is_fitted(self)
        method = _method(self.estimator_)
        return super().predict_proba(self._logits(getattr(self.estimator_, method)(X), method))

    def _estimator(self) -> Any:
        return LogisticRegression() if self.estimator is None else self.estimator

    def _logits(self, scores: Any, method: str) -> Floats:
        values = np.asarray(scores, dtype=np.float64)
        if method == "predict_proba":
            return np.log(np.maximum(values, _LEAST))
        if values.ndim == 1:
            values = np.stack([-values / 2, values / 2], axis=1)
        if values.shape[1] != len(self.classes_):
            raise ValueError(
                f"`estimator.decision_function` must have a column for each of the {len(self.classes_)} classes, got "
                f"{values.shape[1]} (`decision_function_shape='ovr'` of a support vector machine has)."
            )
        return values

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags  # 1.6, the first version that asks

        tags, inner = super().__sklearn_tags__(), get_tags(self._estimator())
        tags.input_tags = copy.copy(inner.input_tags)
        tags.classifier_tags = copy.copy(inner.classifier_tags)
        tags.classifier_tags.multi_label = False
        return tags


def _with_arguments(calibrator: Calibrator, changed: Mapping[str, Any]) -> Calibrator:
    """An unfitted calibrator of the same class with some other arguments."""
    arguments = calibrator.constructor_arguments
    for name in changed.keys() - arguments.keys():
        title = type(calibrator).__name__
        raise ValueError(f"{title} has no parameter `{name}`{near_matches(name, arguments)}")
    return type(calibrator)(**{**arguments, **changed})


def _method(estimator: Any) -> str:
    return "decision_function" if hasattr(estimator, "decision_function") else "predict_proba"


def _calibrator(name_or_calibrator: str | Calibrator) -> Calibrator:
    """A calibrator, unfitted, that can be fitted without changing what was given."""
    if isinstance(name_or_calibrator, Calibrator):
        return copy.deepcopy(name_or_calibrator)
    try:
        calibrator: Calibrator = getattr(calibrators, name_or_calibrator)()
    except AttributeError as error:
        raise ValueError(calibrators.CALIBRATORS.no_such(name_or_calibrator)) from error
    return calibrator
