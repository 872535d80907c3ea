"""Mistaken calls in Python: an error in one line, with what to write instead."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import calibench
from calibench.calibrators import TemperatureScaling
from calibench.diagnosis.diagnosis import Diagnosis
from calibench.losses import CrossEntropyLoss, FocalLoss
from calibench.metrics import CalibrationError
from calibench.verbs.fit import FittedRun

LOGITS, TARGET = (
    torch.randn(60, 3, generator=torch.Generator().manual_seed(0)),
    torch.arange(60) % 3,
)
NETWORK = torch.nn.Linear(64, 10)


class Classifier:
    """Has the method of scikit-learn's classifiers."""

    def predict_proba(self, inputs: Any) -> Any:
        return inputs


class Output(dict[str, Any]):
    """Has logits as a key and as an attribute, as outputs of transformers have them."""

    @property
    def logits(self) -> Any:
        return self["logits"]


@cache
def diagnosis() -> Diagnosis:
    return calibench.doctor(LOGITS, TARGET)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: FocalLoss(gamma=2, reduction="none"), "`calibench.losses.focal_loss(logits, target, gamma=3)`"),
        (lambda: FocalLoss(gamma=2, alpha=0.25), "FocalLoss has no argument `alpha`; it takes `gamma`"),
        (lambda: CrossEntropyLoss(weight=torch.ones(3)), "CrossEntropyLoss has no argument `weight`: `ClassBalanced"),
        (lambda: CrossEntropyLoss(label_smoothing=0.1), "`LabelSmoothingLoss(smoothing=0.1)`"),
        (lambda: CrossEntropyLoss(gama=1), "CrossEntropyLoss has no argument `gama`; it takes no argument"),
        (lambda: TemperatureScaling().fit(NETWORK, [LOGITS]), "`calibrator.fit(*calibench.collect(model, loader))`"),
        (lambda: CalibrationError().result(), "`metric.compute()` gives the value"),
        (lambda: CalibrationError().update_state(LOGITS, TARGET), "`metric.update(preds, target)`"),
        (lambda: calibench.leaderboard("shipped/digits_lt").to_pandas(), "`leaderboard.frame()` is a data frame"),
        (lambda: calibench.leaderboard("shipped/digits_lt", metric="ece"), "did you mean metrics?"),
        (lambda: calibench.leaderboard("shipped/digits_lt", sort_by="nll"), "did you mean rank_by?"),
        (lambda: calibench.leaderboard([LOGITS, LOGITS]), '`calibench.leaderboard({"a": (logits, labels), "b"'),  # type: ignore[list-item]
        (lambda: TemperatureScaling()(LOGITS, TARGET), "`calibrator.fit(logits, target)` fits it"),
        (lambda: calibench.evaluate(LOGITS, TARGET).metrics["ece"], '`report["ece"]` is a value'),
        (lambda: calibench.evaluate(LOGITS, TARGET)["expected_calibration_error"], "did you mean ece?"),
        (lambda: calibench.evaluate(LOGITS, TARGET)["calibration_error"], "did you mean ece?"),
        (lambda: calibench.evaluate(LOGITS, TARGET).ece_, '`report["ece"]` is its value'),
        (lambda: calibench.doctor(LOGITS, TARGET).temperature, "`diagnosis.calibrator.choice` is the chosen calibrator"),
        (lambda: calibench.diagnose(LOGITS, TARGET), "`calibench.doctor(logits, labels)`"),
        (lambda: calibench.list_metrics(), "`dir(calibench.metrics)`"),
        (lambda: exec("from calibench import TemperatureScaling"), "did you mean calibench.calibrators.TemperatureScaling?"),
        (lambda: exec("from calibench.calibrators import IsotonicRegression"), "did you mean IsotonicCalibration?"),
        (lambda: exec("from calibench.metrics import expected_calibration_error"), "did you mean calibration_error"),
        (lambda: calibench.evaluate(LOGITS, TARGET).ece_score, '`report["ece"]` is its value'),
        (lambda: calibench.evaluate(confidence=LOGITS, correct=TARGET), '`{"confidence": confidences, "correct": hits}`'),
        (lambda: calibench.report(LOGITS, TARGET), "`calibench.evaluate(logits, labels, output='report.html')`"),
        (lambda: calibench.fit(config="digits_lt"), "did you mean benchmark"),
        (lambda: calibench.load_results("results"), '`calibench.leaderboard("results").frame()` is a data frame'),
        (lambda: calibench.plot_calibration(LOGITS, TARGET), "`calibench.reliability(logits, labels)`"),
        (lambda: calibench.leaderboard("a", "b"), "several go in a list, `calibench.leaderboard(['a', 'b'])`"),
        (lambda: calibench.sweep("digits_lt", dry_run=True), "`calibench help sweep`"),
        (lambda: calibench.sweep("digits_lt", num_seeds=3), "`seeds=[1, 2, 3]` are three seeds"),
        (lambda: calibench.fit("digits", NETWORK), "`calibench.fit(benchmark, loss=..., network=...)`"),
        (lambda: calibench.fit(NETWORK), "`calibench.fit(benchmark, network=...)`"),
        (lambda: calibench.evaluate(labels=TARGET, y_prob=LOGITS), "did you mean predictions?"),
        (lambda: TemperatureScaling().transform(LOGITS), "`calibrator(logits)` gives calibrated probabilities"),
        (lambda: TemperatureScaling().fit_transform(LOGITS, TARGET), "`calibrator.fit(logits, target)` fits it"),
        (lambda: TemperatureScaling().predict(LOGITS), "`.argmax(1)` is the class"),
        (lambda: calibench.load_calibrator("cal.pkl"), '`calibench.save_calibrator(calibrator, "cal.pt")`'),
        (lambda: calibench.doctor(LOGITS, TARGET, val_logits=LOGITS), "`val=(logits, labels)`"),
        (lambda: calibench.as_estimator("TemperatureScaling"), "calibench.calibrators.TemperatureScaling()"),
        (lambda: calibench.data.CIFAR10DataModule(data_dir="data"), "`root=FOLDER` is the folder of the data sets"),
        (lambda: calibench.data.CIFAR10DataModule(batchsize=3), "did you mean batch_size?"),
        (lambda: calibench.reliability(LOGITS, TARGET, save="r.png"), '.figure.savefig("reliability.png")'),
        (
            lambda: calibench.save_calibrator("cal.pt", TemperatureScaling().fit(LOGITS, TARGET)),
            '`save_calibrator(calibrator, "cal.pt")`',
        ),
        (lambda: calibench.ece, "did you mean calibench.metrics.calibration_error"),
        (lambda: calibench.metrics.expected_calibration_error, "did you mean calibration_error"),
        (lambda: calibench.metrics.log_loss, "did you mean negative_log_likelihood"),
        (lambda: calibench.metrics.MulticlassCalibrationError, "did you mean CalibrationError"),
        (lambda: calibench.metrics.functional, "`calibench.metrics.calibration_error(preds, target)`"),
        (lambda: calibench.calibration_curve, "`calibench.reliability(logits, labels)` draws the diagram"),
        (lambda: calibench.Trainer, '`calibench.fit("digits_lt")` trains a run'),
        (lambda: calibench.losses.DiceLoss, "'DiceLoss' (see `calibench list losses`)"),
        (lambda: calibench.calibrators.TempScaling, "did you mean TemperatureScaling"),
        (lambda: calibench.backbones.ResNet18, '`calibench.backbones.TimmBackbone(name="resnet18", num_classes=10)`'),
        (lambda: TemperatureScaling.load("cal.pt"), "`calibench.load_calibrator(path)` reads one"),
        (lambda: TemperatureScaling().fit(LOGITS, TARGET).T, "`calibrator.temperature` is T"),
        (lambda: TemperatureScaling().fit(TARGET.numpy(), LOGITS), "class indices are `target`, the second argument"),
        (lambda: calibench.losses.focal_loss(LOGITS, TARGET, 2.0), "`focal_loss(logits, target, gamma=2.0)`"),
        (lambda: FocalLoss(gamma=2, num_classes=3), "leave it out, the logits say how many classes there are"),
        (lambda: diagnosis()["ece"], "`diagnosis.ece.value`"),
        (lambda: calibench.evaluate(LOGITS, TARGET).ece, '`report["ece"]` is its value'),
        (lambda: calibench.evaluate(LOGITS, TARGET)["accuracy"], '`1 - report["error"]` is the accuracy'),
        (lambda: calibench.metrics.calibration_error(LOGITS.softmax(1), TARGET, bins=10), "did you mean n_bins?"),
        (lambda: calibench.metrics.calibration_error(-LOGITS.abs(), TARGET), "Logits need `.softmax(1)` first"),
        (lambda: calibench.metrics.brier_score(LOGITS.softmax(1), torch.eye(3)[TARGET]), "`target.argmax(1)`"),
        (lambda: calibench.calibrators.fit, "`calibench.calibrate(logits, labels)` fits one"),
        (lambda: calibench.load("shipped/digits_lt/SmallCNN/FocalLoss/seed=1")["test"].y_true, "`predictions.target`"),
        (lambda: calibench.load("shipped/digits_lt/SmallCNN/FocalLoss/seed=1")["test"]["logits"], "`predictions.logits`"),
        (lambda: TemperatureScaling().plot(), "`calibench.reliability(calibrator(logits), labels)`"),
        (lambda: calibench.CalibratedClassifier(method="isotonic"), '`calibrator="IsotonicCalibration"`'),
        (lambda: calibench.CalibratedClassifier().calibrators_, "`classifier.calibrator_` is the fitted calibrator"),
        (lambda: calibench.evaluate(LOGITS, y_pred=TARGET), "did you mean labels?"),
        (lambda: calibench.evaluate("p.csv", outcome="died"), '`keys="target=died"` names the array or column'),
        (lambda: calibench.evaluate(LOGITS, TARGET, verbose=True), "has no argument `verbose`: leave it out"),
        (lambda: calibench.evaluate(LOGITS, TARGET, qqq=1), "; it takes predictions, labels, val"),
        (lambda: calibench.calibrate(LOGITS, TARGET, "platt"), 'calibrate(logits, labels, calibrator="platt")`'),
        (lambda: calibench.evaluate(Classifier(), LOGITS), "`calibench.evaluate(model.predict_proba(X), y)`"),
        (lambda: calibench.evaluate(Output(logits=LOGITS), TARGET), "`calibench.evaluate(output.logits, labels)`"),
        (lambda: calibench.fit(LOGITS, network=NETWORK), "`calibench.CalibratedClassifier(estimator).fit(X, y)`"),
        (lambda: CalibrationError(15), "CalibrationError takes its arguments by their names: CalibrationError(n_bins=15)"),
        (lambda: TemperatureScaling(LOGITS, TARGET), "`calibench.calibrators.TemperatureScaling().fit(logits, labels)`"),
        (lambda: CalibrationError(LOGITS, TARGET), "`calibench.metrics.CalibrationError()(preds, target)`"),
        (lambda: calibench.temperature_scale, "did you mean calibench.calibrators.TemperatureScaling?"),
        (lambda: calibench.evaluate(LOGITS, TARGET, val=0.2), "`calibench.doctor(logits, labels)` cross-validates"),
        (lambda: calibench.evaluate(NETWORK.state_dict(), TARGET), "`calibench.evaluate(network, loader)` runs it"),
        (lambda: calibench.evaluate("p.csv", target="label"), '`keys="target=label"` names the column of the labels'),
        (lambda: calibench.evaluate(LOGITS, TARGET, class_names=["a"]), "`classes=[...]` names the columns"),
        (lambda: calibench.fit("digits_lt", verbose=False), "did you mean progress?"),
        (lambda: calibench.calibrate(LOGITS, TARGET, n_bins=9), "arguments of a calibrator belong to it"),
        (lambda: calibench.evaluate(LOGITS, TARGET).items(), '`report["ece"]` is a value, and `report.frame()`'),
        (lambda: calibench.unlike_anything, "; there are CalibratedClassifier, Calibration, as_estimator"),
        (lambda: calibench.evaluate(LOGITS, TARGET).zzz, "has no attribute 'zzz'; there are bootstrap, calibration"),
        (lambda: diagnosis().zzz, "has no attribute 'zzz'; there are"),
        (lambda: calibench.leaderboard("shipped/digits_lt")["FocalLoss"], '`leaderboard.value(LOSS, "nll")`'),
        (lambda: FittedRun(Path()).history, '`pandas.read_csv(run.folder / "metrics.csv")`'),
    ],
)  # fmt: skip
def test_the_error_says_what_to_write(
    call: Any, remedy: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cal.pkl").write_bytes(b"\x80\x04")
    with pytest.raises((ImportError, TypeError, ValueError, AttributeError, KeyError)) as raised:
        call()
    assert remedy in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_the_errors_say_works() -> None:
    losses = calibench.losses.focal_loss(LOGITS, TARGET, gamma=3)
    assert losses.shape == (60,)
    calibrator = TemperatureScaling().fit(LOGITS, TARGET)
    assert calibrator(LOGITS).argmax(1).shape == (60,)
    assert calibench.losses.LabelSmoothingLoss(smoothing=0.1)(LOGITS, TARGET) > 0
    loader = [(LOGITS[:30], TARGET[:30]), (LOGITS[30:], TARGET[30:])]
    collected = calibench.collect(torch.nn.Identity(), loader, progress=False)
    assert TemperatureScaling().fit(*collected).fitted
    assert len(calibench.leaderboard("shipped/digits_lt", metrics=["ece"], rank_by="nll").frame())
    report = calibench.evaluate(LOGITS, TARGET)
    assert report["ece"] == report.value("ece")
    assert 0 <= 1 - report["error"] <= 1
    assert float(diagnosis().ece) == pytest.approx(report["ece"])
    assert calibench.backbones.TimmBackbone(name="resnet18", num_classes=10).num_classes == 10
