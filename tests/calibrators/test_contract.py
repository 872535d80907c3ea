"""What every exported calibrator must do; a new one is picked up without editing this file."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from abc import ABC
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from calibench import calibrators
from calibench.calibrators import Calibrator
from calibench.calibrators.fit_warnings import FewExamplesWarning
from tests.examples import Contract

from .conftest import drawn

EXPORTED = [getattr(calibrators, name) for name in calibrators.__all__]
# A class with ABC among its bases is no calibrator itself: it wraps others, which have no defaults.
CALIBRATORS = [c for c in EXPORTED if ABC not in c.__bases__]

# Their formulas read the logits themselves, not the probabilities.
SEE_THE_LEVEL = {
    calibrators.MatrixScaling,
    calibrators.ParameterizedTemperatureScaling,
    calibrators.VectorScaling,
}

# Their penalties or counts go by the number of rows, which copies change, or they stop short of an optimum.
GO_BY_ROWS = {
    calibrators.ParameterizedTemperatureScaling,
    calibrators.PlattScaling,
    calibrators.StructuredMatrixScaling,
    calibrators.StructuredVectorScaling,
}

# Sets of some rules are so small that maps with parameters of each class warn of them.
pytestmark = pytest.mark.filterwarnings(
    "ignore::calibench.calibrators.fit_warnings.FewExamplesWarning"
)

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
BY_NAME = {calibrator.__name__: [calibrator] for calibrator in CALIBRATORS}
CONTRACT = Contract(BY_NAME)


def over_confident(n: int = 240, k: int = 4) -> tuple[Tensor, Tensor]:
    """Logits of a model that is right about its classes and twice too sure of them."""
    generator = torch.Generator().manual_seed(7)
    logits = torch.randn(n, k, generator=generator) * 2
    target = torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)
    return logits * 2, target


@cache
def _fit(calibrator: type[Calibrator]) -> Calibrator:
    return calibrator().fit(*over_confident())


def fitted(calibrator: type[Calibrator]) -> Calibrator:
    """A copy of one that was fitted to `over_confident()`, once for all tests."""
    return copy.deepcopy(_fit(calibrator))


@CONTRACT.rule()
def arrays_frames_lists_and_names_of_classes_are_taken_and_the_same_kind_comes_back(
    calibrator: type[Calibrator],
) -> None:
    logits, target = over_confident()
    expected = fitted(calibrator)(logits)
    classes = [f"class {k}" for k in range(logits.shape[1])]
    names = pd.Series([classes[k] for k in target])
    frame = pd.DataFrame(logits.numpy(), columns=classes)
    probs = calibrator().fit(frame, names)(frame)
    assert [*probs.columns] == classes
    torch.testing.assert_close(torch.tensor(probs.to_numpy()), expected)
    by_list = fitted(calibrator)(logits.tolist())
    assert isinstance(by_list, list)
    torch.testing.assert_close(torch.tensor(by_list), expected, rtol=1e-4, atol=1e-5)
    assert isinstance(fitted(calibrator)(logits.numpy()), np.ndarray)
    assert repr(fitted(calibrator)) != repr(calibrator())  # it shows what was fitted


def test_all_names_each_calibrator_once() -> None:
    assert len(set(calibrators.__all__)) == len(calibrators.__all__)
    assert {c.__name__ for c in CALIBRATORS} == set(calibrators.CALIBRATORS.lines)


@CONTRACT.rule()
def first_line_names_the_source(calibrator: type[Calibrator]) -> None:
    first = inspect.getdoc(calibrator).splitlines()[0]
    assert len(first) <= 95
    assert first.endswith(").")


@CONTRACT.rule()
def arguments_are_keywords_with_defaults_and_types(calibrator: type[Calibrator]) -> None:
    for parameter in inspect.signature(calibrator).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is not parameter.empty
        assert parameter.annotation is not parameter.empty


@CONTRACT.rule()
def use_before_fit_says_so(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident(n=19, k=3)
    model = calibrator()
    assert not model.fitted
    with pytest.raises(RuntimeError, match="has not been fitted"):
        model(logits)
    with pytest.raises(RuntimeError, match="has not been fitted"):
        model.log_prob(logits)
    assert model.fit(logits, target) is model
    assert model.fitted


@cache
def _fit_bfloat16(calibrator: type[Calibrator]) -> Calibrator:
    logits, target = over_confident(n=120)
    return calibrator().fit(logits.bfloat16(), target.int())


@CONTRACT.rule()
def gives_distributions_in_the_dtype_of_the_logits_or_in_float32(
    calibrator: type[Calibrator],
) -> None:
    (logits, _), model = over_confident(n=120), _fit_bfloat16(calibrator)
    for dtype in DTYPES:
        probs, log_probs = model(logits.to(dtype)), model.log_prob(logits.to(dtype))
        assert probs.dtype == log_probs.dtype == torch.promote_types(dtype, torch.float32)
        assert probs.shape == log_probs.shape == logits.shape
        assert (probs >= 0).all()
        eps, ones = torch.finfo(probs.dtype).eps, torch.ones(len(probs)).double()
        torch.testing.assert_close(probs.double().sum(1), ones, atol=8 * eps, rtol=0)
        close = {"atol": 8 * eps, "rtol": 16 * eps}
        torch.testing.assert_close(log_probs.double().exp(), probs.double(), **close)


@CONTRACT.rule()
def fits_half_precision_as_the_same_numbers_in_double(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident(n=120)
    wide = calibrator().fit(logits.bfloat16().double(), target)
    found, expected = (one.log_prob(logits) for one in (_fit_bfloat16(calibrator), wide))
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)


@CONTRACT.rule()
def a_masked_class_stays_at_0_and_nan_is_never_a_probability(
    calibrator: type[Calibrator],
) -> None:
    one, logits = fitted(calibrator), over_confident(n=6)[0].double()
    plain = one(logits)
    logits[1, 2] = logits[2, :2] = -torch.inf
    logits[3, 1], logits[4, 0], logits[5] = torch.nan, torch.inf, -torch.inf
    for dtype in (torch.float64, torch.float32):
        probs, log_probs = one(logits.to(dtype)), one.log_prob(logits.to(dtype))
        assert torch.equal(probs[0].double(), plain[0]) or dtype != torch.float64
        assert (probs[[1, 2, 2], [2, 0, 1]] == 0).all()
        assert torch.allclose(probs[1:3].sum(1), torch.ones(2, dtype=dtype))
        assert torch.isneginf(log_probs[[1, 2, 2], [2, 0, 1]]).all()
        assert probs[3:].isnan().all()
        assert log_probs[3:].isnan().all()


@CONTRACT.rule()
def is_fitted_on_examples_that_lack_classes(calibrator: type[Calibrator]) -> None:
    """Masked classes count nothing, however many they are: -inf is allowed but for the true class."""
    logits, target = over_confident(n=200)
    logits = logits.double()
    generator = torch.Generator().manual_seed(2)
    masked = torch.rand(logits.shape, generator=generator) < 0.3
    masked[torch.arange(len(target)), target] = False
    logits[masked] = -torch.inf
    model = calibrator().fit(logits, target)
    log_probs = model.log_prob(logits)
    assert torch.equal(log_probs.isneginf() & masked, masked)
    nll = -log_probs.gather(1, target.unsqueeze(1)).mean()
    assert 0 < nll < -logits.log_softmax(1).gather(1, target.unsqueeze(1)).mean() + 0.05
    padded = torch.cat([logits, torch.full((200, 2), -torch.inf).double()], dim=1)
    assert model.num_classes == 4
    with pytest.raises(
        ValueError, match=r"must have 4 columns, as those that .* was fitted on, got 6"
    ):
        model(padded)
    logits[7] = 0.0
    logits[7, target[7]] = -torch.inf
    with pytest.raises(
        ValueError, match=r"-inf .* for the true class \d of row 7 \(of 1 rows so\)"
    ):
        calibrator().fit(logits, target)


SAME_WITH_A_CLASS_THAT_NOBODY_HAS = (
    "AdaptiveTemperatureScaling", "BetaCalibration", "HistogramBinning", "IRM", "IsotonicCalibration", "PlattScaling",
    "QuadraticScaling", "SplineCalibration", "TemperatureScaling", "VennAbers",
)  # fmt: skip


@pytest.mark.parametrize("name", SAME_WITH_A_CLASS_THAT_NOBODY_HAS)
def test_a_class_that_nobody_has_changes_nothing(name: str) -> None:
    """Logits with a column of -inf: the probabilities of the others are those of a fit without the column."""
    logits, target = over_confident(n=200)
    logits = logits.double()
    padded = torch.cat([logits, torch.full((200, 1), -torch.inf).double()], dim=1)
    cls = getattr(calibrators, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewExamplesWarning)  # the column has no example
        found = cls(shrinkage=False).fit(padded, target)(padded)
    expected = cls(shrinkage=False).fit(logits, target)(logits)
    assert (found[:, -1] == 0).all()
    # Newton steps of sigmoids end where the next one promises 1e-12 of the loss, of all classes.
    torch.testing.assert_close(found[:, :-1], expected, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("name", ["PlattScaling", "IsotonicCalibration", "VennAbers"])
def test_the_size_of_the_logits_costs_nothing(name: str, k: int) -> None:
    """The fit goes by exact log-odds: logits times 1e6, whose probabilities are 0 and 1, have the NLL of logits."""
    logits, target = drawn(400, k, 2.0)
    cls = getattr(calibrators, name)

    def nll(scale: float) -> float:
        scaled = logits.double() * scale
        log_probs = cls(shrinkage=False).fit(scaled, target).classwise(scaled)
        values = log_probs if name == "PlattScaling" else log_probs.log()
        return float(-values.gather(1, target.unsqueeze(1)).mean())

    # Of two classes log-odds are the difference of the logits; of more they tend to that from the largest of the others.
    reference, tolerance = (1.0, 1e-6) if k == 2 else (1e4, 1e-4)
    expected = nll(reference)
    assert expected == pytest.approx(nll(1.0), abs=0.05)
    for scale in (1e5, 1e6):
        assert nll(scale) == pytest.approx(expected, abs=tolerance)


@CONTRACT.rule()
def logits_beyond_float32_are_refused_in_one_line(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident(n=20)
    with pytest.raises(ValueError, match="must be finite in float32"):
        calibrator().fit(1e300 * logits.double(), target)


def test_a_masked_class_leaves_the_temperature_of_the_others() -> None:
    one = calibrators.TemperatureScaling(shrinkage=False).fit(*over_confident())
    logits = over_confident(n=5)[0].double()
    masked = logits.clone()
    masked[:, 3] = -torch.inf
    expected = (logits[:, :3] / one.parameters_dict()["temperature"]).softmax(dim=1)
    assert torch.allclose(one(masked)[:, :3], expected, atol=1e-12)


@CONTRACT.rule()
def improves_the_nll_of_an_over_confident_model_or_its_confidence(
    calibrator: type[Calibrator],
) -> None:
    logits, target = over_confident()
    model = fitted(calibrator)
    accuracy = (logits.argmax(1) == target).double().mean()
    gap = (model(logits).amax(1).double().mean() - accuracy).abs()
    assert gap < 0.5 * (logits.softmax(1).amax(1).double().mean() - accuracy).abs()


@CONTRACT.rule()
def state_dict_round_trip_is_exact(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident()
    model = fitted(calibrator)
    loaded = calibrator()
    loaded.load_state_dict(model.state_dict())
    assert loaded.fitted
    assert torch.equal(loaded.log_prob(logits), model.log_prob(logits))
    other = calibrator().fit(logits[:19, :3], target[:19] % 3)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.log_prob(logits), model.log_prob(logits))
    assert other.parameters_dict() == model.parameters_dict()


@CONTRACT.rule()
def pickles_and_keeps_its_precision(calibrator: type[Calibrator]) -> None:
    logits, _ = over_confident()
    model = fitted(calibrator)
    expected = model.log_prob(logits)
    assert torch.equal(pickle.loads(pickle.dumps(model)).log_prob(logits), expected)
    assert torch.equal(model.half().log_prob(logits), expected)


@CONTRACT.rule()
def fitting_again_forgets_the_first_fit(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident()
    twice = calibrator().fit(3 * logits[:19, :3], target[:19] % 3).fit(logits, target)
    assert torch.equal(twice.log_prob(logits), fitted(calibrator).log_prob(logits))


@CONTRACT.rule()
def leaves_its_input_and_the_random_state_alone(calibrator: type[Calibrator]) -> None:
    logits, target = over_confident(n=60)
    logits, target = logits.double(), target.clone()
    kept, state = (logits.clone(), target.clone()), torch.get_rng_state()
    calibrator().fit(logits, target)(logits)
    assert torch.equal(logits, kept[0])
    assert torch.equal(target, kept[1])
    assert torch.equal(torch.get_rng_state(), state)


@CONTRACT.rule()
def calibrated_probabilities_need_no_host_synchronisation(
    calibrator: type[Calibrator],
) -> None:
    """On the meta device a look at a value raises. `fit` looks at values: at its input, and for when to stop."""
    model = fitted(calibrator).to("meta")
    assert model(torch.empty(30, 4, device="meta")).shape == (30, 4)


@CONTRACT.rule()
def rows_are_independent_and_a_constant_changes_nothing(
    calibrator: type[Calibrator],
) -> None:
    logits, model = over_confident()[0].double(), fitted(calibrator)
    expected = model(logits)
    torch.testing.assert_close(model(logits[5:6]), expected[5:6])
    assert model(logits[:0]).shape == (0, logits.shape[1])
    if calibrator in SEE_THE_LEVEL:
        return
    # Logits of few binary digits, so that the addition itself rounds nothing away.
    coarse = (logits * 2**20).round() / 2**20
    torch.testing.assert_close(model(coarse + 64.0), model(coarse))


@CONTRACT.rule()
def parameters_dict_holds_plain_numbers(calibrator: type[Calibrator]) -> None:
    for name, value in fitted(calibrator).parameters_dict().items():
        assert isinstance(name, str)
        values = value if isinstance(value, list) else [value]
        assert values
        assert all(type(entry) is float for entry in values)


@CONTRACT.rule()
def weights_are_copies_or_refused(calibrator: type[Calibrator]) -> None:
    logits, target = (part[:150] for part in over_confident())
    copies = torch.arange(150) % 3
    if not calibrator().takes_weights:
        with pytest.raises(TypeError, match="takes no `sample_weight`"):
            calibrator().fit(logits, target, copies)
        return
    weighted = calibrator().fit(logits, target, 7 * copies)
    if calibrator not in GO_BY_ROWS:
        repeated = calibrator().fit(
            logits.repeat_interleave(copies, 0), target.repeat_interleave(copies)
        )
        torch.testing.assert_close(weighted(logits), repeated(logits), atol=2e-6, rtol=0)
    even = calibrator().fit(logits, target, torch.full((150,), 0.1))
    torch.testing.assert_close(even(logits), calibrator().fit(logits, target)(logits))
    with pytest.raises(ValueError, match="`sample_weight` must have shape"):
        calibrator().fit(logits, target, copies[:-1])
    with pytest.raises(ValueError, match="`sample_weight` must hold finite numbers >= 0"):
        calibrator().fit(logits, target, -copies)


LOGITS, TARGET = over_confident()
MALFORMED = {
    "integer logits": (LOGITS.long(), TARGET, TypeError, "`logits` must be floating"),
    "one class": (LOGITS[:, :1], TARGET, ValueError, "K >= 2"),
    "three axes": (LOGITS[None], TARGET, ValueError, r"shape \(N, K\)"),
    "float target": (LOGITS, TARGET.float(), TypeError, "`target` must hold integer"),
    "one-hot target": (
        LOGITS,
        torch.eye(4)[TARGET].long(),
        ValueError,
        r"`target` must have shape \(240,\)",
    ),
    "other length": (LOGITS, TARGET[:-1], ValueError, r"`target` must have shape \(240,\)"),
    "no rows": (LOGITS[:0], TARGET[:0], ValueError, "at least one row"),
    "nan": (LOGITS.log(), TARGET, ValueError, "`logits` must be finite"),
    "class too large": (LOGITS, TARGET + 1, ValueError, r"lie in \[0, 4\), got values from 1 to 4"),
    "negative class": (LOGITS, TARGET - 1, ValueError, r"lie in \[0, 4\), got values from -1 to 2"),
}


@CONTRACT.rule()
def malformed_input_is_one_clear_error(calibrator: type[Calibrator]) -> None:
    for logits, target, error, message in MALFORMED.values():
        with pytest.raises(error, match=message):
            calibrator().fit(logits, target)


test_contract = CONTRACT.test()
