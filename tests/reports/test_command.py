from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calibench.cli import parser_of
from calibench.messages.errors import UsageError
from calibench.parallel.processes import cores
from calibench.ranking import read_results
from calibench.reports.content import ROWS_A_PROCESS, report_content
from calibench.store.lookup import results_folder, title_of_folder
from tests.run_folders import write_predictions, write_run


def called(*arguments: str) -> int:
    return parser_of("report").run(arguments)  # type: ignore[return-value]


def test_a_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_predictions(write_run(tmp_path / "results"))
    target = tmp_path / "new" / "report.html"
    assert called(str(tmp_path / "results"), "-o", str(target)) == 0
    assert capsys.readouterr().out.startswith(str(target))
    assert "<title>calibench: results</title>" in target.read_text(encoding="utf-8")


def test_the_shipped_store_is_called_as_it_is_typed() -> None:
    assert title_of_folder(results_folder("shipped")) == "shipped"
    assert title_of_folder(results_folder("shipped/digits_lt")) == "digits_lt"


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        called(str(tmp_path / "none"), "-o", str(tmp_path / "x.html"))
    write_run(tmp_path)
    with pytest.raises(ValueError, match="`bins` must be a positive integer, got 0"):
        called(str(tmp_path), "-o", str(tmp_path / "x.html"), "--bins", "0")


def test_a_file_that_is_no_page_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "results")
    with pytest.raises(
        UsageError,
        match=r"`output` must end in .html or .htm, got .*: write `.*report.html`, or `report/`",
    ):
        called(str(tmp_path / "results"), "-o", str(tmp_path / "report.pdf"))
    assert not (tmp_path / "report.pdf").exists()
    dotted = tmp_path / "site.v1"
    dotted.mkdir()
    for folder in (f"{tmp_path}/other.v2/", str(dotted)):
        assert called(str(tmp_path / "results"), "-o", folder) == 0
        assert (Path(folder) / "index.html").is_file()


def test_many_runs_of_several_benchmarks_are_an_index_and_a_page_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("calibench.verbs.report.RUNS_OF_A_PAGE", 3)
    for benchmark in ("digits", "own letters"):
        for seed in (1, 2):
            write_run(tmp_path / "r", benchmark=benchmark, seed=seed)
    write_run(tmp_path / "r", benchmark="wine", status="failed", reason="NaN")
    index = tmp_path / "new" / "all.html"
    assert called(str(tmp_path / "r"), "-o", str(index)) == 0
    assert (
        capsys.readouterr().out == f"{index} (3 pages, the others in {tmp_path / 'new' / 'all'})\n"
    )
    text = index.read_text()
    assert 'href="all/digits/index.html"' in text
    assert 'href="all/own%20letters/index.html"' in text
    assert "wine / SmallCNN has no finished run (1 failed: NaN)" in text
    for benchmark in ("digits", "own letters"):
        page = (tmp_path / "new" / "all" / benchmark / "index.html").read_text()
        assert f"<title>{benchmark}</title>" in page
        assert 'href="../../all.html"' in page
        assert "2 runs, 1 rows" in page
    assert called(str(tmp_path / "r" / "digits"), "-o", str(index)) == 0  # few: one page again
    assert "2 runs, 1 rows" in index.read_text()


MEMORY = """
import sys
from pathlib import Path
from calibench.cli import main
main(sys.argv[1:])
for name in ("torch", "lightning", "matplotlib.pyplot"):
    assert name not in sys.modules, name
_, _, peak = Path("/proc/self/status").read_text().partition("VmHWM:")
print(int(peak.split()[0]) / 1024)
"""


def memory_of_report(results: Path, page: Path) -> float:
    """Peak memory in MB of the process that writes a page."""
    command = [sys.executable, "-c", MEMORY, "report", str(results), "-o", str(page)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_ten_thousand_runs_take_less_memory_than_torch(tmp_path: Path) -> None:
    for number in range(10_000):
        rest, seed = divmod(number, 10)
        benchmark, loss = divmod(rest, 100)
        write_run(tmp_path / "r", loss=f"L{loss}", seed=seed, benchmark=f"b{benchmark}")
    assert memory_of_report(tmp_path / "r", tmp_path / "x.html") < 300
    pages = sorted(tmp_path.glob("x/*/index.html"))
    assert len(pages) == 10
    assert max(page.stat().st_size for page in pages) < 3e6


@pytest.mark.slow
def test_numbers_alone_need_no_torch(tmp_path: Path) -> None:
    write_run(tmp_path / "r")
    assert memory_of_report(tmp_path / "r", tmp_path / "x.html") < 200


@pytest.mark.slow
def test_logits_that_other_processes_read_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.reports.content.ROWS_A_PROCESS", 1)
    for loss in ("CrossEntropyLoss", "FocalLoss"):
        write_predictions(write_run(tmp_path, loss=loss), n=20)
    read = read_results(tmp_path)
    alone, spread = (report_content(read, title="x", processes=n) for n in (1, 2))
    assert "ECE" in "".join(alone["pictures"])
    assert spread == alone


@pytest.mark.slow
@pytest.mark.skipif(cores() < 2, reason="one core draws the pictures itself")
def test_logits_of_many_runs_are_read_by_other_processes(tmp_path: Path) -> None:
    for loss in ("CrossEntropyLoss", "FocalLoss"):
        for seed in range(ROWS_A_PROCESS):
            write_predictions(write_run(tmp_path / "r", loss=loss, seed=seed), n=20)
    assert memory_of_report(tmp_path / "r", tmp_path / "x.html") < 200
    assert "ECE" in (tmp_path / "x.html").read_text()


@pytest.mark.slow
def test_five_hundred_runs(tmp_path: Path) -> None:
    """Under 10 MB; 1,000 test examples a run, two OOD sets, 100 epochs."""
    root = tmp_path / "results"
    epochs = "\n".join(f"{e},{e},{1 / (e + 1)},{2 / (e + 1)},0.1" for e in range(100))
    for benchmark in range(10):
        for loss in range(10):
            for seed in range(5):
                folder = write_run(root, loss=f"L{loss}", seed=seed, benchmark=f"b{benchmark}")
                write_predictions(folder, n=1000, classes=10)
                text = f"epoch,step,train/loss,val/nll,val/error\n{epochs}\n"
                (folder / "metrics.csv").write_text(text)
    called(str(root), "-o", str(tmp_path / "x.html"))
    assert (tmp_path / "x.html").stat().st_size < 10e6
