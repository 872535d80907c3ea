"""Runs for the scripts that read checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.short_runs import write_short_runs


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of cross-entropy and one of the Brier loss."""
    return write_short_runs(tmp_path_factory.mktemp("results"))
