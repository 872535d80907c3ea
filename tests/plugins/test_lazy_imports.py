"""Packages whose names are imported when they are used."""

from __future__ import annotations

import subprocess
import sys

import calibench
import calibench.diagnosis
import calibench.store


def test_modules_are_names_of_a_package_too() -> None:
    assert calibench.store is sys.modules["calibench.store"]
    assert calibench.diagnosis is sys.modules["calibench.diagnosis"]


def test_naming_the_package_imports_nothing_heavy() -> None:
    code = "import sys, calibench; print({'numpy', 'torch', 'calibench.runs'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
