"""A finished run is found by the configuration that it was asked for, without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calibench.runs import Run
from calibench.runs.requests import digest_request, find_requested_runs
from calibench.sweeps.plan import list_jobs
from calibench.verbs.sweep import Compared, _suites
from tests.run_folders import write_run

CONFIG = {"benchmark": "a", "seed_everything": 1, "trainer": {"max_epochs": 3}}


def test_a_digest_is_of_all_but_the_folder_of_results() -> None:
    digest = digest_request(CONFIG)
    for trainer in ({"max_epochs": 3, "default_root_dir": "x"}, {"max_epochs": 3}):
        assert digest_request({**CONFIG, "trainer": trainer, "overwrite": True}) == digest
    others = ({"seed_everything": 2}, {"trainer": {"max_epochs": 4}}, {"model": {"loss": "x"}})
    assert digest not in {digest_request({**CONFIG, **other}) for other in others}


def test_only_finished_runs_are_found(tmp_path: Path) -> None:
    digest = digest_request(CONFIG)
    folder = write_run(tmp_path)
    for state in ("running", "failed", "trial", "done"):
        Run(folder).write_status(state, request=digest)  # type: ignore[arg-type]
        runs = find_requested_runs(tmp_path, {digest})
        assert list(runs) == ([digest] if state == "done" else [])
    assert find_requested_runs(tmp_path / "nowhere", {digest}) == {}


@pytest.mark.slow
def test_a_dry_run_says_what_is_done_and_how_long_the_rest_takes_without_torch(tmp_path: Path) -> None:  # fmt: skip
    compared = Compared(("digits_lt",), losses=("cross_entropy", "focal"), seeds=("1..2",))
    (suite,) = _suites(compared).values()
    keys = [("trainer.default_root_dir", str(tmp_path))]
    jobs = suite.jobs(keys)
    for job in jobs[:3]:
        loss = "FocalLoss" if "focal" in job.label else "CrossEntropyLoss"
        folder = write_run(tmp_path, loss=loss, seed=job.seed, seconds=60)
        Run(folder).write_status("done", request=digest_request(job.config))
    (tmp_path / "digits_lt" / "SmallCNN" / "FocalLoss").rename(tmp_path / "digits_lt" / "SmallCNN" / "Other")  # fmt: skip
    lines = list(list_jobs(jobs, tmp_path, 1, "with --jobs 1"))
    assert [line.endswith("(done)") for line in lines[:4]] == [True, True, True, False]
    assert lines[4:] == ["4 cells, 3 done, about 1:00 left with --jobs 1"]
    words = ["sweep", "digits_lt", "--losses", "cross_entropy", "--seeds", "1..2", "--dry-run", *map("--{0[0]}={0[1]}".format, keys)]  # fmt: skip
    code = (
        f"import sys\nfrom calibench.cli import main\nprint(main({words}), 'torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "0 False", ended.stdout
