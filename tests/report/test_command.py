from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from calibench.ground.errors import UsageError
from calibench.report import add_arguments, run
from tests.run_folders import write_predictions, write_run


def called(*arguments: str) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def test_a_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_predictions(write_run(tmp_path / "results"))
    target = tmp_path / "new" / "report.html"
    assert called(str(tmp_path / "results"), "-o", str(target)) == 0
    assert capsys.readouterr().out.startswith(str(target))
    assert "<title>calibench: results</title>" in target.read_text(encoding="utf-8")


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        called(str(tmp_path / "none"), "-o", str(tmp_path / "x.html"))
    write_run(tmp_path)
    with pytest.raises(ValueError, match="`bins` must be a positive integer, got 0"):
        called(str(tmp_path), "-o", str(tmp_path / "x.html"), "--bins", "0")


def test_a_file_that_is_no_page_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "results")
    with pytest.raises(
        UsageError, match=r"`--output` must end in .html or .htm, or be a folder \(`report/`\)"
    ):
        called(str(tmp_path / "results"), "-o", str(tmp_path / "report.pdf"))
    assert not (tmp_path / "report.pdf").exists()
    dotted = tmp_path / "site.v1"
    dotted.mkdir()
    for folder in (f"{tmp_path}/other.v2/", str(dotted)):
        assert called(str(tmp_path / "results"), "-o", folder) == 0
        assert (Path(folder) / "index.html").is_file()


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
