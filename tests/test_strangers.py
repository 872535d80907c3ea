"""Files of strangers: results, logits, calibrators, checkpoints and data are read, and nothing in them is run."""

from __future__ import annotations

import io
import pickle
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibench.backbones import HuggingFaceBackbone
from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.data import DataError
from calibench.data.cache import load_or_make
from calibench.data.images.sets import read_pickle
from calibench.evaluation.serialization import build_evaluation, fill_defaults, restore_calibrator
from calibench.messages.errors import UsageError
from calibench.messages.terminal import Terminal
from calibench.runs import Run, write_json
from calibench.training.fit import fit
from calibench.verbs.fit import configuration_of
from tests.evaluation.examples import saved
from tests.run_folders import write_predictions, write_run

STRANGER = """
import pathlib
from calibench.calibrators import TemperatureScaling
pathlib.Path({mark!r}).touch()

class Cal(TemperatureScaling):
    pass
"""


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file that a stranger's code would leave; there is none after the test."""
    path = tmp_path / "was-run"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "stranger.py").write_text(STRANGER.format(mark=str(path)))
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    yield path
    imported = sys.modules.pop("stranger", None)
    assert not path.exists()
    assert imported is None


def blocks(mark: Path) -> list[Any]:
    """Calibrators as a hostile metrics.json names them."""
    popen = {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", str(mark)]}}
    nested = {
        "class_path": "calibench.calibrators.TemperatureScaling",
        "init_args": {"n_bins": popen},
    }
    return [popen, {"class_path": "stranger.Cal"}, "stranger.Cal", nested]


KINDS = range(len(blocks(Path())))


@pytest.fixture(params=KINDS)
def results(request: pytest.FixtureRequest, mark: Path, tmp_path: Path) -> Path:
    """A folder of results whose metrics.json names code where it says what a calibrator was."""
    block = blocks(mark)[request.param]
    changes = {
        "calibrators": {"Cal": {"temperature": 1.3}},
        "evaluation": {"calibrators": [block], "n_bins": [15], "reference": False},
    }
    rows = [{"split": "test", "calibrator": "Cal", "metric": "ece", "value": 0.1, "n_bins": 15}]
    folder = write_run(tmp_path / "results", changes=changes, rows=rows)
    write_predictions(folder, n=20)
    (folder / "config.yaml").write_text(f"!!python/object/apply:os.system ['touch {mark}']\n")
    return tmp_path / "results"


def test_what_reads_results_runs_nothing_in_them(results: Path, tmp_path: Path) -> None:
    assert main(["leaderboard", str(results), "--metrics", "ece@*"]) == 0
    assert main(["report", str(results), "-o", str(tmp_path / "r.html")]) == 0
    picture = ["plot", "reliability", str(results), "-o", str(tmp_path / "r.png")]
    assert main([*picture, "--calibrator", "Cal"]) == 2
    assert main(["reproduce", "gce", "--table", "3", "--results", str(results)]) == 0
    run = next(results.rglob("metrics.json")).parent
    assert main(["export", str(run), "-o", str(tmp_path / "m.pt2")]) == 2
    assert main(["fit", "--config", str(run / "config.yaml")]) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_evaluation_of_a_class_that_is_not_loaded_is_kept_and_not_built(
    kind: int, mark: Path
) -> None:
    block = blocks(mark)[kind]
    settings = fill_defaults({"calibrators": [block]})
    assert fill_defaults(settings) == settings
    with pytest.raises(
        UsageError, match=r"not among the calibrators that are loaded|TemperatureScaling: "
    ):
        build_evaluation(settings)
    content = {"calibrators": {"Cal": {"temperature": 1.3}}, "evaluation": settings}
    assert restore_calibrator(content, "Cal") is None


class OwnCalibrator(TemperatureScaling):
    """A calibrator of another package."""


def test_a_class_of_ones_own_counts_once_it_is_loaded() -> None:
    block = {"class_path": f"{__name__}.OwnCalibrator"}
    (calibrator,) = build_evaluation(fill_defaults({"calibrators": [block]})).calibrators or []
    assert type(calibrator) is OwnCalibrator


@pytest.mark.parametrize("damage", [5, {"a": 1}, [5], [None], [{"class_path": 5}], [["x"]]])
def test_nonsense_in_place_of_an_evaluation_is_a_value_error(damage: Any) -> None:
    for name in ("calibrators", "n_bins", "reference"):
        if (name, damage) != ("n_bins", [5]):
            with pytest.raises(ValueError, match="must be"):
                fill_defaults({name: damage})


def test_logits_calibrators_and_data_are_read_without_their_pickles(
    mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path)
    evil = np.array([[Payload(mark), 1], [2, 3]], dtype=object)
    target = np.array([0, 1])
    for key in ("logits", "probs"):
        np.savez(tmp_path / f"{key}.npz", target=target, **{key: evil})
    np.savez(tmp_path / "metadata.npz", logits=np.eye(2), target=target, metadata=evil)
    np.save(tmp_path / "evil.npy", evil, allow_pickle=True)
    torch.save(
        {"calibrator": "TemperatureScaling", "arguments": Payload(mark), "state": {}},
        tmp_path / "cal.pt",
    )
    evaluate = ["evaluate", "--val", files["val"], "--calibrators", "none", "--bootstrap", "0"]
    for name in ("logits.npz", "probs.npz", "metadata.npz", "evil.npy", "evil.npy:evil.npy"):
        assert main([*evaluate, "--test", str(tmp_path / name)]) != 0
    assert (
        main([*evaluate, "--test", files["test"], "--posterior", str(tmp_path / "evil.npy")]) != 0
    )
    apply = ["calibrate", "--apply", str(tmp_path / "cal.pt"), "--input", files["test"]]
    assert main([*apply, "--output", str(tmp_path / "p.npz")]) != 0

    np.savez(tmp_path / "cache.npz", key=np.array("k"), images=evil)
    made = {"images": np.zeros(1)}
    assert load_or_make(tmp_path / "cache.npz", "k", lambda: made) is made  # and is written anew
    batch = tmp_path / "data_batch_1"
    batch.write_bytes(pickle.dumps({b"data": Payload(mark), b"labels": [0]}))
    with pytest.raises(DataError, match="is not a CIFAR batch"):
        read_pickle(batch)


FIT = [
    "--config",
    "digits_lt",
    "--trainer.max_epochs",
    "1",
    "--trainer.enable_progress_bar",
    "false",
]


LIKE_MARKUP = "[red] [/x]"


@pytest.fixture(scope="module")
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, printed: io.StringIO) -> Run:
    root = tmp_path_factory.mktemp("results") / LIKE_MARKUP
    given = [*FIT, "--trainer.default_root_dir", str(root)]
    return fit(configuration_of(given), console=Terminal(file=printed))[1]


def test_a_folder_named_like_markup_is_no_error_after_a_finished_run(
    finished: Run, printed: io.StringIO
) -> None:
    assert f"{finished.folder} is done." in printed.getvalue().splitlines()


def test_a_checkpoint_is_read_as_weights(
    finished: Run, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished.folder.parents[4], tmp_path / "results")
    run = Run(tmp_path / "results" / finished.folder.relative_to(finished.folder.parents[4]))
    last = run.checkpoints / "last.ckpt"
    content = torch.load(last, weights_only=True)
    torch.save({**content, "callbacks": Payload(mark)}, last)
    there = [*FIT, "--trainer.default_root_dir", str(tmp_path / "results")]
    for verb in (
        ["test", *there],
        ["fit", *there, "--ckpt_path", "last", "--overwrite", "true"],
        ["export", str(run.folder), "-o", str(tmp_path / "m.pt2")],
    ):
        try:
            main(verb)
        except Exception as error:  # a damaged checkpoint may end a run any way but by running it
            assert re.search("[Ww]eights.only|holds Python objects", str(error))  # noqa: PT017


def test_export_builds_a_strangers_class_only_when_told_to(
    finished: Run, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "seed=1"
    shutil.copytree(finished.folder, run)
    text = (run / "config.yaml").read_text()
    (tmp_path / "loss.yaml").write_text("class_path: stranger.Cal\n")
    for loss in ("class_path: stranger.Cal", "stranger.Cal"):
        changed = text.replace("class_path: calibench.losses.CrossEntropyLoss", loss)
        assert changed != text
        (run / "config.yaml").write_text(changed)
        assert main(["export", str(run), "-o", str(tmp_path / "m.pt2")]) == 2
        assert (
            "config.yaml names stranger.Cal, whose code would be run; add `--trust`"
            in capsys.readouterr().err
        )


def test_a_language_model_brings_no_code(tmp_path: Path, mark: Path) -> None:
    pytest.importorskip("transformers")
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\nfrom transformers import PretrainedConfig\nclass C(PretrainedConfig): pass\n"
    (tmp_path / "code.py").write_text(code)
    write_json(
        tmp_path / "config.json", {"model_type": "own", "auto_map": {"AutoConfig": "code.C"}}
    )
    for pretrained in (True, False):
        with pytest.raises(ValueError, match="cannot be had"):
            HuggingFaceBackbone(num_classes=2, name=str(tmp_path), pretrained=pretrained)
    with pytest.raises(ValueError, match="trust_remote_code"):
        HuggingFaceBackbone(num_classes=2, name=str(tmp_path), options={"trust_remote_code": True})
