"""`plot all`: every kind that results can feed, its page, and what is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibench.cli import main
from calibench.plots.kinds import PICTURE_KINDS
from calibench.plots.selection import Request
from calibench.ranking import Column
from calibench.verbs import plot
from calibench.verbs.plot import GalleryPicture, gallery_page, gallery_pictures

FEW = ("tradeoff", "confusion", "shift", "improvement")


@pytest.mark.usefixtures("figures")
def test_the_gallery_has_a_folder_for_each_table_and_a_page(
    results: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None is drawn: that takes most of the time, and tests of each kind do."""
    monkeypatch.setattr(plot, "PICTURE_KINDS", {kind: PICTURE_KINDS[kind] for kind in FEW})
    folder = tmp_path / "pictures"
    words = ["--table", "a /", "--metric", "nll"]
    assert main(["plot", "all", str(results), "-o", str(folder), *words]) == 0
    page = (folder / "index.html").read_text()
    for kind in ("tradeoff", "confusion", "improvement"):
        assert (folder / f"{kind}.png").is_file()
        assert (folder / f"{kind}.csv").is_file()
        assert f'<img src="{kind}.png"' in page
    assert (
        "left out: shift, a / SmallCNN: a / SmallCNN has no shifted set with nll"
        in capsys.readouterr().out
    )
    assert "<dt>shift, a / SmallCNN</dt>" in page
    assert "<dt>learning-curves</dt>" in page


def test_tables_do_not_share_files_and_kinds_over_tables_come_last(
    results: Path,
) -> None:
    from calibench.ranking import read_results
    from calibench.ranking.table import build_tables

    column = Column("ece")
    tables = build_tables(read_results(results), [column], column)
    todo = gallery_pictures({kind: Request(tables, column) for kind in PICTURE_KINDS})
    places = [task.place for task in todo]
    assert len(places) == len(set(places)) == 3 * (len(PICTURE_KINDS) - 3) + 3
    assert "b-SmallCNN/tradeoff" in places
    assert [task.kind for task in todo[-3:]] == ["iqm", "improvement", "critical-difference"]
    (of_b,) = [task for task in todo if task.place == "b-SmallCNN/reliability"]
    assert of_b.request.table.title == "b / SmallCNN"
    assert of_b.request.shown.calibrator == "TemperatureScaling"  # beside raw
    (alone,) = [task for task in todo if task.place == "b-SmallCNN/confusion"]
    assert alone.request.shown.calibrator == "raw"


def test_a_page_escapes_names_and_shows_any_format() -> None:
    nothing = Request([], Column("ece"))
    pictures = [
        GalleryPicture("roc", "<b>", "roc", nothing),
        GalleryPicture("bars", "<b>", "bars", nothing, reason="1 < 2"),
    ]
    text = gallery_page("<i>", pictures, ".pdf")
    assert not re.search("<[bi]>", text)
    assert '<embed src="roc.pdf"' in text
    assert "1 &lt; 2" in text


def test_a_file_is_no_folder(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").touch()
    assert main(["plot", "all", str(results), "-o", str(tmp_path / "x")]) == 2
    assert "`--output` must be a folder" in capsys.readouterr().err
