"""Mistaken commands: exit code 2, one line, what to do; wrong names are refused without torch."""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibench.cli import main

DIGITS = "--config digits_lt --trainer.max_epochs 1 --trainer.enable_progress_bar false"
WIDER = "--model.backbone.width 24"
TABLE = Path(__file__).with_name("mistakes.txt")


def table(section: str) -> dict[str, str]:
    """The commands of a section with what the answer must hold."""
    text = TABLE.read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict((part.strip() for part in line.split(" | ", 1)) for line in lines)  # type: ignore[misc]


WRITTEN = {
    "deeper": "trainer:\n  max_epochs: 1\n   precision: 32\n",
    "colons": "benchmark: mine: two\n",
    "no_colon": "trainer:\n  max_epochs\n  precision: 32\n",
    "open_quote": 'benchmark: "mine\nseed: 1\n',
    "plurals": "benchmarks: [digits_lt]\nloss: [focal, gce]\nseeds: 1..3\n",
    "two": "benchmark: [digits_lt, wine]\nlosses: [focal]\n",
    "bare": "losses: [focal]\n",
    "beside": "model:\n  loss: FocalLoss\n  gamma: 3\n",
    "dotted": "model:\n  loss: FocalLoss\nmodel.loss.gamma: 3\n",
    "block": "model:\n  loss:\n    class_path: FocalLoss\n    gamma: 3\n",
    "merged": "model:\n  optimizer:\n    lr: 0.01\n",
    "no_blank": "trainer:\n  max_epochs:1\n",
    "alias": "benchmark: digits_lt\nlosses: [focal, ce]\n",
    "sweep_of_others": "program: train.py\nmethod: grid\n",
    "loss_in_file": "extends: digits_lt\nloss: focal\nlr: 0.1\n",
    "networks": "benchmark: digits_lt\nlosses: focal\nbackbones: [SmallCNN]\n",
}
"""Configurations and suites with a mistake in them."""


def files(folder: Path) -> dict[str, str]:
    """The files that commands name."""
    rng = np.random.default_rng(0)
    for name in ("val", "test"):
        logits, target = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 4, 60)
        np.savez(folder / f"{name}.npz", logits=logits, target=target)
    (folder / "folder").mkdir()
    (folder / "broken.yaml").write_text("model:\n  loss: [1\n")
    (folder / "list.yaml").write_text("- 1\n")
    for name, text in WRITTEN.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "garbage.ckpt").write_text("nothing")
    (folder / "mine.py").write_text("class Own:\n    def __init__(self, *, power=1): ...\n")
    written = [f"{name}.yaml" for name in WRITTEN]
    names = (*written, "val.npz", "test.npz", "broken.yaml", "list.yaml", "garbage.ckpt", "folder")
    return {name.replace(".yaml", "_yaml").partition(".")[0]: str(folder / name) for name in names}


def more_files(folder: Path) -> dict[str, str]:
    """What slower commands name: a checkpoint of a wider network, a calibrator of 4 classes, odd logits."""
    rng = np.random.default_rng(1)
    three, target = rng.normal(size=(50, 3)).astype(np.float32), rng.integers(0, 3, 50)
    np.savez(folder / "three.npz", logits=three, target=target)
    nan = np.full((60, 4), np.nan, dtype=np.float32)
    np.savez(folder / "nan.npz", logits=nan, target=rng.integers(0, 4, 60))
    assert answer(f"fit {DIGITS} {WIDER} --trainer.default_root_dir {folder}/wider")[0] == 0
    assert answer(f"fit {DIGITS} --trainer.default_root_dir {folder}/ce")[0] == 0
    vector = f"calibrate --val {folder}/val.npz --calibrator VectorScaling -o {folder}/vector.pt"
    assert answer(vector)[0] == 0
    return {
        "d": DIGITS,
        "three": f"{folder}/three.npz",
        "nan": f"{folder}/nan.npz",
        "vector": f"{folder}/vector.pt",
        "wider": str(next((folder / "wider").rglob("last.ckpt"))),
        "ce": str(next((folder / "ce").rglob("last.ckpt"))),
    }


def answer(line: str) -> tuple[int, str]:
    """Exit code of a command, and what it says."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(line.split())
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        except Exception as error:  # a traceback
            return -1, repr(error)
    return code, said.getvalue()


def answers(folder: Path, section: str) -> dict[str, tuple[int, str]]:
    """The answers to all commands of a section."""
    os.chdir(folder)
    named = files(folder)
    return {line: answer(line.format(**named)) for line in table(section)}


def print_answers_without_torch(folder: str) -> None:
    """Print the answers to what needs no torch; whoever imports it fails."""
    imports = builtins.__import__

    def refusing(name: str, *args: Any, **options: Any) -> Any:
        if name == "torch" or name.startswith("torch."):
            raise RuntimeError("torch is imported")
        return imports(name, *args, **options)

    builtins.__import__ = refusing
    print(json.dumps(answers(Path(folder), "without torch")))


def test_names_paths_and_options_are_refused_without_torch(tmp_path: Path) -> None:
    code = (
        "from tests.test_mistakes import print_answers_without_torch;"
        f"print_answers_without_torch({str(tmp_path)!r})"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    expected = table("without torch")
    assert len(expected) > 120
    wrong = {
        f"{code} {line}": said
        for line, (code, said) in json.loads(done.stdout).items()
        if code != 2 or expected[line] not in said or said.count("\n") > 2
    }
    assert wrong == {}


STRANGERS = "of a stranger: "


@pytest.mark.parametrize(
    "section",
    [
        f"{STRANGERS}predictions",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (f"{STRANGERS}training and results", "values", "with torch")
        ),
    ],
)
def test_what_only_torch_or_lightning_finds_is_one_line(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CALIBENCH_DATA", raising=False)  # that data sets are not there is a mistake
    named = {}
    if section.startswith(STRANGERS):
        from tests.strangers_files import write_everything  # not above: it needs torch

        write_everything(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
    else:
        named = files(tmp_path) | (more_files(tmp_path) if section == "with torch" else {})
    wrong = {}
    for line, expected in table(section).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code, said = answer(line.format(**named))
        error = said.strip().splitlines()[-1] if said.strip() else ""
        if code not in (1, 2) or expected not in error or not error.startswith("calibench: "):
            wrong[f"{code} {line}"] = said
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_a_checkpoint_of_another_loss_is_evaluated(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loss = "--model.loss AdaFocalLoss"
    assert answer(f"fit {DIGITS} {loss} --trainer.default_root_dir {tmp_path}")[0] == 0
    checkpoint = next(tmp_path.rglob("last.ckpt"))
    code, said = answer(f"{verb} --config digits_lt --ckpt_path {checkpoint}")
    assert code == 0, said
    code, said = answer(f"fit {DIGITS} --ckpt_path {checkpoint} --seed_everything 9")
    assert code == 2
    assert "another network or loss than this" in said
