"""The options of a SLURM job and its script; `srun` and `squeue` are scripts that pretend."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.configuration.run_arguments import read_arguments
from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.messages.spelling import command_line_spelling
from calibench.sweeps.launchers.sbatch import (
    JobArray,
    count_requested_gpus,
    parse_minutes,
    split_slurm_options,
)
from calibench.sweeps.launchers.slurm import ArrayTask, Slurm, ended, record, recorded
from calibench.sweeps.pool import Job, LauncherOptions

Pretend = Callable[[str, str], None]


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretend:
    """Puts a command of the given name and text on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def write(name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    return write


def jobs(n: int) -> list[Job]:
    return [Job("b", "loss", seed, {"seed_everything": seed, "threads": 1}) for seed in range(n)]


def test_options_of_slurm_are_told_from_those_of_the_configuration() -> None:
    given = ["--slurm.partition", "gpu", "--threads", "2", "--slurm.time=2:00:00", "--slurm.mem", "16GB",
             "--slurm.gpus-per-node", "2", "--slurm.setup", "[module load cuda]", "--trainer.max_epochs", "3"]  # fmt: skip
    options, rest = split_slurm_options(read_arguments(given).options)
    assert rest == [("threads", "2"), ("trainer.max_epochs", "3")]
    assert options == {
        "partition": "gpu", "time": 120, "mem": "16GB", "gpus_per_node": 2, "setup": ["module load cuda"],
    }  # fmt: skip
    with pytest.raises(UsageError, match=r"`--slurm\.time` needs a value"):
        read_arguments(["--slurm.time"])


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 91), ("1:30:00", 90), ("1-0", 1440), ("1-12:30", 2190), ("2-1:00:01", 2941)],
)  # fmt: skip
def test_times_as_slurm_writes_them(text: str, minutes: int) -> None:
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "1h", "1:2:3:4", "-5", "1-"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="must be minutes, or like 1:30:00"):
        parse_minutes(text)


@pytest.mark.parametrize(
    ("options", "gpus"),
    [({}, 0), ({"gpus_per_node": 2}, 2), ({"gres": "gpu:a100:4"}, 4), ({"gres": "gpu"}, 1)],
)
def test_gpus_asked_for(options: dict[str, object], gpus: int) -> None:
    assert count_requested_gpus(options) == gpus


def test_the_script(pretend: Pretend, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    pretend("srun", "")
    options = {"partition": "gpu", "time": 30, "mem": "16GB", "account": "me"}
    launcher = Slurm(tmp_path, options, LauncherOptions(cells_per_gpu=2))
    count, script = launcher.script(jobs(5))
    assert count == 3  # nobody knows what a cell takes: two at a time, three jobs
    for line in ("array=0-2%3", "partition=gpu", "time=30", "mem=16GB", "account=me", "gpus-per-node=1",
                 "job-name=calibench", "signal=USR2@90"):  # fmt: skip
        assert f"#SBATCH --{line}\n" in script
    assert "-m submitit." in script
    _, script = Slurm(tmp_path, {"mem": "1536MB", "job_name": "mine"}).script(jobs(1))
    assert "#SBATCH --mem=1536MB\n" in script
    assert "#SBATCH --job-name=mine\n" in script
    _, script = Slurm(tmp_path, {}, LauncherOptions(jobs=3, minutes_per_job=20)).script(jobs(3))
    assert "#SBATCH --time=40\n" in script
    assert "#SBATCH --cpus-per-task=3\n" in script
    assert "array" not in script


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partion": "gpu"}, r"no option `--slurm\.partion`; did you mean --slurm.partition"),
        ({"nodes": 2}, "a run is one process"),
        ({"tme": 5}, "did you mean --slurm.time"),
    ],
)
def test_options_that_submitit_refuses(
    options: dict[str, object], message: str, pretend: Pretend, tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    pretend("srun", "")
    with command_line_spelling(), pytest.raises(UsageError, match=message):
        JobArray(tmp_path, options, minutes=5)


def test_without_submitit_or_slurm(
    monkeypatch: pytest.MonkeyPatch, pretend: Pretend, tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    with pytest.raises(ExpectedFailure, match="`srun` was not found"):
        JobArray(tmp_path, {}, minutes=5)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ExpectedFailure, match=r"pip install 'calibench-suite\[slurm\]'"):
        JobArray(tmp_path, {}, minutes=5)


def test_what_slurm_says_of_an_array(pretend: Pretend) -> None:
    pretend("squeue", "echo '7_0|COMPLETED'; echo '7_1|PENDING'; echo '7_2|CANCELLED'")
    state = ended("7")
    assert [state(task) for task in range(4)] == ["COMPLETED", "", "CANCELLED", "ended"]
    pretend("squeue", "echo '8|RUNNING'")
    assert ended("8")(0) == ""
    pretend("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert ended("9")(0) == "ended"
    pretend("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert ended("9")(0) == ""


def test_squeue_must_be_there(pretend: Pretend) -> None:
    with pytest.raises(ExpectedFailure, match="`squeue` was not found"):
        ended("7")


def test_cells_in_living_jobs_are_found_again(pretend: Pretend, tmp_path: Path) -> None:
    cells, folder = jobs(4), tmp_path / "slurm" / "20261121"
    record(folder, "7", [ArrayTask("7", n, folder, cells[2 * n : 2 * n + 2]) for n in (0, 1)])  # fmt: skip
    pretend("squeue", "echo '7_0|COMPLETED'; echo '7_1|RUNNING'")
    wanted = jobs(3)
    (task,) = recorded(tmp_path / "slurm", wanted)
    assert (task.array, task.number, task.folder) == ("7", 1, folder)
    assert task.jobs == [wanted[2]]
    assert list(recorded(tmp_path / "slurm", jobs(2))) == []
    pretend("squeue", "echo 'Invalid job id specified' >&2; exit 1")
    assert list(recorded(tmp_path / "slurm", wanted)) == []
    assert [path.name for path in folder.iterdir()] == ["ended.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--slurm.time", "5"], "`--slurm.time` is for `--launcher slurm`."),
        (["--detach"], "`--detach` is for `--launcher slurm`."),
        (["--jobs", "2", "--cells-per-gpu", "2"], "exclude each other"),
        (["--jobs", "0"], "`--jobs` must be a positive integer, got 0"),
        (["--trainer.devices", "2"], "a sweep runs each cell in one process on one device"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "digits_lt", "--dry-run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_prints_a_script_that_can_be_submitted(
    pretend: Pretend, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("submitit")
    pretend("srun", "")
    options = ["--launcher", "slurm", "--slurm.partition", "gpu", "--slurm.time", "30"]
    options += ["--trainer.default_root_dir", str(tmp_path / "results")]
    assert main(["sweep", "digits_lt", "--losses", "focal", "--dry-run", *options]) == 0
    out = capsys.readouterr().out
    assert "\\n" not in out
    cells, _, script = out.partition("\n\n")
    assert cells.splitlines()[0] == "digits_lt focal seed=1"
    lines = script.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert {"#SBATCH --partition=gpu", "#SBATCH --time=30"} <= set(lines)
    assert lines[-1].startswith("srun ")
    assert " -m submitit." in lines[-1]
