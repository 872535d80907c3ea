"""Imports point down only, and the light modules stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "calibench"

LAYERS = {
    "cli": 4, "__main__": 4,
    "data": 3, "module": 3, "callbacks": 3, "experiment": 3, "training": 3, "inference": 3, "sweep": 3, "pool": 3, "launchers": 3, "durations": 3, "nodes": 3, "suites": 3, "cells": 3, "dry_run": 3, "selection": 3, "reproduce": 3, "interruption": 3,
    "checkpoints": 3, "precision": 3, "lean": 3, "trace": 3, "progress": 3, "environment": 3, "parser": 3, "export": 3,
    "runs": 2, "lease": 2, "evaluation": 2, "leaderboard": 2, "report": 2, "plots": 2, "audit": 2, "calibrate": 2,
    "losses": 1, "metrics": 1, "calibrators": 1, "backbones": 1,
    "binning": 0, "processes": 0, "garbage": 0, "state": 0, "distributed": 0, "config": 0, "statistics": 0, "published": 0, "catalogue": 0, "tables": 0, "titles": 0,
    "__init__": 0,
}  # fmt: skip
LIGHTNING_FROM = 3


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    """Full names of the modules that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_point_down(path: Path) -> None:
    here = room(path)
    assert here in LAYERS, f"{here} has no layer: name it in tests/test_layers.py"
    for name in imported(path):
        if name.startswith(("lightning", "pytorch_lightning")):
            assert LAYERS[here] >= LIGHTNING_FROM, (
                f"{path} imports Lightning from layer {LAYERS[here]}"
            )
        if not name.startswith("calibench."):
            continue
        there = name.split(".")[1]
        if there == here or there not in LAYERS:  # calibench.__version__
            continue
        assert LAYERS[there] <= LAYERS[here], (
            f"{path} ({LAYERS[here]}) imports {there} ({LAYERS[there]})"
        )
        if LAYERS[here] == 1:
            assert LAYERS[there] == 0, (
                f"{path}: siblings {here} and {there} must not know each other"
            )


@pytest.mark.parametrize(
    "module", ["calibench", "calibench.cli", "calibench.config", "calibench.leaderboard"]
)
def test_light_modules_import_neither_torch_nor_scipy(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'scipy', 'lightning') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_calibrators_import_scipy_and_scikit_learn_where_they_fit() -> None:
    """Every verb that trains or draws imports them; a second of imports is for the few that fit."""
    code = "import sys, calibench.calibrators; print([m for m in ('scipy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
