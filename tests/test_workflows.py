"""Workflows: actions are pinned by commit, tokens may read only, a release is built, checked and published on a tag."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibench import __version__

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
MAY_WRITE = {  # by file and job: what a step needs beyond reading
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
    ("release", "publish"): {"id-token": "write"},
    ("submission", "answer"): {"issues": "write"},  # a job that runs no code but `gh`
}


def workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yaml").read_text())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_actions_are_pinned_by_commit_and_tokens_read_only(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+(;.*)?", line), line
    content = yaml.safe_load(file.read_text())
    assert content["permissions"] == {"contents": "read"}
    for name, job in content["jobs"].items():
        assert job.get("permissions", {}) == MAY_WRITE.get((file.stem, name), {}), name


def test_one_action_has_one_commit() -> None:
    used = set(re.findall(r"uses: (\S+)@(\S+)", "".join(file.read_text() for file in FILES)))
    assert len(used) == len(dict(used))


def test_a_tag_is_built_and_checked_before_it_is_published() -> None:
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    assert release["jobs"]["publish"]["needs"] == "build"
    steps = [step.get("run", "") for step in release["jobs"]["build"]["steps"]]
    (compared,) = [step for step in steps if "GITHUB_REF_NAME" in step]
    assert any(".ci/run" in step for step in steps)
    assert any("twine check --strict" in step for step in steps)
    (pattern,) = re.findall(r"sed -nE 's/(.*)/\\1/p'", compared)
    source = (ROOT / "calibench" / "messages" / "version.py").read_text()
    assert re.findall(pattern, source, re.MULTILINE) == [__version__]
    assert re.search(rf"^version: {__version__}$", (ROOT / "CITATION.cff").read_text(), re.M)


def test_the_plainest_kernels_have_a_whole_run() -> None:
    job = workflow("tests")["jobs"]["plainest-kernels"]
    script = (ROOT / ".ci" / "run").read_text()
    assert job["steps"][-1]["run"] == "bash .ci/run"
    for name, value in job["env"].items():
        assert f"{name}={value}" in script


def test_a_submission_is_text_and_never_a_part_of_a_command() -> None:
    jobs = workflow("submission")["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert not [step for step in steps if "github.event" in step.get("run", "")]
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "row.yml").read_text())
    assert form["labels"] == ["row"]
    assert form["labels"][0] in jobs["verify"]["if"]
    script = (ROOT / "benchmarks" / "contributions" / "submission.py").read_text()
    assert f"### {form['body'][0]['attributes']['label']}" in script
