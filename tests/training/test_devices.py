"""Processes that a CPU has no cores for are refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from calibench.messages.errors import UsageError
from calibench.training import distributed


def test_many_more_processes_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "cores", lambda: 2)
    asked = SimpleNamespace(accelerator="cpu", devices=8, num_nodes=1)
    assert distributed.plan_replicas(asked).count == 8
    asked.devices = 9
    with pytest.raises(UsageError, match=r"`trainer.devices` 9: on a CPU .* there are 2 cores"):
        distributed.plan_replicas(asked)
