"""An anchor for the benchmarks of tables: gradient-boosted trees (scikit-learn, its defaults) on the same splits.

Command:  python benchmarks/anchors/boosted_trees.py breast_cancer --seeds 1..5
          (or wine, av1451, a file like own_table.yaml)

Writes `<output>/<benchmark>/seed=<k>/val.npz` and `test.npz`, which `calibench evaluate` and `calibench doctor` read,
and prints means and deviations of the numbers that `calibench evaluate` gives of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import calibench
from calibench import data
from calibench.sweeps.losses_and_seeds import parse_seeds
from calibench.verbs.fit import configuration_of

TEMPERED = "TemperatureScaling"
COLUMNS = (
    ("error", "raw"), ("nll", "raw"), ("nll", TEMPERED), ("brier", "raw"), ("ece", "raw"), ("ece", TEMPERED),
)  # fmt: skip


def splits_of(benchmark: str, seed: int) -> data.Splits:
    """The splits of a benchmark, by the seed."""
    block = configuration_of(["--config", benchmark])["data"]
    module = getattr(data, block["class_path"])(**block["init_args"] | {"split_seed": seed})
    module.setup()
    return module.splits


def predict(splits: data.Splits, folder: Path) -> dict[str, np.ndarray]:
    """Fit on the training rows; probabilities of validation and test rows, written to the folder."""
    train = splits.train
    model = HistGradientBoostingClassifier(random_state=0).fit(train.inputs, train.target)
    folder.mkdir(parents=True, exist_ok=True)
    probs = {}
    for name, part in (("val", splits.val), ("test", splits.test)):
        probs[name] = model.predict_proba(part.inputs.numpy())
        np.savez(folder / f"{name}.npz", probs=probs[name], target=part.target)
    return probs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("benchmark")
    parser.add_argument("--seeds", default="1..5", help="one split each (default: 1..5)")
    parser.add_argument("--output", type=Path, default=Path("boosted_trees"))
    options = parser.parse_args()
    values = []
    for seed in parse_seeds(options.seeds):
        splits = splits_of(options.benchmark, seed)
        folder = options.output / Path(options.benchmark).stem / f"seed={seed}"
        probs = predict(splits, folder)
        report = calibench.evaluate(
            probs["test"], splits.test.target, val=(probs["val"], splits.val.target),
            scores="probs", calibrators=[TEMPERED],
        )  # fmt: skip
        values.append([report.value(metric, calibrator=name) for metric, name in COLUMNS])
    found = np.array(values)
    print(f"{options.benchmark}: HistGradientBoostingClassifier, {len(found)} seeds")
    for (metric, name), column in zip(COLUMNS, found.T, strict=True):
        spread = f" ± {column.std(ddof=1):.4f}" if len(column) > 1 else ""
        print(f"{metric:6} {name:18} {column.mean():.4f}{spread}")
    print(
        f"one seed, with intervals: calibench evaluate --val {folder}/val.npz --test {folder}/test.npz"
    )


if __name__ == "__main__":
    main()
