"""What may not be chosen, and what is not exported."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from calibench.calibrators import CrossValidatedCalibration, TemperatureScaling, VectorScaling
from calibench.calibrators.calibration_set import find_rare_classes
from calibench.calibrators.cross_validated import default_candidates
from calibench.diagnosis import diagnosis as module
from calibench.diagnosis.diagnosis import diagnose
from calibench.diagnosis.nested_cv import choose_calibrator

from .examples import examples


@pytest.mark.slow
def test_maps_with_parameters_of_each_class_are_left_out_where_a_class_is_absent() -> None:
    """K = 4, no example of class 3 in validation; in the test set it has a quarter of the examples."""
    base, test = examples(1200), examples(1200, seed=1)
    val = base.select_rows((base.target != 3).nonzero().flatten())
    raw_nll = float(-test.scores.log_softmax(1).gather(1, test.target[:, None]).mean())
    found = diagnose(test, val)
    assert found.choice is not None
    with_parameters = {"StructuredVectorScaling", "StructuredMatrixScaling"}
    assert not with_parameters & found.choice.nll.keys()
    assert "left out: calibrators with parameters for each class" in str(found)
    assert "fewer than five examples of class 3" in str(found)
    if found.calibrator is not None:
        nll = float(-found.calibrator.log_prob(test.scores).gather(1, test.target[:, None]).mean())
        assert nll <= raw_nll + 0.01
    chosen = CrossValidatedCalibration().fit(val.scores, val.target).choice
    assert type(chosen).__name__ not in with_parameters


def test_rare_classes_are_those_with_fewer_than_five_examples() -> None:
    target = torch.tensor([0] * 5 + [1] * 4 + [3] * 9)
    assert find_rare_classes(target, 5) == [1, 2, 4]
    per_class = [type(c).__name__ for c in default_candidates(4) if c.has_class_parameters]
    assert per_class == ["StructuredVectorScaling", "StructuredMatrixScaling"]
    assert VectorScaling().has_class_parameters
    assert not TemperatureScaling().has_class_parameters


def test_what_raises_the_nll_of_the_test_set_is_not_recommended() -> None:
    """Validation is too sharp, the test set is calibrated: the temperature of 2 does harm."""
    found = diagnose(examples(800, seed=1), examples(800, sharpness=2.0), [TemperatureScaling()])
    assert found.after is not None
    assert found.after.gain is not None
    assert found.after.gain.high < 0
    assert found.calibrator is None
    assert "not recommended: it increases the NLL" in str(found)


def test_an_unstable_choice_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def unstable(*arguments: object, **options: object) -> object:
        choice = choose_calibrator(*arguments, **options)  # type: ignore[arg-type]
        if len(arguments[2]) == 1:  # type: ignore[arg-type]
            return choice
        return replace(choice, name="VectorScaling", chosen=2, agreeing=1, is_fallback=False)

    monkeypatch.setattr(module, "choose_calibrator", unstable)
    candidates = [TemperatureScaling(), VectorScaling()]
    found = diagnose(examples(400, sharpness=2.0), calibrators=candidates)
    assert found.choice is not None
    assert found.choice.name == "TemperatureScaling"
    assert "unstable choice: VectorScaling was chosen in 1 of 5 folds" in str(found)
    assert np.isfinite(found.choice.gain.value)
