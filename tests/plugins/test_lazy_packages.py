"""Lazy packages: what they export is what its module has, and nothing else is imported for it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

from calibench import calibrators, metrics
from calibench.plugins.lazy_imports import import_exports
from calibench.plugins.registries import initials
from tests.processes import run_processes

PACKAGES = [
    "calibench.backbones", "calibench.calibrators", "calibench.data", "calibench.diagnosis", "calibench.evaluation",
    "calibench.ranking", "calibench.losses", "calibench.metrics", "calibench.predictions",
    "calibench.runs", "calibench.statistics", "calibench.store",
]  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_is_there(name: str) -> None:
    package = import_module(name)
    import_exports(package)
    for exported in package.__all__:
        value = getattr(package, exported)
        assert not isinstance(value, ModuleType), f"{name}.{exported} is a module's name, too"
        assert vars(package)[exported] is value


@pytest.mark.parametrize("name", ["calibench", *PACKAGES])
def test_tab_sees_every_public_name_and_no_other(name: str) -> None:
    package = import_module(name)
    seen = {one for one in dir(package) if not one.startswith("__")}
    titles = {one for one in seen if one not in package.__all__}
    assert seen - titles == set(package.__all__)
    assert titles <= {"calibench.metrics": TITLES, "calibench.calibrators": INITIALS}.get(
        name, set()
    )


TITLES = {title.title for entry in metrics.TABLE.values() for title in entry.values.values()}
INITIALS = {initials(name) for name in calibrators.CALIBRATORS.lines} | {"LSC"}


def test_what_tables_print_is_a_name_of_the_class() -> None:
    assert metrics.ECE is metrics.CalibrationError  # type: ignore[attr-defined]
    assert metrics.NLL is metrics.NegativeLogLikelihood  # type: ignore[attr-defined]
    assert calibrators.TS is calibrators.TemperatureScaling  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):  # two of them share it
        getattr(calibrators, "ETS")  # noqa: B009


def test_tab_imports_nothing_heavy() -> None:
    code = "import sys, calibench.losses as p; assert set(p.__all__) <= set(dir(p)); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("package", "wrong", "near"),
    [("calibench", "metric", "metrics"), ("calibench.losses", "FocalLos", "FocalLoss")],
)
def test_near_matches_of_a_wrong_name(package: str, wrong: str, near: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean {near}"):
        getattr(import_module(package), wrong)


@pytest.mark.parametrize("name", PACKAGES)
def test_another_name_is_an_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        getattr(import_module(name), "nothing")  # noqa: B009


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("calibench.data, calibench.evaluation", ("numpy", "torch", "torchmetrics", "lightning")),
        ("calibench.verbs.data", ("torch", "torchmetrics", "lightning")),
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
