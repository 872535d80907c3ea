"""Two versions on one folder; forks and start methods of programs and notebooks that use calibench."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibench.ranking import column_store, rank_results, reading
from calibench.runs import requests
from calibench.store import verified
from tests.run_folders import write_run

ROOT = Path(__file__).parents[2]


def test_two_versions_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads the runs, not the other's index; what one verified or was asked for is not the other's."""
    monkeypatch.setattr(reading, "INDEXED", 1)
    for loss in ("FocalLoss", "BrierLoss"):
        write_run(tmp_path, loss=loss)
    texts, indices = [], []
    for version in ("0.1.0", "0.2.0", "0.1.0"):
        monkeypatch.setattr(column_store, "_FORMAT", f"4 of calibench {version}")
        texts.append(str(rank_results(tmp_path)))
        indices.append((tmp_path / ".runs.parquet").read_bytes())
    assert len(set(texts)) == 1
    assert indices[0] == indices[2] != indices[1]
    digests = []
    for version in ("0.1.0", "0.2.0"):
        monkeypatch.setattr(requests, "__version__", version)
        monkeypatch.setattr(verified, "__version__", version)
        digests.append(requests.digest_request({"benchmark": "a"}))
        assert verified.verified_digests(tmp_path, ["d"]) == frozenset()
        verified.note_verified(["d"])
        assert verified.verified_digests(tmp_path, ["d"]) == {"d"}
    assert len(set(digests)) == 2


PROGRAM = """
import multiprocessing, os, sys
import numpy as np
sys.path.insert(0, {root!r})
import calibench

LOGITS = np.random.default_rng(0).normal(size=(200, 3))
LABELS = np.arange(200) % 3

def nll(seed):
    report = calibench.evaluate(LOGITS, LABELS)
    return report.value("nll")

if __name__ == "__main__":
    usual = nll(0)
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        assert pool.map(nll, range(4), chunksize=2) == [usual] * 4
    print("equal")
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_program_may_start_processes_by_any_method(method: str, tmp_path: Path) -> None:
    """After calibench and its threads have worked in the program itself."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(root=str(ROOT), method=method))
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)  # fmt: skip
    assert ended.stdout == "equal\n", ended.stderr[-2000:]


@pytest.mark.slow
def test_a_notebook_may_fork(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    cells = [
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import numpy as np, multiprocessing, calibench",
        "logits, labels = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 3",
        "def nll(seed):\n    return calibench.evaluate(logits, labels).value('nll')\nusual = nll(0)",
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n    print(pool.map(nll, range(4)) == [usual] * 4)",
        "print(nll(0) == usual)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    outputs = ["".join(part.get("text", "") for part in cell.outputs if part.get("name") == "stdout") for cell in notebook.cells]  # fmt: skip
    assert outputs[-2:] == ["True\n", "True\n"]


@pytest.mark.slow
def test_probabilities_are_those_of_a_forked_process() -> None:
    """What a fork inherits is not touched: a child computes the parent's number and ends."""
    import os

    import calibench

    logits, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    usual = calibench.evaluate(logits, labels, metrics=["nll"]).value("nll")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            report = calibench.evaluate(logits, labels, metrics=["nll"])
            code = int(report.value("nll") != usual)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
