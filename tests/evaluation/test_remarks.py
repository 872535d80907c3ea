"""Lines that say what makes a fit doubtful: a bound, no error to learn from, classes without examples."""

from __future__ import annotations

import numpy as np
import torch

from calibench import evaluate
from calibench.calibrators import AdaptiveTemperatureScaling, TemperatureScaling
from tests.calibrators.conftest import drawn

NEW = drawn(300, 4, 2.0, seed=1)


def remarks(
    logits: torch.Tensor, target: torch.Tensor, *calibrators: TemperatureScaling
) -> list[str]:
    return evaluate(*NEW, val=(logits, target), calibrators=calibrators, n_bins=[15]).remarks


def test_a_set_that_tells_enough_has_none() -> None:
    assert remarks(*drawn(200, 4, 2.0), TemperatureScaling(), AdaptiveTemperatureScaling()) == []


def test_a_validation_set_without_an_error_is_named_and_so_is_a_bound() -> None:
    logits, _ = drawn(13, 4, 2.0)
    right = logits.argmax(1)
    # The classes are all there, so that nothing else is to be said.
    right[:4], logits[:4] = torch.arange(4), 5 * torch.eye(4).double()
    published = TemperatureScaling(shrinkage=False)
    assert remarks(logits, right, TemperatureScaling(), published) == [
        "TemperatureScaling(shrinkage=False): the fit ended at a bound",
        "none of the 13 validation examples is misclassified: calibrators are unreliable",
    ]
    report = evaluate(*NEW, val=(logits, right), calibrators=[published], n_bins=[15])
    assert str(report).splitlines()[-1] == report.remarks[-1]


def test_absent_classes_are_counted_and_some_are_named() -> None:
    logits, target = drawn(200, 4, 2.0)
    assert remarks(logits, target % 3, TemperatureScaling()) == [
        "the validation set has no example of 1 class: 3"
    ]


def test_without_a_calibrator_nothing_is_doubtful() -> None:
    logits, _ = drawn(13, 4, 2.0)
    assert remarks(logits, logits.argmax(1)) == []


def test_photos_whose_validation_holds_no_error_keep_a_finite_nll() -> None:
    """Sixty photos, of which 13 validate: published, temperature scaling has a hundred times the NLL."""
    generator = np.random.default_rng(0)
    target = torch.from_numpy(generator.integers(0, 3, 60))
    logits = torch.from_numpy(generator.normal(size=(60, 3)))
    logits[torch.arange(60), target] += 1.5
    right = (logits.argmax(1) == target).nonzero().squeeze(1)
    val = right[:13]
    test = torch.from_numpy(np.setdiff1d(np.arange(60), val.numpy()))
    assert bool((logits[test].argmax(1) != target[test]).any())
    chosen = [
        TemperatureScaling(shrinkage=False),
        TemperatureScaling(),
        AdaptiveTemperatureScaling(),
    ]
    report = evaluate(
        logits[test], target[test], val=(logits[val], target[val]), calibrators=chosen, n_bins=[15]
    )
    raw = report.value("nll")
    assert report.value("nll", calibrator="TemperatureScaling(shrinkage=False)") > 20 * raw
    for name in ("TemperatureScaling", "AdaptiveTemperatureScaling"):
        assert report.value("nll", calibrator=name) < 1.2 * raw
    assert (
        "none of the 13 validation examples is misclassified: calibrators are unreliable"
        in report.remarks
    )
