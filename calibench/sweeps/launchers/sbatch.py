"""SLURM job array of a sweep, by submitit, with SLURM's names of its parameters."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from calibench.configuration.files import read_yaml
from calibench.configuration.merging import Config
from calibench.messages.errors import ExpectedFailure, UsageError, near_matches, pip_install
from calibench.messages.spelling import is_command_line, spell_argument

_PREFIX = "slurm."
_FIXED_OPTIONS = ("nodes", "tasks_per_node", "ntasks_per_node", "num_gpus")  # a run is one process
_ATTEMPTS = 20  # how often a job that ran into its time limit is put back into the queue


def split_slurm_options(options: Sequence[tuple[str, Any]]) -> tuple[Config, list[tuple[str, Any]]]:
    """Separate options `slurm.KEY` from others; a value that is text is read as YAML, or refused by a UsageError."""
    named = [
        (key.removeprefix(_PREFIX), value) for key, value in options if key.startswith(_PREFIX)
    ]
    slurm = {key.replace("-", "_"): _parse_value(key, value) for key, value in named}
    return slurm, [(key, value) for key, value in options if not key.startswith(_PREFIX)]


def _parse_value(key: str, text: Any) -> Any:
    if not isinstance(text, str):
        return text
    if key == "time":
        return parse_minutes(text)
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{_spell(key)}: {text!r} is not valid YAML.") from error


def _spell(key: str) -> str:
    """A parameter of a SLURM job, as the reader of a message would type it."""
    return f"`--slurm.{key}`" if is_command_line() else f'`options={{"slurm.{key}": ...}}`'


def parse_minutes(text: str) -> int:
    """A time in whole minutes: `90`, `90:00`, `1:30:00`, `1-12`, `1-12:30`, `1-12:30:00`; another is a UsageError."""
    if not re.fullmatch(r"(\d+-\d+(:\d+){0,2}|\d+(:\d+){0,2})", text):
        raise UsageError(
            f"{_spell('time')} must be minutes, or like 1:30:00 or 1-12:00:00, got {text!r}."
        )
    days, dash, clock = text.rpartition("-")
    numbers = [int(number) for number in clock.split(":")]
    if dash or len(numbers) == 3:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return max(1, int(days or 0) * 1440 + hours * 60 + minutes + (seconds > 0))


def count_requested_gpus(options: Mapping[str, Any]) -> int:
    """GPUs of a job, from `gpus_per_node: 2`, `gpus_per_task: 2` or `gres: gpu:a100:2`; 0 if none is asked for."""
    for key in ("gpus_per_node", "gpus_per_task", "gres"):
        if key in options:
            number = re.search(r"(\d+)$", str(options[key]))
            return int(number.group(1)) if number else 1
    return 0


def _explain_refusal(message: str, options: Mapping[str, Any]) -> str:
    """Explain a refusal of submitit in one line: an unknown option where its message lists them, else its own text."""
    listed = re.findall(r"^ *- (\w+) \(default", message, re.MULTILINE)
    names = [name for name in listed if name not in _FIXED_OPTIONS]
    for key in options if listed else ():
        if key not in names:
            near = near_matches(key, names, prefix="--slurm." if is_command_line() else "")
            return f"no option {_spell(key)}{near}"
    return f"{spell_argument('slurm')}: {' '.join(message.split())}"


class JobArray:
    """A job array that runs bundles, by submitit, whose script, pickles and output are in a folder that nodes share.

    Raises an ExpectedFailure if submitit or SLURM is not installed, and a UsageError if submitit refuses an option.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any], *, minutes: int) -> None:
        try:
            import submitit
        except ImportError as error:
            launcher = spell_argument("launcher", "slurm")
            raise ExpectedFailure(f"{launcher} needs submitit: {pip_install('slurm')}") from error
        try:
            self._executor: Any = submitit.SlurmExecutor(folder, max_num_timeout=_ATTEMPTS)
        except RuntimeError as error:
            launcher = spell_argument("launcher", "slurm")
            raise ExpectedFailure(
                f"`srun` was not found: {launcher} runs on a machine of a SLURM cluster."
            ) from error
        for key in options:
            if key in _FIXED_OPTIONS:
                raise UsageError(f"no option {_spell(key)}: a run is one process on one node")
        try:
            named = {"job_name": "calibench", "time": minutes, **options}
            self._executor.update_parameters(**named)
        except (ValueError, TypeError) as error:
            raise UsageError(_explain_refusal(str(error), options)) from error

    def submit(self, bundles: Sequence[Callable[[], None]]) -> str:
        """Submit one task for each bundle; returns the number of the array, or raises what SLURM says."""
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            jobs = self._executor.submit_array(bundles)
        except (FailedJobError, FailedSubmissionError, subprocess.SubprocessError) as error:
            messages = [
                line for line in str(error).splitlines() if line.startswith("sbatch: error")
            ]
            raise ExpectedFailure(
                f"SLURM refused the jobs: {' '.join(messages) or error}"
            ) from error
        return str(jobs[0].job_id).partition("_")[0]

    def script(self, tasks: int) -> str:
        """The sbatch script of an array with this number of tasks."""
        if tasks > 1:
            self._executor.parameters["map_count"] = tasks
        command = self._executor._submitit_command_str
        return str(self._executor._make_submission_file_text(command, "dry-run"))
