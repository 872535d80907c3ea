"""Every sentence of README's findings and of the page on losses after calibration has a test, or is no finding.

A finding has a test that recomputes it from committed rows, and one that simulates a world in which it is false.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binomtest

from calibench.statistics import comparison_with_best
from calibench.statistics.data_sets import compare_ranks, mean_over_sets
from tests import test_evidence_pages as evidence

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "concepts" / "do-losses-matter.md"
WEIGHTED = "LogitAdjustedLoss"

# What is no finding but says what was done, how a table is read, or where to go on.
DONE, READING, NEXT = "how it was run", "how to read it", "where to go on"

# By the beginning of a sentence: what recomputes it, and what simulates a world in which it is false.
FINDINGS: dict[str, tuple[str, str] | str] = {
    # README
    "One fitted temperature lowers the ECE": (
        "test_committed_tables_are_those_of_the_rows",
        "test_the_finding_on_the_mean_fall_is_rarely_false",
    ),
    "A calibrator chosen by cross-validation has a lower": (
        "test_committed_tables_are_those_of_the_rows",
        "test_five_sets_call_nothing_beyond_them",
    ),
    "They are too few to generalise.": (
        "test_committed_tables_are_those_of_the_rows",
        "test_five_sets_call_nothing_beyond_them",
    ),
    "After that calibrator, in its published form (without calibench's shrinkage), none of the 8": (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_findings_about_other_sets_are_rarely_false",
    ),
    "Averaged over their 5 data sets, it falls by": (
        "test_committed_tables_are_those_of_the_rows",
        "test_the_finding_on_the_mean_fall_is_rarely_false",
    ),
    "They may still differ: with 10 data sets, the power": (
        "test_committed_tables_are_those_of_the_rows",
        "test_the_sign_tests_power_is_that_of_simulated_sets",
    ),
    "An ensemble of three networks lowers the NLL": (
        "test_readmes_findings",
        "test_the_finding_on_methods_is_rarely_false",
    ),
    "None of the eight other losses and methods lowers it": (
        "test_readmes_findings",
        "test_the_finding_on_methods_is_rarely_false",
    ),
    "On long-tailed digits, none of these nine changes it": (
        "test_readmes_findings",
        "test_the_finding_on_methods_is_rarely_false",
    ),
    # the page
    "A calibration loss requires retraining": DONE,
    "So how much does the loss still matter": NEXT,
    "On ten data sets, no loss differs significantly": (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_findings_about_other_sets_are_rarely_false",
    ),
    "That does not make them equal.": (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_the_sign_tests_power_is_that_of_simulated_sets",
    ),
    "With ten data sets, the power to detect a difference": (
        "test_ten_sets_find_a_difference_in_one_study_of_ten",
        "test_the_sign_tests_power_is_that_of_simulated_sets",
    ),
    "On these ten sets, the focal calibration loss has a lower NLL": (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_findings_about_other_sets_are_rarely_false",
    ),
    "Neither result is significant after correction": (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_findings_about_other_sets_are_rarely_false",
    ),
    "Even without a calibrator, each of its runs has a lower": (
        "test_no_loss_after_a_calibrator_is_as_low_as_logit_adjustment_on_long_tails",
        "test_equal_losses_are_rarely_ahead_in_every_run_of_two_sets",
    ),
    "When class frequencies change between training and test": (
        "test_no_loss_after_a_calibrator_is_as_low_as_logit_adjustment_on_long_tails",
        "test_equal_losses_are_rarely_ahead_in_every_run_of_two_sets",
    ),
    "Where cross-entropy is overconfident, on CIFAR-10": (
        "test_cross_entropy_is_behind_two_losses_where_it_is_overconfident",
        "test_cross_entropy_is_rarely_called_behind_one_of_six_equal_losses",
    ),
    "Mean ranks over the eight data sets": (
        "test_the_figure_of_ranks_is_that_of_the_rows",
        "test_ranks_of_equal_losses_rarely_differ",
    ),
    "Losses joined by a bar do not differ": (
        "test_the_figure_of_ranks_is_that_of_the_rows",
        "test_ranks_of_equal_losses_rarely_differ",
    ),
    "Each data set counts once": READING,
    "The table compares the mean NLL of each loss": READING,
    "How to read it.": READING,
    "Only the last column is about other data sets.": READING,
    "It rests on the sign test, which makes no assumption": (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_findings_about_other_sets_are_rarely_false",
    ),
    "The p-values of the eight exploratory losses": READING,
    "Generative cross-entropy (GCE) is tested alone": DONE,
    "They hold for other data sets only if": (
        "test_committed_tables_are_those_of_the_rows",
        "test_means_over_sets_hold_for_symmetric_effects_alone",
    ),
    "The means, their t intervals and the sign-flip test": (
        "test_committed_tables_are_those_of_the_rows",
        "test_means_over_sets_hold_for_symmetric_effects_alone",
    ),
    "Limits.": READING,
    "The networks are small and trained briefly": DONE,
    "Four of the ten sets are variants of CIFAR.": (
        "test_the_ten_sets_and_their_seeds",
        "test_the_ten_sets_and_their_seeds",
    ),
    "Only these four have a learning rate": DONE,
    "Each set has three to five seeds.": (
        "test_the_ten_sets_and_their_seeds",
        "test_the_ten_sets_and_their_seeds",
    ),
    '"Not significant" does not mean "equal"': (
        "test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets",
        "test_the_sign_tests_power_is_that_of_simulated_sets",
    ),
    "On your own data:": NEXT,
    "All tables are in losses after calibration": NEXT,
    "How the runs were made, and the claims": NEXT,
}


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks" / "evidence")
        return importlib.import_module("pages")


def list_sentences(markdown: str) -> list[str]:
    """The sentences of a text, without headings, tables, pictures, code, links and emphasis."""
    text = re.sub(
        r"```.*?```|<!--.*?-->|^!\[.*?$|^#.*?$|^\|.*?$",
        "",
        markdown,
        flags=re.DOTALL | re.MULTILINE,
    )
    paragraphs = re.split(
        r"\n\s*\n|^- ", re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text), flags=re.MULTILINE
    )
    plain = (" ".join(re.sub(r"[*`]", "", paragraph).split()) for paragraph in paragraphs)
    ends = re.compile(r"(?<=[.?:]) (?=[A-Z\"])")
    return [sentence for paragraph in plain if paragraph for sentence in ends.split(paragraph)]


def test_every_sentence_has_a_test_and_a_false_world() -> None:
    readme = (ROOT / "README.md").read_text()
    findings = readme.partition("<!-- evidence: sentences -->")[2].partition("<!-- /evidence -->")[
        0
    ]
    sentences = list_sentences(findings) + list_sentences(PAGE.read_text())
    keys = [[key for key in FINDINGS if sentence.startswith(key)] for sentence in sentences]
    lacking = [sentence for sentence, key in zip(sentences, keys, strict=True) if not key]
    assert not lacking
    assert FINDINGS.keys() == {key for matches in keys for key in matches}
    tests = {name for entry in FINDINGS.values() if isinstance(entry, tuple) for name in entry}
    assert not {name for name in tests if name not in globals() and not hasattr(evidence, name)}


def test_sentences_are_found_in_lists_and_paragraphs() -> None:
    text = "# Title\n\n- **One** of [two](x.md). It is so: see\n  there.\n- Next.\n\n| a | b |\n```\nA. B.\n```\n*Last.*\n"
    assert list_sentences(text) == ["One of two.", "It is so: see there.", "Next.", "Last."]


def test_ten_sets_find_a_difference_in_one_study_of_ten(pages: ModuleType) -> None:
    corrected = pages.sign_power(10, 0.06, 0.05)[1]
    assert corrected == pytest.approx(0.10, abs=0.005)


def test_five_sets_call_nothing_beyond_them() -> None:
    """README's second finding is about five sets: even five equal signs are not significant, so nothing can be false."""
    assert min(binomtest(lower, 5).pvalue for lower in range(6)) > 0.05


def test_the_ten_sets_and_their_seeds(pages: ModuleType) -> None:
    """Counts of rows, which no world makes false."""
    assert len(pages.sets()) == 10
    assert sum("cifar" in name for name in pages.sets()) == 4
    runs = {
        len(pages.values(data, loss, "nll", pages.CVC))
        for data in pages.sets()
        for loss in pages.losses(data)
    }
    assert runs == {3, 5}


def test_no_loss_after_a_calibrator_is_as_low_as_logit_adjustment_on_long_tails(
    pages: ModuleType,
) -> None:
    """In both widths: its highest NLL without a calibrator is below the lowest of all others after one."""
    for runs_of in (pages.small_runs, pages.full_runs):
        for data in ("cifar10_lt", "cifar100_lt"):
            raw, after = (
                pages.speedrun.by_run(runs_of(data), "nll", calibrator)
                for calibrator in ("raw", pages.speedrun.CVC)
            )
            assert raw.shape == (10, 3)
            assert raw.loc[WEIGHTED].max() < after.drop(WEIGHTED).to_numpy().min()


def test_cross_entropy_is_behind_two_losses_where_it_is_overconfident(pages: ModuleType) -> None:
    runs = pages.small_runs("cifar10_overconfident")
    after = pages.speedrun.by_run(runs, "nll", pages.speedrun.CVC)
    assert after.shape == (7, 3)
    base = [*after.index].index(pages.BASE)
    worse = comparison_with_best(after.to_numpy()).worse[base]
    assert {loss for loss, is_ahead in zip(after.index, worse, strict=True) if is_ahead} == {
        "LabelSmoothingLoss",
        "FocalCalibrationLoss",
    }


def test_equal_losses_are_rarely_ahead_in_every_run_of_two_sets() -> None:
    """Ten equal losses, three seeds, two sets: one has its three runs below all others' on both in less than 1 %."""
    runs = np.random.default_rng(0).normal(size=(20_000, 2, 10, 3))
    others = np.partition(runs.min(axis=3), 1, axis=2)[
        ..., :2
    ]  # the lowest and the second lowest loss
    is_lowest = runs.min(axis=3) == others[..., :1]
    best = np.where(is_lowest, runs.max(axis=3), np.inf) < others[..., 1:]
    assert best.all(axis=1).any(axis=1).mean() < 0.01
    assert best.any(axis=2).any(axis=1).mean() > 0  # on one set it happens


@pytest.mark.slow
def test_cross_entropy_is_rarely_called_behind_one_of_six_equal_losses() -> None:
    """Seven equal losses, three seeds: the named one is significantly behind another in at most 5 % (of 200)."""
    random = np.random.default_rng(0)
    called = [
        any(comparison_with_best(random.normal(size=(7, 3)).tolist()).worse[0]) for _ in range(200)
    ]
    assert np.mean(called) <= 0.05 + 0.031  # two standard errors


def test_ranks_of_equal_losses_rarely_differ() -> None:
    """Ten equal losses on eight sets: some two mean ranks are further apart than a bar in at most 5 % (of 4,000)."""
    draws = np.random.default_rng(0).normal(size=(4000, 8, 10))
    ranks = draws.argsort(axis=2).argsort(axis=2).mean(axis=1) + 1
    critical = compare_ranks(draws[0].tolist()).critical_difference
    assert (np.ptp(ranks, axis=1) > critical).mean() <= 0.05
    far = draws - 4 * (np.arange(10) == 3)
    assert (
        np.ptp(far.argsort(axis=2).argsort(axis=2).mean(axis=1), axis=1) > critical
    ).mean() > 0.9


@pytest.mark.slow
def test_means_over_sets_hold_for_symmetric_effects_alone() -> None:
    """A t interval over ten sets misses 0 in 5 % of symmetric effects, and in twice as many of exponential ones."""
    random = np.random.default_rng(1)
    missed = [
        np.mean([not mean.low <= 0 <= mean.high for mean in map(mean_over_sets, draws)])
        for draws in (random.normal(size=(400, 10)), random.exponential(size=(400, 10)) - 1)
    ]
    assert missed[0] <= 0.05 + 0.022  # two standard errors
    assert missed[1] > 0.05 + 0.022
