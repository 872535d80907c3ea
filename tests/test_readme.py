"""What the README says is true: its commands exist, its code runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from calibench.cli import VERBS
from calibench.sweep.suites import load_suite

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^ *```(\w*)\n(.*?)^ *```", README, re.MULTILINE | re.DOTALL)


def code(containing: str) -> str:
    """The Python block that contains a text, without its indentation."""
    import textwrap

    (block,) = [
        textwrap.dedent(text)
        for language, text in BLOCKS
        if language == "python" and containing in text
    ]
    return block


def test_ci_runs_the_readmes_test_command() -> None:
    command = re.findall(r"^python3 -m venv .*pytest.*$", README, re.MULTILINE)
    assert len(command) == 1
    assert "grep -m1 '^python3 -m venv .*pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_every_command_starts_with_a_verb_there_is() -> None:
    text = "\n".join(block for language, block in BLOCKS if not language)
    verbs = re.findall(r"calibench (\w+)", text)
    assert len(verbs) > 5
    assert set(verbs) <= set(VERBS)


def test_the_example_of_two_models_with_ece_zero(capsys: pytest.CaptureFixture[str]) -> None:
    exec(code("np.full(100, 0.6)"), {})
    first, second = (eval(line) for line in capsys.readouterr().out.splitlines())
    assert first["ece"] == second["ece"] == 0
    assert (first["error"], second["error"]) == (0.4, 0.3)


def test_own_loss_in_15_lines(tmp_path: Path) -> None:
    block = code("class PolyLoss")
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    (tmp_path / "mylosses.py").write_text(block)
    arguments = [
        "fit",
        "--config",
        "digits_lt",
        "--model.loss",
        "mylosses.PolyLoss",
        "--model.loss.epsilon",
        "2",
        "--trainer.fast_dev_run",
        "true",
    ]
    executable = Path(sys.executable).with_name(
        "calibench"
    )  # the console script does not have the current folder on its path
    if not executable.is_file():
        pytest.skip("the console script is not installed beside this Python")
    done = subprocess.run(
        [executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "results").rglob("metrics.json"))


def test_only_logits() -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    names = {
        f"{split}_{kind}": value
        for split in ("val", "test")
        for kind, value in (
            ("logits", rng.normal(size=(50, 3))),
            ("labels", rng.integers(3, size=50)),
        )
    }
    exec(code("Evaluation()"), names)
    assert {row["calibrator"] for row in names["rows"]} == {
        "raw",
        "TemperatureScaling",
        "AdaptiveTemperatureScaling",
    }


def test_a_calibrator_in_three_lines() -> None:
    import torch

    block = code("TemperatureScaling().fit")
    assert len([line for line in block.splitlines() if line.strip()]) == 3
    names = {f"{split}_logits": torch.randn(50, 3) for split in ("val", "test")} | {
        "val_labels": torch.randint(3, (50,))
    }
    exec(block, names)
    torch.testing.assert_close(names["probs"].sum(1), torch.ones(50))


def test_options_in_commands_on_logits_exist() -> None:
    import argparse

    from calibench.evaluation import calibrate_options, options
    from calibench.training import export_options

    rooms = {"evaluate": options, "calibrate": calibrate_options, "export": export_options}
    lines = re.findall(rf"^calibench ({'|'.join(rooms)}) ([^#\n]*)", README, re.MULTILINE)
    assert {verb for verb, _ in lines} == set(rooms)
    for verb, rest in lines:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        rooms[verb].add_arguments(parser)
        parser.parse_args(rest.split())


def test_the_files_that_documents_name_exist() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        text = document.read_text()
        links = re.findall(r"\]\((?!http)([^)#]+)", text)
        named = re.findall(r"`((?:benchmarks|docs|notebooks|tests|calibench)/[\w./]+)`", text)
        for name in (name for name in [*links, *named] if "foo" not in name):
            assert (document.parent / name).exists() or (ROOT / name).exists(), (
                f"{document}: {name}"
            )


def test_the_example_of_a_suite(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "docs/suites.md").read_text(), re.M | re.S
    )
    (tmp_path / "my_suite.yaml").write_text(block)
    assert len(load_suite(str(tmp_path / "my_suite.yaml")).jobs()) == 12


def test_no_path_of_a_machine_and_no_registry_is_named() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    banned = re.compile(
        "|".join(("/wo" + "rk/", "/ro" + "ot/", "pypi" + r"\.org", "files\\.pythonhosted"))
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix
            in (".py", ".md", ".yaml", ".toml", ".cff", ".ipynb", ".txt", ".json", ".csv")
            and path.is_file()
        ):
            found = banned.search(path.read_text(encoding="utf-8"))
            assert found is None, f"{name}: {found}"
