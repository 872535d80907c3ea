"""What `calibench evaluate` is asked for: sets, calibrators and numbers, whose names are checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from calibench.calibrators import CALIBRATORS
from calibench.calibrators.names import ONE_PER_CORE, Calibrators, Jobs, parse_calibrator_names
from calibench.messages.checks import integer_from, numbers_of_bins
from calibench.messages.errors import UsageError
from calibench.metrics import METRIC_CLASSES
from calibench.predictions.files import Reader
from calibench.predictions.inputs import Sets


def _priors(name: str, given: Any) -> Any:
    """A word, or the numbers of `P,P,...`; what they may be is the evaluation's to check."""
    if not isinstance(given, str) or "," not in given:
        return given
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        expected = f"`{name}` takes numbers with commas between them"
        raise UsageError(f"{expected}, got `{given}`.") from None


@dataclass(frozen=True)
class EvaluationOptions:
    """What is asked for of predictions.

    Attributes:
        sets: Files of predictions.
        reader: How files are read.
        calibrators: Names of `calibench list calibrators`, or default, all or none (default: default with --val, else
            none).
        calibrate_members: Calibrate each member of an ensemble on its own --val file, then pool (default: pool, then
            calibrate).
        priors: Class frequencies of the test data, for a second row of each calibrator, corrected to them: uniform,
            estimated (by EM, from the unlabelled test logits), P,P,... of K numbers, or oracle (the test labels' own).
        metrics: Further metrics: names of `calibench list metrics`, import paths of torchmetrics classes, or all.
        n_bins: Numbers of bins (default: 15 20; tables show the first).
        bootstrap: Resamples for the intervals, 0 for no intervals.
        jobs: Calibrators at a time.
    """

    sets: Sets
    reader: Reader
    calibrators: Calibrators | None = None
    calibrate_members: Annotated[str | None, "NAME"] = None
    priors: Annotated[str | list[float] | None, "PRIORS", _priors] = None
    metrics: Annotated[tuple[str, ...], "NAME"] = ()
    n_bins: Annotated[tuple[int, ...], "N", numbers_of_bins] = (15, 20)
    bootstrap: Annotated[int, "N", partial(integer_from, low=0)] = 1000
    jobs: Jobs = ONE_PER_CORE

    @property
    def plain(self) -> bool:
        """Whether there is nothing but a test set, whose numbers are one row."""
        sets, more = self.sets, (self.calibrators, self.priors)
        beside = [*sets.val, *sets.test[1:], *sets.ood, *sets.shift, *self.metrics]
        return not beside and sets.posterior is None and more == (None, None)

    def checked(self) -> list[Any]:
        """The calibrators that are fitted, by name or built.

        A UsageError for a name that does not exist, or what the sets do not allow; raises if a file is not there.
        """
        sets, of_members = self.sets, self.calibrate_members
        if not sets.test:
            raise UsageError("give a RUN, or a FILE of test predictions.")
        usual = ("default",) if sets.val else ()
        chosen = parse_calibrator_names(usual if self.calibrators is None else self.calibrators)
        if of_members:
            CALIBRATORS.check(of_members)
        if of_members and (len(sets.test) < 2 or not sets.val):
            several = "several --val and --test files"
            raise UsageError(f"`--calibrate-members` is for an ensemble: {several}.")
        if not sets.val and chosen:
            raise UsageError(
                "calibrators are fitted on a validation set, `--val FILE` (`val=` in Python): give it, or say "
                "`--calibrators none`."
            )
        if not sets.val and self.priors is not None:
            raise UsageError(
                "`--priors` corrects calibrators, which are fitted on `--val FILE`: give it."
            )
        for name in self.metrics:
            if isinstance(name, str) and name != "all":
                METRIC_CLASSES.check(name)
        sets.check()
        return chosen
