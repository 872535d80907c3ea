"""The calibrated classifier as scikit-learn's own tools use it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from packaging import version
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

import calibench
from calibench import CalibratedClassifier, calibrators
from calibench.calibrators import TemperatureScaling, VectorScaling
from tests.examples import for_each

X, Y = make_classification(
    600, n_features=12, n_informative=6, n_redundant=6, n_classes=3, random_state=0
)
NAMES = np.array(["ant", "bee", "cat"])
TRAIN, TEST = slice(0, 400), slice(400, None)


@pytest.mark.parametrize(
    "estimator",
    [None, pytest.param(GaussianNB(), marks=pytest.mark.slow)],
    ids=["decision_function", "predict_proba"],
)
def test_scikit_learn_checks_it(estimator: Any) -> None:
    if version.parse(sklearn.__version__) < version.parse("1.6"):
        pytest.skip("scikit-learn 1.6 gives the results of its checks")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # calibration sets of a dozen examples, and a check that needs an option
        results = check_estimator(CalibratedClassifier(estimator, cv=2), on_fail=None)
    failed = [(one["check_name"], one["exception"]) for one in results if one["status"] == "failed"]
    assert failed == []
    assert sum(one["status"] == "passed" for one in results) > 40


def test_it_mends_what_naive_bayes_says() -> None:
    raw = GaussianNB().fit(X[TRAIN], NAMES[Y[TRAIN]])
    model = CalibratedClassifier(GaussianNB()).fit(X[TRAIN], NAMES[Y[TRAIN]])
    if version.parse(sklearn.__version__) < version.parse("1.8"):
        pytest.skip("scikit-learn 1.8 has temperature scaling")
    theirs = CalibratedClassifierCV(GaussianNB(), method="temperature", ensemble=False, cv=5)
    theirs.fit(X[TRAIN], NAMES[Y[TRAIN]])
    before, after, other = (
        log_loss(NAMES[Y[TEST]], one.predict_proba(X[TEST])) for one in (raw, model, theirs)
    )
    assert after < before
    assert after == pytest.approx(other, abs=0.01)  # temperature scaling, cross-validated alike
    assert (model.predict(X[TEST]) == raw.predict(X[TEST])).all()


@pytest.mark.slow
def test_it_works_inside_and_around_their_tools() -> None:
    pipeline = make_pipeline(StandardScaler(), CalibratedClassifier(LogisticRegression(), cv=3))
    probs = cross_val_predict(pipeline, X, Y, cv=3, method="predict_proba")
    assert log_loss(Y, probs) < log_loss(Y, np.full((600, 3), 1 / 3))
    search = GridSearchCV(
        CalibratedClassifier(LogisticRegression(), cv=2),
        {"estimator__C": [0.01, 1.0], "calibrator": ["TemperatureScaling", "VectorScaling"]},
        scoring="neg_log_loss",
        cv=2,
    ).fit(X, Y)
    assert set(search.best_params_) == {"estimator__C", "calibrator"}
    around = CalibratedClassifier(make_pipeline(StandardScaler(), SVC(kernel="rbf")), cv=2).fit(
        X, Y
    )
    assert around.predict_proba(X[:2]).shape == (2, 3)


def test_what_is_trained_already_is_kept() -> None:
    frozen = pytest.importorskip("sklearn.frozen", reason="scikit-learn 1.6 has it")
    trained = GaussianNB().fit(X[:200], Y[:200])
    model = CalibratedClassifier(frozen.FrozenEstimator(trained), cv=2).fit(X[200:400], Y[200:400])
    expected = TemperatureScaling().fit(
        np.log(trained.predict_proba(X[200:400]).clip(1e-12)), Y[200:400]
    )
    assert float(model.calibrator_.temperature) == pytest.approx(float(expected.temperature))


def test_what_is_given_is_left_alone_and_named_in_errors() -> None:
    given = VectorScaling()
    model = CalibratedClassifier(calibrator=given, cv=2).fit(X, Y)
    assert not given.fitted
    assert clone(model).calibrator is not given
    assert "vector" not in repr(model)
    with pytest.raises(ValueError, match="did you mean TemperatureScaling"):
        CalibratedClassifier(calibrator="TemperaturScaling").fit(X, Y)
    four = np.arange(600) % 4
    with pytest.raises(ValueError, match="must have a column for each of the 4 classes, got 6"):
        CalibratedClassifier(SVC(decision_function_shape="ovo"), cv=2).fit(X, four)


def test_a_search_goes_over_the_calibrator_s_parameters() -> None:
    random = np.random.default_rng(0)
    logits = 3 * random.normal(size=(300, 3))
    labels = (logits + random.gumbel(size=logits.shape)).argmax(1)
    classifier = calibench.as_estimator(calibrators.HistogramBinning())
    assert classifier.get_params()["calibrator__n_bins"] == 15
    grid = {"calibrator__n_bins": [2, 10], "calibrator__mode": ["equal_mass"]}
    search = GridSearchCV(classifier, grid, scoring="neg_log_loss", cv=2).fit(logits, labels)
    best = search.best_estimator_.calibrator_
    assert (best.n_bins, best.mode) == (search.best_params_["calibrator__n_bins"], "equal_mass")
    assert classifier.calibrator.n_bins == 15
    with pytest.raises(ValueError, match=r"no parameter `n_bin`.*n_bins"):
        classifier.set_params(calibrator__n_bin=3)
    named = calibench.CalibratedClassifier(calibrator="BetaCalibration")
    assert named.set_params(calibrator__parameters="am").calibrator.family == "am"


@for_each(calibrators.CALIBRATORS.lines)
def test_every_calibrator_says_its_arguments(name: str) -> None:
    calibrator = getattr(calibrators, name)()
    rebuilt = type(calibrator)(**calibrator.constructor_arguments)
    assert rebuilt.constructor_arguments.keys() == calibrator.constructor_arguments.keys()
