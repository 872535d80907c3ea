"""What a sweep of heads on frozen features costs: 50,000 x 512 features of 10 classes, all calibrators.

    python benchmarks/speed/features.py [--losses cross_entropy focal] [--seeds 1 2] [--inside] [--write]

The features are those of a random layer of 512 units on ten Gaussians, 5,000 examples validate and 10,000 test. A part
of the sweep of 10 losses x 5 seeds is run, one run after the other in one process, as in a worker, and `posthoc` on
their logits; the whole is extrapolated from CPU seconds: what it would take on two cores that nobody else uses. With
--inside each run fits all calibrators, with the floor of each number and every calibrator cross-fitted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path

import rows
import torch
import yaml
from torch import nn

from calibench.calibrators import CALIBRATORS
from calibench.cli import main as calibench
from calibench.data import SyntheticGaussiansDataModule
from calibench.training.frozen_features import FeatureSource, write_features

RUNS, CORES = 50, 2
PER_CLASS = {"train_per_class": 5000, "val_per_class": 500, "test_per_class": 1000}


def made(folder: Path, per_class: dict[str, int], width: int) -> Path:
    """The features, and how long they took."""
    data = SyntheticGaussiansDataModule(num_gaussians=10, ood=(), **per_class)
    data.setup()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 10))
    started = time.process_time()
    write_features(FeatureSource(network, data, "a random layer"), folder / "probes")
    print(f"written in {time.process_time() - started:.1f} s of CPU time")
    blocks = [{"class_path": name} for name in CALIBRATORS.lines]
    overlay = {"evaluation": {"calibrators": blocks, "n_bins": [15]}}
    (folder / "all.yaml").write_text(yaml.safe_dump(overlay))
    return folder


def runs(folder: Path, losses: list[str], seeds: list[str], *, inside: bool) -> list[float]:
    """CPU seconds of each run, one after the other in this process, as in a worker of a sweep."""
    spent = []
    for loss, seed in product(losses, seeds):
        started = time.process_time()
        overlay = [str(folder / "all.yaml")] if inside else []
        files = [str(folder / "probes" / "probes.yaml"), *overlay, f"losses/{loss}"]
        given = [word for file in files for word in ("--config", file)]
        given += ["--seed", seed, "--trainer.default_root_dir", str(folder / "results")]
        quietly("fit", *given)
        spent.append(time.process_time() - started)
    return spent


def quietly(*words: str) -> None:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert calibench(list(words)) == 0


def afterwards(folder: Path) -> float:
    """CPU seconds of the post-hoc benchmark of all calibrators on the runs, a run, in this process."""
    started = time.process_time()
    quietly("posthoc", str(folder / "results"), "--jobs", "1", "-o", str(folder / "posthoc"))
    found = len([*folder.glob("results/**/status.json")])
    return (time.process_time() - started) / found


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", nargs="+", default=["cross_entropy", "focal"])
    parser.add_argument("--seeds", nargs="+", default=["1", "2"])
    parser.add_argument("--per-class", type=int, default=0, help="a smaller set, to try the script")
    parser.add_argument("--inside", action="store_true", help="fit all calibrators in each run")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--write", action="store_true", help="put the figures into README.md")
    options = parser.parse_args(given)
    per_class = {n: options.per_class or size for n, size in PER_CLASS.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = made(Path(name), per_class, options.width)
        first, *later = runs(folder, options.losses, options.seeds, inside=options.inside)
        each = statistics.median(later) + (0 if options.inside else afterwards(folder))
    how = (
        "calibrators in `fit`" if options.inside else "calibrators by `posthoc` on the saved logits"
    )
    minutes = RUNS * each / CORES / 60
    figure = (
        f"{each:.1f} CPU seconds a run with {how} (median of {len(later)} warm ones; `fit` of the first {first:.1f}): "
        f"{minutes:.1f} minutes for {RUNS} runs on {CORES} cores, extrapolated"
    )
    print(figure)
    if options.write:
        what = "10 losses x 5 seeds of a linear head on 50,000 x 512 features x 24 calibrators"
        what += ", fitted in each run with floors and cross-fitting" if options.inside else ""
        rows.write(what, figure, aim="15 minutes", page=rows.PAGE)


if __name__ == "__main__":
    main()
