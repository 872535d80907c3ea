"""The command line as a user meets it: start-up, help, one-line errors, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from calibench.cli import FIRST, VERBS, main
from calibench.run_configuration.keys import KEYS_HELP
from calibench.verbs.fit import configuration_of
from calibench.verbs.list import LISTED_KINDS, describe_entries
from tests import warm
from tests.run_folders import write_run
from tests.waiting import wait_for

pytestmark = pytest.mark.processes

DIGITS = ["fit", "--config", "digits_lt"]


def command(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
    """`calibench ...` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "calibench", *arguments],
        cwd=cwd, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


LIGHT = [
    "--help",
    "--version",
    "list losses",
    "list benchmarks",
    "fit --help",
    "sweep --help",
    "leaderboard --help",
    "leaderboard nowhere",
    "posthoc --help",
    "posthoc nowhere",
]


def test_light_verbs_do_not_import_torch() -> None:
    code = """
        import sys
        from calibench.cli import main
        for line in sys.argv[1:]:
            try:
                main(line.split())
            except SystemExit:
                pass
            found = [name for name in ("torch", "lightning", "scipy") if name in sys.modules]
            assert not found, (line, found)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *LIGHT], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "all"]) == 0
    text = capsys.readouterr().out
    assert [verb for verb in VERBS if not re.search(rf"^  {verb} ", text, re.MULTILINE)] == []
    assert main([]) == 2


def test_the_first_screen_has_twelve_verbs_in_three_groups(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    shown = [verb for verb in VERBS if re.search(rf"^  {verb}  ", text, re.MULTILINE)]
    assert shown == list(VERBS)[:12]
    assert len(re.findall(r"^\w.*\n  ", FIRST, re.MULTILINE)) == 3
    assert max(map(len, text.splitlines())) <= 80
    assert "calibench help all" in text


def test_help_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "fit"]) == 0
    assert capsys.readouterr().out.startswith("usage: calibench fit")


def test_a_seed_and_hyphens_are_read_as_keys() -> None:
    given = configuration_of(["--config", "digits_lt", "--seed", "7", "--trainer.max-epochs=2"])
    assert given["seed_everything"] == "7"
    assert given["trainer"]["max_epochs"] == "2"


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([verb, "--help"])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    assert code == 0
    text = capsys.readouterr().out
    assert "usage: calibench" in text
    assert not re.findall(r"^ *\{[a-z_]+\}", text, re.MULTILINE)  # a name that is to be filled in


@pytest.mark.parametrize("verb", ["fit", "sweep"])
def test_help_names_loggers_curves_and_own_data(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with suppress(SystemExit):
        main([verb, "--help"])
    assert "".join(KEYS_HELP.split()) in "".join(capsys.readouterr().out.split())
    for key in ("--data CLASS", "--trainer.logger", "--trace.test_metrics", "--benchmark"):
        assert key in KEYS_HELP


@pytest.mark.parametrize("kind", LISTED_KINDS)
def test_list_says_what_there_is_with_its_source(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", kind]) == 0
    out = " ".join(capsys.readouterr().out.split())
    found = describe_entries(kind)
    assert found
    for name, line in found.items():
        assert name in out
        assert line, f"{name} has no description"


CASES = {
    "fi": "there is no verb `fi`; did you mean fit",
    "list loses": "did you mean losses",
    "fit --config digits_l": "`digits_l`; did you mean digits_lt",
    "fit --config digits_lt --model.loss FocaLoss": "no class `FocaLoss`; did you mean FocalLoss",
    "fit --config digits_lt --model.loss FocalLoss": "gamma",
    "fit --config digits_lt --model.loss FocalLoss --model.loss.gamma -1": "`gamma` must be",
    "fit --config digits_lt --model.loss FocalLoss --model.loss.gama 1": "no argument `gama`; did you mean gamma",
    "fit --config ag_news --data.checksum warn": "`data`: AGNewsDataModule has no argument `checksum`; there are batch_size, ",
    "fit --config digits_lt --data.imbalance_factor 0.5": "`imbalance_factor`",
    "fit --config digits_lt --modle.loss X": "unknown option `modle`; did you mean model",
    "fit --config digits_lt --trainer.max_epochs": "`--trainer.max_epochs` needs a value",
    "fit --config digits_lt --trainer.max_epoch 3": "unknown option `trainer.max_epoch`: `--trainer.max_epochs 3`",
    "fit --config cifar10_lt --data.labels wrost": "`data.labels`: clean, aggregate, random1, random2, random3, worst, distributions, same_images expected, got wrost",
    "fit --config cifar10_lt --data.imbalance_factor abc": "`data.imbalance_factor`: float expected, got abc",
    "fit --config cifar10_lt --data.split_seed rum": "`data.split_seed`: int or run expected, got rum",
    "fit --config digits_lt --trainer.max_epochs three": "`trainer.max_epochs`: int expected, got three",
    "fit --config digits_lt --model.backbone SmalCNN": "did you mean SmallCNN",
    "fit --config digits_lt --data DigitDataModule": "did you mean DigitsDataModule",
    "fit --config digits_lt --model.optimizer torch.optim.Adm": "did you mean torch.optim.Adam",
    "fit --config digits_lt --evaluation.calibrators+=TempScaling": "did you mean TemperatureScaling",
    "fit --config": "needs a file",
    "fit --trainer.max_epochs 3": "required",
    "test --config digits_lt --ckpt_path nowhere.ckpt": "no such file",
    "sweep digits_lt --losses focall": "no loss `focall`; did you mean focal",
    "sweep digits_lt --seeds a..b": "`--seeds` must look like",
    "sweep digits_lt --job 2": "unknown option `--job`; did you mean --jobs",
    "sweep digits_ltt": "did you mean digits_lt",
    "sweep digits_lt --jobs 0": "`--jobs` must be a positive integer, got 0",
    "leaderboard nowhere": "nowhere",
    "leaderboard --sort": "needs a value",
}  # fmt: skip


@pytest.mark.parametrize("line", CASES, ids=lambda line: line.replace(" ", "_"))
def test_a_users_mistake_is_one_line_and_exit_code_2(
    line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("calibench: error: ")
    assert CASES[line] in captured.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:\n  loss: [1\n", "line 3"),
        ("modle:\n  loss: FocalLoss\n", "unknown key `modle`; did you mean model"),
        ("modell: {}\n", "unknown key `modell`; did you mean model"),
        ("model:\n  losss:\n    class_path: FocalLoss\n", "did you mean model.loss"),
        (
            "model:\n  loss:\n    class_path: FocalLoss\n    init_args: {gama: 2}\n",
            "no argument `gama`; did you mean gamma",
        ),
        ("- 1\n", "a mapping of keys is expected"),
    ],
)
def test_a_typo_in_a_yaml_is_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text(text)
    assert main([*DIGITS, "--config", str(overlay)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_debug_shows_the_traceback() -> None:
    from calibench.messages.errors import UsageError

    with pytest.raises(UsageError):
        main(["fit", "--config", "nowhere", "--debug"])


def test_corrupt_files_of_a_run_are_named_not_fatal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (1, 2):
        write_run(tmp_path, seed=seed)
    broken = next(tmp_path.rglob("seed=2/metrics.json"))
    broken.write_text("{")
    assert main(["leaderboard", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "seed=2" in captured.out + captured.err
    assert "metrics.json" in captured.out + captured.err


@pytest.mark.parametrize(
    ("sent", "code", "reason"),
    [
        (signal.SIGINT, 130, "interrupted"),
        pytest.param(signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, "terminated", marks=pytest.mark.slow),
    ],
)
def test_signals_end_a_fit_with_their_codes(
    sent: int, code: int, reason: str, tmp_path: Path
) -> None:
    where = ["--trainer.max_epochs", "5000", "--trainer.default_root_dir", str(tmp_path)]
    with warm.started([*DIGITS, *where]) as command:
        wait_for(lambda: list(tmp_path.rglob("last.ckpt")))
        os.kill(command.pid, sent)
        done = command.finish()
    error = done.stderr
    assert done.returncode == code, error
    last = error.splitlines()[-1]
    assert last.startswith(f"calibench: {reason} at epoch ")
    assert last.endswith(" of 5000; the same command goes on, `--overwrite true` starts anew")
    assert "Traceback" not in error
    status = json.loads(next(tmp_path.rglob("status.json")).read_text())
    assert (status["status"], status["reason"].split()[0]) == ("failed", reason)
    assert not list(tmp_path.rglob("run.lock"))


@pytest.mark.slow
def test_benchmarks_are_found_from_anywhere(tmp_path: Path) -> None:
    done = command(
        "list", "benchmarks", cwd=tmp_path, PYTHONPATH=str(Path(__file__).parent.parent)
    ).communicate(timeout=60)[0]
    assert "digits_lt" in done
