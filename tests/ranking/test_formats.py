from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from rich.console import Console

from calibench.cli import parser_of
from calibench.messages.spelling import command_line_spelling
from calibench.ranking import rank_results
from calibench.ranking.formats import table_grid
from calibench.tables.terminal import fitting, show
from tests.ranking.test_table import write
from tests.run_folders import write_run

REMARK = "no calibrator chosen on validation: ranked by raw NLL"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    write(root, "GenerativeCrossEntropy", 0.10, 0.20, 0.30)
    write(root, "BrierLoss", 0.1201, 0.2199, 0.3200)
    write(root, "FocalLoss", 0.5)
    return root


def called(*arguments: str) -> int:
    return parser_of("leaderboard").run(arguments)  # type: ignore[return-value]


def test_markdown(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ["nll", "ece@TemperatureScaling"]
    called(str(results), "--format", "markdown", "--notes", "--metrics", *columns)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:8] == [
        r"### digits\_lt / SmallCNN",
        "",
        REMARK,
        "",
        "| # | loss | seeds | NLL | ECE % +TS |",
        "| --: | :-- | --: | --: | --: |",
        "| 1 | GenerativeCrossEntropy | 3 | **0.200 ± 0.100** | **10.00 ± 0.00** |",
        "| 2 | Brier | 3 | 0.220 ± 0.100 | **10.00 ± 0.00** |",
    ]
    assert "- missing: Focal, seeds 2, 3: no run" in lines
    assert "- 15 bins: ECE" in lines


def test_csv_holds_fractions_and_empty_holes(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(str(results), "--format", "csv", "--metrics", "nll", "ece", "ood_auroc/photos")
    first, _, last = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(first["nll"]) == pytest.approx(0.2)
    assert float(first["ece"]) == pytest.approx(0.1)
    assert first["tied"] == "nll ece ood_auroc/photos"
    assert (last["loss"], last["rank"], last["seeds"]) == ("FocalLoss", "3", "1")
    assert (last["missing_seeds"], last["nll_std"]) == ("2 3", "")


def test_json_holds_every_seed(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(results, "DualFocalLoss", float("inf"))
    called(str(results), "--format", "json", "--metrics", "nll")
    (table,) = json.loads(capsys.readouterr().out)
    best, *_, infinite = table["rows"]
    assert best["cells"]["nll"]["seeds"] == {"1": 0.1, "2": 0.2, "3": 0.3}
    assert best["cells"]["nll"]["tied"]
    behind = [row["cells"]["nll"]["behind"] for row in table["rows"]]
    assert behind == [pytest.approx(-0.02), pytest.approx(0.02), None, None]
    assert 0 < table["detectable"]["nll"] < 0.02
    assert infinite["cells"]["nll"] == {
        "mean": "inf", "std": None, "tied": False, "noisy": False, "behind": None, "seeds": {"1": "inf"},
    }  # fmt: skip
    assert infinite["missing"] == {"2": "no run", "3": "no run"}


def test_latex_escapes_and_marks(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called(str(results), "--format", "latex", "--metrics", "nll", "ece")
    text = capsys.readouterr().out
    assert r"digits\_lt / SmallCNN" in text
    row = r"1 & GenerativeCrossEntropy & 3 & \textbf{0.200 $\pm$ 0.100} & "
    assert row in text
    assert r"2 & Brier & 3 & 0.220 $\pm$ 0.100 & " in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 1
    assert text.count(" & ") == 4 * 4  # heading and three rows of five cells
    caption = next(line for line in text.splitlines() if line.startswith(r"\caption"))
    assert rf"SmallCNN: {REMARK}. Ranked by NLL; mean" in caption
    assert caption.count(". ") == 1  # two sentences
    assert "% ranked by NLL (a proper score" in text  # all notes are comments
    assert ".." not in caption


@pytest.mark.slow
def test_latex_compiles(results: Path, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex on this machine")
    called(str(results), "--format", "latex", "--output", str(tmp_path / "table.tex"))
    head = r"\documentclass{article}\usepackage[textwidth=397pt]{geometry}\usepackage{booktabs,graphicx}"
    (tmp_path / "a.tex").write_text(head + r"\begin{document}\input{table}\end{document}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    log = (tmp_path / "a.log").read_text(encoding="latin-1")
    assert "Overfull" not in log
    assert "Float too large" not in log


def test_terminal_of_a_pipe_is_plain_and_marks_with_stars(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(str(results))
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100
    best = next(line for line in text.splitlines() if line.startswith("1 Generative"))
    assert "0.200*" in best
    assert "bold (*): no other method" in text
    assert "missing: Focal, seeds 2, 3: no run" in text


def test_terminal_bold(results: Path) -> None:
    (table,) = rank_results(results, metrics=["nll"]).tables
    (part,) = fitting(table_grid(table, []), 100)
    bold = [piece.text for line in part for piece in line if piece.style == "bold"]
    assert bold == ["#", "loss", "seeds", "NLL", "0.200"]


def test_a_terminal_gets_colours(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    (table,) = rank_results(results, metrics=["nll"]).tables
    buffer = io.StringIO()
    show(table_grid(table, ["bold: the best"]), Console(file=buffer))
    assert "\x1b[1m0.200\x1b[0m \x1b[2m±0.100\x1b[0m" in buffer.getvalue()
    assert "\x1b[2m bold: the best\x1b[0m" in buffer.getvalue()


def test_a_table_too_wide_comes_in_parts_that_lose_nothing(results: Path) -> None:
    (table,) = rank_results(results, wide=True).tables
    whole = table_grid(table, [])
    parts = [["".join(p.text for p in line) for line in part] for part in fitting(whole, 60)]
    assert len(parts) > 1
    assert all(len(line) <= 60 for part in parts for line in part)
    shown = sum(line.count("±") for part in parts for line in part)
    assert shown == sum(
        cell.std == cell.std for row in table.rows for cell in map(row.values.get, table.columns)
    )


def test_markup_in_a_name_is_text(tmp_path: Path) -> None:
    write_run(tmp_path, loss="[bold]x[red]")
    (table,) = rank_results(tmp_path).tables
    buffer = io.StringIO()
    show(table_grid(table, ["a [red]note[/]"]), Console(file=buffer))
    assert "[bold]x[red]" in buffer.getvalue()
    assert "a [red]note[/]" in buffer.getvalue()


def test_output_goes_to_a_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = results.parent / "new" / "table.md"
    assert called(str(results), "--format", "markdown", "-o", str(target)) == 0
    assert capsys.readouterr().out == ""
    assert target.read_text(encoding="utf-8").startswith("### digits")


def test_warnings_go_to_stderr(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(results, loss="BrierLoss", seed=4)
    (folder / "metrics.json").write_text("{")
    called(str(results), "--format", "csv")
    streams = capsys.readouterr()
    assert streams.err.startswith(f"warning: skipped {folder.resolve()}: metrics.json cannot be")
    assert "warning" not in streams.out


@pytest.mark.slow
def test_the_plain_leaderboard_is_light(results: Path) -> None:
    code = (
        "import sys; from calibench.cli import main;"
        f"main(['leaderboard', {str(results)!r}]);"
        "print([m for m in ('torch', 'scipy.stats', 'scipy.optimize', 'lightning') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_the_text_does_not_depend_on_hashes(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same text from this process and from one whose strings hash differently."""
    words = [str(results), "--format", "markdown", "--metrics", "nll", "ood_auroc", "ece@*"]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    code = f"from calibench.cli import main; main(['leaderboard', *{words!r}]); print(hash('nll'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    *lines, hashed = done.stdout.splitlines()
    assert int(hashed) != hash("nll")
    with command_line_spelling():
        called(*words)
    assert capsys.readouterr().out.splitlines() == lines


def test_a_caller_that_catches_the_output_gets_it(results: Path) -> None:
    caught = io.StringIO()
    with redirect_stdout(caught):
        assert called(str(results), "--format", "csv") == 0
    assert caught.getvalue().startswith("benchmark,")


def test_calibration_errors_carry_their_verdict_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for loss, p_values in (("BrierLoss", (0.3, 0.2, 0.04)), ("FocalLoss", (0.001, 0.002, 0.2))):
        for seed, p in enumerate(p_values, start=1):
            row = {
                "split": "test",
                "calibrator": "raw",
                "metric": "ks",
                "value": 0.03 + 0.001 * seed,
            }
            write_run(tmp_path, loss=loss, seed=seed, rows=[{**row, "floor": 0.01 * seed, "p": p}])
    shown = {}
    for format in ("table", "markdown", "csv", "json"):
        called(str(tmp_path), "--format", format, "--metrics", "nll", "ks", "ece")
        shown[format] = capsys.readouterr().out
    assert "3.20" in shown["table"]
    assert shown["table"].count("°") == 2  # one value, and the line under the table
    assert "° consistent with perfect calibration" in shown["markdown"]
    (notes,) = (table["notes"] for table in json.loads(shown["json"]))
    assert any(note.startswith("° consistent with perfect calibration") for note in notes)
    assert not any("floor" in note for note in notes)  # a mean, which is no limit
    rows = {row["loss"]: row for row in csv.DictReader(io.StringIO(shown["csv"]))}
    assert float(rows["BrierLoss"]["ks_floor"]) == pytest.approx(0.02)
    assert float(rows["BrierLoss"]["ks_p"]) == pytest.approx(0.4)  # twice the median
    assert float(rows["FocalLoss"]["ks_p"]) == pytest.approx(0.004)
    assert "ece_floor" not in rows["BrierLoss"]  # runs of earlier versions have none
    cells = {row["loss"]: row["cells"]["ks"] for row in json.loads(shown["json"])[0]["rows"]}
    assert (cells["BrierLoss"]["floor"], cells["BrierLoss"]["p"]) == pytest.approx((0.02, 0.4))


def test_at_most_four_lines_stand_under_a_table_and_notes_shows_them_all(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(str(results), "--format", "markdown")
    few = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- ")]
    called(str(results), "--format", "markdown", "--notes")
    every = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- ")]
    meaning, unseen, caveat, rest = few
    assert meaning.startswith("- bold: no other method is significantly better")
    assert unseen.startswith("- smallest differences that 3 seeds detect")
    assert caveat == "- missing: Focal, seeds 2, 3: no run"
    assert rest.startswith(f"- all {len(every)} notes: notes=True; guide: https://")
    assert {unseen, caveat} < set(every)
