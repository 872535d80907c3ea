"""A user's script, which calls each public function with what it takes: a type checker finds nothing wrong in it."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import calibench
from calibench.calibrators import VectorScaling
from calibench.losses import FocalLoss

random = np.random.default_rng(0)
logits, labels = random.normal(size=(200, 3)), random.integers(0, 3, 200)
val = random.normal(size=(100, 3)), random.integers(0, 3, 100)

# arrays, tensors, data frames, lists, files
report = calibench.evaluate(
    logits, labels, val=val, calibrators=["TS", VectorScaling()], bootstrap=100
)
ece: float = report.value("ECE", calibrator="TS")
frame: pd.DataFrame = report.frame()
calibench.evaluate(torch.tensor(logits), torch.tensor(labels), ood={"far": val[0]})
calibench.evaluate(pd.DataFrame(logits), pd.Series(labels), metrics="KuiperCalibrationError")
calibench.evaluate(logits.tolist(), labels.tolist(), scores="logits", n_bins=[10])
if Path("test.npz").exists():
    calibench.evaluate("test.npz", val="val.npz", output=Path("report.md"))
    calibench.evaluate(["a/test.npz", "b/test.npz"], val=["a/val.npz", "b/val.npz"])
    predictions = calibench.load("test.npz")

# a verdict, a calibrator, a picture
diagnosis = calibench.doctor(logits, labels, val=val, calibrators="TS")
print(diagnosis.lines[0])
scaling = calibench.calibrate(*val, calibrator="VectorScaling")
calibench.save_calibrator(scaling, Path("scaling.pt"))
probs = calibench.load_calibrator("scaling.pt").predict_proba(logits)
axes = calibench.reliability(probs, labels, scores="probs", title="after vector scaling")

# a network and a loader
inputs, target = torch.randn(40, 8), torch.randint(0, 3, (40,))
loader = DataLoader(TensorDataset(inputs, target), batch_size=20)
model = nn.Linear(8, 3)
collected = calibench.collect(model, loader)
calibench.evaluate(model, loader, val=loader if ece < 0 else None)
calibench.doctor(*collected, calibrators=["TS"], jobs=1)


def train() -> None:
    """Train, and rank what was trained."""
    run = calibench.fit("digits_lt", loss=FocalLoss(gamma=3), seed=1, epochs=1)
    error: float = run.metrics["error"]
    print(error, run.predictions["test"].logits.shape, run.folder)
    calibench.fit(
        "digits_lt", network=nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), loss="BrierLoss"
    )
    calibench.fit(data=(loader, loader, loader), num_classes=3, network=model, epochs=1)
    board = calibench.sweep("digits_lt", losses=["focal", FocalLoss(gamma=5)], seeds=[1, 2], jobs=2)
    print(board.value("FocalLoss", "nll@TS"))
    calibench.leaderboard("results", metrics=["nll", "ece@best"]).frame()
    calibench.report("results", "report.html")
