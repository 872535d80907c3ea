"""What `calibench.load` gives is what the other functions take."""

from __future__ import annotations

import pytest

import calibench
from calibench.store import StoreError


def test_loaded_predictions_go_into_every_function() -> None:
    sets = calibench.load("digits_lt/SmallCNN/FocalLoss/seed=1")
    assert isinstance(sets, dict)
    val, test = sets["val"], sets["test"]
    report = calibench.evaluate(test, val=val, calibrators=["TS"], bootstrap=0)
    arrays = calibench.evaluate(
        test.logits, test.target, val=(val.logits, val.target), calibrators=["TS"], bootstrap=0
    )
    for calibrator in ("raw", "TS"):
        number = report.value("NLL", calibrator=calibrator)
        assert number == arrays.value("NLL", calibrator=calibrator)
    scaling = calibench.calibrate(val)
    assert scaling.predict_proba(test.logits).shape == test.logits.shape
    assert "underconfident" in str(calibench.doctor(test, calibrators="TS"))
    assert calibench.reliability(test).get_ylabel() == "accuracy"
    with pytest.raises(ValueError, match="already contains labels"):
        calibench.evaluate(test, test.target)
    with pytest.raises(ValueError, match=r"test set.*cannot be `val`"):
        calibench.evaluate(test, val=test)


def test_a_run_has_the_same_names_in_every_function() -> None:
    name = "digits_lt/SmallCNN/FocalLoss/seed=1"
    sets = calibench.load(name)
    assert isinstance(sets, dict)
    for store in ("shipped/", "store/"):
        loaded = calibench.load(f"{store}{name}")
        assert isinstance(loaded, dict)
        assert (loaded["test"].logits == sets["test"].logits).all()
    verdict = str(calibench.doctor(f"shipped/{name}", calibrators="TS"))
    assert str(calibench.doctor(name, calibrators="TS")) == verdict
    assert calibench.reliability(f"shipped/{name}").get_ylabel() == "accuracy"
    with pytest.raises(StoreError, match="did you mean digits_lt/SmallCNN/FocalLoss/seed=1"):
        calibench.doctor("digits_lt/SmallCNN/FocalLos/seed=1")
    with pytest.raises(FileNotFoundError, match="no run nothing: "):
        calibench.load("nothing")
