"""Tables of README and of the pages about the evidence are those of the committed rows, and so is what is said of them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibench.statistics import comparison_with_best
from calibench.statistics.data_sets import compare_ranks, sign_flip_p
from calibench.sweep.suites import load_suite
from tests.committed import agree

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parent.parent


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


def test_no_loss_can_be_told_from_cross_entropy_with_data_sets_as_the_sample(
    pages: ModuleType,
) -> None:
    head, *rows = pages.TABLES["over sets"]()
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert {row["verdict"] for row in found} == {"cannot be told"}
    kinds = {row["loss"]: row["comparison"] for row in found}
    assert kinds == dict.fromkeys(pages.losses()[1:], "exploratory") | {
        "GenerativeCrossEntropy": "primary"
    }
    sets = {row["loss"]: row["data sets"] for row in found}
    assert sets == dict.fromkeys(pages.losses()[1:], "9") | {"LogitAdjustedLoss": "8"}
    assert pages.compared()["BrierLoss"][1].needed == 9
    eight = {row["loss"] for row in found if row["data sets"] == "9" and row["lower on"] == "1"}
    assert eight == {"BrierLoss", "BSCEGRALoss"} == {row["loss"] for row in found[-2:]}
    for loss, alone in (("BrierLoss", 0.078), ("BSCEGRALoss", 0.082)):
        assert round(sign_flip_p(np.array(pages.log_ratios(loss, pages.CVC))), 3) == alone
    (primary,) = (of for kind, of in pages.compared().values() if kind == "primary")
    assert primary.p == sign_flip_p(np.array(pages.log_ratios("GenerativeCrossEntropy", pages.CVC)))


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


def test_which_of_the_nine_losses_can_be_told_apart(pages: ModuleType) -> None:
    nine = pages.losses("cifar10_small")
    table = [
        [pages.values(data, loss, "nll", pages.CVC).mean() for loss in nine]
        for data in pages.sets()
    ]
    found = compare_ranks(table)
    assert len(table) == len(nine) == 9
    assert round(found.friedman_p, 4) == 0.0008
    rank = dict(zip(nine, found.mean_ranks, strict=True))
    apart = {
        (one, other)
        for one in nine
        for other in nine
        if rank[other] - rank[one] > found.critical_difference
    }
    assert apart == {
        ("GenerativeCrossEntropy", "BSCEGRALoss"),
        ("FocalCalibrationLoss", "BSCEGRALoss"),
    }
    said = {
        "CrossEntropyLoss": 4.3,
        "GenerativeCrossEntropy": 2.8,
        "FocalCalibrationLoss": 3.3,
        "BSCEGRALoss": 7.4,
    }
    assert {loss: rank[loss] for loss in said} == pytest.approx(said, abs=0.051)


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
    _, *rows = pages.TABLES["halves"]()
    spread = {}
    for name, nll, *_ in rows:
        mean, _, ends = nll.partition(" ")
        least, most = (float(end) for end in ends.strip("[]").split(" to "))
        spread[name] = (float(mean), most - least)
    assert max(width for mean, width in spread.values() if mean > 0) < 0.0065
    assert -0.27 < spread["HistogramBinning"][0] < -0.15


def test_known_frequencies_cure_a_label_shift(pages: ModuleType) -> None:
    head, *rows = pages.TABLES["label shift digits_lt"]()
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    usual, known = (found[f"TemperatureScaling tail_val{cure}"] for cure in ("", " after"))
    estimated = found["TemperatureScaling tail_val EM"]
    assert float(known["NLL"]) < float(found["TemperatureScaling balanced_val"]["NLL"])
    assert float(known["Error %"]) < float(estimated["Error %"]) < float(usual["Error %"])
    assert float(estimated["NLL"]) > float(found["uncalibrated"]["NLL"])
    assert "infinite" in found["BiasCorrectedTemperatureScaling tail_val"]["NLL"]


def test_validation_wants_gamma_on_breast_cancer_and_none_on_the_digits(pages: ModuleType) -> None:
    head, *rows = pages.TABLES["validated"]()
    found = {(row[0], row[2]): dict(zip(head, row, strict=True)) for row in rows}
    assert found["digits_lt", "gamma 0"]["chosen by seeds"] == "5"
    assert found["breast_cancer", "gamma 0"]["chosen by seeds"] == "0"
    assert found["digits_lt", "weight 2"]["chosen by seeds"] == "5"
    assert found["breast_cancer", "weight 0"]["chosen by seeds"] == "1"
    chosen = found["breast_cancer", "gamma by validation"]
    assert ends(chosen["P(beats 0), NLL"])[0] > 0.5 > ends(chosen["P(beats 0), NLL +CVC0"])[0]
    assert ends(found["digits_lt", "weight by validation"]["P(beats 0), NLL +CVC0"])[0] > 0.5


def test_no_loss_is_ahead_of_cross_entropy_on_a_tenth_of_the_labels(pages: ModuleType) -> None:
    _, *rows = pages.TABLES["few labels"]()
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
    _, *rows = pages.TABLES["learning curves"]()
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
    _, *rows = pages.TABLES["tuned"]()
    brier = next(row for row in rows if row[0] == "BrierLoss")
    assert ends(brier[-2])[1] < 0.5 < ends(brier[-1])[1]
    behind = {row[0] for row in rows if row[-1] and ends(row[-1])[1] < 0.5}
    assert behind == {"BSCEGRALoss", "DualFocalLoss", "FLSDLoss", "WeightedMMCELoss"}
    assert sum(row[1].startswith("0.3,") for row in rows) == 7
    _, *rows = pages.TABLES["label shift cifar10_lt"]()
    nll = {row[0]: row[1] for row in rows}
    usual = "TemperatureScaling tail_val"
    assert float(nll["uncalibrated"]) < float(nll[usual])
    best = "BiasCorrectedTemperatureScaling tail_val after"
    assert min(nll.values()) == nll["BiasCorrectedTemperatureScaling balanced_val"]
    assert sorted(nll.values())[1] == nll[best]
    _, *rows = pages.TABLES["label shift by loss"]()
    losses = {row[0]: [float(cell) for cell in row[1:]] for row in rows}
    assert losses["CrossEntropyLoss"][0] - losses["LogitAdjustedLoss"][0] > 0.7
    assert abs(losses["CrossEntropyLoss"][3] - losses["LogitAdjustedLoss"][3]) < 0.01
    assert rows[0][0] == "GenerativeCrossEntropy"


def table_of(pages: ModuleType, name: str) -> dict[str, dict[str, str]]:
    head, *rows = pages.TABLES[name]()
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


DIFFERENCE = "NLL +CVC, minus that of cross-entropy"
BEHIND = {"BrierLoss": 0.016, "DualFocalLoss": 0.019, "FLSDLoss": 0.021, "BSCEGRALoss": 0.040}


def test_what_is_said_of_losses_at_real_accuracy(pages: ModuleType) -> None:
    found = table_of(pages, "speedrun")
    errors = [float(row["Error %"].partition(" ")[0]) for row in found.values()]
    assert 7 < min(errors) < max(errors) < 8
    assert found[pages.BASE]["Error %"] == "7.27 ± 0.27"
    three = {loss for loss, row in found.items() if row["runs"] == "3"}
    assert three == {pages.BASE, "GenerativeCrossEntropy"}
    differences = {loss: row[DIFFERENCE] for loss, row in found.items() if loss != pages.BASE}
    means = {loss: float(cell.partition(" ")[0]) for loss, cell in differences.items()}
    assert max(map(abs, means.values())) < 0.013
    assert round(means["GenerativeCrossEntropy"], 3) == -0.001
    assert [round(end, 3) for end in ends(differences["GenerativeCrossEntropy"])] == [-0.013, 0.012]
    orders = {row[0]: row[1:] for row in pages.TABLES["speedrun orders"]()}
    assert orders["small and full width"][0].startswith("1.00 [")
    agree(orders["small and full width"][1], "0.60 [-0.22, 0.92]")
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
        loss: row["NLL +CVC"].strip("*~") for loss, row in found.items() if "*" in row["NLL +CVC"]
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


def test_what_is_said_of_label_smoothing_and_of_the_search(pages: ModuleType) -> None:
    runs = pages.small_runs()
    errors, nll = (
        pages.speedrun.by_run(runs, *of).loc["LabelSmoothingLoss"].round(3)
        for of in (("error", "raw"), ("nll", pages.speedrun.CVC))
    )
    assert [*errors] == [0.124, 0.106, 0.111]
    assert [*nll] == [0.365, 0.319, 0.323]
    search = pages.searched().query("benchmark == 'cifar10_rates'")
    tried = search[search["loss"] == "LabelSmoothingLoss"].set_index("lr").loc[[0.00051, 0.001465]]
    assert abs(tried["val_nll_ts"].diff().iloc[-1]) < 1e-4
    chosen = pages.rates.choices(search).droplevel("benchmark")["nll_ts"]
    found = pages.speedrun.by_run(runs, "nll", pages.speedrun.TS).mean(axis=1)
    agree(pages.speedrun.tau(chosen, found), "0.69 [0.31, 0.88]")


def test_what_is_said_of_single_sets(pages: ModuleType) -> None:
    _, *rows = pages.TABLES["spans"]()
    found = {row[0]: row[2:] for row in rows}
    assert found["long-tailed CIFAR-10"][0].startswith("1.223 to")
    assert found["long-tailed CIFAR-10"][-1].startswith("1.882 to")
    assert found["wine"][2].startswith("-0.052")
    head, *rows = pages.TABLES["pairs by set"]()
    assert len(head) == 10
    assert {row[0] for row in rows if "" in row} == {"LogitAdjustedLoss"}
    gce = dict(
        zip(head, next(row for row in rows if row[0] == "GenerativeCrossEntropy"), strict=True)
    )
    won = [name for name, cell in gce.items() if cell.startswith("1.00 [") and ends(cell)[0] == 0.5]
    assert won == ["long-tailed CIFAR-10", "long-tailed CIFAR-100", "20 Newsgroups"]
    others = [data for data, name in pages.sets().items() if name not in won]
    assert len(others) == 6
    assert all(low < 0.5 < high for low, high in (ends(gce[pages.SETS[data]]) for data in others))
    together = pages.against_base("GenerativeCrossEntropy", pages.CVC, others)
    agree(together, "0.60 [0.43, 0.74]")


def test_what_is_said_of_methods(pages: ModuleType) -> None:
    _, *rows = pages.TABLES["changes"]()
    after = {(of, name): ends(cells[-1]) for of, name, _, *cells in rows}
    losses = [interval for (of, _), interval in after.items() if of == "cross-entropy"]
    assert len(losses) == 3
    assert all(low > 0 for low, _ in losses)  # in place of cross-entropy none lowers the NLL
    better = {name for (_, name), (_, high) in after.items() if high < 0}
    assert better == {"LabelSmoothing", "ensemble of 3"}
    raw = {name for of, name, _, *cells in rows if ends(cells[0])[1] < 0}
    assert raw == {"ensemble of 3"}
    _, *scores = pages.TABLES["methods"]()
    by_method = {
        name: [float(cell.rpartition(" / ")[2]) for cell in cells] for name, *cells in scores
    }
    for name in better:
        assert all(np.less(by_method[name], by_method["plain"]))  # with any loss
