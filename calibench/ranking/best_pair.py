"""The suite's answer on a table: the best pair of loss and calibrator on validation, and what seeds can tell of it.

Nothing is selected on test: the calibrator of each loss, and then the loss, is the one with the lowest NLL on the
validation split, on which calibrators are cross-fitted. The pairs are then compared by their NLL on test.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal

from calibench.statistics.number import CROSS_FITTED

NEEDED = ("nll", CROSS_FITTED)
"""The metrics that an answer is made of."""

UNKNOWN = (
    "best on validation: not known (no run has the NLL by which a pair is chosen, cross-fitted on 20 validation "
    "examples or more)"
)
REFERENCE = ("CrossEntropyLoss", "TemperatureScaling")
"""The loss and the calibrator, of whatever arguments, that every answer is compared with."""

Told = Literal["worse", "better", ""]
_WORDS: dict[Told, str] = {
    "worse": "tell it from",
    "better": "say that test is better with",
    "": "cannot tell it from",
}


@dataclass(frozen=True)
class LossAndCalibrator:
    """A loss, by the label of its row, and a calibrator or `raw`.

    Attributes:
        name: Both as a sentence has them: `BrierLoss + TS`.
        val: Cross-fitted NLL of validation, the mean over seeds.
        seeds: NLL of test of each seed.
        told: What the seeds can tell of it against the best on validation, by the NLL of test; empty if nothing.
    """

    loss: str
    calibrator: str
    name: str
    val: float
    seeds: tuple[float, ...]
    told: Told = ""

    @property
    def test(self) -> float:
        """NLL of test, the mean over seeds."""
        return fmean(self.seeds)


@dataclass(frozen=True)
class Answer:
    """The best pair of loss and calibrator on validation, and what it is compared with.

    Attributes:
        best: The pair; None where no run has the cross-fitted NLL of validation.
        rivals: The best pair of another loss, then cross-entropy with temperature scaling, where they are others.
        of_losses: The best pair of each loss that was compared, best first.
        without: How many rows were not compared, for want of seeds or of the cross-fitted NLL.
    """

    best: LossAndCalibrator | None = None
    rivals: Sequence[LossAndCalibrator] = ()
    of_losses: Sequence[LossAndCalibrator] = ()
    without: int = 0

    def __str__(self) -> str:
        """The sentence that leads a table."""
        if self.best is None:
            return UNKNOWN
        compared = len(self.of_losses)
        some = f" (of {compared} of {compared + self.without} losses)" if self.without else ""
        first = f"best on validation{some}: {self.best.name}, test NLL {self.best.test:.3f}"
        rivals = [f"{of.name} {of.test:.3f}" for of in self.rivals]
        return "; ".join([first, *rivals, *self._said()])

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, with its sentence."""
        return {"sentence": str(self), **asdict(self)}

    def _said(self) -> Iterator[str]:
        """`3 seeds tell it from A, cannot tell it from B`."""
        names = {
            words: [rival.name for rival in self.rivals if rival.told == told]
            for told, words in _WORDS.items()
        }
        number = len(self.of_losses[0].seeds)
        seeds = f"{number} seed{'s' if number > 1 else ''}"
        if self.rivals and not any(rival.told for rival in self.rivals):
            yield f"{seeds} cannot tell them apart"
        elif self.rivals:
            said = (f"{words} {' and '.join(of)}" for words, of in names.items() if of)
            yield f"{seeds} {', '.join(said)}"
