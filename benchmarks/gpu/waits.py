"""Whether a step of training waits for the GPU: steps 3 to 40 under torch's synchronisation debug mode.

Commands:

    python benchmarks/gpu/waits.py
    python benchmarks/gpu/waits.py --device cpu --network CIFARResNet8 --images 90 --batch 2

A line for each of cross-entropy, GCE and mixup, trained as `calibench fit` does: that nothing waited, or torch's reason
where something did (`torch.cuda.set_sync_debug_mode("error")`). On a CPU, which nothing waits for, it only tries the
script. It takes a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as L
import torch
from epochs import RandomImages, train, training_options, training_settings
from sitting import Sitting, parser, read

from calibench.data.mixing import Mixup
from calibench.losses import CrossEntropyLoss, GenerativeCrossEntropy

FIRST, LAST = 3, 40
CASES = ("cross-entropy", "GCE", "mixup")


class WaitsAreErrors(L.Callback):
    """Makes whatever waits for the device an error, from step 3 to step 40."""

    def __init__(self) -> None:
        self.steps = 0

    def on_train_batch_start(self, trainer: L.Trainer, module: Any, *args: Any) -> None:
        """Begin."""
        if module.device.type == "cuda" and trainer.global_step == FIRST - 1:
            torch.cuda.set_sync_debug_mode("error")

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, *args: Any) -> None:
        """Count the step, and end."""
        self.steps += FIRST <= trainer.global_step <= LAST
        if module.device.type == "cuda" and trainer.global_step == LAST:
            torch.cuda.set_sync_debug_mode("default")


def watch_steps(case: str, options: argparse.Namespace) -> dict[str, Any]:
    """The number of steps that waited for nothing, and the reason of the first wait."""
    data = RandomImages(options.images, options.batch)
    data.mixing = [Mixup()] if case == "mixup" else []
    loss = GenerativeCrossEntropy() if case == "GCE" else CrossEntropyLoss()
    watch, reason = WaitsAreErrors(), ""
    try:
        train(loss, data, options, watch)
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        reason = str(error).partition("\n")[0]
    finally:
        if options.device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    return {"steps": watch.steps, "reason": reason}


def main(arguments: Sequence[str] | None = None) -> None:
    """Watch each case, print a line each."""
    choices = training_options(parser("waits.py", __doc__))
    choices.set_defaults(images=45 * 128, epochs=0, losses=[], minutes=3.0)
    options = read(choices, arguments)
    sitting = Sitting(options, **training_settings(options))
    for case in CASES:
        result = sitting.measure(case, lambda case=case: watch_steps(case, options))  # type: ignore[misc]
        if result:
            waits = f"a wait: {result['reason']}" if result["reason"] else "no wait"
            print(f"{case:14s} {result['steps']} steps, {waits}", flush=True)
    sitting.close()


if __name__ == "__main__":
    main()
