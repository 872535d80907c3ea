"""Devices that are certainly not there are refused; where there may be one, torch is asked."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from calibench.config import devices
from calibench.ground.errors import UsageError


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(devices, "_GPU_FILES", ("nothing-of-this-name*",))
    monkeypatch.setattr(devices, "_loads", lambda library: False)


@pytest.mark.parametrize("name", ["gpu", "cuda"])
@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_is_refused_where_no_driver_is(name: str) -> None:
    with pytest.raises(UsageError, match=f"No supported {name} backend found!.*accelerator auto"):
        devices.check_devices({"accelerator": name})


@pytest.mark.parametrize(
    ("part", "value"),
    [("_GPU_FILES", ("null*",)), ("_loads", lambda library: library.startswith("libcuda"))],
)
@pytest.mark.usefixtures("no_gpu")
def test_a_file_or_a_library_of_a_driver_is_enough(
    part: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, part, value)
    devices.check_devices({"accelerator": "gpu", "devices": 8})
    devices.check_devices({"devices": 9999})


@pytest.mark.usefixtures("no_gpu")
def test_other_systems_and_accelerators_are_left_to_lightning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("tpu", "mps", "hpu", "auto", None, {"class_path": "mine.Accelerator"}):
        devices.check_devices({"accelerator": name})
    monkeypatch.setattr(devices, "_OTHER_ACCELERATORS", ("json",))
    devices.check_devices({"devices": 9999})
    monkeypatch.setattr(sys, "platform", "darwin")
    devices.check_devices({"accelerator": "gpu"})


def test_many_more_processes_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 2)
    for given in (9, "9"):
        with pytest.raises(UsageError, match=r"`trainer.devices` 9: on a CPU .* there are 2 cores"):
            devices.check_devices({"accelerator": "cpu", "devices": given})
    for several in (8, "auto", "0,1", [0, 9], -1, "two"):
        devices.check_devices({"accelerator": "cpu", "devices": several})


def test_a_library_is_looked_for() -> None:
    assert devices._loads("libno-such-library.so.1") is False
