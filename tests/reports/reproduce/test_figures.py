"""Figures of the papers: which there are, what draws them, and what is said without runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibench.cli import main
from calibench.configuration.files import benchmarks_folder
from calibench.runs import RunId, write_json
from calibench.sweeps.suite_files import load_suite
from calibench.tables.published import PAPERS
from calibench.training.experiment import Experiment
from calibench.verbs.reproduce import drawing_command, figure_suites

FIGURES = {
    "fcl": {"3", "6", "6_digits"},
    "gce": {"2"},
    "bsce_gra": {"4", "4_cpu", "toy"},
}


def test_every_figure_is_drawn_by_a_verb_or_a_script() -> None:
    assert {paper: set(figure_suites(paper)) for paper in PAPERS} == FIGURES
    for paper in PAPERS:
        for name in figure_suites(paper).values():
            words = load_suite(name).draw.split()
            is_script = words[0].endswith(".py") and (benchmarks_folder() / words[0]).is_file()
            assert is_script or (words[0] == "plot" and words[1] in KINDS)


KINDS = ("curves", "bars")


@pytest.mark.slow
def test_the_command_is_of_the_suites_finished_runs(tmp_path: Path) -> None:
    jobs = load_suite("suites/fcl_figure6_digits").jobs()[:2]  # two weights of seed 1
    cells = [Experiment(job.config).run_id for job in jobs]
    assert all(isinstance(cell, RunId) for cell in cells)
    for cell in cells:
        write_json(cell.folder(tmp_path) / "status.json", {"status": "done"})
    words = drawing_command("fcl", "6_digits", tmp_path)
    keys = [cell.key for cell in cells]
    assert words[:5] == ["papers/fcl/sweep.py", str(tmp_path), "--key", *keys]
    assert words[5:7] == ["--x", "model.loss.weight"]


def test_without_runs_it_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, problem in {
        ("fcl", "--figure", "6"): "`calibench sweep suites/fcl_figure6 --dry-run` lists its runs",
        ("fcl", "--figure", "66"): "fcl has no figure 66 here",
        ("gce",): "give one of `--table N` and `--figure N`",
    }.items():
        assert main(["reproduce", *arguments, "--results", str(tmp_path / "none")]) == 2
        assert problem in capsys.readouterr().err
    assert drawing_command("bsce_gra", "toy", tmp_path / "none") == ["papers/bsce_gra/toy.py"]


def test_reproduce_names_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "bsce_gra", "--figure", "toy"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[0] == "python"
    assert Path(command[1]).is_file()
    assert command[2:] == ["-o", "bsce_gra_figuretoy.png"]
