"""Cost of a loss in multiples of cross-entropy's."""

from __future__ import annotations

import time
from statistics import median

import torch

from calibench.analyses.audit.subject import Subject, batch, value_and_gradient
from calibench.losses import CalibrationLoss

REPEATS, CALLS = 15, 10


def cost(subject: Subject, *, batch_size: int = 128) -> float:
    """CPU time of value and gradient, divided by cross-entropy's; the median of interleaved measurements."""
    plain = Subject("", {"class_path": "CrossEntropyLoss"}).live()
    loss = subject.live()
    return median(_seconds(loss, batch_size) / _seconds(plain, batch_size) for _ in range(REPEATS))


def _seconds(loss: CalibrationLoss, batch_size: int) -> float:
    logits, target = batch(batch_size)
    begin = time.process_time()
    for _ in range(CALLS):
        value_and_gradient(loss, logits.to(torch.float32), target)
    return time.process_time() - begin
