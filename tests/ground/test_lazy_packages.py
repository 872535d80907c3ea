"""Lazy packages: what they export is what its module has, and nothing else is imported for it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

from calibench.ground.lazily import load
from tests.processes import run_processes

PACKAGES = [
    "calibench.backbones", "calibench.calibrators", "calibench.data", "calibench.evaluation", "calibench.losses",
    "calibench.metrics", "calibench.runs",
]  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_is_there(name: str) -> None:
    package = import_module(name)
    load(package)
    for exported in package.__all__:
        value = getattr(package, exported)
        assert not isinstance(value, ModuleType), f"{name}.{exported} is a module's name, too"
        assert vars(package)[exported] is value


def test_tab_sees_every_public_name_before_it_is_imported() -> None:
    code = "import sys, calibench.losses as p; assert set(p.__all__) <= set(dir(p)); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", PACKAGES)
def test_another_name_is_an_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        getattr(import_module(name), "nothing")  # noqa: B009


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("calibench.data, calibench.evaluation", ("numpy", "torch", "torchmetrics", "lightning")),
        ("calibench.data.command", ("torch", "torchmetrics", "lightning")),
        ("calibench.metrics", ("numpy", "torch", "torchmetrics", "lightning")),
    ],
)
def test_importing_a_package_imports_nothing_heavy(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _what_is_imported_after_the_module_of_its_name(rank: int, n: int) -> bool:
    for name in [name for name in sys.modules if name.startswith("calibench.metrics")]:
        del sys.modules[name]
    import_module("calibench.metrics.collection")
    from calibench.metrics import error_rate

    return callable(error_rate)


def test_a_function_hides_the_module_of_its_name() -> None:
    assert run_processes(_what_is_imported_after_the_module_of_its_name, 1) == [True]
