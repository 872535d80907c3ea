"""The canary: one confidence for all examples."""

from __future__ import annotations

import torch

from calibench.calibrators import MeanReplacement, TemperatureScaling
from calibench.metrics import calibration_error

from .conftest import drawn


def test_every_confidence_is_the_validation_accuracy() -> None:
    logits, target = drawn(500, 5, 2.0)
    model = MeanReplacement(shrinkage=False).fit(logits, target)
    accuracy = float((logits.argmax(1) == target).double().mean())
    probs = model(drawn(200, 5, 1.0, seed=3)[0])
    torch.testing.assert_close(probs.amax(1), torch.full((200,), accuracy).double())
    torch.testing.assert_close(probs.amin(1), torch.full((200,), (1 - accuracy) / 4).double())
    assert model.parameters_dict() == {"accuracy": accuracy}
    assert MeanReplacement(shrinkage=False).parameters_dict() == {}


def test_an_accuracy_below_chance_keeps_the_predicted_classes() -> None:
    logits, _ = drawn(100, 5, 2.0)
    model = MeanReplacement(shrinkage=False).fit(logits, logits.argmin(1))
    assert torch.equal(model(logits).argmax(1), logits.argmax(1))
    torch.testing.assert_close(model(logits).amax(1), torch.full((100,), 0.2).double())


def test_it_has_nearly_no_calibration_error_and_a_poor_nll() -> None:
    logits, target = drawn(4000, 10, 3.0)
    logits *= 2  # overconfident
    val, test = (logits[:2000], target[:2000]), (logits[2000:], target[2000:])
    canary, scaled = (
        c.fit(*val) for c in (MeanReplacement(shrinkage=False), TemperatureScaling(shrinkage=False))
    )
    assert calibration_error(canary(test[0]), test[1], n_bins=15) < 0.03
    assert calibration_error(test[0].softmax(1), test[1], n_bins=15) > 0.05
    nll = [-float(c.log_prob(test[0]).gather(1, test[1][:, None]).mean()) for c in (canary, scaled)]
    assert nll[0] > 1.2 * nll[1]
