"""What is sent to a store or written into a report names no folder, machine, user or environment of who made it."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from calibench.cli import main
from calibench.runs import read_json, write_json
from calibench.training.environment import repeatable_command
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.run_folders import settings_of, write_predictions, write_run

FOLDER, HOST, SECRET = "/home/ada-lovelace", "ada-lovelaces-laptop", "canary-of-the-environment"
PRIVATE = ("ada-lovelace", SECRET)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with folders of its machine wherever a run can have them."""
    monkeypatch.setenv("CALIBENCH_DATA", f"{FOLDER}/{SECRET}")
    monkeypatch.setenv("HOME", FOLDER)
    monkeypatch.setattr("socket.gethostname", lambda: HOST)
    monkeypatch.chdir(tmp_path)
    folder = write_run(tmp_path / "results")
    write_predictions(folder)
    fill(folder)
    return tmp_path / "results"


def fill(folder: Path) -> None:
    """Name folders and the machine in every file."""
    write_json(folder / "status.json", {**read_json(folder / "status.json"), "host": HOST})
    content = read_json(folder / "metrics.json")
    content["caveats"] = [f"labels are those of {FOLDER}/labels/people.csv"]
    content["unavailable"] = {"svhn": f"{FOLDER}/data/test.mat is missing"}
    write_json(folder / "metrics.json", content, sealed=True)
    made = read_json(folder / "environment.json")
    made["command"] = f"{FOLDER}/bin/calibench fit --data.root={FOLDER}/data"
    write_json(folder / "environment.json", made, sealed=True)
    config = {
        "trainer": {"default_root_dir": f"{FOLDER}/results", "logger": None},
        "data": {"class_path": "CIFAR10DataModule", "init_args": {"root": f"{FOLDER}/data"}},
        "model": {"backbone": {"init_args": {"vectors": f"{FOLDER}/glove.txt"}}},
        "ckpt_path": f"{FOLDER}/last.ckpt",
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


VECTORS = {**settings_of("FocalLoss"), "model.backbone.init_args.vectors": f"{FOLDER}/glove.txt"}


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder, and what is inside archives."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        yield str(path.relative_to(folder)), content
        if path.suffix == ".npz":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                yield from (
                    (f"{path.name}/{name}", archive.read(name)) for name in archive.namelist()
                )
        if content[:2] == b"\x1f\x8b":
            yield f"{path.name}, unpacked", gzip.decompress(content)


def nothing_private(folder: Path, *others: str) -> None:
    found = list(contents(folder))
    assert found
    for name, content in found:
        for text in (*PRIVATE, *others):
            assert text.encode() not in content, (name, text)


def test_a_store_that_is_pushed(results: Path, tmp_path: Path) -> None:
    assert main(["store", "add", str(results), "--to", str(tmp_path / "mine")]) == 0
    assert main(["store", "push", str(tmp_path / "mine"), str(tmp_path / "public")]) == 0
    nothing_private(tmp_path / "public", str(tmp_path))
    (config,) = (tmp_path / "public").rglob("config.yaml")
    assert yaml.safe_load(config.read_text())["model"]["backbone"]["init_args"] == {
        "vectors": "glove.txt"
    }


def test_a_run_whose_key_names_a_folder_is_not_added(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_predictions(write_run(results, loss="FocalLoss", settings=VECTORS))
    assert main(["store", "add", str(results), "--to", str(tmp_path / "mine")]) == 1
    said = (
        f"its setting `model.backbone.init_args.vectors` names a folder of this machine: {FOLDER}/g"
    )
    assert said in capsys.readouterr().err
    nothing_private(tmp_path / "mine")


@pytest.mark.parametrize("output", ["report.html", "site/"])
@pytest.mark.filterwarnings("ignore:skipped")  # a run of this folder is damaged on purpose
def test_a_report(results: Path, tmp_path: Path, output: str) -> None:
    fill(write_run(results, loss="FocalLoss", settings=VECTORS))
    fill(write_run(results, loss="FocalLoss"))
    (write_run(results, loss="BrierLoss") / "metrics.json").write_text("{")
    assert main(["report", str(results), "-o", f"{tmp_path}/out/{output}"]) == 0
    nothing_private(tmp_path / "out", str(tmp_path))


def test_a_run_names_its_folder_of_results_relative_to_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = f"{tmp_path}/below/results"
    command = ["fit", "--config", "digits", f"--trainer.default_root_dir={root}"]
    config = yaml.safe_load(Experiment(configuration_of(command[1:])).yaml())
    assert config["trainer"]["default_root_dir"] == "below/results"
    for program, called in (
        ("calibench", "calibench"),
        ("calibench/__main__.py", "python -m calibench"),
    ):
        monkeypatch.setattr("sys.argv", [f"{tmp_path}/env/{program}", *command, "/elsewhere/x"])
        options = "--config digits --trainer.default_root_dir=below/results /elsewhere/x"
        assert repeatable_command() == f"{called} fit {options}"
