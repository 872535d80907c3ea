"""The folder that commands of goldens run in, a run of a command, and what a user sees of it as text."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from calibench.cli import main
from tests.seeds import seed_torch

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
EXPECTED = HERE / "expected"
FIXTURES = HERE / "fixtures"
CLASSES = ("cat", "dog", "owl", "yak")
# They hold times.
TIMED = ("environment.json", "results.csv", "seconds.csv", "summary.md")
# Contents of these files are a part of the golden; of others only that they are there.
SHOWN = (".csv", ".md", ".yaml", ".py", ".json", ".txt", ".tex", ".bib")


def commands() -> dict[str, tuple[bool, list[str]]]:
    """By name: whether it is slow, and the command lines, which run one after the other in one folder."""
    groups = yaml.safe_load((HERE / "commands.yaml").read_text())
    return {
        name: (group == "slow", [lines] if isinstance(lines, str) else lines)
        for group, table in groups.items()
        for name, lines in table.items()
    }


def predictions(seed: int, n: int = 300, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident logits (n, k) that know something of the labels (n,)."""
    random = np.random.default_rng(seed)
    target = random.integers(0, k, n)
    logits = 2 * random.normal(size=(n, k)) + 3 * np.eye(k)[target]
    return logits.astype(np.float32), target


def write_desk(folder: Path) -> None:
    """The files that commands name."""
    for seed, name in enumerate(("val", "test", "far")):
        logits, target = predictions(seed)
        np.savez(folder / f"{name}.npz", logits=logits, target=target)
    logits, target = predictions(1)
    probs = np.exp(logits.astype(np.float64))
    probs /= probs.sum(axis=1, keepdims=True)
    lines = [
        ",".join([*(f"{p:.6f}" for p in row), CLASSES[label]])
        for row, label in zip(probs, target, strict=True)
    ]
    header = ",".join([*CLASSES, "label"])
    (folder / "test.csv").write_text("\n".join([header, *lines]) + "\n")
    correct = (probs.argmax(axis=1) == target).astype(int)
    pairs = [f"{p:.6f},{one}" for p, one in zip(probs.max(axis=1), correct, strict=True)]
    (folder / "answers.csv").write_text("\n".join(["confidence,correct", *pairs]) + "\n")
    np.savez(folder / "three.npz", **dict(zip(("logits", "target"), predictions(3, k=3), strict=True)))  # fmt: skip
    np.savez(folder / "nan.npz", logits=np.full((300, 4), np.nan, "f4"), target=target)
    np.savez(folder / "short.npz", logits=logits[:9], target=target)
    np.savez(folder / "labels.npz", logits=logits, target=target + 2)
    np.savez(folder / "unnamed.npz", numbers=logits, places=target)
    for name, text in {
        "broken.npz": "nothing", "broken.yaml": "model:\n  loss: [1\n", "list.yaml": "- 1\n", "garbage.pt": "nothing",
        "typo.yaml": "modle:\n  loss: FocalLoss\n", "sums.csv": "a,b,label\n0.9,0.9,a\n0.1,0.2,b\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    (folder / "folder").mkdir()
    for name, kept in (("results", "finished"), ("interrupted", "interrupted"), ("mine", "mine")):
        shutil.copytree(FIXTURES / kept, folder / name)


def pretend_srun(folder: Path) -> None:
    """Write a command `srun` that does nothing: submitit looks for it before it writes a script."""
    folder.mkdir()
    (folder / "srun").write_text("#!/bin/sh\n")
    (folder / "srun").chmod(0o755)


def seen(lines: list[str], folder: Path) -> str:
    """What a user sees of command lines: exit codes, output, errors, and the files that are new."""
    before = {path for path in folder.rglob("*") if path.is_file()}
    said = "".join(_said(line) for line in lines)
    new = sorted({path for path in folder.rglob("*") if path.is_file()} - before)
    return normalised(said + "".join(_shown(path, folder) for path in new), folder)


def _said(line: str) -> str:
    out, error = io.StringIO(), io.StringIO()
    seed_torch()
    with _as_in_a_process(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code: Any = main(shlex.split(line))
        except SystemExit as stopped:
            code = stopped.code or 0
    text = f"$ calibench {line}\nexit code: {code}\n{out.getvalue()}"
    return text + (f"--- errors\n{error.getvalue()}" if error.getvalue() else "")


@contextlib.contextmanager
def _as_in_a_process() -> Iterator[None]:
    """Warnings as Python has them by default, and the threads and the environment left as they were."""
    environment, threads, path = dict(os.environ), torch.get_num_threads(), [*sys.path]
    given, sys.argv = sys.argv, ["calibench"]
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(environment)
            torch.set_num_threads(threads)
            sys.path[:], sys.argv = path, given


def _shown(path: Path, folder: Path) -> str:
    title = f"--- file {path.relative_to(folder).as_posix()}\n"
    if path.suffix == ".npz":
        with np.load(path) as file:
            return title + "".join(f"{name}: {_summary(file[name])}\n" for name in sorted(file))
    if path.suffix not in SHOWN or path.name in TIMED or path.stat().st_size > 20_000:
        return title
    return f"{title}{path.read_text()}\n"


def _summary(array: np.ndarray) -> str:
    of = f"{array.dtype} {array.shape}"
    if array.dtype.kind not in "fiu" or not array.size:
        return of
    return f"{of} mean {array.mean():.6f} first {array.flat[0]:.6f}"


# What differs between machines, folders and days.
_VARYING = (
    (r"\b\d+(\.\d+)? (s|ms|min|seconds)\b", "<time>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?", "<moment>"),
    (r"\b\d+(\.\d+)? GB\b", "<memory>"),
    (r'"(pid|host)": [^,\n]+', r'"\1": <\1>'),
    (r"\b(lightning\.pytorch==)\S+", r"\1<version>"),
    (r"\b[0-9a-f]{20,64}\b", "<digest>"),
    (
        r"(?m)^( *\d+ (?:\w*Scaling|raw) .*?) \d+\.\d\d *$",
        r"\1 <time>",
    ),  # the last column of `posthoc`
    (r"[ \t]+\n", "\n"),
)


def normalised(text: str, folder: Path) -> str:
    """A text without what differs between machines."""
    from calibench import __version__

    for path, name in (
        (folder, "<desk>"),
        (sys.executable, "<python>"),
        (REPOSITORY, "<repository>"),
        (Path.home(), "<home>"),
    ):
        text = text.replace(str(path), name)
    text = text.replace(f"calibench {__version__}", "calibench <version>")
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text)
    return text.rstrip() + "\n"


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")


def differences(made: str, expected: str) -> list[str]:
    """Lines that differ in a word, or in a number by more than a thousandth; [] if none does.

    A number that lies between two printed ones is rounded to either: one in fifty may differ by a unit of its last place.
    """
    one, two = made.splitlines(), expected.splitlines()
    if len(one) != len(two):
        first = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if _words(a) != _words(b)), min(len(one), len(two)))  # fmt: skip
        return [f"{len(one)} lines, expected {len(two)}", *_pair(one, two, first)]
    found, rounded, numbers = [], 0, 0
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        pairs = [*zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=False)]
        far = [pair for pair in pairs if not _near(*pair)]
        numbers += len(pairs)
        rounded += len(far)
        if _words(a) != _words(b) or not all(_one_unit(*pair) for pair in far):
            found += _pair(one, two, i)
    if not found and rounded > 1 + numbers / 50:
        found.append(f"{rounded} of {numbers} numbers are rounded otherwise")
    return found


def _words(line: str) -> str:
    return _NUMBER.sub("#", line)


def _pair(made: list[str], expected: list[str], i: int) -> list[str]:
    return [f"line {i + 1}", *(f"  {name} {text[i]}" for name, text in (("made    ", made), ("expected", expected)) if i < len(text))]  # fmt: skip


def _near(a: str, b: str) -> bool:
    return a == b or abs(float(a) - float(b)) <= 1e-3 + 1e-3 * abs(float(b))


def _one_unit(a: str, b: str) -> bool:
    places = [len(text.partition(".")[2]) for text in (a, b)]
    decimals = "." in a and "." in b and "e" not in a + b
    return decimals and abs(float(a) - float(b)) <= 1.001 * 10.0 ** -min(places)
