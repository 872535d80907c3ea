"""Tables of README and of the pages about the evidence are those of the committed rows, and so is what is said of them."""

from __future__ import annotations

import csv
import importlib
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, ttest_1samp

from calibench.statistics import comparison_with_best
from calibench.statistics.data_sets import mean_over_sets
from calibench.sweeps.suites import load_suite
from tests.committed import agree

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parent.parent
LESS_CONFIDENT = ("BSCEGRALoss", "FLSDLoss", "DualFocalLoss", "FocalCalibrationLoss")


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks" / "evidence")
        return importlib.import_module("pages")


def test_committed_tables_are_those_of_the_rows(pages: ModuleType) -> None:
    shown = 0
    for name in pages.PAGES:
        text = (ROOT / name).read_text()
        agree(pages.rewritten(text), text)  # else: python benchmarks/evidence/pages.py
        shown += text.count("<!-- evidence: ")
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
    assert rows["LogitAdjustedLoss"]["beyond these sets"] == "8 sets cannot decide"
    decided = {loss for loss in rows if pages.decidable(loss)}
    assert decided == set(rows) - {"LogitAdjustedLoss"}
    assert {rows[loss]["data sets"] for loss in decided} == {"10"}
    assert {rows[loss]["beyond these sets"] for loss in decided} == {"not significant"}
    lower = {loss: int(row["lower on"]) for loss, row in rows.items()}
    assert (lower["FocalCalibrationLoss"], lower["BrierLoss"]) == (9, 1)
    # nine of ten equal signs are significant alone, and not after Holm's correction for the family
    assert float(rows["BrierLoss"]["p of signs"]) == pytest.approx(
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
    """The rule of "beyond these sets" where no loss differs: effects of median 0 and any shape, eight losses by Holm."""
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


def test_a_richer_calibrator_leaves_less_than_the_refinement(pages: ModuleType) -> None:
    """What the page on refinement says of two sets, and the evidence's of several."""

    def mean(data: str, loss: str, metric: str, calibrator: str) -> float:
        return float(pages.values(data, loss, metric, calibrator).mean())

    places = (("digits_lt", "CrossEntropyLoss"), ("financial_phrasebank", "GenerativeCrossEntropy"))
    page = (ROOT / "docs" / "concepts" / "refinement.md").read_text()
    for data, loss in places:
        left, after = mean(data, loss, "nll_refinement", "raw"), mean(data, loss, "nll", pages.CVC)
        assert after < left - 0.02
        assert f"{left:.3f}".removeprefix("0") in page
        assert f"{after:.3f}".removeprefix("0") in page
    below = [
        data
        for data in pages.sets()
        if mean(data, pages.BASE, "nll", pages.CVC)
        < mean(data, pages.BASE, "nll_refinement", "raw")
    ]
    assert len(below) >= 5


def test_which_losses_can_be_told_apart_by_their_ranks(pages: ModuleType) -> None:
    apart, ranks = {}, {}
    for data, p in (("digits_lt", 0.043), ("cifar10_small", 0.0070)):
        names, over, found = pages.ranks(data)
        assert found.friedman_p == pytest.approx(p, rel=0.02)
        rank = dict(zip(names, found.mean_ranks, strict=True))
        ranks[len(names), len(over)] = rank
        apart[len(names)] = {
            (one, other)
            for one in names
            for other in names
            if rank[other] - rank[one] > found.critical_difference
        }
    assert set(ranks) == {(10, 8), (9, 10)}
    assert apart == {
        10: set(),
        9: {("FocalCalibrationLoss", "BrierLoss")},
    }
    said = {
        "FocalCalibrationLoss": 3.0,
        "GenerativeCrossEntropy": 3.2,
        "CrossEntropyLoss": 5.1,
        "BrierLoss": 6.9,
    }
    rank = ranks[9, 10]
    assert {loss: rank[loss] for loss in said} == pytest.approx(said, abs=0.051)
    with (ROOT / "benchmarks" / "figures" / "evidence_ranks.csv").open(newline="") as file:
        drawn = {row["loss"]: float(row["mean_rank"]) for row in csv.DictReader(file)}
    assert drawn == pytest.approx(ranks[10, 8], abs=1e-3)


def test_the_structured_scalings_and_the_choice_are_ahead_on_four_of_five_sets(
    pages: ModuleType,
) -> None:
    rows, summary = pages.posthoc("posthoc_real.csv")
    of_models = rows.groupby(["dataset", "model", "calibrator"])["nll"].mean().unstack()
    nll = of_models.groupby(level="dataset").mean()
    for name in ("StructuredMatrixScaling", "StructuredVectorScaling", "CrossValidatedCalibration"):
        gains = nll["TemperatureScaling"] - nll[name]
        assert (gains.drop("mnist_test") > 0.004).all()
        assert abs(gains["mnist_test"]) < 0.002
        assert gains["20news_test"] > 0.6 * gains.sum()
        found = summary.improvement["nll", "TemperatureScaling", name]
        assert found.value == pytest.approx(gains.mean())
        assert 0.004 <= round(found.least, 3) <= 0.008
        assert 0.005 <= round(found.median, 3) <= 0.009
    every = [of for (_, over, _), of in summary.improvement.items() if over == "TemperatureScaling"]
    assert not any(of.low > 0 for of in every)
    best = of_models.min(axis=1)
    behind = (of_models["CrossValidatedCalibration"] - best).sort_values()
    assert behind.iloc[-2] < 0.002 < behind.iloc[-1] < 0.0055
    assert behind.index[-1][0] == "cifar100_test"
    page = (ROOT / "docs" / "howto" / "own-logits.md").read_text()
    for name in ("CrossValidatedCalibration", "StructuredMatrixScaling", "TemperatureScaling"):
        assert f"than {100 * summary.win_rate[name].value:.0f} %" in page


def test_what_is_said_of_the_halves(pages: ModuleType) -> None:
    _, *rows = pages.made("halves")
    spread = {}
    for name, nll, *_ in rows:
        mean, _, ends = nll.partition(" ")
        least, most = (float(end) for end in ends.strip("[]").split(" to "))
        spread[name] = (float(mean), most - least)
    assert max(width for mean, width in spread.values() if mean > 0) < 0.0065
    assert -0.27 < spread["HistogramBinning"][0] < -0.15


def test_what_is_said_of_calibrators_on_the_speedruns_networks(pages: ModuleType) -> None:
    rows, _ = pages.posthoc("posthoc_speedrun.csv")
    assert len(rows) == 500
    raw = rows[rows["calibrator"] == "raw"].groupby("dataset")["error"]
    assert [*raw.min().round(2), *raw.max().round(2)] == [0.31, 0.07, 0.62, 0.11]
    nll = rows.pivot_table("nll", ["dataset", "model"], "calibrator")
    gains = nll.rsub(nll["TemperatureScaling"], axis=0)
    ten, hundred = (gains.loc[f"cifar{k}_speedrun"] for k in (10, 100))
    assert ten.median().max() < 0.00035
    assert (ten["CrossValidatedCalibration"].abs() < 1e-9).sum() == 9
    best = hundred.median().nlargest(3).round(3)
    assert dict(best) == {
        "ParameterizedTemperatureScaling": 0.005,
        "CrossValidatedCalibration": 0.003,
        "EntropyTemperatureScaling": 0.002,
    }
    assert {(hundred[name] > 0).sum() for name in best.index} == {8}
    assert round(hundred["CrossValidatedCalibration"].min(), 4) == -0.0045
    single = [
        "IsotonicCalibration", "CentredIsotonicCalibration", "IsotonicTopLabel", "HistogramBinning", "BBQ", "SplineCalibration", "VennAbers",
    ]  # fmt: skip
    unlearnt = hundred.loc["BrierLoss"]
    assert (ten[single] < 0).all(axis=None)
    assert (hundred.drop("BrierLoss")[single] < 0).all(axis=None)
    shifting = [
        "StructuredVectorScaling", "StructuredMatrixScaling", "CrossValidatedCalibration", "BiasCorrectedTemperatureScaling",
        "VectorScaling", "DirichletCalibration",
    ]  # fmt: skip
    assert unlearnt[shifting].round(2).between(0.12, 0.30).all()
    assert hundred["MatrixScaling"].max() < -4.85
    ece = rows.groupby(["dataset", "calibrator"])["ece"].mean().unstack()
    assert {*ece.idxmin(axis=1)} == {"MeanReplacement"}


def test_known_frequencies_cure_a_label_shift(pages: ModuleType) -> None:
    head, *rows = pages.made("label shift digits_lt")
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    usual, known = (found[f"TemperatureScaling tail_val{cure}"] for cure in ("", " after"))
    estimated = found["TemperatureScaling tail_val EM"]
    assert float(known["NLL"]) < float(found["TemperatureScaling balanced_val"]["NLL"])
    assert float(known["Error %"]) < float(estimated["Error %"]) < float(usual["Error %"])
    assert float(estimated["NLL"]) > float(found["uncalibrated"]["NLL"])
    assert "infinite" in found["BiasCorrectedTemperatureScaling tail_val"]["NLL"]


def test_validation_wants_gamma_on_breast_cancer_and_none_on_the_digits(pages: ModuleType) -> None:
    head, *rows = pages.made("validated")
    found = {(row[0], row[2]): dict(zip(head, row, strict=True)) for row in rows}
    assert found["digits_lt", "gamma 0"]["chosen by seeds"] == "5"
    assert found["breast_cancer", "gamma 0"]["chosen by seeds"] == "0"
    assert found["digits_lt", "weight 2"]["chosen by seeds"] == "5"
    assert found["breast_cancer", "weight 0"]["chosen by seeds"] == "1"
    chosen = found["breast_cancer", "gamma by validation"]
    assert ends(chosen["P(beats 0), NLL"])[0] > 0.5 > ends(chosen["P(beats 0), NLL +CVC0"])[0]
    assert ends(found["digits_lt", "weight by validation"]["P(beats 0), NLL +CVC0"])[0] > 0.5


def test_no_loss_is_ahead_of_cross_entropy_on_a_tenth_of_the_labels(pages: ModuleType) -> None:
    _, *rows = pages.made("few labels")
    after = {row[0]: ends(row[-1]) for row in rows[1:]}
    assert len(after) == 9
    assert all(low <= 0.5 for low, _ in after.values())
    assert {loss for loss, (_, high) in after.items() if high < 0.5} == {
        "DualFocalLoss",
        "FocalCalibrationLoss",
        "WeightedMMCELoss",
    }


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


def test_what_is_said_of_the_learning_curves(pages: ModuleType) -> None:
    _, *rows = pages.made("learning curves")
    found = {name: [float(gain) for gain in gains] for name, *gains in rows}
    assert len(found) == 24
    helpful = {name for name, gains in found.items() if min(gains) > 0}
    assert helpful == {
        "AdaptiveTemperatureScaling",
        "CrossValidatedCalibration",
        "EnsembleTemperatureScaling",
        "EntropyTemperatureScaling",
        "IRM",
        "IsotonicTopLabel",
        "ParameterizedTemperatureScaling",
        "SplineCalibration",
        "StructuredMatrixScaling",
        "StructuredVectorScaling",
        "TemperatureScaling",
    }
    best = {max(found, key=lambda name: found[name][place]) for place in range(4)}
    assert best == {"CrossValidatedCalibration"}
    assert np.isfinite([*found.values()]).all()
    late = {name for name, gains in found.items() if gains[1] < 0 < gains[3]}
    assert late == {
        "BetaCalibration",
        "BiasCorrectedTemperatureScaling",
        "CentredIsotonicCalibration",
        "DirichletCalibration",
        "IsotonicCalibration",
        "PlattScaling",
        "QuadraticScaling",
        "VectorScaling",
        "VennAbers",
    }
    never = {name for name, gains in found.items() if max(gains) < 0}
    assert never == {"HistogramBinning", "MatrixScaling", "MeanReplacement"}


def test_what_is_said_of_few_examples_of_single_sets(pages: ModuleType) -> None:
    nll = pages.posthoc("posthoc_sizes.csv")[0].groupby(["dataset", "size", "calibrator"])["nll"]
    of = nll.mean().unstack()
    gains = of.rsub(of["raw"], axis=0).drop(columns="raw")
    few = gains.loc["cifar100_test", 100]
    assert list(few[few > 0].index) == ["EntropyTemperatureScaling"]
    assert (gains.loc["mnist_test", 100] < 0).all()
    assert round(-gains.loc[("mnist_test", 100), "TemperatureScaling"], 3) == 0.008
    assert round(-gains.loc[("mnist_test", 100), "CrossValidatedCalibration"], 3) == 0.004
    assert gains.loc[("mnist_test", 3000), "StructuredMatrixScaling"] < 0


def test_what_is_said_of_tuning_and_of_label_shift(pages: ModuleType) -> None:
    _, *rows = pages.made("tuned")
    brier = next(row for row in rows if row[0] == "BrierLoss")
    assert ends(brier[-2])[1] < 0.5 < ends(brier[-1])[1]
    behind = {row[0] for row in rows if row[-1] and ends(row[-1])[1] < 0.5}
    assert behind == {"BSCEGRALoss", "DualFocalLoss", "FLSDLoss", "WeightedMMCELoss"}
    assert sum(row[1].startswith("0.3,") for row in rows) == 7
    _, *rows = pages.made("label shift cifar10_lt")
    nll = {row[0]: row[1] for row in rows}
    usual = "TemperatureScaling tail_val"
    assert float(nll["uncalibrated"]) < float(nll[usual])
    best = "BiasCorrectedTemperatureScaling tail_val after"
    assert min(nll.values()) == nll["BiasCorrectedTemperatureScaling balanced_val"]
    assert sorted(nll.values())[1] == nll[best]
    _, *rows = pages.made("label shift by loss")
    losses = {row[0]: [float(cell) for cell in row[1:]] for row in rows}
    cross_entropy, adjusted = (losses[loss] for loss in ("CrossEntropyLoss", "LogitAdjustedLoss"))
    assert (cross_entropy[0], adjusted[0], adjusted[2]) == (1.386, 0.845, 1.246)
    assert (cross_entropy[3], adjusted[3]) == (0.867, 0.814)
    estimated = sorted(nll[4] for nll in losses.values())
    assert estimated[0] == 0.768
    assert estimated[7] == 0.965 < estimated[8]
    assert losses["BrierLoss"][4] == 8.564


def test_focal_losses_are_ahead_on_a_long_tail_whose_frequencies_are_told(
    pages: ModuleType,
) -> None:
    rows = pages.pd.read_csv(pages.RESULTS / "label_shift.csv")
    cured = rows[
        (rows["benchmark"] == "cifar10_lt_small")
        & (rows["calibrator"] == "BiasCorrectedTemperatureScaling tail_val after")
    ]
    nll, error = (
        cured[cured["metric"] == metric].pivot_table("value", "loss", "seed")
        for metric in ("nll", "error")
    )
    four, two = [*LESS_CONFIDENT], [pages.BASE, "LogitAdjustedLoss"]
    assert nll.loc[four].to_numpy().max() < nll.loc[two].to_numpy().min()
    means = nll.loc[four].mean(axis=1).round(3)
    assert (means.min(), means.max()) == (0.742, 0.772)
    errors = error.mean(axis=1)
    assert errors[four].between(0.24, 0.26).all()
    assert errors[two].round(3).to_list() == [0.282, 0.263]


def table_of(pages: ModuleType, name: str) -> dict[str, dict[str, str]]:
    head, *rows = pages.made(name)
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


DIFFERENCE = "NLL +CVC, minus that of cross-entropy"
AT_ONE_LEVEL = (
    "CrossEntropyLoss", "GenerativeCrossEntropy", "AdaFocalLoss", "FocalCalibrationLoss", "LabelSmoothingLoss", "WeightedMMCELoss",
)  # fmt: skip
BEHIND = {"BrierLoss": 0.016, "DualFocalLoss": 0.019, "FLSDLoss": 0.021, "BSCEGRALoss": 0.040}


def test_what_is_said_of_losses_at_real_accuracy(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun")
    errors = {loss: float(row["Error %"].partition(" ")[0]) for loss, row in found.items()}
    assert errors.pop("BSCEGRALoss") == 10.08
    assert 7 < min(errors.values()) < max(errors.values()) < 8.3
    runs = {loss: int(row["runs"]) for loss, row in found.items()}
    assert runs.pop(pages.BASE) == runs.pop("GenerativeCrossEntropy") == 5
    assert {*runs.values()} == {3}
    assert not any("**" in row["NLL +CVC"] for row in found.values())
    after = {loss: float(row["NLL +CVC"].partition(" ")[0]) for loss, row in found.items()}
    six = [after[loss] for loss in AT_ONE_LEVEL]
    assert max(six) - min(six) < 0.009
    differences = {loss: row[DIFFERENCE] for loss, row in found.items() if loss != pages.BASE}
    means = {loss: round(float(cell.partition(" ")[0]), 3) for loss, cell in differences.items()}
    behind = [means[loss] for loss in ("BrierLoss", "FLSDLoss", "DualFocalLoss")]
    assert behind == [0.014, 0.020, 0.028]
    below = {loss for loss, cell in differences.items() if ends(cell)[1] < 0}
    assert below == {"LabelSmoothingLoss", "FocalCalibrationLoss"}
    for loss, said in zip(sorted(below), ([-0.006, -0.002], [-0.004, -0.002]), strict=True):
        assert [round(end, 3) for end in ends(differences[loss])] == said
    nll, error = (
        pages.speedrun.by_run(pages.full_runs(), *of)
        for of in (("nll", pages.speedrun.CVC), ("error", "raw"))
    )
    paired = nll - nll.loc[pages.BASE]
    p_values = {loss: ttest_1samp(paired.loc[loss].dropna(), 0).pvalue for loss in differences}
    assert [loss for loss, p in p_values.items() if p * len(p_values) < 0.05] == ["DualFocalLoss"]
    ends_of = [(of.min(), of.max()) for of in (paired.loc["BSCEGRALoss"], error.loc["BSCEGRALoss"])]
    assert np.round(ends_of, 3).tolist() == [[0.046, 0.099], [0.089, 0.108]]
    assert error.loc["BSCEGRALoss"].std() == error.std(axis=1).max()
    on_cores = nll["cpu"].count(axis=1)
    assert {on_cores.pop(loss) for loss in (pages.BASE, "GenerativeCrossEntropy")} == {3}
    twice = ("AdaFocalLoss", "FocalCalibrationLoss", "WeightedMMCELoss", "BSCEGRALoss")
    assert {on_cores.pop(loss) for loss in twice} == {2}
    assert {*on_cores} == {1}
    assert nll.drop(columns="cpu", level=0).count(axis=1).sum() == 16


def test_what_is_said_of_the_orders_of_losses(pages: ModuleType) -> None:
    orders = {row[0]: row[1:] for row in pages.made("speedrun orders")}
    assert orders["cifar10: small and full width"][0].startswith("1.00 [")
    agree(orders["cifar10: small and full width"][1], "0.69 [0.31, 0.88]")
    agree(orders["cifar100: small and full width"][1], "0.73 [0.39, 0.90]")
    agree(orders["full width: cifar10 and cifar100"][1], "0.56 [0.10, 0.82]")
    agree(orders["small width: cifar10 and cifar100"][1], "0.60 [0.16, 0.84]")
    agree(orders["small width: cifar10 and cifar10_lt"][0], "-0.44 [-0.78, 0.10]")
    agree(orders["small width: cifar10 and cifar10_lt"][1], "-0.33 [-0.73, 0.23]")
    agree(orders["small width: cifar10 and cifar100_lt"][1], "-0.17 [-0.63, 0.39]")
    agree(orders["full width: cifar10 and cifar10_lt"][1], "0.00 [-0.52, 0.52]")
    agree(orders["full width: cifar10 and cifar100_lt"][1], "-0.17 [-0.63, 0.39]")
    agree(orders["cifar10_lt: small and full width"][1], "0.47 [-0.02, 0.78]")
    agree(orders["cifar100_lt: small and full width"][1], "0.73 [0.39, 0.90]")
    agree(orders["cifar10_overconfident: small and full width"][1], "0.71 [0.15, 0.93]")
    for width, other in product(("full", "small"), ("_lt", "0_lt", "_overconfident")):
        low, high = ends(orders[f"{width} width: cifar10 and cifar10{other}"][1])
        assert low < 0 < high
    tails = [pages.full_runs(data) for data in ("cifar10_lt", "cifar100_lt")]
    for of, tau in (("raw", "0.82 [0.56, 0.93]"), (pages.speedrun.CVC, "0.38 [-0.13, 0.73]")):
        both = (pages.speedrun.by_run(some, "nll", of).mean(axis=1) for some in tails)
        agree(pages.speedrun.tau(*both), tau)


def test_what_is_said_of_cifar100_at_full_width(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun cifar100")
    assert {row["runs"] for row in found.values()} == {"5"}
    errors = {loss: float(row["Error %"].partition(" ")[0]) for loss, row in found.items()}
    assert round(errors[pages.BASE], 1) == 31.9
    assert round(errors["BrierLoss"]) == 63
    best = {loss for loss, row in found.items() if set("*~") & set(row["NLL +CVC"])}
    assert best == {"FocalCalibrationLoss", "LabelSmoothingLoss", "WeightedMMCELoss"}
    raw, ts, cvc = (
        pages.speedrun.by_run(pages.full_runs("cifar100"), "nll", of)
        for of in ("raw", pages.speedrun.TS, pages.speedrun.CVC)
    )
    behind = {"BSCEGRALoss": 0.079, "DualFocalLoss": 0.019, "FLSDLoss": 0.025, "BrierLoss": 1.370}
    ahead = {"FocalCalibrationLoss": -0.019}
    assert told_from_base(pages, cvc) == (behind.keys(), ahead.keys())
    three = cvc.loc[:, "NVIDIA H100 80GB HBM3"]
    assert three.shape == (10, 3)
    assert told_from_base(pages, three) == ({"BSCEGRALoss", "BrierLoss"}, set())
    for loss, difference in (behind | ahead).items():
        assert (cvc.loc[loss] - cvc.loc[pages.BASE]).mean() == pytest.approx(difference, abs=6e-4)
    runs = (cvc.loc["FocalCalibrationLoss"] - cvc.loc[pages.BASE]).round(3)
    assert [*runs] == [-0.033, -0.028, -0.008, -0.014, -0.009]
    assert [*ends(found["FocalCalibrationLoss"][DIFFERENCE])] == pytest.approx([-0.0325, -0.0045])
    means = [of.mean(axis=1)[[*AT_ONE_LEVEL]] for of in (raw, cvc)]
    assert [round(of.max() - of.min(), 3) for of in means] == [0.050, 0.024]
    assert {*cvc.index} - {*AT_ONE_LEVEL} == behind.keys()
    above = [(raw, "FocalCalibrationLoss", 0.020), (ts, "GenerativeCrossEntropy", 0.006)]
    for of, loss, difference in above:
        assert round((of.loc[loss] - of.loc[pages.BASE]).mean(), 3) == difference


def told_from_base(pages: ModuleType, values: Any) -> tuple[set[str], set[str]]:
    """The losses that can be told to be behind cross-entropy, and ahead of it, all being compared."""
    worse = comparison_with_best(values.to_numpy()).worse
    base = [*values.index].index(pages.BASE)
    behind = {loss for loss, of in zip(values.index, worse, strict=True) if of[base]}
    return behind, {loss for loss, of in zip(values.index, worse[base], strict=True) if of}


def test_what_is_said_of_the_search(pages: ModuleType) -> None:
    search = pages.searched().query("benchmark == 'cifar100_rates'")
    chosen = pages.rates.choices(search).loc["cifar100_rates"]
    assert len(chosen) == 10
    assert chosen["inside"].all()
    brier = search[search["loss"] == "BrierLoss"].set_index("lr")["error"]
    assert [pages.rates.title(rate) for rate in brier.index] == ["11.5", "34", "103", "306", "919"]
    assert brier.idxmin() == chosen["lr"]["BrierLoss"]
    assert 0.82 < brier.min() < 0.825
    nine = chosen.drop("BrierLoss")
    assert {pages.rates.title(rate) for rate in nine["lr"]} == {"11.5"}
    assert 0.455 < nine["error"].min() < nine["error"].max() < 0.4835
    others = search[search["loss"] != "BrierLoss"]
    assert others[others["lr"] > 0.004]["error"].between(0.636, 0.824).all()
    nll = others[others["lr"] < 0.004].pivot_table("nll_ts", "lr", "loss")
    behind = nll.sub(nll[pages.BASE], axis=0).round(2).to_numpy().T
    behind_by = dict(zip(nll.columns, behind.tolist(), strict=True))
    assert behind_by["GenerativeCrossEntropy"] == [0.22, 0.09]
    assert behind_by["DualFocalLoss"][0] == -0.12
    assert behind_by["FocalCalibrationLoss"][0] == -0.11
    seven = nll.drop(columns=["GenerativeCrossEntropy", "BSCEGRALoss"])
    assert ((seven.max(axis=1) - seven.min(axis=1)).round(3) < [0.14, 0.0245]).all()


def test_what_is_said_of_the_small_speedrun(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun small")
    assert len(found) == 10
    assert {row["runs"] for row in found.values()} == {"3"}
    errors = [float(row["Error %"].partition(" ")[0]) for row in found.values()]
    assert 10.6 < min(errors) < max(errors) < 12.6
    bold = {
        loss: row["NLL +CVC"].strip("*~")
        for loss, row in found.items()
        if set("*~") & set(row["NLL +CVC"])
    }
    assert set(bold) == {
        "FocalCalibrationLoss", "GenerativeCrossEntropy", "CrossEntropyLoss", "AdaFocalLoss", "LabelSmoothingLoss",
    }  # fmt: skip
    noisy = {loss for loss, row in found.items() if row["NLL +CVC"].endswith("~")}
    assert noisy == set(bold) - {"FocalCalibrationLoss", "GenerativeCrossEntropy"}
    assert [bold["FocalCalibrationLoss"][:5], bold["LabelSmoothingLoss"][:5]] == ["0.318", "0.335"]
    above = {
        loss for loss, row in found.items() if row[DIFFERENCE] and ends(row[DIFFERENCE])[0] > 0
    }
    assert above == set(BEHIND)
    for loss, difference in BEHIND.items():
        assert round(float(found[loss][DIFFERENCE].partition(" ")[0]), 3) == difference
    said = {
        "GenerativeCrossEntropy": (-0.003, -0.024, 0.018),
        "FocalCalibrationLoss": (-0.006, -0.019, 0.006),
    }
    for loss, numbers in said.items():
        cell = found[loss][DIFFERENCE]
        assert (float(cell.partition(" ")[0]), *ends(cell)) == pytest.approx(numbers, abs=6e-4)
    after = pages.speedrun.by_run(pages.small_runs(), "nll", pages.speedrun.CVC)
    comparison = comparison_with_best(after.to_numpy())
    base = [*after.index].index(pages.BASE)
    worse = {loss for loss, of in zip(after.index, comparison.worse, strict=True) if of[base]}
    assert worse == {"BSCEGRALoss"}
    raw = pages.speedrun.by_run(pages.small_runs(), "nll", "raw").mean(axis=1)
    spans = [round(float(of.max() - of.min()), 3) for of in (raw, after.mean(axis=1))]
    assert spans == [0.285, 0.046]


def test_what_is_said_of_one_rate(pages: ModuleType) -> None:
    own, one = (
        pages.speedrun.by_run(runs, "nll", pages.speedrun.CVC)
        for runs in (pages.small_runs(), pages.at_one_rate())
    )
    less = (one - own).loc[["BrierLoss", "BSCEGRALoss", "LabelSmoothingLoss"]]
    assert [*less.mean(axis=1).round(3)] == [0.016, 0.007, -0.007]
    assert (less.iloc[:2] > 0).all(axis=None)
    assert [*less.loc["LabelSmoothingLoss"].round(3)] == [-0.029, 0.010, -0.003]
    assert (own == one).all(axis=1).sum() == 7
    above = one.mean(axis=1) - one.mean(axis=1)[pages.BASE]
    assert round(above["BrierLoss"], 3) == 0.033
    comparison = comparison_with_best(one.to_numpy())
    base = [*one.index].index(pages.BASE)
    worse = {loss for loss, of in zip(one.index, comparison.worse, strict=True) if of[base]}
    assert worse == {"BrierLoss", "BSCEGRALoss"}
    agree(pages.speedrun.tau(own.mean(axis=1), one.mean(axis=1)), "0.91 [0.76, 0.97]")


def test_what_is_said_of_the_small_speedrun_on_cifar100(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun small cifar100")
    assert len(found) == 10
    assert {row["runs"] for row in found.values()} == {"3"}
    above = {
        loss for loss, row in found.items() if row[DIFFERENCE] and ends(row[DIFFERENCE])[0] > 0
    }
    assert above == {"WeightedMMCELoss", "BSCEGRALoss", "BrierLoss"}
    differences = {
        loss: float(row[DIFFERENCE].partition(" ")[0])
        for loss, row in found.items()
        if row[DIFFERENCE]
    }
    assert round(differences["WeightedMMCELoss"], 3) == 0.003
    assert round(differences["BSCEGRALoss"], 3) == 0.033
    gce = found["GenerativeCrossEntropy"][DIFFERENCE]
    assert (float(gce.partition(" ")[0]), *ends(gce)) == pytest.approx(
        (-0.0005, -0.010, 0.009), abs=5e-4
    )
    assert 79.5 < float(found.pop("BrierLoss")["Error %"].partition(" ")[0]) < 80.5
    errors = [float(row["Error %"].partition(" ")[0]) for row in found.values()]
    assert 46 < min(errors) < max(errors) <= 48.5

    runs = pages.small_runs("cifar100")
    raw, ts, cvc = (
        pages.speedrun.by_run(runs, "nll", of)
        for of in ("raw", pages.speedrun.TS, pages.speedrun.CVC)
    )
    comparison = comparison_with_best(cvc.to_numpy())
    base = [*cvc.index].index(pages.BASE)
    worse = {loss for loss, of in zip(cvc.index, comparison.worse, strict=True) if of[base]}
    assert worse == {"BrierLoss"}
    means = [of.mean(axis=1).drop("BrierLoss") for of in (raw, ts, cvc)]
    means.append(means[1].drop("GenerativeCrossEntropy"))
    assert [round(of.max() - of.min(), 3) for of in means] == [0.261, 0.094, 0.042, 0.039]
    assert round(means[1]["GenerativeCrossEntropy"], 3) == 1.754
    assert round(means[1]["GenerativeCrossEntropy"] - means[1][pages.BASE], 3) == 0.083
    assert means[2]["GenerativeCrossEntropy"] == pytest.approx(1.6605, abs=6e-5)
    search = pages.searched().query("benchmark == 'cifar100_rates'")
    chosen = pages.rates.choices(search).droplevel("benchmark")["nll_ts"]
    agree(pages.speedrun.tau(chosen, ts.mean(axis=1)), "0.69 [0.31, 0.88]")


def test_what_is_said_of_label_smoothing_and_of_the_search(pages: ModuleType) -> None:
    runs = pages.small_runs()
    errors, nll = (
        pages.speedrun.by_run(runs, *of).loc["LabelSmoothingLoss"].round(3)
        for of in (("error", "raw"), ("nll", pages.speedrun.CVC))
    )
    assert [*errors] == [0.124, 0.106, 0.111]
    assert [*nll] == [0.365, 0.319, 0.323]
    assert pages.rates.choices(pages.searched())["inside"].all()
    search = pages.searched().query("benchmark == 'cifar10_rates'")
    at_34 = search[search["lr"] == 0.00433].set_index("loss")["error"].round(2).to_dict()
    assert at_34 == {"BSCEGRALoss": 0.57, "BrierLoss": 0.11, "LabelSmoothingLoss": 0.36}
    tried = search[search["loss"] == "LabelSmoothingLoss"].set_index("lr").loc[[0.00051, 0.001465]]
    assert abs(tried["val_nll_ts"].diff().iloc[-1]) < 1e-4
    chosen = pages.rates.choices(search).droplevel("benchmark")["nll_ts"]
    found = pages.speedrun.by_run(runs, "nll", pages.speedrun.TS).mean(axis=1)
    agree(pages.speedrun.tau(chosen, found), "0.69 [0.31, 0.88]")


def test_what_is_said_of_the_long_tail(pages: ModuleType) -> None:
    speedrun, runs = pages.speedrun, pages.small_runs("cifar10_lt")
    raw, cvc, error, ece = (
        speedrun.by_run(runs, metric, of)
        for metric, of in (("nll", "raw"), ("nll", speedrun.CVC), ("error", "raw"), ("ece", "raw"))
    )
    assert raw.shape == (10, 3)
    means = raw.mean(axis=1)
    assert set(raw.index[cvc.mean(axis=1) < means]) == {"BrierLoss"}
    harmed = [means[pages.BASE], cvc.mean(axis=1)[pages.BASE]]
    harmed += [means["LogitAdjustedLoss"], cvc.mean(axis=1)["LogitAdjustedLoss"]]
    assert harmed == pytest.approx([1.386, 1.448, 0.845, 1.213], abs=6e-4)
    assert means.drop("LogitAdjustedLoss").min() == pytest.approx(1.086, abs=6e-4)
    errors = error.mean(axis=1).round(2)
    assert (errors.pop("LogitAdjustedLoss"), errors.pop("BrierLoss")) == (0.27, 0.52)
    assert (errors.min(), errors.max()) == (0.37, 0.42)
    for of, least, most in ((raw, 0.26, 0.30), (cvc, 0.19, 0.24)):
        ahead = of.loc[pages.BASE].mean() - of.loc[[*LESS_CONFIDENT]].mean(axis=1)
        assert (ahead.min().round(2), ahead.max().round(2)) == (least, most)
        assert of.loc[[*LESS_CONFIDENT]].to_numpy().max() < of.loc[pages.BASE].min()
    here = ece.mean(axis=1)
    balanced = speedrun.by_run(pages.small_runs(), "ece", "raw").mean(axis=1)[[*LESS_CONFIDENT]]
    assert round(here[pages.BASE], 2) == 0.16
    assert here[[*LESS_CONFIDENT]].between(0.03, 0.075).all()
    assert balanced.between(0.105, 0.27).all()
    after = [
        pages.values("cifar10_lt_small", loss, "nll", pages.CVC).mean() for loss in LESS_CONFIDENT
    ]
    assert (round(min(after), 3), round(max(after), 3)) == (1.180, 1.260)
    lost = {
        loss
        for loss in LESS_CONFIDENT
        if pages.against_base(loss, pages.CVC, ["cifar10_small"]).startswith("0.00")
    }
    assert lost == {*LESS_CONFIDENT[:3]}


def test_what_is_said_of_the_long_tail_of_cifar100(pages: ModuleType) -> None:
    speedrun, runs = pages.speedrun, pages.small_runs("cifar100_lt")
    raw, cvc, error = (
        speedrun.by_run(runs, metric, of)
        for metric, of in (("nll", "raw"), ("nll", speedrun.CVC), ("error", "raw"))
    )
    assert raw.shape == (10, 3)
    means, after = raw.mean(axis=1), cvc.mean(axis=1)
    assert set(raw.index[after < means]) == {"BrierLoss"}
    shown = [means[pages.BASE], after[pages.BASE], means["LogitAdjustedLoss"]]
    assert shown == pytest.approx([3.590, 3.811, 2.988], abs=6e-4)
    assert means.drop("LogitAdjustedLoss").min() == pytest.approx(3.354, abs=6e-4)
    errors = error.mean(axis=1).round(2)
    assert (errors.pop("LogitAdjustedLoss"), errors.pop("BrierLoss")) == (0.69, 0.87)
    assert (errors.min(), errors.max(), errors[pages.BASE]) == (0.72, 0.76, 0.74)
    four = [*LESS_CONFIDENT]
    assert raw.loc[four].to_numpy().max() < raw.loc[pages.BASE].min()
    for of, digits, said in ((means, 2, (0.08, 0.24)), (after, 3, (0.013, 0.069))):
        ahead = (of[pages.BASE] - of[four]).round(digits)
        assert (ahead.min(), ahead.max()) == said
    found = table_of(pages, "speedrun small cifar100_lt")
    assert all(ends(found[loss][DIFFERENCE])[1] > 0 for loss in four)
    comparison = comparison_with_best(cvc.to_numpy())
    base = [*cvc.index].index(pages.BASE)
    behind = {loss for loss, is_ in zip(cvc.index, comparison.worse[base], strict=True) if is_}
    assert behind == {"GenerativeCrossEntropy", "LogitAdjustedLoss"}
    for loss, numbers in (
        ("GenerativeCrossEntropy", (-0.337, -0.347, -0.327)),
        ("LogitAdjustedLoss", (-0.639, -0.676, -0.601)),
    ):
        cell = found[loss][DIFFERENCE]
        assert (float(cell.partition(" ")[0]), *ends(cell)) == pytest.approx(numbers, abs=6e-4)
    lead = [
        pages.values("cifar100_lt_small", pages.BASE, "nll", pages.CVC).mean()
        - pages.values("cifar100_lt_small", loss, "nll", pages.CVC).mean()
        for loss in four
    ]
    assert (round(min(lead), 2), round(max(lead), 2)) == (0.09, 0.24)
    for loss in four:
        assert pages.against_base(loss, pages.CVC, ["cifar100_lt_small"]).startswith("1.00")
        balanced = pages.against_base(loss, pages.CVC, ["cifar100_speedrun"])
        assert balanced.startswith("1.00" if loss == "FocalCalibrationLoss" else "0.00")
    other = pages.small_runs("cifar10_lt")
    for of, tau in (("raw", "0.87 [0.66, 0.95]"), (speedrun.CVC, "0.64 [0.23, 0.86]")):
        both = (speedrun.by_run(some, "nll", of).mean(axis=1) for some in (runs, other))
        agree(speedrun.tau(*both), tau)


def test_what_is_said_of_the_overconfident_regime(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun small overconfident")
    assert len(found) == 7
    assert {row["runs"] for row in found.values()} == {"3"}
    errors = {loss: float(row["Error %"].partition(" ")[0]) for loss, row in found.items()}
    assert round(errors.pop("FLSDLoss")) == 19
    assert (round(errors["LabelSmoothingLoss"], 1), round(errors[pages.BASE], 1)) == (15.5, 16.7)
    raw, cvc = (
        pages.speedrun.by_run(pages.small_runs("cifar10_overconfident"), "nll", of)
        for of in ("raw", pages.speedrun.CVC)
    )
    differences = [of - of.loc[pages.BASE] for of in (raw, cvc)]
    ahead = ["LabelSmoothingLoss", "DualFocalLoss", "BrierLoss", "FocalCalibrationLoss"]
    assert all((of.loc[ahead] < 0).all(axis=None) for of in differences)
    means = [of.mean(axis=1).round(3) for of in differences]
    assert (means[0][ahead].min(), means[0][ahead].max()) == (-0.044, -0.027)
    assert [*means[1][ahead]] == pytest.approx([-0.034, -0.016, -0.015, -0.014], abs=6e-4)
    assert [round(of["FLSDLoss"], 2) for of in means] == [0.04, 0.06]
    gce = found["GenerativeCrossEntropy"][DIFFERENCE]
    assert (float(gce.partition(" ")[0]), *ends(gce)) == pytest.approx(
        (0.006, -0.005, 0.017), abs=6e-4
    )
    comparison = comparison_with_best(cvc.to_numpy())
    base = [*cvc.index].index(pages.BASE)
    behind = {loss for loss, is_ in zip(cvc.index, comparison.worse[base], strict=True) if is_}
    assert behind == {"LabelSmoothingLoss", "FocalCalibrationLoss"}
    orders = {row[0]: row[1:] for row in pages.made("speedrun orders")}
    for tau in orders["small width: cifar10 and cifar10_overconfident"]:
        agree(tau, "-0.05 [-0.66, 0.60]")


def test_what_is_said_of_long_tails_at_full_width(pages: ModuleType) -> None:
    speedrun, four, places = pages.speedrun, [*LESS_CONFIDENT], ("raw", pages.speedrun.CVC)
    ten, hundred = (
        [speedrun.by_run(pages.full_runs(data), "nll", of) for of in places]
        for data in ("cifar10_lt", "cifar100_lt")
    )
    assert {of.shape for of in (*ten, *hundred)} == {(10, 3)}
    for (raw, cvc), spared in ((ten, set()), (hundred, {"BrierLoss"})):
        assert set(raw.index[cvc.mean(axis=1) < raw.mean(axis=1)]) == spared
        lead = raw.loc[pages.BASE].mean() - raw.loc["LogitAdjustedLoss"].mean()
        assert lead == pytest.approx(0.43, abs=5e-3)
    adjusted = [of.loc["LogitAdjustedLoss"].mean() for of in ten]
    assert adjusted[1] - adjusted[0] == pytest.approx(0.31, abs=5e-3)
    for data, base, adjusted_error, least in (
        ("cifar10_lt", 34, 20.9, 31), ("cifar100_lt", 66, 60.6, 63.8),
    ):  # fmt: skip
        errors = 100 * speedrun.by_run(pages.full_runs(data), "error", "raw").mean(axis=1)
        assert round(errors[pages.BASE]) == base
        assert errors.pop("LogitAdjustedLoss") == pytest.approx(adjusted_error, abs=0.05)
        assert errors.min() > least

    def ahead(of: Any) -> Any:
        return of.loc[pages.BASE] - of.drop(index=pages.BASE)

    for of, least, most in (
        (ten[0], 0.09, 0.20),
        (hundred[0], 0.10, 0.21),
        (hundred[1], 0.15, 0.24),
    ):
        lead = ahead(of).loc[four]
        assert (lead > 0).all(axis=None)
        means = lead.mean(axis=1).round(2)
        assert (means.min(), means.max()) == (least, most)
    after = ahead(ten[1])
    won = {loss: int((after.loc[loss] > 0).sum()) for loss in four}
    assert {loss for loss, count in won.items() if count == 3} == {*four} - {"BSCEGRALoss"}
    assert won["BSCEGRALoss"] == 2
    mean, raw = after.mean(axis=1), ahead(ten[0]).mean(axis=1)
    assert mean["FLSDLoss"] == pytest.approx(0.04, abs=5e-3)
    assert mean[["DualFocalLoss", "LogitAdjustedLoss"]].tolist() == pytest.approx(
        [0.135, 0.132], abs=6e-4
    )
    shown = [of[loss] for loss in ("DualFocalLoss", "FocalCalibrationLoss") for of in (raw, mean)]
    assert shown == pytest.approx([0.200, 0.135, 0.154, 0.080], abs=6e-4)

    def told(of: Any) -> set[str]:
        comparison = comparison_with_best(of.to_numpy())
        base = [*of.index].index(pages.BASE)
        return {loss for loss, is_ in zip(of.index, comparison.worse[base], strict=True) if is_}

    assert told(ten[1]) == {"DualFocalLoss", "LogitAdjustedLoss"}
    assert told(hundred[1]) == {*hundred[1].index} - {pages.BASE, "BrierLoss", "WeightedMMCELoss"}


def test_what_is_said_of_the_overconfident_regime_at_full_width(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun overconfident")
    assert {row["runs"] for row in found.values()} == {"3"}
    errors = {loss: float(row["Error %"].partition(" ")[0]) for loss, row in found.items()}
    assert (round(errors["LabelSmoothingLoss"], 1), round(errors[pages.BASE], 1)) == (12.3, 13.2)
    raw, cvc = (
        pages.speedrun.by_run(pages.full_runs("cifar10_overconfident"), "nll", of)
        for of in ("raw", pages.speedrun.CVC)
    )
    before, after = (of - of.loc[pages.BASE] for of in (raw, cvc))
    ahead = {loss for loss in after.index if (after.loc[loss] < 0).all()}
    assert ahead == {"LabelSmoothingLoss", "FocalCalibrationLoss", "BrierLoss"}
    for loss, said in (
        ("LabelSmoothingLoss", (-0.021, -0.038, -0.003)),
        ("FocalCalibrationLoss", (-0.012, -0.022, -0.003)),
        ("BrierLoss", (-0.010, -0.022, 0.002)),
    ):
        cell = found[loss][DIFFERENCE]
        assert (float(cell.partition(" ")[0]), *ends(cell)) == pytest.approx(said, abs=6e-4)
    first = {loss for loss in before.index if (before.loc[loss] < 0).all()}
    assert first == {"FocalCalibrationLoss", "BrierLoss", "DualFocalLoss"}
    means = before.mean(axis=1)[["FocalCalibrationLoss", "BrierLoss", "DualFocalLoss"]]
    assert means.tolist() == pytest.approx([-0.045, -0.038, -0.025], abs=6e-4)
    assert before.loc["LabelSmoothingLoss"].min() > 0
    assert after.loc["FLSDLoss"].mean() == pytest.approx(0.05, abs=1e-3)
    comparison = comparison_with_best(cvc.to_numpy())
    base = [*cvc.index].index(pages.BASE)
    behind = {loss for loss, is_ in zip(cvc.index, comparison.worse[base], strict=True) if is_}
    assert behind == {"LabelSmoothingLoss", "FocalCalibrationLoss"}


def test_regimes_of_one_data_set_are_no_sample(pages: ModuleType) -> None:
    head, *_ = pages.made("speedrun over regimes")
    assert head == ["loss", "comparison", "regimes", "lower on", "mean difference after CVC, %"]
    rows = table_of(pages, "speedrun over regimes")
    assert rows["GenerativeCrossEntropy"]["comparison"] == "primary"
    assert rows["GenerativeCrossEntropy"]["mean difference after CVC, %"] == "-1.0"


def test_what_is_said_of_calibrators_on_corrupted_images(pages: ModuleType) -> None:
    """A calibrator of clean images that takes confidence away helps on corrupted ones, one that adds it harms."""

    def changes(data: str) -> Any:
        runs = pages.speedrun.on_corrupted(pages.full_runs(data))
        sets = [f"severity {severity}" for severity in pages.speedrun.SEVERITIES]
        of = {
            name: [
                pages.speedrun.by_run(runs, "nll", calibrator, name).mean(axis=1)
                for calibrator in ("raw", pages.speedrun.CVC)
            ]
            for name in sets
        }
        return [after - raw for raw, after in of.values()]

    augmented, without = changes("cifar10"), changes("cifar10_overconfident")
    helped = ["CrossEntropyLoss", "GenerativeCrossEntropy", "BrierLoss", "FocalCalibrationLoss"]
    by_severity = np.array([of[helped] for of in without])
    assert (by_severity < 0).all()
    assert (np.diff(by_severity, axis=0) < 0).all()
    assert by_severity[-1, :2] == pytest.approx([-0.31, -0.43], abs=5e-3)
    for of in without[1:]:
        assert (of.drop(index=helped) > 0).all()
    assert all((of > 0).all() for of in augmented[1:])
    ends_of = [*without[2].drop(index=helped), *augmented[2]]
    assert (min(ends_of[:3]), max(ends_of[:3])) == pytest.approx((0.13, 0.21), abs=7e-3)
    assert (min(ends_of[3:]), max(ends_of[3:])) == pytest.approx((0.10, 1.09), abs=7e-3)


def test_what_is_said_of_the_parts_and_of_what_the_choice_takes_away(pages: ModuleType) -> None:
    def span(data: str, metric: str, calibrator: str = "raw", *, without: str = "") -> float:
        means = [
            float(pages.values(data, loss, metric, calibrator).mean())
            for loss in pages.losses(data)
            if loss != without
        ]
        return max(means) - min(means)

    parts = ("nll_calibration", "nll_refinement")
    both = {data: [span(data, of) for of in parts] for data in ("breast_cancer", "cifar10_small")}
    assert both["breast_cancer"] == pytest.approx([0.097, 0.009], abs=6e-4)
    assert both["cifar10_small"] == pytest.approx([0.240, 0.049], abs=6e-4)
    hundred = [span("cifar100_speedrun", of, without="BrierLoss") for of in parts]
    assert hundred == pytest.approx([0.258, 0.109], abs=6e-4)

    def taken(data: str, without: str = "") -> float:
        left = span(data, "nll", pages.CVC, without=without)
        return 1 - left / span(data, "nll", without=without)

    for data in ("breast_cancer", "wine", "financial_phrasebank"):
        assert 0.44 < taken(data) < 0.56
    assert 0.70 < taken("digits_lt") < 0.75
    assert taken("cifar10_small") == pytest.approx(5 / 6, abs=0.03)
    assert taken("cifar100_speedrun", "BrierLoss") == pytest.approx(0.70, abs=0.005)
    assert taken("newsgroups") < 1 / 3


def test_what_is_said_of_single_sets(pages: ModuleType) -> None:
    _, *rows = pages.made("spans")
    found = {row[0]: row[2:] for row in rows}
    assert found["long-tailed CIFAR-10"][0].startswith("0.845 to")
    assert found["long-tailed CIFAR-10"][-1].startswith("1.180 to")
    assert found["wine"][2].startswith("-0.052")
    head, *rows = pages.made("pairs by set")
    assert len(head) == 11
    assert {row[0] for row in rows if "" in row} == {"LogitAdjustedLoss"}
    gce = dict(
        zip(head, next(row for row in rows if row[0] == "GenerativeCrossEntropy"), strict=True)
    )
    won = [name for name, cell in gce.items() if cell.startswith("1.00 [") and ends(cell)[0] == 0.5]
    assert won == ["long-tailed CIFAR-10", "long-tailed CIFAR-100", "20 Newsgroups"]
    others = [data for data, name in pages.sets().items() if name not in won]
    assert len(others) == 7
    assert all(low < 0.5 < high for low, high in (ends(gce[pages.SETS[data]]) for data in others))
    together = pages.against_base("GenerativeCrossEntropy", pages.CVC, others)
    agree(together, "0.64 [0.47, 0.77]")


SETS_WITH_METHODS = {"": set(), " cifar10": {"ensemble of 3"}}


@pytest.mark.parametrize(("data", "better"), SETS_WITH_METHODS.items())
def test_what_is_said_of_methods(pages: ModuleType, data: str, better: set[str]) -> None:
    _, *rows = pages.made(f"changes{data}")
    rows = [row for row in rows if row[1] != pages.LONGER]
    after = {(of, name): ends(cells[-1]) for of, name, _, *cells in rows}
    losses = [interval for (of, _), interval in after.items() if of == "cross-entropy"]
    assert len(losses) == 3
    assert all(high > 0 for _, high in losses)  # in place of cross-entropy none lowers the NLL
    assert {name for (_, name), (_, high) in after.items() if high < 0} == better
    _, *scores = pages.made(f"methods{data}")
    by_method = {
        name: [float(cell.rpartition(" / ")[2] or "nan") for cell in cells]
        for name, *cells in scores
    }
    for name in better:
        assert all(np.less(by_method[name], by_method["plain"]))  # with any loss


def test_what_is_said_of_methods_on_cifar10(pages: ModuleType) -> None:
    found = pages.with_methods("cifar10_methods").drop(columns="benchmark")
    runs = found.set_index(["method", "loss", "seed"])
    plain, ensembles = runs.loc["plain"], runs.loc["ensemble of 3"]
    seed = plain.index.get_level_values("seed")
    assert len(plain) == 36
    members = plain.groupby(["loss", seed - (seed - 1) % 3])[["error", "nll_cvc"]].mean()
    gain = members - ensembles[["error", "nll_cvc"]]
    longer = runs.loc["30 epochs"].loc["CrossEntropyLoss"]
    assert longer["nll_cvc"].round(3).tolist() == [0.277, 0.290, 0.289]
    assert longer["error"].round(3).tolist() == [0.092, 0.096, 0.094]
    three = ensembles.loc["CrossEntropyLoss"]
    shown = [end(three[name]) for name in ("nll_cvc", "error") for end in (min, max)]
    assert shown == pytest.approx([0.283, 0.284, 0.094, 0.098], abs=5.1e-4)
    assert len(gain) == 12
    assert (gain["nll_cvc"].min(), gain["nll_cvc"].max()) == pytest.approx((0.043, 0.048), abs=5e-4)
    assert (gain["error"].min(), gain["error"].max()) == pytest.approx((0.012, 0.018), abs=5e-4)
    of_losses = plain.groupby("loss")["nll_cvc"].mean()
    assert of_losses.max() - of_losses.min() == pytest.approx(0.020, abs=5e-4)

    def change(method: str) -> Any:
        return (runs.loc[method] - plain)["nll_cvc"].dropna().unstack()

    means = [
        change(name).to_numpy().mean() for name in ("LabelSmoothing", "RegMixup", "SAM", "EMA")
    ]
    assert max(map(abs, means)) < 0.0035
    smoothed = change("LabelSmoothing")
    lower = {"BrierLoss", "FLSDLoss"}
    assert (smoothed.loc[list(lower)] < 0).to_numpy().all()
    others = smoothed.drop(index=list(lower)).mean(axis=1).abs()
    assert others.max() < 0.0025
    assert change("RegMixup").loc["BrierLoss"].mean() == pytest.approx(-0.019, abs=5e-4)
    mixup = runs.loc["Mixup"].groupby("loss")["error"].mean()
    assert (mixup.min(), mixup.max()) == pytest.approx((0.127, 0.140), abs=5e-4)
    error = plain.groupby("loss")["error"].mean()
    assert (error.min(), error.max()) == pytest.approx((0.109, 0.117), abs=6e-4)
