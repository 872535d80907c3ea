"""What `fit` adds to a bare loop of the speedrun's network, and where the seconds of a run go.

Commands:

    python benchmarks/speed/speedrun.py --protocols speedrun speedrun_small
    python benchmarks/speed/speedrun.py --seeds 1 2 3

The bare loop and `fit` run in a process each, on one thread. Seconds are CPU time, which other load on the machine
raises least; imports do not count. The bare loop has the same network, images, augmentation, optimiser, schedule and
precision, and none of Lightning, Lookahead, checkpoints, validation and calibrators; it ends with one pass over the
test images. So most of what `fit` adds are passes over the validation images, one an epoch and one at the end: a run
of fewer epochs, or of fewer images (`--data.train_fraction 0.2`), has a larger share than the protocol's, which
follows from the parts of both. CIFAR-10 lies below CALIBENCH_DATA; any key of a configuration may follow. The aims: at
most 10 % over the bare loop, 92.5 % test accuracy at full width (mean of three seeds), every second of a run accounted
for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from lightning.pytorch.profilers import Profiler
from torch import Tensor
from training import instructions

from calibench.parallel.processes import cores
from calibench.runs import read_json
from calibench.training.experiment import Experiment
from calibench.training.fit import fit
from calibench.verbs.fit import configuration_of

# What a part of a run is made of, by what Lightning's profiler calls it; the first that fits counts.
PARTS = {
    "data": ("train_dataloader_next",),
    "steps": ("run_training_batch",),
    "writing": ("Checkpoint", "save_checkpoint", "TrainingCurve"),
    "evaluation": ("val", "test"),
}


_ALL = "run_training_epoch"  # which all of them are within


class CPUSeconds(Profiler):
    """Sums up the CPU seconds of a run's parts; what is within another one counts there."""

    totals: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self._open: list[float] = []

    def start(self, action_name: str) -> None:
        if action_name != _ALL:
            self._open.append(time.process_time())

    def stop(self, action_name: str) -> None:
        if action_name == _ALL:
            return
        begun = self._open.pop()
        if not self._open:
            fitting = (
                part for part, names in PARTS.items() if any(n in action_name for n in names)
            )
            self.totals[next(fitting, "hooks")] += time.process_time() - begun


def by_fit(arguments: Sequence[str]) -> dict[str, Any]:
    """CPU seconds of `fit`, in all and by part, and the test accuracy."""
    import speedrun  # this file, as the trainer imports it

    config = configuration_of([*arguments, "--trainer.profiler", "speedrun.CPUSeconds"])
    begun = time.process_time()
    _, run = fit(config)
    seconds = time.process_time() - begun
    parts = dict(speedrun.CPUSeconds.totals)
    rest = seconds - sum(parts.values())
    rows = read_json(run.folder / "metrics.json")["rows"]
    (error,) = (
        row["value"]
        for row in rows
        if (row["split"], row["calibrator"], row["metric"]) == ("test", "raw", "error")
    )
    return {
        "seconds": seconds,
        "parts": parts | {"set-up, calibrators and the rest": rest},
        "accuracy": 1 - error,
    }


def bare(arguments: Sequence[str]) -> dict[str, Any]:
    """CPU seconds of a loop without a trainer, in all and by part, and its test accuracy."""
    experiment = Experiment(configuration_of(arguments))
    torch.manual_seed(experiment.config.seed_everything)
    experiment.build()
    data, module = experiment.datamodule, experiment.model
    network, precision = module.backbone.train(), experiment.trainer.precision
    begun = time.process_time()
    data.setup()
    network.on_training_inputs(data.training_inputs())
    epochs = experiment.config.trainer.max_epochs
    optimizer = module.parameter_groups.optimizer(module.optimizer, network)
    scheduler = module.step_scheduler(optimizer, epochs * data.training_batches)
    loader = data.train_dataloader()
    ready = time.process_time()
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16-mixed"):
                logits = network(batch.inputs)
            optimizer.zero_grad()
            F.cross_entropy(logits.float(), batch.target, reduction="sum").backward()
            optimizer.step()
            scheduler.step()
    trained = time.process_time()
    network.eval()
    hits = [right(network(batch.inputs), batch.target) for batch in data.test_dataloader()[0]]
    done = time.process_time()
    parts = {"data and steps": trained - ready, "test": done - trained, "set-up": ready - begun}
    accuracy = float(torch.cat(hits).float().mean())
    return {"seconds": done - begun, "parts": parts, "accuracy": accuracy}


@torch.no_grad()
def right(logits: Tensor, target: Tensor) -> Tensor:
    """Whether each example is classified rightly."""
    return logits.argmax(1) == target


MEASURED = {"bare": bare, "fit": by_fit}


def in_a_process(what: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What a process of its own measures."""
    command = [sys.executable, __file__, "--measure", what, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each seed, print two lines each of both."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["--measure"]:
        torch.set_num_threads(1)
        print(json.dumps(MEASURED[arguments[1]](arguments[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocols", nargs="+", default=["speedrun"])
    parser.add_argument("--seeds", nargs="+", default=["1"])
    options, others = parser.parse_known_args(arguments)
    files = [f for name in options.protocols for f in ("--config", f"protocols/{name}")]
    print(f"{instructions()}; {cores()} cores, one thread, torch {torch.__version__}")
    for seed in options.seeds:
        with TemporaryDirectory() as folder:
            settings = [
                "--config", "cifar10", *files, "--seed_everything", seed, "--data.ood", "[]",
                "--trainer.enable_progress_bar", "false", "--trainer.default_root_dir", folder, *others,
            ]  # fmt: skip
            loop = in_a_process("bare", settings)
            ours = in_a_process("fit", settings)
        share = ours["seconds"] / loop["seconds"] - 1
        over = {"bare loop": "", "fit": f" ({share:+.1%})"}
        for name, one in zip(over, (loop, ours), strict=True):
            print(
                f"seed {seed}: {name} {one['seconds']:.1f} s{over[name]}, test accuracy {one['accuracy']:.2%}"
            )
            parts = (f"{part} {seconds:.1f} s" for part, seconds in one["parts"].items())
            print(f"        {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    from rows import script

    script(main, "`fit` of the speedrun over a bare loop", aim="1.1 times")
