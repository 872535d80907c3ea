"""The calibrator that cross-validation chooses."""

from __future__ import annotations

import pytest
import torch

from calibench.calibrators import (
    IRM,
    CrossValidatedCalibration,
    MeanReplacement,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibench.calibrators.cross_validated import (
    choose_surely_best,
    default_candidates,
    stratified_folds,
)

from .conftest import drawn


@pytest.mark.parametrize("n", [250, 2000])
def test_it_is_temperature_scaling_unless_another_is_surely_better(n: int) -> None:
    logits, target = drawn(n, 4, 1.5)
    logits = logits * torch.tensor(
        [1.0, 1.2, 0.85, 1.0]
    )  # which only a scale for each class undoes
    tried = [MeanReplacement(), TemperatureScaling(), VectorScaling()]
    fold = stratified_folds(target, 3)
    losses = [-logits.log_softmax(1).gather(1, target[:, None]).squeeze(1)]
    for calibrator in (MeanReplacement(), TemperatureScaling(), VectorScaling()):
        of_rows = torch.empty(n, dtype=torch.float64)
        for k in range(3):
            calibrator.fit(logits[fold != k], target[fold != k])
            probs = calibrator(logits[fold == k])
            of_rows[fold == k] = -probs.gather(1, target[fold == k][:, None]).log().squeeze(1)
        losses.append(of_rows)
    gain = losses[2] - losses[3]
    surely = float(gain.mean()) > 2 * float(gain.std()) / n**0.5
    assert surely == (n == 2000)
    assert gain.mean() > 0 or n == 250
    model = CrossValidatedCalibration(calibrators=tried, folds=3).fit(logits, target)
    assert int(model.chosen) == (3 if surely else 2)
    alone = type(model.choice)().fit(logits, target)(logits)
    torch.testing.assert_close(model(logits), alone)
    assert model.parameters_dict() == {"chosen": float(model.chosen), "uniform_share": 0.0}


def test_former_choice_is_the_lowest_nll_with_a_mixture() -> None:
    """`shrinkage=False`: of the published forms, each mixed, the one of the lowest NLL, whatever its error."""
    logits, target = drawn(600, 4, 1.5)
    model = CrossValidatedCalibration(shrinkage=False).fit(logits, target)
    tried = default_candidates(4, shrinkage=False)
    assert not any(one.shrinkage for one in tried)
    fold = stratified_folds(target, 5)
    totals = [-float(logits.log_softmax(1).gather(1, target[:, None]).sum())]
    for calibrator in tried:
        total = 0.0
        for k in range(5):
            calibrator.fit(logits[fold != k], target[fold != k])
            share = 1 / (int((fold != k).sum()) + 1)
            probs = (1 - share) * calibrator(logits[fold == k]) + share / 4
            total -= float(probs.gather(1, target[fold == k][:, None]).log().sum())
        totals.append(total)
    assert int(model.chosen) == totals.index(min(totals)) > 0
    alone = tried[int(model.chosen) - 1].fit(logits, target)(logits)
    torch.testing.assert_close(model(logits), 600 / 601 * alone + 1 / 601 / 4)
    small = CrossValidatedCalibration(shrinkage=False).fit(logits[:19], target[:19])
    assert small.chosen == 0


@pytest.mark.parametrize(
    ("gains", "best"),
    [
        ([0.01, 0.0, -0.01], 1),  # two standard errors are .05
        ([0.3, 0.0, 0.2], 0),
        ([-0.3, 0.0, -0.2], 1),
        ([-torch.inf, 0.0, 0.1], 2),
    ],
)
def test_surely_best_is_the_lowest_beyond_two_standard_errors(
    gains: list[float], best: int
) -> None:
    noise = torch.randn(3, 400, generator=torch.Generator().manual_seed(0))
    noise = (noise - noise.mean(1, keepdim=True)) * torch.tensor([[0.5], [0.0], [0.5]])
    losses = 1 - torch.tensor(gains)[:, None] + noise
    assert choose_surely_best(losses, [TemperatureScaling(), IRM()]) == best


@pytest.mark.parametrize(
    ("place", "n", "needed"), [(0, 100, 6), (0, 200, 3), (0, 6000, 0.1), (2, 100, 2), (3, 100, 1.5)]
)
def test_how_far_another_one_must_be_ahead(place: int, n: int, needed: float) -> None:
    """The probabilities as they are by more, the fewer the examples: 600 / n standard errors."""
    tried = [TemperatureScaling(), IRM(), StructuredVectorScaling()]
    noise = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = (noise - noise.mean()) / noise.std() * n**0.5  # a standard error of 1
    losses = torch.zeros(4, n, dtype=torch.float64)
    for ahead, best in ((needed + 0.01, place), (needed - 0.01, 1)):
        losses[place] = noise - ahead
        assert choose_surely_best(losses, tried) == best


def test_probabilities_that_nothing_improves_stay_as_they_are() -> None:
    logits, target = drawn(300, 4, 1.0)
    model = CrossValidatedCalibration(calibrators=[MeanReplacement()]).fit(logits, target)
    assert model.parameters_dict() == {"chosen": 0.0, "uniform_share": 0.0}
    assert torch.equal(model.log_prob(logits), logits.log_softmax(1))


def test_a_calibrator_that_saw_no_error_does_not_rule_one_out() -> None:
    """A temperature goes to 0 where all are right; an error among later examples must not cost hundreds of nats."""
    logits, _ = drawn(60, 3, 3.0)
    model = CrossValidatedCalibration().fit(logits, logits.argmax(1))
    assert model.chosen > 0
    assert float(model.log_prob(logits).min()) >= -torch.log(torch.tensor(3 * 61.0)) - 1e-9


def test_a_choice_made_elsewhere_is_fitted_in_its_place() -> None:
    logits, target = drawn(200, 3, 2.0)
    logits = logits.float()
    fitted = CrossValidatedCalibration().fit(logits, target)
    placed = CrossValidatedCalibration().fit_choice(int(fitted.chosen), logits, target)
    assert torch.equal(placed.log_prob(logits), fitted.log_prob(logits))
    assert CrossValidatedCalibration().fit_choice(0, logits, target).uniform_share == 0
    with pytest.raises(ValueError, match="`choice` must be 0 to 7, got 8"):
        fitted.fit_choice(8, logits, target)


def test_too_few_examples_for_folds_get_a_temperature() -> None:
    logits, target = drawn(19, 4, 3.0)
    model = CrossValidatedCalibration().fit(logits, target)
    assert torch.equal(model(logits), TemperatureScaling().fit(logits, target)(logits))


def test_a_state_of_another_choice_is_taken_over() -> None:
    logits, target = drawn(200, 3, 1.0)
    two = [TemperatureScaling(), VectorScaling()]
    first = CrossValidatedCalibration(calibrators=two).fit(3 * logits, target)
    tilted = logits + torch.tensor([4.0, 0.0, 0.0])
    second = CrossValidatedCalibration(calibrators=two).fit(tilted, target)
    assert type(first.choice) is not type(second.choice)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.log_prob(logits), first.log_prob(logits))
    assert sum(one.fitted for one in second.candidates) == 1
    assert not any(one.fitted for one in two)


@pytest.mark.parametrize(("classes", "tried"), [(100, True), (101, False)])
def test_matrices_are_tried_up_to_a_hundred_classes(classes: int, tried: bool) -> None:
    assert (
        any(isinstance(one, StructuredMatrixScaling) for one in default_candidates(classes))
        == tried
    )


def test_one_fold_is_refused() -> None:
    with pytest.raises(ValueError, match="`folds` must be an integer >= 2"):
        CrossValidatedCalibration(folds=1)
