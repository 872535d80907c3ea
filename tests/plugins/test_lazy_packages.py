"""Lazy packages: what they export is what its module has, and nothing else is imported for it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from zipfile import ZipFile

import pytest

from calibench import calibrators, data, losses, metrics
from calibench.plugins.lazy_imports import import_exports
from calibench.plugins.registries import initials
from tests.examples import for_each

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


@for_each(["calibench", *PACKAGES])
def test_tab_sees_every_public_name_and_no_other(name: str) -> None:
    package = import_module(name)
    seen = {one for one in dir(package) if not one.startswith("__")}
    titles = {one for one in seen if one not in package.__all__}
    assert seen - titles == set(package.__all__)
    of_tables = {
        "calibench.metrics": TITLES,
        "calibench.calibrators": INITIALS,
        "calibench.losses": {loss.removesuffix("Loss") for loss in losses.LOSSES.lines},
    }
    assert titles <= of_tables.get(name, set())


TITLES = {title.title for entry in metrics.TABLE.values() for title in entry.values.values()}
INITIALS = {initials(name) for name in calibrators.CALIBRATORS.lines} | {"LSC"}


def test_what_tables_print_is_a_name_of_the_class() -> None:
    assert metrics.ECE is metrics.CalibrationError
    assert metrics.NLL is metrics.NegativeLogLikelihood
    assert losses.LabelSmoothing is losses.LabelSmoothingLoss
    assert calibrators.TS is calibrators.TemperatureScaling
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


def _exports_of_checkers(package: ModuleType) -> dict[str, str]:
    """The names that type checkers and editors see, `import NAME as NAME`, each with its module."""
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    blocks = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: str(node.module) for node in imports for alias in node.names if alias.asname == alias.name
    }  # fmt: skip


@for_each(["calibench", *PACKAGES])
def test_checkers_editors_and_python_see_the_same_names(name: str) -> None:
    package = import_module(name)
    modules = vars(package)["_MODULES"]
    assert modules == _exports_of_checkers(package)
    assert sorted(package.__all__) == sorted(modules)
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    faces = [
        n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"
    ]
    assert [ast.literal_eval(face.value) for face in faces] == [package.__all__]


def test_data_modules_are_those_of_the_table_of_sources() -> None:
    modules = data.DATA_MODULES.modules
    assert modules == {name: vars(data)["_MODULES"][name] for name in modules}
    others = {name for name in data.__all__ if name.endswith("DataModule")} - set(modules)
    assert others == {"ClassificationDataModule", "TextDataModule"}  # bases


@pytest.mark.parametrize("name", PACKAGES)
def test_no_name_is_one_of_a_module_that_python_would_put_in_its_place(name: str) -> None:
    submodules = {module.name for module in iter_modules(import_module(name).__path__)}
    assert not submodules & set(import_module(name).__all__)


_IN_RANDOM_ORDER = """
import pkgutil, random, sys, warnings
from importlib import import_module
import calibench
warnings.simplefilter("ignore")
found = pkgutil.walk_packages(calibench.__path__, "calibench.", onerror=print)
names = [m.name for m in found if not m.name.startswith(("calibench.templates.", "calibench.__main__"))]
random.Random(int(sys.argv[1])).shuffle(names)
for name in names:
    import_module(name)
wrong = [
    name for name in calibench.__all__
    if not (callable(getattr(calibench, name)) or f"calibench.{name}" in sys.modules)
]
print(len(names) > 200, wrong)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_public_functions_stay_callable_after_every_module_is_imported(seed: str) -> None:
    command = [sys.executable, "-c", _IN_RANDOM_ORDER, seed]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "[]"]


@pytest.mark.slow
def test_the_package_is_imported_from_a_zip(tmp_path: Path) -> None:
    root = Path(str(data.__file__)).parents[2]
    with ZipFile(tmp_path / "calibench.zip", "w") as archive:
        for path in (root / "calibench").rglob("*"):
            if path.suffix in (".py", ".yaml"):
                archive.write(path, path.relative_to(root))
    code = (
        "import sys; sys.path.insert(0, 'calibench.zip'); import calibench\n"
        "assert 'calibench.zip' in calibench.__file__\n"
        "print(len(calibench.data.__all__), calibench.losses.LOSSES.kind, calibench.evaluate.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(data.__all__)), "losses", "evaluate"]
