"""CPU time of fitting temperature and structured scaling beside probmetrics, one thread, medians of ratios.

    OMP_NUM_THREADS=1 python benchmarks/speed/structured.py [--rows 5000] [--classes 100] [--repeats 7]

Both are fitted to the same logits in turn, in the published form, probmetrics as it comes (float32, SVS and SMS by
L-BFGS to its own tolerance, probabilities as it takes them). Beside the times stands the mean NLL of the set.

Without `OMP_NUM_THREADS=1` the ratios are the same since 2026-11-30; before, that of structured matrix scaling was 2.3:
threads of numpy's OpenBLAS waited for the next product of 10,100 numbers.

With 1,000 rows structured matrix scaling takes 1.1 to 1.3 times probmetrics' time. Of it 21 products with the Hessian
are 28 %, steps to the coordinates of the search and back 14 %, seven values and gradients 15 %, the coordinates
themselves 10 %, the temperature 6 %. Not tried: steps in single precision, which alter the optimum by what the search
tolerates.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from calibrators import synthetic
from torch import Tensor

from calibench.calibrators import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
)

torch.set_num_threads(1)

PAIRS = {
    "ts-mix": TemperatureScaling,
    "svs": StructuredVectorScaling,
    "sms": StructuredMatrixScaling,
}


def cpu_ms(fit: Callable[[], object]) -> float:
    start = time.process_time()
    fit()
    return 1e3 * (time.process_time() - start)


def mean_nll(probs: Any, target: Tensor) -> float:
    rows = torch.as_tensor(probs).double()
    return -rows.gather(1, target.unsqueeze(1)).log().mean().item()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="CPU time of structured scaling.")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(arguments)
    logits, target = synthetic(options.rows, options.classes)
    probs, labels = logits.softmax(1).numpy(), target.numpy()
    get_calibrator = importlib.import_module("probmetrics.calibrators").get_calibrator
    for name, cls in PAIRS.items():
        theirs, ours = [], []
        for _ in range(options.repeats + 1):
            peer, model = get_calibrator(name), cls(shrinkage=False)
            theirs.append(cpu_ms(lambda peer=peer: peer.fit(probs, labels)))  # type: ignore[misc]
            ours.append(cpu_ms(lambda model=model: model.fit(logits, target)))  # type: ignore[misc]
        ratio = statistics.median(
            our / their for our, their in zip(ours[1:], theirs[1:], strict=True)
        )
        nll = mean_nll(model(logits.double()), target), mean_nll(peer.predict_proba(probs), target)
        print(
            f"{name}: here {statistics.median(ours[1:]):.0f} ms, probmetrics {statistics.median(theirs[1:]):.0f} ms, "
            f"{ratio:.2f} times; NLL here {nll[0]:.6f}, probmetrics {nll[1]:.6f}"
        )


if __name__ == "__main__":
    from rows import script

    script(main, "structured scaling beside probmetrics, CPU time of a fit", aim="as fast")
