"""What is silenced in one thread is said in others, whatever the order in which they come and go."""

from __future__ import annotations

import warnings
from threading import Event, Thread

import pytest
import torch

from calibench.calibrators import TemperatureScaling
from calibench.calibrators.fit_warnings import (
    BoundWarning,
    ConvergenceWarning,
    FewExamplesWarning,
    silence_fits,
    warn_of_fit,
)
from calibench.parallel.threads import in_threads

# none is misclassified: the temperature tends to 0
LOGITS, TARGET = 5 * torch.eye(3).repeat(4, 1), torch.arange(3).repeat(4)


def fit() -> TemperatureScaling:
    return TemperatureScaling(shrinkage=False).fit(LOGITS, TARGET)


def test_threads_that_end_in_another_order_silence_their_own_fits_alone() -> None:
    first_has_begun, second_has_begun, first_has_ended = Event(), Event(), Event()

    def first() -> None:
        with silence_fits(BoundWarning):
            first_has_begun.set()
            second_has_begun.wait(10)
        first_has_ended.set()

    def second() -> None:
        first_has_begun.wait(10)
        with silence_fits(BoundWarning):
            second_has_begun.set()
            first_has_ended.wait(10)
            fit()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [Thread(target=first), Thread(target=second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not caught
        fit()
        assert [warning.category for warning in caught] == [BoundWarning]


def test_threads_silence_what_their_caller_does() -> None:
    with silence_fits():
        for calibrator in in_threads(lambda _: fit(), range(8), 2):
            assert float(calibrator.temperature) == pytest.approx(0.01)
    with pytest.warns(BoundWarning, match="ended at a bound"):
        list(in_threads(lambda _: fit(), range(2), 2))


def test_a_category_is_silenced_and_no_other() -> None:
    with silence_fits(BoundWarning):
        warn_of_fit("bound", BoundWarning, 1)
        with pytest.warns(FewExamplesWarning, match="few"):
            warn_of_fit("few", FewExamplesWarning, 1)
    with silence_fits(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in (BoundWarning, ConvergenceWarning, FewExamplesWarning):
            warn_of_fit("", category, 1)


def test_a_fit_warns_at_the_line_of_its_caller() -> None:
    with pytest.warns(BoundWarning, match="bound") as caught:
        fit()
    assert caught[0].filename == __file__
