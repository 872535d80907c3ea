"""A SLURM of one node for the tests in this folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("slurm.sh")


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which SLURM's commands find the SLURM that is started here."""
    pytest.importorskip("submitit", reason="submitit is not installed (extra `slurm`)")
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run([SCRIPT, "start", folder], capture_output=True, text=True, timeout=120)
    if started.returncode:
        pytest.skip(f"no SLURM can be started here: {started.stderr.strip()}")
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "OMP_NUM_THREADS": "1"}
    yield environment
    subprocess.run(["scancel", "--user", str(os.getuid())], env=environment, check=False)
    subprocess.run([SCRIPT, "stop", folder], check=True, timeout=60)
