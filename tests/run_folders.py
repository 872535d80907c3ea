"""Writes run folders as training does, with any numbers: for tests of what reads them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibench.runs import FORMAT, Predictions, write_json

METRICS = ("error", "nll", "brier", "ece", "adaptive_ece", "classwise_ece", "smooth_ece")
BINNED = ("ece", "adaptive_ece", "classwise_ece")
CALIBRATORS = ("raw", "TemperatureScaling", "AdaptiveTemperatureScaling")


def settings_of(loss: str, **init_args: Any) -> dict[str, Any]:
    arguments = {f"model.loss.init_args.{name}": value for name, value in init_args.items()}
    return {
        "data.class_path": "DigitsDataModule",
        "data.init_args.imbalance_factor": 10.0,
        "model.loss.class_path": loss,
        "trainer.max_epochs": 30,
        **arguments,
    }


def key_of(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:10]


def metric_rows(
    values: Mapping[str, float], *, split: str = "test", n_bins: Sequence[int] = (15, 20)
) -> list[dict[str, Any]]:
    """Rows of every metric after every calibrator; `values` gives some of them, the rest follow."""
    rows = []
    for calibrator in CALIBRATORS:
        for metric in METRICS:
            value = values.get(f"{metric}@{calibrator}", values.get(metric, 0.1))
            row = {"split": split, "calibrator": calibrator, "metric": metric, "value": value}
            bins = n_bins if metric in BINNED else ()
            rows += [{**row, "n_bins": number} for number in bins] or [row]
    return rows


def set_rows(values: Mapping[str, float]) -> list[dict[str, Any]]:
    """OOD rows of the sets in `values`, scores entropy and msp (a little worse)."""
    return [
        {"split": name, "calibrator": calibrator, "metric": "ood_auroc", "score": score, "value": v}
        for name, value in values.items()
        for calibrator in CALIBRATORS
        for score, v in (("entropy", value), ("msp", value - 0.01))
    ]


def write_run(
    root: Path,
    *,
    loss: str = "CrossEntropyLoss",
    seed: int = 1,
    benchmark: str = "digits_lt",
    backbone: str = "SmallCNN",
    settings: Mapping[str, Any] | None = None,
    values: Mapping[str, float] | None = None,
    sets: Mapping[str, float] | None = None,
    n_bins: Sequence[int] = (15, 20),
    status: str = "done",
    reason: str | None = None,
    seconds: float = 2.5,
    rows: Iterable[dict[str, Any]] = (),
    changes: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Path:
    """Write one run folder; `changes` replaces keys of metrics.json. Returns the folder."""
    settings = settings_of(loss) if settings is None else settings
    key = key_of(settings)
    folder = root / benchmark / backbone / loss / key / f"seed={seed}"
    write_json(folder / "status.json", {"status": status, "reason": reason, "pid": 1, "host": "h"})
    if status != "done":
        return folder
    sets = {"noise": 0.9, "photos": 0.8} if sets is None else sets
    content = {
        "format": FORMAT, "benchmark": benchmark, "backbone": backbone, "loss": loss, "key": key,
        "seed": seed,
        "settings": dict(settings), "fingerprint": "f00d", "caveats": [], "fast_dev_run": False,
        "unavailable": {}, "calibrators": {"TemperatureScaling": {"temperature": 1.3, "uniform_share": 0.01}},
        "rows": [*metric_rows(values or {}, n_bins=n_bins), *set_rows(sets), *rows],
    }  # fmt: skip
    environment = {
        "wall_seconds": seconds,
        "seconds_per_epoch": seconds / 30,
        "peak_memory_mb": 123.0,
    }
    environment |= {"versions": versions or {"torch": "2"}, "device": "cpu"}
    write_json(folder / "environment.json", environment, sealed=True)
    write_json(folder / "metrics.json", {**content, **(changes or {})}, sealed=True)
    return folder


def write_predictions(folder: Path, *, n: int = 200, classes: int = 5, scale: float = 2.0) -> None:
    """Logits of val, test and two OOD sets, from the folder's own random numbers."""
    random = np.random.default_rng(zlib.crc32(folder.name.encode()))  # one test set per seed
    noise = np.random.default_rng(zlib.crc32("/".join(folder.parts[-5:]).encode()))
    for split, kind in (("val", "val"), ("test", "test"), ("noise", "ood"), ("photos", "ood")):
        target = random.integers(classes, size=n)
        truth = np.eye(classes)[target] * (2.0 if kind in ("val", "test") else 0.0)
        logits = scale * (truth + noise.normal(size=(n, classes)))
        names = [f"class {k}" for k in range(classes)]
        metadata = {
            "split": split,
            "kind": kind,
            "class_names": names,
            "class_counts": [9] * classes,
        }
        Predictions(logits.astype("f4"), target, metadata).save(
            folder / "predictions" / f"{split}.npz"
        )
