"""Workflows: actions are pinned by commit, tokens may read only, a release is a wheel that is built, tested, published."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from calibench import __version__

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
MAY_WRITE = {  # by file and job: what a step needs beyond reading
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
    ("index", "commit"): {"contents": "write"},  # likewise: only `gh`
    ("release", "wheel"): {"contents": "read", "id-token": "write", "attestations": "write"},
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


def test_checkouts_keep_no_credentials() -> None:
    for file in FILES:
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False, file.name


def test_hooks_are_pinned_by_commit() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    revisions = re.findall(r"rev: (.*)", text)
    assert len(revisions) == text.count("repo: https://")
    assert all(re.fullmatch(r"[0-9a-f]{40}  # v\d+\.\d+\.\d+", line) for line in revisions)


def test_a_wheel_is_built_and_attested_first_then_tested_then_published() -> None:
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    wheel, test, publish = (release["jobs"][name] for name in ("wheel", "test", "publish"))
    assert "needs" not in wheel
    assert test["needs"] == "wheel"
    assert publish["needs"] == ["wheel", "test"]
    steps = [step.get("run", step.get("uses", "")) for step in wheel["steps"]]
    (compared,) = [step for step in steps if "GITHUB_REF_NAME" in step]
    installs = [step for step in steps if "pip install" in step]
    assert installs == ["python -m pip install -c constraints-lock.txt build hatchling twine"]
    kinds = ("build --no-isolation", "twine check --strict", "attest-build-provenance", "upload")
    places = [next(n for n, step in enumerate(steps) if kind in step) for kind in kinds]
    assert places == sorted(places)
    (pattern,) = re.findall(r"sed -nE 's/(.*)/\\1/p'", compared)
    source = (ROOT / "calibench" / "messages" / "version.py").read_text()
    assert re.findall(pattern, source, re.MULTILINE) == [__version__]
    assert re.search(rf"^version: {__version__}$", (ROOT / "CITATION.cff").read_text(), re.M)


def test_the_tests_of_a_release_are_of_its_wheel() -> None:
    """They install it, compare it with the checkout's package, and put it in the place of that."""
    steps = workflow("release")["jobs"]["test"]["steps"]
    assert any(step.get("with") == {"name": "dist", "path": "dist"} for step in steps)
    texts = [step.get("run", "") for step in steps]
    assert not any(" -e " in text or "python -m build" in text for text in texts)
    (installed,) = [n for n, text in enumerate(texts) if "dist/*.whl)[test]" in text]
    (replaced,) = [n for n, text in enumerate(texts) if "rm -r calibench && ln -s" in text]
    (tried,) = [n for n, text in enumerate(texts) if "-m pytest" in text]
    assert installed < replaced < tried
    assert "diff -r" in texts[replaced]


def test_the_audit_has_every_extra_that_the_constraints_pin() -> None:
    (install,) = [
        step["run"]
        for step in workflow("audit")["jobs"]["audit"]["steps"]
        if "checked/bin/pip install" in step.get("run", "")
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {*re.findall(r"-e '\.\[(.*)\]'", install)[0].split(","), "test"}  # which dev has
    assert extras == set(project["optional-dependencies"])
    assert "-c constraints-lock.txt" in install


def test_the_plainest_kernels_have_a_whole_run() -> None:
    job = workflow("tests")["jobs"]["plainest-kernels"]
    script = (ROOT / ".ci" / "run").read_text()
    assert job["steps"][-1]["run"] == "bash .ci/run"
    for name, value in job["env"].items():
        assert f"{name}={value}" in script


def test_the_index_is_rebuilt_without_a_token_that_writes() -> None:
    """Its two jobs: one verifies what strangers sent and may read, the other commits and runs none of the code."""
    index = workflow("index")
    assert index[True]["push"] == {"branches": ["main"], "paths": ["benchmarks/store/**"]}
    rebuild, commit = index["jobs"]["rebuild"], index["jobs"]["commit"]
    command = "python -I benchmarks/contributions/verify_store.py --index"
    assert [step.get("run") for step in rebuild["steps"]].count(command) == 1
    assert commit["needs"] == "rebuild"
    assert not any("checkout" in step.get("uses", "") for step in commit["steps"])
    (script,) = [step["run"] for step in commit["steps"] if "run" in step]
    assert not re.search(r"python|pip|github\.event", script)
    assert "benchmarks/store/index.parquet" in script
    shared = rebuild["steps"][-1]["with"]["name"], commit["steps"][0]["with"]["name"]
    assert shared == ("index", "index")


def test_a_submission_is_text_and_never_a_part_of_a_command() -> None:
    jobs = workflow("submission")["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    assert not [step for step in steps if "github.event" in step.get("run", "")]
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "row.yml").read_text())
    assert form["labels"] == ["row"]
    assert form["labels"][0] in jobs["verify"]["if"]
    script = (ROOT / "benchmarks" / "contributions" / "submission.py").read_text()
    assert f"### {form['body'][0]['attributes']['label']}" in script
