"""The scripts of the papers, imported as modules and called as a shell would."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "benchmarks" / "papers"


def load_script(paper: str, name: str) -> ModuleType:
    """A script as a module; the same one each time, so that its constants can be replaced."""
    key = f"papers_{paper}_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, FOLDER / paper / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


def exit_code(script: ModuleType, arguments: Sequence[str]) -> int:
    """Exit code of a script."""
    try:
        script.main(list(arguments))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
