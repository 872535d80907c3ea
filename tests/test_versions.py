"""The versions that are allowed, those that are tried, and the workflows that try them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent


def pinned(name: str) -> dict[str, Version]:
    lines = (ROOT / name).read_text().splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(package): Version(version) for package, version in pins}


def required() -> dict[str, Requirement]:
    """What users and the tests need, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    others = ("dev", "docs")  # the site is built with one set of versions
    texts = [text for name in extras if name not in others for text in extras[name]]
    found = map(Requirement, [*project["dependencies"], *texts])
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    tried = pinned("constraints-oldest.txt")
    for name, requirement in required().items():
        (bound,) = [Version(s.version) for s in requirement.specifier if s.operator == ">="]
        first = bound.release if len(bound.release) > 1 else (*bound.release, 0)
        assert tried[name].release[: len(first)] == first, name


def test_the_versions_that_were_tried_are_allowed() -> None:
    for name in ("constraints.txt", "constraints-oldest.txt"):
        for package, version in pinned(name).items():
            if package in required():
                assert version in required()[package].specifier, f"{name}: {package}=={version}"


def test_the_lock_says_what_the_constraints_say_and_has_no_address() -> None:
    lines = (ROOT / "constraints-lock.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if line[0] != "#")
    locked = pinned("constraints-lock.txt")
    assert pinned("constraints.txt").items() <= locked.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for requirement in map(Requirement, [*project["dependencies"], *chain.from_iterable(extras)]):
        name = canonicalize_name(requirement.name)
        if name != "calibench-suite":
            assert locked[name] in requirement.specifier, name


def test_the_lock_has_what_its_packages_bring() -> None:
    """As far as they are installed here, and on this platform: all of what they need is in the lock as well."""
    locked = pinned("constraints-lock.txt")
    seen = 0
    for installed in distributions():
        if canonicalize_name(installed.name) not in locked:
            continue
        for requirement in map(Requirement, installed.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                assert canonicalize_name(requirement.name) in {*locked, "pip"}, installed.name
                seen += 1
    assert seen > 100


def test_workflows_are_yaml_whose_commands_name_files_that_exist() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yaml")):
        workflow = yaml.load(path.read_text(), yaml.BaseLoader)  # `on` stays a word
        keys = set(workflow) - {"concurrency", "env"}  # which a workflow may have
        assert keys == {"name", "on", "jobs", "permissions"}, path.name
        for job in workflow["jobs"].values():
            assert job["runs-on"], path.name
            assert all(("uses" in step) != ("run" in step) for step in job["steps"]), path.name
        words = path.read_text().replace('"', " ").split()
        named = [word for word in words if word.endswith(".txt") or word.startswith(".ci/")]
        assert [word for word in named if not (ROOT / word).is_file()] == [], path.name
