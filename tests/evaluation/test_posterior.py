"""Against known class distributions: laws, numbers by hand, and the ways in: a run, a file's key, an option."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from torch import Tensor

from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.evaluation import deep_ensemble, fit_calibrator, score_set
from calibench.evaluation.bootstrap import add_intervals, resample_posterior_metrics
from calibench.metrics.proper_scores import PosteriorScores
from calibench.metrics.soft_label_scores import posterior_values
from calibench.runs import CorruptRun, Predictions
from calibench.statistics.number import Key, Number
from calibench.statistics.resamples import Resamples
from calibench.tables.metric_titles import POSTERIOR_METRICS
from calibench.training import fit as training
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of

from .examples import predictions, saved


def distributions(n: int = 300, k: int = 4, *, seed: int = 5) -> np.ndarray:
    """Class distributions, a third of them certain, as where all people agree."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(k), size=n)
    probs[: n // 3] = np.eye(k)[rng.integers(k, size=n // 3)]
    return probs


def known(n: int = 300, **options: object) -> Predictions:
    return replace(predictions(n, **options), posterior=distributions(n))


def means(log_probs: Tensor, posterior: Tensor) -> dict[str, float]:
    return {
        name: float(value.mean()) for name, value in posterior_values(log_probs, posterior).items()
    }


def test_by_hand() -> None:
    eta = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    preds = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]])
    found = means(preds.log(), eta)
    log2 = math.log(2)
    assert found == pytest.approx(
        {
            "posterior_nll": (1.5 * log2 + log2) / 2,  # -(log 1/4 + log 1/2) / 2, and -log 1/2
            "posterior_kl": (0.5 * log2 + log2)
            / 2,  # the first row's entropy is log 2, the second's 0
            "posterior_overconfident": 0.0,  # 1/2 against 1/2, and against 1
            "posterior_underconfident": 0.5,
            "posterior_excess": 0.0,
            "posterior_shortfall": 0.25,
        }
    )


def test_divergence_is_cross_entropy_less_entropy() -> None:
    test = known()
    log_probs = torch.from_numpy(test.logits).log_softmax(1)
    values = posterior_values(log_probs, torch.from_numpy(test.posterior))
    gap = (values["posterior_nll"] - values["posterior_kl"]).numpy()
    np.testing.assert_allclose(gap, entropy(test.posterior.astype(float), axis=1), atol=1e-6)
    kl = entropy(test.posterior.astype(float), log_probs.exp().double().numpy(), axis=1)
    np.testing.assert_allclose(values["posterior_kl"].numpy(), kl, rtol=1e-4, atol=1e-6)
    assert (values["posterior_kl"] >= -1e-7).all()


def test_the_posterior_itself_has_no_divergence_and_no_excess() -> None:
    eta = torch.from_numpy(distributions())
    found = means(eta.log(), eta)
    assert found["posterior_kl"] == pytest.approx(0, abs=1e-9)
    assert [
        found[f"posterior_{name}"]
        for name in ("overconfident", "underconfident", "excess", "shortfall")
    ] == [0] * 4


def test_one_hot_distributions_give_the_nll() -> None:
    test = predictions()
    one_hot = replace(test, posterior=np.eye(4)[test.target])
    rows = {number.key.metric: number.value for number in score_set(one_hot)}
    assert rows["posterior_nll"] == pytest.approx(rows["nll"], rel=1e-6)
    assert rows["posterior_kl"] == pytest.approx(rows["nll"], rel=1e-6)


def test_a_class_that_occurs_and_has_no_probability() -> None:
    log_probs = torch.tensor([[1.0, 0.0]]).log()
    assert posterior_values(log_probs, torch.tensor([[0.5, 0.5]]))["posterior_nll"] == math.inf
    assert posterior_values(log_probs, torch.tensor([[1.0, 0.0]]))["posterior_nll"] == 0


def test_confidence_is_that_of_definition_2_1() -> None:
    test = known()
    probs, eta = torch.from_numpy(test.logits).softmax(1), torch.from_numpy(test.posterior)
    gap = (probs.amax(1) - eta.amax(1)).double()
    expected = {
        "overconfident": (gap > 0).double(),
        "underconfident": (gap < 0).double(),
        "excess": gap.clamp(min=0),
        "shortfall": (-gap).clamp(min=0),
    }
    found = means(probs.log(), eta)
    for name, values in expected.items():
        assert found[f"posterior_{name}"] == pytest.approx(float(values.mean()), abs=1e-6)


def test_batches_make_the_whole() -> None:
    test = known()
    log_probs, eta = torch.from_numpy(test.logits).log_softmax(1), torch.from_numpy(test.posterior)
    metric = PosteriorScores()
    for rows in torch.split(torch.arange(300), 77):
        metric.update(log_probs[rows], eta[rows])
    found = {name: float(value) for name, value in metric.to(torch.bfloat16).compute().items()}
    assert found == pytest.approx(means(log_probs, eta), rel=1e-12)
    assert tuple(found) == POSTERIOR_METRICS
    empty = PosteriorScores()
    empty.update(log_probs[:0], eta[:0])
    assert all(math.isnan(value) for value in empty.compute().values())


def test_evaluate_has_them_where_they_are_known_alone() -> None:
    assert not any(n.key.metric in POSTERIOR_METRICS for n in score_set(predictions()))
    raw = {number.key.metric: number.value for number in score_set(known())}
    assert set(POSTERIOR_METRICS) <= set(raw)
    calibrator = fit_calibrator(TemperatureScaling(), predictions(split="val"))
    after = {number.key.metric: number.value for number in score_set(known(), calibrator)}
    assert after["posterior_kl"] < raw["posterior_kl"]  # the logits are too sharp


def test_resamples_are_the_means_of_the_resampled_set() -> None:
    test = known(50)
    log_probs = torch.from_numpy(test.logits).log_softmax(1)
    resamples = Resamples(50, 40)
    found = resample_posterior_metrics(log_probs, test, resamples)
    for number in (0, 17, 39):
        drawn = np.repeat(np.arange(50), resamples.counts[number].astype(int))
        expected = means(log_probs[drawn], torch.from_numpy(test.posterior)[drawn])
        assert {name: found[Key(name)][number] for name in expected} == pytest.approx(expected)
    assert resample_posterior_metrics(log_probs, predictions(50), resamples) == {}


def test_what_is_no_quality_has_an_interval_and_no_best() -> None:
    numbers = [Number(Key(f"posterior_{name}"), 0.5) for name in ("overconfident", "excess")]
    drawn = {number.key: np.linspace(0.4, 0.6, 50) for number in numbers}
    share, mean = add_intervals(numbers, drawn)
    assert share.interval is not None
    assert share.best is None
    assert mean.best is False  # nothing to compare it with


def test_files_keep_them(tmp_path: Path) -> None:
    test = known()
    test.save(tmp_path / "test.npz")
    np.testing.assert_array_equal(Predictions.load(tmp_path / "test.npz").posterior, test.posterior)
    np.testing.assert_array_equal(deep_ensemble([test, test]).posterior, test.posterior)
    predictions().save(tmp_path / "plain.npz")
    assert Predictions.load(tmp_path / "plain.npz").posterior is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (distributions(299), r"must have shape \(300, 4\) as `logits`, got \(299, 4\)"),
        (distributions()[:, :3], r"got \(300, 3\)"),
        (50 * distributions(), "rows sum to 1"),
        (distributions() * np.nan, "rows sum to 1"),
        (np.tile([1.5, -0.5, 0, 0], (300, 1)), "rows sum to 1"),
    ],
)
def test_what_is_no_distribution_is_refused(
    values: np.ndarray, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(predictions(), posterior=values)
    test = predictions()
    np.savez(tmp_path / "bad.npz", logits=test.logits, target=test.target, posterior=values)
    with pytest.raises(CorruptRun, match=message):
        Predictions.load(tmp_path / "bad.npz")


@pytest.fixture
def line(tmp_path: Path) -> list[str]:
    files = saved(tmp_path)
    np.save(tmp_path / "people.npy", distributions())
    few = [
        "--calibrators",
        "TemperatureScaling",
        "--bootstrap",
        "50",
        "-o",
        str(tmp_path / "r.json"),
    ]
    return ["evaluate", "--val", files["val"], "--test", files["test"], *few]


def report(folder: Path) -> dict:
    return json.loads((folder / "r.json").read_text())


def values(folder: Path) -> dict[tuple[str, str], float]:
    rows = report(folder)["rows"]
    return {
        (r["calibrator"], r["metric"]): r["value"]
        for r in rows
        if r["split"] == "test" and r["metric"] in POSTERIOR_METRICS
    }


@pytest.mark.slow
def test_the_option_and_the_key_give_the_same(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line, "--posterior", str(tmp_path / "people.npy"), "--trust-rows"]) == 0
    shown = capsys.readouterr().out
    assert "test, against the posterior" in shown
    assert "posterior: people.npy" in " ".join(shown.split())
    by_option = values(tmp_path)
    assert report(tmp_path)["posterior"] == "people.npy"
    assert {name for _, name in by_option} == set(POSTERIOR_METRICS)
    assert all("low" in row for row in report(tmp_path)["rows"] if row["metric"] == "posterior_kl")
    test = Predictions.load(tmp_path / "test.npz")
    probs = np.exp(test.logits - np.logaddexp.reduce(test.logits, axis=1, keepdims=True))
    np.savez(tmp_path / "test.npz", probs=probs, target=test.target, posterior=distributions())
    assert main([*line, "--trust-rows"]) == 0
    assert values(tmp_path) == pytest.approx(by_option, rel=1e-4)
    assert main([*line[:-1], str(tmp_path / "r.md"), "--trust-rows"]) == 0
    assert "### test, against the posterior" in (tmp_path / "r.md").read_text()
    assert main([*line[:-1], str(tmp_path / "r.csv"), "--trust-rows"]) == 0
    assert "posterior_kl" in (tmp_path / "r.csv").read_text()


def test_without_them_nothing_is_said(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 0
    assert "posterior" not in capsys.readouterr().out
    assert values(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        (b"text", "people.npy`: "),
        (distributions(7), "must have shape (300, 4)"),
    ],
)
def test_a_wrong_file_is_one_line(
    content: object,
    message: str,
    line: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "people.npy"
    path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        np.save(path, content)
    assert main([*line, "--posterior", str(path)]) != 0
    (error,) = capsys.readouterr().err.splitlines()
    assert message in error


def test_calibrated_probabilities_keep_them(tmp_path: Path) -> None:
    files = saved(tmp_path)
    known().save(tmp_path / "test.npz")
    fitted, out = str(tmp_path / "cal.pt"), tmp_path / "probs.npz"
    assert main(["calibrate", "--val", files["val"], "--output", fitted]) == 0
    assert (
        main(["calibrate", "--apply", fitted, "--input", files["test"], "--output", str(out)]) == 0
    )
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["posterior"], known().posterior)


@pytest.mark.slow
def test_a_run_on_gaussians_knows_its_posterior(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [f"--data.{part}_per_class=30" for part in ("train", "val", "test")]
    quick = ["--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false"]
    line = ["--config", "gaussians", *small, *quick, "--trainer.default_root_dir", str(tmp_path)]
    assert main(["fit", *line, "--trace.test_metrics", "true"]) == 0
    shown = capsys.readouterr().out
    assert "KL to posterior" in shown
    assert "posterior: the true posterior of the Gaussians" in shown
    run = Experiment(configuration_of(line)).run
    content = json.loads((run.folder / "metrics.json").read_text())
    assert content["posterior"] == "the true posterior of the Gaussians"
    rows = {
        row["metric"]: row["value"]
        for row in content["rows"]
        if (row["split"], row["calibrator"]) == ("test", "raw")
    }
    assert 0 < rows["posterior_kl"] < rows["posterior_nll"]
    # What `test` logs is what the file yields.
    assert main(["test", "--config", str(run.folder / "config.yaml")]) == 0
    logged = dict(text.split() for text in capsys.readouterr().out.splitlines())
    for name in POSTERIOR_METRICS:
        assert float(logged[f"test/{name}"]) == pytest.approx(rows[name], abs=1e-5)
    assert (
        training.fit(configuration_of([*line, "--evaluation.n_bins", "[10]"]))[0] == "skipped"
    )  # evaluated anew from the file
    again = json.loads((run.folder / "metrics.json").read_text())
    assert again["posterior"] == content["posterior"]
    assert "posterior_kl" in {row["metric"] for row in again["rows"]}
