"""Cells of suites are resolved once for all tests: their keys depend on nothing that a test changes."""

from __future__ import annotations

import json

import pytest

from calibench.runs import RunId
from calibench.sweeps import plan
from calibench.sweeps.pool import Job
from tests.sweeps.test_suites import _resolved


@pytest.fixture(autouse=True)
def _resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def cell(job: Job) -> RunId:
        found: RunId = _resolved(
            json.dumps({**job.config, "seed_everything": 1}, default=str)
        ).run_id
        return found

    monkeypatch.setattr(plan, "_resolve_run_id", cell)
