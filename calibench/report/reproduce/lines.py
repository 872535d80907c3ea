"""A published number beside our runs for it, and the machines on which these were timed."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calibench.statistics import mean_std
from calibench.tables.published import Published
from calibench.tables.titles import Title, metric_info


@dataclass
class Ours:
    """Our runs for a published number.

    Attributes:
        planned: Seeds that the suite names.
        values: The metric of each finished seed.
        temperatures: The fitted temperature of each, where the calibrator has one.
        differs: How the suite's protocol differs from the paper's here, and what the runs say of their data.
        machines: The machines that the runs were made on.
        missing: Why there is no value, empty if there is one.
    """

    planned: int = 0
    values: list[float] = field(default_factory=list)
    temperatures: list[float] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    missing: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the mean over seeds (Student's t); None with fewer than two."""
        n = len(self.values)
        if n < 2:
            return None
        from scipy.special import stdtrit

        mean, std = mean_std(self.values)
        half = float(stdtrit(n - 1, 0.975)) * std / math.sqrt(n)
        return mean - half, mean + half


@dataclass(frozen=True)
class Line:
    """One published number and ours."""

    number: Published
    ours: Ours
    reading: str = ""  # what the metric is taken for, where the paper does not say what it means

    @property
    def info(self) -> Title:
        """How the metric is printed."""
        return metric_info(self.reading or self.number.measure)

    @property
    def difference(self) -> float:
        """Ours minus the paper's; NaN without ours."""
        return mean_std(self.ours.values)[0] - self.number.value

    @property
    def inside(self) -> bool | None:
        """Whether the paper's value lies in our interval; None without one, or if theirs may be of something else."""
        if self.ours.interval is None or self.reading:
            return None
        low, high = self.ours.interval
        return low <= self.number.value <= high


BASELINE = "cross_entropy"


def machine(environment: Mapping[str, Any]) -> str:
    """The machine in a run's environment.json: `NVIDIA A100`, `2 x NVIDIA A100`, `AMD EPYC 7R13, 4 threads`."""
    device, processes = environment.get("device") or "unknown machine", environment.get("processes")
    if device == "cpu":
        name = environment.get("processor") or f"cpu of {environment.get('platform', 'unknown')}"
        device = f"{name}, threads: {environment.get('threads', 'unknown')}"
    several = isinstance(processes, int) and processes > 1
    return f"{processes} x {device}" if several else str(device)


def timed_on(environments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line that names the machines of our runs; several make their seconds incomparable."""
    counts = Counter(map(machine, environments))
    if counts:
        named = "; ".join(f"{name} ({count} runs)" for name, count in counts.most_common())
        several = " - seconds of several machines do not compare" if len(counts) > 1 else ""
        yield f"ours timed on: {named}{several}"


def in_multiples(lines: Sequence[Line]) -> Iterator[str]:
    """One line for each network: the seconds of each loss over those of cross-entropy, the paper's and ours."""
    for model in dict.fromkeys(line.number.model for line in lines):
        own = {line.number.loss: line for line in lines if line.number.model == model}
        base = own.get(BASELINE)
        if base is None:
            continue
        others = {loss: line for loss, line in own.items() if loss != BASELINE}
        parts = [f"{loss} {_multiples(line, base)}" for loss, line in others.items()]
        yield f"{model}, multiples of cross-entropy's seconds (paper, ours): {'; '.join(parts)}"


def _multiples(line: Line, base: Line) -> str:
    ours = "-"
    if line.ours.values and base.ours.values:
        ours = f"{mean_std(line.ours.values)[0] / mean_std(base.ours.values)[0]:.2f}"
    return f"{line.number.value / base.number.value:.2f}, {ours}"
