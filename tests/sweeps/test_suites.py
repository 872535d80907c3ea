"""Suites: every file expands, parts, grids, dry runs, selection by validation, re-evaluation without training."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from calibench.cli import main
from calibench.configuration.files import list_configuration_files, load_configuration_file
from calibench.messages.errors import UsageError
from calibench.runs import effective_settings as key_settings
from calibench.sweeps.plan import find_runs
from calibench.sweeps.selection import select_settings
from calibench.sweeps.suite_files import is_suite, load_suite
from calibench.sweeps.suites import Setting, Suite
from calibench.tables.published import MODELS, model_names
from calibench.tables.published import load_published as published
from tests.examples import sampled
from tests.run_folders import write_run

SUITES = [name for name in list_configuration_files() if name.startswith("suites/")]


def write(folder: Path, text: str) -> str:
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def write_cell(root: Path, setting: Setting, seed: int, **given: Any) -> Path:
    """A run folder of a suite's cell, under the key that training would give it."""
    from calibench.calibrators.names import unique_names
    from calibench.evaluation.evaluation import default_calibrators
    from calibench.evaluation.serialization import build_evaluation

    experiment = resolved(setting)
    cell, evaluation = experiment.run_id, experiment.evaluation_settings
    chosen = build_evaluation(evaluation).calibrators or default_calibrators()
    calibrators = {name: {"temperature": 1.3} for name in unique_names(chosen)}
    changes = {"evaluation": evaluation, "calibrators": calibrators, **given.pop("changes", {})}
    return write_run(
        root, loss=cell.loss, seed=seed, benchmark=cell.benchmark, backbone=cell.backbone,
        settings=key_settings(experiment.resolved), changes=changes, **given,
    )  # fmt: skip


def resolved(setting: Setting) -> Any:
    """The experiment of a setting, resolved once."""
    return _resolved(json.dumps(setting.job(1).config, default=str))  # the seed is in no key


@cache
def _resolved(config: str) -> Any:
    from calibench.training.experiment import Experiment

    return Experiment(json.loads(config))


WITH_RUNS = [name for name in SUITES if load_suite(name).parts]
DRY_RUN = {"suites/evidence_cpu", "suites/gce_table6"}


@pytest.mark.parametrize(
    "names", sampled([WITH_RUNS, WITH_RUNS[::4]], [WITH_RUNS[::4]]), ids=["all", "few"]
)
def test_a_label_names_one_cell_and_so_one_log_file(names: list[str]) -> None:
    for name in names:
        labels = [job.label for job in load_suite(name).jobs()]
        assert labels, name
        assert len(set(labels)) == len(labels), name


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * (one not in DRY_RUN)) for one in WITH_RUNS],
)
def test_every_suite_dry_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", name, "--dry-run", "--trainer.default_root_dir", str(tmp_path)]) == 0
    remarks = load_suite(name).remarks
    lines = capsys.readouterr().out.splitlines()
    assert lines[len(lines) - len(remarks) :] == remarks
    *cells, total = lines[: len(lines) - len(remarks)]
    assert total.startswith(f"{len(cells)} cells, 0 done, time unknown")
    assert len(set(cells)) == len(cells)  # a label names one cell, and so one log file


@pytest.mark.parametrize(
    ("paper", "table"),
    [("gce", str(n)) for n in range(1, 11)]
    + [("fcl", table) for table in ("2", "4", "5", "6", "7", "8", "9", "10", "ood")]
    + [("bsce_gra", "1"), ("bsce_gra", "2")],
)
def test_a_suite_has_every_cell_of_its_table_and_no_other(paper: str, table: str) -> None:
    name = f"suites/{paper}_{table}" if table == "ood" else f"suites/{paper}_table{table}"
    suite = load_suite(name)
    ours = {
        (setting.dataset, model, setting.loss)
        for setting in suite.settings()
        for model in (
            model_names(setting.backbone) if setting.backbone in MODELS else [setting.model]
        )
    }
    numbers = published(paper, table=table)
    theirs = {(n.dataset.partition("->")[0], n.model, n.loss) for n in numbers}
    without = suite.missing.keys() - {name for cell in ours for name in cell}
    assert {cell for cell in theirs if not without & {cell[0], cell[2]}} <= ours
    assert suite.missing.keys() <= {name for cell in theirs for name in cell}
    assert {(cell[0], cell[2]) for cell in ours} <= {(cell[0], cell[2]) for cell in theirs}


@pytest.mark.parametrize("name", [name for name in SUITES if "_table" in name or "_ood" in name])
def test_a_papers_suite_says_how_it_differs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBENCH_DATA", str(tmp_path))
    suite = load_suite(name)
    assert suite.differs or suite.note
    lines = suite.remarks
    assert len(lines) == bool(suite.note) + len(suite.differs) + len(suite.missing)
    if any(part.benchmark == "tiny_imagenet" for part in suite.parts):
        assert "90,000 of the 100,000" in " ".join(suite.differences("tiny_imagenet"))


def test_a_suite_like_another_takes_its_cells_and_differences(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "losses: [focal, gce]\nbackbones: {small: SmallCNN, wide: WideResNet26x10}\nnote: whole\n"
        "set: {threads: 1}\nmissing: {private: private data}\n"
        "parts: [{benchmark: digits, seeds: 4}, {benchmark: digits_lt, dataset: tail}]\n"
        "differs: {tail: fewer images, gce: smoothed, wide: wider}\n"
    )
    text = (
        f"same_cells_as: {tmp_path / 'base.yaml'}\nonly: {{datasets: [digits], models: [small]}}\n"
    )
    suite = load_suite(write(tmp_path, text + "set: {x.y: 2}\ndiffers: {all: all of it}\n"))
    cells = [(s.dataset, s.model, s.loss, s.seeds, s.options) for s in suite.settings()]
    options = {"model.backbone": "SmallCNN", "threads": 1, "x.y": 2}
    assert cells == [("digits", "small", loss, [4], options) for loss in ("focal", "gce")]
    assert (suite.note, suite.missing) == ("whole", {})
    assert suite.differs == {"gce": "smoothed", "all": "all of it"}
    assert suite.differences("digits", "small", "focal") == ["all of it"]
    assert suite.differences("digits", "small", "gce") == ["smoothed", "all of it"]


def test_dual_focal_has_each_networks_own_gamma() -> None:
    """The values that two repositories attribute to Tao et al. (2023); the long tail has CIFAR-10's."""
    gammas: dict[str, set[float]] = {}
    for name in ("gce_table1", "gce_table3", "gce_table5", "gce_table6", "gce_table10"):
        for setting in load_suite(f"suites/{name}").settings():
            if setting.loss == "dual_focal":
                arguments = load_configuration_file(setting.files[-1])["model"]["loss"]["init_args"]
                place = f"{setting.dataset}/{setting.model}"
                gammas.setdefault(place, set()).add(arguments["gamma"])
    cifar10 = {"resnet50": 5.0, "resnet110": 4.5, "wide_resnet26x10": 2.6, "densenet121": 5.0}
    cifar100 = {"resnet50": 5.0, "resnet110": 6.1, "wide_resnet26x10": 3.9, "densenet121": 3.4}
    expected = {
        f"{name}/{model}": {gamma}
        for model, gamma in cifar10.items()
        for name in ("cifar10", "cifar10_lt10", "cifar10_lt100")
    }
    expected |= {f"cifar100/{model}": {gamma} for model, gamma in cifar100.items()}
    expected |= {"av1451/mlp": {5.0}}
    expected |= {f"tiny_imagenet/{model}": {2.3} for model in ("resnet50", "resnet110")}
    assert gammas == expected
    for loss in ("bsce", "bsce_gra"):
        for entry in ("tiny_imagenet/resnet50", "cifar100/resnet110"):
            arguments = load_configuration_file(f"losses/{loss}@{entry}")["model"]["loss"][
                "init_args"
            ]
            assert (arguments["gamma"], arguments["beta"]) == (4.0, 2.0)


def test_a_column_that_is_quoted_says_from_whom(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "suites/fcl_table9", "--dry-run"]) == 0
    assert "not here: wang2017, quoted from Wang et al. 2017" in capsys.readouterr().out


def test_data_on_application_say_where_until_they_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = load_suite("suites/gce_table1")
    monkeypatch.setenv("CALIBENCH_DATA", str(tmp_path))
    (line,) = (line for line in suite.remarks if line.startswith("not here"))
    assert "not here: av1451, access is granted on application at https://adni" in line
    assert "`calibench sweep suites/gce_table1`" in line
    (tmp_path / "av1451").mkdir()
    (tmp_path / "av1451" / "av1451.csv").touch()
    assert not any(line.startswith("not here") for line in suite.remarks)
    assert sum(setting.dataset == "av1451" for setting in suite.settings()) == 7


def test_a_network_with_arguments_is_known_by_its_own_name() -> None:
    vit = next(s for s in load_suite("suites/fcl_table10").settings() if s.model == "transformer_1")
    assert vit.backbone == "vit_tiny_patch16_224"
    assert vit.options["model.backbone"]["init_args"]["options"] == {
        "img_size": 32,
        "patch_size": 4,
    }


def test_a_suite_is_told_from_a_benchmark() -> None:
    assert is_suite(list_configuration_files()["suites/digits_focal"])
    assert not is_suite(list_configuration_files()["digits_lt"])


def test_a_grid_multiplies_and_the_last_file_is_the_loss(tmp_path: Path) -> None:
    name = write(
        tmp_path,
        "benchmark: digits\nseeds: 1,2\nset: {threads: 1}\nlosses: {mine: [focal, protocols/brier_mean, {model.loss.gamma: 2}]}\n"
        "grid: {trainer.max_epochs: [1, 2], model.optimizer.lr: [0.1, 1e-2]}\n",
    )
    suite = load_suite(name)
    jobs = suite.jobs([("x.y", "1")])
    assert [job.label for job in jobs][:2] == [
        "digits mine max_epochs=1 lr=0.1 seed=1",
        "digits mine max_epochs=1 lr=0.01 seed=1",
    ]
    assert len(jobs) == 8
    files = [Path(text).stem for text in suite.settings()[0].files]
    assert files == ["digits", "focal", "brier_mean"]
    config = jobs[1].config
    assert (config["threads"], config["trainer"]["max_epochs"], config["x"]) == (1, 1, {"y": "1"})
    assert config["model"]["loss"] == {"class_path": "FocalLoss", "init_args": {"gamma": 2}}
    assert config["model"]["optimizer"]["init_args"]["lr"] == 0.01


def test_a_grid_over_a_calibrator_is_one_run(tmp_path: Path) -> None:
    (setting,) = (
        load_suite("suites/digits_focal")
        .restricted(losses=["cross_entropy"], seeds=None)
        .settings()
    )
    blocks = setting.options["evaluation.calibrators"]
    assert [block.get("init_args") for block in blocks] == [{}, {"n_bins": 5}, {"n_bins": 15}]


def test_published_settings_follow_benchmark_and_network() -> None:
    suite = load_suite("suites/fcl_table2").restricted(losses=["fcl"], seeds=None)
    files = [setting.files[-1] for setting in suite.settings()]
    assert files[0].endswith("focal_calibration.yaml@cifar100/resnet50")
    assert files[-1].endswith("focal_calibration.yaml@finsen/global_pooling_cnn")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark: digits\nlosses: [focall]", "did you mean"),
        ("benchmark: digitss\nlosses: [focal]", "did you mean digits"),
        ("benchmark: digits\nlosses: [focal]\nseed: 1", "unknown key `seed`; did you mean seeds"),
        ("benchmark: digits\nlosses: [focal]\nselect: test/nll", "must be a validation metric"),
        ("benchmark: digits\nlosses: [focal]\ngrid: {calibrators.X.n_bins: [1]}", "must name one"),
        ("losses: [focal]", "benchmark"),
        ("benchmark: digits\nlosses: [focal]\nprimary: {metric: nll}", "missing 2 required"),
        (
            "benchmark: digits\nlosses: [focal]\ndiffers: {focl: x}",
            "loss of the suite: `focl`; did you mean focal",
        ),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_suite(write(tmp_path, text)).settings()


def test_a_loss_that_the_suite_has_not_is_an_error() -> None:
    with pytest.raises(UsageError, match="no loss `focl`; did you mean focal"):
        load_suite("suites/digits_focal").restricted(losses=["focl"], seeds=None)


def test_a_suite_is_restricted_to_a_data_set_by_its_label() -> None:
    suite = load_suite("suites/evidence_speedrun")
    only = suite.restricted(
        losses=["gce"], seeds=None, datasets=["cifar100_rates", "cifar10_lt_speedrun"]
    )
    assert [(part.named_dataset, part.seeds) for part in only.parts] == [
        ("cifar100_rates", "11"),
        ("cifar10_lt_speedrun", "1..3"),
    ]
    with pytest.raises(UsageError, match="no dataset `cifar10_rate`; did you mean cifar10_rates"):
        suite.restricted(losses=None, seeds=None, datasets=["cifar10_rate"])


@pytest.mark.slow
def test_a_dry_run_knows_what_is_done_and_how_long_the_rest_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load_suite("suites/digits_focal").settings()
    write_cell(tmp_path, settings[0], 1, seconds=10.0)
    write_cell(tmp_path, settings[2], 2, seconds=20.0)
    write_cell(tmp_path, settings[1], 1, status="failed")
    where = ["--trainer.default_root_dir", str(tmp_path)]
    assert main(["sweep", "suites/digits_focal", "--dry-run", "--jobs", "2", *where]) == 0
    *cells, total = capsys.readouterr().out.splitlines()
    done = [cell.removesuffix(" (done)") for cell in cells if cell.endswith(" (done)")]
    assert done == ["digits_lt cross_entropy seed=1", "digits_lt focal gamma=3.0 seed=2"]
    assert total == "6 cells, 2 done, about 0:30 left with --jobs 2"  # 4 x 15 s, two at a time
    capsys.readouterr()
    assert (
        main(["sweep", "suites/digits_focal", "--dry-run", *where, "--trainer.max_epochs", "2"])
        == 0
    )
    assert "6 cells, 0 done" in capsys.readouterr().out  # another configuration is another cell


@pytest.mark.slow
def test_selection_is_by_validation_over_all_seeds_and_counts_the_tried(tmp_path: Path) -> None:
    suite = load_suite("suites/digits_focal")
    _, low, high = suite.settings()
    for setting, values in ((low, (0.5, 0.7)), (high, (0.4, 0.6))):
        for seed, value in zip((1, 2), values, strict=True):
            row = {"split": "val", "calibrator": "raw", "metric": "nll", "value": value}
            test = {"nll": 1 - value}  # the test split would choose the other one
            write_cell(tmp_path, setting, seed, rows=[row], values=test)
    cross_entropy, focal = select_settings(suite, tmp_path)
    assert (cross_entropy.tried, cross_entropy.not_done) == (0, 1)
    assert cross_entropy.values is None
    assert focal.values == {"model.loss.gamma": 3.0}
    assert (focal.value, focal.tried, focal.not_done) == (pytest.approx(0.5), 2, 0)
    (find_runs([high.job(2)], tmp_path)[0].folder / "status.json").unlink()
    _, focal = select_settings(suite, tmp_path)
    assert focal.values == {"model.loss.gamma": 1.0}  # the other one lacks a seed
    assert (focal.tried, focal.not_done) == (1, 1)


def test_selection_may_be_after_a_calibrator(tmp_path: Path) -> None:
    suite = replace(load_suite("suites/digits_focal"), select="val/nll@TemperatureScaling")
    _, low, high = suite.settings()
    for setting, raw, scaled in ((low, 0.5, 0.3), (high, 0.4, 0.35)):
        values = {"raw": raw, "TemperatureScaling": scaled}
        rows = [
            {"split": "val", "calibrator": name, "metric": "nll", "value": value}
            for name, value in values.items()
        ]
        for seed in (1, 2):
            write_cell(tmp_path, setting, seed, rows=rows)
    _, focal = select_settings(suite, tmp_path)
    assert focal.values == {"model.loss.gamma": 1.0}
    assert focal.value == pytest.approx(0.3)


def test_planning_needs_no_torch() -> None:
    code = "import sys; from calibench.sweeps import suite_files; suite_files.load_suite('suites/gce_table9').jobs(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def sweep(root: Path, *arguments: str) -> str:
    quick = ["--trainer.max_epochs", "1", "--trainer.default_root_dir", str(root), "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "calibench", "sweep", *arguments, *quick],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_suite_runs_in_part_resumes_selects_and_is_evaluated_again_without_training(
    tmp_path: Path,
) -> None:
    root = tmp_path / "results"
    assert sweep(root, "suites/digits_focal", "--losses", "focal", "--seeds", "1").count("✓") == 2
    trained = {path: path.stat().st_mtime_ns for path in root.rglob("*.ckpt")}
    text = (
        list_configuration_files()["suites/digits_focal"].read_text().replace("[5, 15]", "[5, 10]")
    )
    name = write(tmp_path, text)
    out = sweep(root, name, "--seeds", "1")
    assert (out.count("✓ before"), out.count("✓")) == (2, 3)
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    chosen = json.loads((root / "selections" / "mine.json").read_text())
    assert [(entry["loss"], entry["tried"]) for entry in chosen] == [
        ("cross_entropy", 1),
        ("focal", 2),
    ]
    values = {}
    for path in root.rglob("metrics.json"):
        content = json.loads(path.read_text())
        gamma = content["settings"].get("model.loss.init_args.gamma")
        rows = content["rows"]
        values[gamma] = next(
            r["value"]
            for r in rows
            if (r["split"], r["calibrator"], r["metric"]) == ("val", "raw", "nll")
        )
        asked = {
            "TemperatureScaling",
            "AdaptiveTemperatureScaling(n_bins=5)",
            "AdaptiveTemperatureScaling(n_bins=10)",
        }
        kept = {"AdaptiveTemperatureScaling"} if gamma else set()  # of the first time: 15 bins
        assert set(content["calibrators"]) == asked | kept
    best = min((1.0, 3.0), key=values.__getitem__)
    assert chosen[1]["values"] == {"model.loss.gamma": best}
    assert chosen[1]["value"] == pytest.approx(values[best])


def test_a_plain_sweep_is_a_suite() -> None:
    from calibench.sweeps.suites import SuitePart

    suite = Suite([SuitePart("digits", {"focal": "focal"}, "1,2")])
    assert [job.label for job in suite.jobs()] == ["digits focal seed=1", "digits focal seed=2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_every_setting_is_a_configuration_with_a_key_of_its_own(name: str) -> None:
    from calibench.training.experiment import Experiment

    settings = load_suite(name).settings()
    cells = [Experiment(setting.job(1).config).run_id for setting in settings]
    assert len(set(cells)) == len(settings)
    assert all(
        setting.backbone in ("", cell.backbone)
        for setting, cell in zip(settings, cells, strict=True)
    )
