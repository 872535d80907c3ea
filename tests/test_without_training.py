"""What reads logits and results works without Lightning, timm, torchvision and datasets (and so without torchmetrics)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calibench.configuration.files import benchmarks_folder
from tests.examples import sampled
from tests.run_folders import write_predictions, write_run
from tests.warm import run_code

pytestmark = pytest.mark.processes

READING = ("evaluate", "leaderboard")

OF_TRAINING = ("lightning", "timm", "torchvision", "datasets", "torchmetrics")
BLOCKED = f"""
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OF_TRAINING}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
from calibench.cli import main
from calibench.metrics.bins import ErrorOfCells
from calibench.metrics.smoothing import SmoothError

ErrorOfCells.draws = SmoothError.draws = 9  # tests.few_draws needs what is blocked
for line in sys.stdin:
    code = main(line.split())
    print("ended", line.split()[0], code, flush=True)
"""


@pytest.mark.parametrize(
    "verbs",
    sampled([READING, (*READING, "doctor", "posthoc", "report")], [READING]),
    ids=["reading", "all"],
)
def test_verbs_of_logits_and_results_need_no_library_of_training(
    verbs: tuple[str, ...], tmp_path: Path
) -> None:
    if verbs == READING:  # of little
        for loss in ("BrierLoss", "CrossEntropyLoss"):
            run = write_run(tmp_path / "results", loss=loss)
            write_predictions(run, n=40, classes=3)
        results = tmp_path / "results"
    else:
        run = next(benchmarks_folder().glob("store/digits_lt/SmallCNN/BrierLoss/*/seed=1"))
        results = run.parents[2]  # of a network: ten losses
    lines = {
        "evaluate": f"{run} --calibrators TemperatureScaling --bootstrap 5",
        "leaderboard": f"{results}",
        "doctor": f"{run}",
        "posthoc": f"{run} --calibrators TemperatureScaling --jobs 1 -o {tmp_path / 'posthoc'}",
        "report": f"{results} -o {tmp_path / 'report.html'}",
    }
    typed = "\n".join(f"{verb} {lines[verb]}" for verb in verbs)
    if verbs == READING:
        done = run_code(BLOCKED, forget=OF_TRAINING, typed=typed)
    else:
        command = [sys.executable, "-c", BLOCKED]
        done = subprocess.run(command, input=typed, capture_output=True, text=True)
    ended = [line for line in done.stdout.splitlines() if line.startswith("ended")]
    assert ended == [f"ended {verb} 0" for verb in verbs], done.stdout + done.stderr
    if "report" in verbs:
        assert (tmp_path / "report.html").stat().st_size > 100_000
        assert (tmp_path / "posthoc/results.csv").is_file()
