"""Tables and numbers of README and of the pages about the evidence are those of the committed rows."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from calibench.statistics.data_sets import mean_over_sets
from calibench.sweeps.suite_files import load_suite
from tests.committed import agree
from tests.examples import sampled

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks" / "evidence")
        return importlib.import_module("pages")


@pytest.mark.parametrize("most", sampled([100, 3], [3]))
def test_committed_tables_are_those_of_the_rows(pages: ModuleType, most: int) -> None:
    """Of each page so many tables: most of the time is that of pages with many of one kind."""
    shown = 0
    for name in pages.PAGES:
        text = (ROOT / name).read_text()
        shown += text.count("<!-- evidence: ")
        end = "<!-- /evidence -->"
        text = end.join([*text.split(end)[:most], ""])
        agree(pages.rewritten(text), text)  # else: python benchmarks/evidence/pages.py
    assert shown >= len(pages.TABLES)


def test_a_table_that_is_not_that_of_the_rows_is_made_again(pages: ModuleType) -> None:
    text = "before\n<!-- evidence: losses -->\n| old |\n<!-- /evidence -->\nafter\n"
    found = pages.rewritten(text)
    assert "old" not in found
    assert found.count("| ") > 20
    assert pages.rewritten(found) == found


def ends(cell: str) -> tuple[float, float]:
    low, high = cell.partition("[")[2].strip("]").split(", ")
    return float(low), float(high)


def test_no_loss_differs_significantly_from_cross_entropy_beyond_these_sets(
    pages: ModuleType,
) -> None:
    """The five lines that answer the page's question, and README's third finding."""
    rows = table_of(pages, "over sets")
    eight = set(rows) - {"LogitAdjustedLoss", "GenerativeCrossEntropy"}
    assert {rows[loss]["comparison"] for loss in eight} == {"exploratory"}
    assert rows["GenerativeCrossEntropy"]["comparison"] == "primary"
    assert rows["LogitAdjustedLoss"]["other data sets"] == "too few data sets (8)"
    decided = {loss for loss in rows if pages.decidable(loss)}
    assert decided == set(rows) - {"LogitAdjustedLoss"}
    assert {rows[loss]["data sets"] for loss in decided} == {"10"}
    assert {rows[loss]["other data sets"] for loss in decided} == {"not significant"}
    lower = {loss: int(row["sets with lower NLL"]) for loss, row in rows.items()}
    assert (lower["FocalCalibrationLoss"], lower["BrierLoss"]) == (9, 1)
    # nine of ten equal signs are significant alone, and not after Holm's correction for the family
    assert float(rows["BrierLoss"]["p (sign test)"]) == pytest.approx(
        8 * binomtest(1, 10).pvalue, rel=0.02
    )


def test_the_sign_tests_power_is_that_of_simulated_sets(pages: ModuleType) -> None:
    random = np.random.default_rng(0)
    logs = np.log1p(0.05) + 0.06 * random.normal(size=(20_000, 10))
    p_values = np.array([binomtest(count, 10).pvalue for count in range(11)])[
        (logs > 0).sum(axis=1)
    ]
    shares = [(p_values <= level).mean() for level in (0.05, 0.05 / 8)]
    assert pages.sign_power(10, 0.06, 0.05) == pytest.approx(shares, abs=0.01)
    assert pages.sign_power(10, 0.06, 0.0)[0] <= 0.05  # where nothing differs


@pytest.mark.parametrize("shape", ["normal", "exponential", "one large effect"])
def test_findings_about_other_sets_are_rarely_false(shape: str) -> None:
    """The rule of "other data sets" where no loss differs: effects of median 0 and any shape, eight losses by Holm."""
    random = np.random.default_rng(1)
    effects = {
        "normal": lambda size: random.normal(size=size),
        "exponential": lambda size: random.exponential(size=size) - np.log(2),
        "one large effect": lambda size: (
            random.normal(size=size) + 20 * (random.random(size) < 0.1) * 0.5
        ),
    }[shape]
    draws = effects((4000, 8, 10))
    if shape == "one large effect":  # its median is moved back to 0
        draws -= np.median(effects(200_000))
    p_values = np.array([binomtest(count, 10).pvalue for count in range(11)])[
        (draws > 0).sum(axis=2)
    ]
    assert (p_values.min(axis=1) <= 0.05 / 8).mean() <= 0.05


def test_readmes_findings(pages: ModuleType) -> None:
    """What is not a number in a sentence: that no other method lowers the NLL, and none on the digits."""
    fall = pages.ece_fall()
    assert (
        fall.low < 0 < fall.value
    )  # so README gives the interval and claims no fall beyond these sets
    of_cifar, of_digits = map(pages.method_effects, ("cifar10_methods", "digits_lt"))
    assert len(of_cifar) == len(of_digits) == 9
    assert {name for name, (_, _, high) in of_cifar.items() if high < 0} == {"ensemble of 3"}
    assert all(low <= 0 <= high for _, low, high in of_digits.values())
    assert of_digits["ensemble of 3"][1:] == pytest.approx((-0.095, 0.034), abs=5e-4)


def test_the_finding_on_methods_is_rarely_false(pages: ModuleType) -> None:
    """Where none of nine losses and methods changes anything: some interval leaves out 0 in 5 % of 2,000 tables."""
    random, tables = np.random.default_rng(0), 2000
    plain = random.normal(size=(3, tables, 1))  # three seeds, shared by all nine
    differences = random.normal(size=(3, tables, 9)) - plain
    cells = pages.training_methods.describe_change(pd.DataFrame(differences.reshape(3, -1)))[1:]
    called = [not low <= 0 <= high for low, high in map(ends, cells)]
    assert np.reshape(called, (tables, 9)).any(axis=1).mean() <= 0.06


def test_the_finding_on_the_mean_fall_is_rarely_false() -> None:
    """An interval of 3.9 points [-.4, 8.2] over five sets holds the truth in 95 %, of skewed effects in nearly so many.

    README claims no fall beyond these sets, as the interval holds 0: with exponential effects it misses in 11 %.
    """
    random = np.random.default_rng(0)
    for draws, least in (
        (random.normal(size=(400, 5)), 0.92),
        (random.exponential(size=(400, 5)) - 1, 0.84),
    ):
        means = [mean_over_sets(draw) for draw in draws]
        assert np.mean([mean.low <= 0 <= mean.high for mean in means]) >= least


def test_numbers_in_sentences_are_those_of_the_rows(pages: ModuleType) -> None:
    page = (ROOT / "docs" / "concepts" / "refinement.md").read_text()
    for data, loss in (
        ("digits_lt", "CrossEntropyLoss"),
        ("financial_phrasebank", "GenerativeCrossEntropy"),
    ):
        for number in (("nll_refinement", "raw"), ("nll", pages.CVC)):
            mean = float(pages.values(data, loss, *number).mean())
            assert f"{mean:.3f}".removeprefix("0") in page
    page = (ROOT / "docs" / "howto" / "own-logits.md").read_text()
    _, summary = pages.posthoc("posthoc_real.csv")
    for name in ("CrossValidatedCalibration", "StructuredMatrixScaling", "TemperatureScaling"):
        assert f"than {100 * summary.win_rate[name].value:.0f} %" in page


def test_the_figure_of_ranks_is_that_of_the_rows(pages: ModuleType) -> None:
    names, _, found = pages.ranks("digits_lt")
    with (ROOT / "benchmarks" / "figures" / "evidence_ranks.csv").open(newline="") as file:
        drawn = {row["loss"]: float(row["mean_rank"]) for row in csv.DictReader(file)}
    ranks = dict(zip(names, found.mean_ranks, strict=True))
    assert drawn == pytest.approx(ranks, abs=1e-3)


def test_the_suite_of_chosen_settings_has_those_of_the_lowest_validation_nll(
    pages: ModuleType,
) -> None:
    found = pages.tuned.choices(pages.pd.read_csv(pages.RESULTS / "tuned.csv"))
    suite = load_suite("suites/tuned_chosen_cpu")
    jobs = {job.config["model"]["loss"]["class_path"]: job.config for job in suite.jobs()}
    usual = dict(pages.tuned.USUAL)
    assert len(found) == 10
    for loss, setting in found.iterrows():
        if dict(setting) == usual:
            assert loss not in jobs
        else:
            optimizer = jobs[loss]["model"]["optimizer"]["init_args"]
            assert {key: optimizer[key] for key in usual} == dict(setting)


def table_of(pages: ModuleType, name: str) -> dict[str, dict[str, str]]:
    head, *rows = pages.made(name)
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}
