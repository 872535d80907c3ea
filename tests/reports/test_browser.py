"""The page in a real browser: it loads without an error, sorts, filters and stays on a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from calibench.ranking import rank_results
from calibench.ranking.formats import table_grid
from calibench.store import results_folder
from calibench.verbs.report import report
from tests.reports.test_content import HOSTILE
from tests.run_folders import write_predictions, write_run

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=4000",
)  # fmt: skip

# Runs before the page's own script: every error is kept.
WATCH = "<script>window.errors=[];addEventListener('error',e=>errors.push(e.message));</script>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("browser")
    for benchmark in ("digits", "letters"):
        for loss, nll, error in (("A", 0.3, 0.1), ("B", 0.1, 0.3), ("C", 0.2, 0.2)):
            for seed in (1, 2):
                values = {"nll": nll, "error": error, "nll@TemperatureScaling": 0.4 - nll}
                folder = write_run(
                    root / "r", loss=loss, seed=seed, benchmark=benchmark, values=values
                )
                write_predictions(folder)
                (folder / "metrics.csv").write_text("epoch,step,val/nll\n0,1,2.0\n1,2,1.0\n")
    write_run(root / "r", loss="D", benchmark="letters", changes={"caveats": [HOSTILE]})
    report(root / "r", root / "x.html", title=HOSTILE)
    return (root / "x.html").read_text(encoding="utf-8")


def after(
    page: str, script: str, folder: Path, *, size: str = "1280,900", flags: Sequence[str] = ()
) -> Any:
    """Load the page, run a script in it, and give back the JSON of what the script returns."""
    probe = (
        f"<script>const outcome=(()=>{{{script}}})();"
        "const out=document.createElement('pre');out.id='outcome';"
        "out.textContent=JSON.stringify([window.errors,outcome]);"
        "document.body.append(out);</script>"
    )
    text = page.replace("<head>", f"<head>{WATCH}").replace("</body>", f"{probe}</body>")
    (folder / "page.html").write_text(text, encoding="utf-8")
    command = [
        str(BROWSER), *FLAGS, *flags, f"--window-size={size}", f"--user-data-dir={folder / 'profile'}",
        "--dump-dom", (folder / "page.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="outcome">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    errors, outcome = json.loads(html.unescape(found[1]))
    assert errors == []
    return outcome


LOSSES = "[...document.querySelectorAll('#table tbody tr')].map(r=>r.querySelector('td.name').textContent)"
CLICK = "document.querySelector('th[data-key={key}] button').click();"


def test_it_loads_and_draws(page: str, tmp_path: Path) -> None:
    counts = after(
        page,
        "return [document.documentElement.dataset.ready, "
        "...['reliability','risk','roc','curves','classes','confusion','tradeoff']"
        ".map(id=>document.querySelectorAll(`#${id} svg:not(.mark)`).length), window.bad ?? null]",
        tmp_path,
    )
    assert counts == ["true", 8, 1, 1, 1, 4, 4, 1, None]  # raw and calibrated


def test_it_sorts_both_ways_with_holes_last(page: str, tmp_path: Path) -> None:
    click = CLICK.format(key="error")
    up, down = after(page, f"{click}const a={LOSSES};{click}return [a,{LOSSES}]", tmp_path)
    assert "".join(up).replace("D", "") == "AACCBB"
    assert "".join(down).replace("D", "") == "BBCCAA"


def test_its_table_is_that_of_the_terminal(tmp_path: Path) -> None:
    """The same columns in the same order, and the same ranks and marks."""
    part = "shipped/digits_lt"
    report(part, tmp_path / "x.html")
    script = """
      const cells = (row) => [...row.cells].map((c) => c.textContent);
      const table = document.getElementById('table');
      return [cells(table.tHead.rows[0]), [...table.tBodies[0].rows].map((r) => cells(r).slice(0, 2))];
    """
    head, rows = after((tmp_path / "x.html").read_text(), script, tmp_path)
    board = rank_results(results_folder(part))
    grid = table_grid(board.tables[0], [])
    assert head == [
        heading.title.replace("\n", " ").replace("%", " %").replace("  ", " ")
        for heading in grid.columns
    ]
    assert rows == [list(row[:2]) for row in grid.rows]


def test_it_filters_by_words_and_by_benchmark(page: str, tmp_path: Path) -> None:
    script = (
        "const s=document.getElementById('search');s.value='letters b';"
        f"s.dispatchEvent(new Event('input'));const a={LOSSES};s.value='';"
        "s.dispatchEvent(new Event('input'));const b=document.querySelector('#filters select');"
        f"b.value='digits';b.dispatchEvent(new Event('change'));return [a,{LOSSES},"
        "document.getElementById('shown').textContent]"
    )
    assert after(page, script, tmp_path) == [["B"], ["B", "C", "A"], "3 of 7 rows"]


def test_it_filters_by_loss(page: str, tmp_path: Path) -> None:
    script = (
        "const s=[...document.querySelectorAll('#filters select')]"
        ".find(s=>s.options[0].textContent==='all losses');"
        f"s.value='C';s.dispatchEvent(new Event('change'));return {LOSSES}"
    )
    assert after(page, script, tmp_path) == ["C", "C"]


def test_a_place_is_named_where_chosen_rows_differ_in_it(page: str, tmp_path: Path) -> None:
    script = (
        "const texts=()=>[...document.querySelectorAll('#confusion figcaption')].map(f=>f.textContent);"
        "const tick=(i)=>document.querySelectorAll('#table tbody input')[i].click();"
        "[1,2,3].forEach(tick);const one=[texts(),document.getElementById('place').textContent];"
        "tick(5);return [one,[texts(),document.getElementById('place').textContent]]"
    )
    one, two = after(page, script, tmp_path)
    assert one == [["B"], "Here: digits / SmallCNN."]
    assert two == [["B · digits / SmallCNN", "C · letters / SmallCNN"], ""]


def test_losses_keep_marks_of_their_own(page: str, tmp_path: Path) -> None:
    script = (
        "const looks=(q)=>[...document.querySelectorAll(q)].map(c=>c.tagName+c.getAttribute('fill'));"
        "const legend=()=>looks('#tradeoff .legend :is(circle,polygon)');const a=legend();"
        + CLICK.format(key="error") + CLICK.format(key="error")
        + "const s=[...document.querySelectorAll('#filters select')][2];"
        "s.value='C';s.dispatchEvent(new Event('change'));"
        "return [a,legend(),markAt(0,0,7).tagName,markAt(0,0,0).tagName]"
    )  # fmt: skip
    every, one, eighth, first = after(page, script, tmp_path)
    assert len(set(every)) == 4
    assert one == every[1:2]  # C is second of the first table
    assert (eighth, first) == ("polygon", "circle")


def test_the_heat_map_is_the_first_picture_and_frames_the_best(page: str, tmp_path: Path) -> None:
    script = """
      view.heat = 'nll'; view.place = 'letters / SmallCNN'; drawHeatMap();
      const table = document.getElementById('heat-map');
      const least = [...table.querySelectorAll('td.least')];
      const first = document.querySelectorAll('section')[1].id;
      return [first, [...table.tHead.rows[0].cells].map(c => c.textContent),
        [...table.tBodies[0].rows].map(r => r.cells[0].textContent), least.map(c => c.title),
        least[0].style.getPropertyValue('--share')];
    """
    first, head, losses, least, share = after(page, script, tmp_path)
    assert first == "heat-map-section"
    assert head[:3] == ["loss", "raw", "TS"]
    assert losses == ["B", "D", "C", "A"]  # by rank
    assert any(title.startswith("B, raw: 0.100") for title in least)
    assert any(title.startswith("A, TemperatureScaling: 0.100") for title in least)
    assert share == "0%"


def test_ranks_of_another_benchmark_begin_below_a_divider(page: str, tmp_path: Path) -> None:
    script = """
      const divided = () => [...document.querySelectorAll('#table tbody tr')].map((r, i) => r.classList.contains('divided') ? i : -1).filter(i => i >= 0);
      const by_rank = divided();
      document.querySelector('th[data-key=nll] button').click();
      return [by_rank, divided()];
    """
    assert after(page, script, tmp_path) == [[3], []]


def test_the_calibrator_changes_the_numbers(page: str, tmp_path: Path) -> None:
    script = (
        "const c=[...document.querySelectorAll('#filters select')].at(-1);"
        "c.value='TemperatureScaling';c.dispatchEvent(new Event('change'));"
        + CLICK.format(key="nll")
        + f"return {LOSSES}"
    )
    assert "".join(after(page, script, tmp_path)).replace("D", "") == "AACCBB"


def test_ticked_rows_are_drawn_and_a_run_opens(page: str, tmp_path: Path) -> None:
    script = (
        "document.querySelectorAll('#table tbody input')[0].click();"
        "const run=document.querySelector('details.run');run.open=true;"
        "run.dispatchEvent(new Event('toggle'));"
        "return [document.querySelectorAll('#reliability svg').length, run.textContent]"
    )
    panels, text = after(page, script, tmp_path)
    assert panels == 6
    assert "trainer.max_epochs: 30" in text
    assert "device: cpu" in text


def test_pictures_of_a_row_are_read_when_it_is_chosen(page: str, tmp_path: Path) -> None:
    script = (
        "const read=()=>DATA.rows.filter(r=>r.curves).length;const a=read();"
        "document.querySelectorAll('#table tbody input')[5].click();return [a,read(),DATA.rows.length]"
    )
    assert after(page, script, tmp_path) == [4, 5, 7]


def test_of_many_runs_each_benchmark_has_a_page_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibench.verbs.report.RUNS_OF_A_PAGE", 3)
    for benchmark in ("digits", "letters"):
        for loss, nll in (("A", 0.2), ("B", 0.1)):
            values = {"nll": nll}
            write_predictions(
                write_run(tmp_path / "r", loss=loss, benchmark=benchmark, values=values)
            )
    assert report(tmp_path / "r", tmp_path / "x.html").pages == 3
    script = f"return [{LOSSES},document.querySelectorAll('#reliability svg').length,document.links.length]"
    for benchmark in ("digits", "letters"):
        page = (tmp_path / "x" / benchmark / "index.html").read_text()
        assert after(page, script, tmp_path) == [["B", "A"], 4, 1]


def test_a_calibrator_is_drawn_beside_the_raw_probabilities(page: str, tmp_path: Path) -> None:
    script = (
        "const text=()=>document.querySelector('#reliability figure').textContent;"
        "const s=document.querySelector('#reliability-controls select');const a=text();"
        "s.value='raw';s.dispatchEvent(new Event('change'));return [a,text()]"
    )
    both, raw = after(page, script, tmp_path)
    assert "raw: ECE" in both
    assert "after TS: ECE" in both
    assert "after" not in raw


def test_charts_are_drawn_anew_for_another_width(page: str, tmp_path: Path) -> None:
    script = (
        "const box=()=>document.querySelector('#risk svg').viewBox.baseVal.width;const a=box();"
        "document.body.style.width='400px';Object.defineProperty(window,'innerWidth',{value:400});"
        "dispatchEvent(new Event('resize'));return [a,box()]"
    )
    wide, narrow = after(page, script, tmp_path)
    assert narrow < 400 < wide


def test_a_phone_scrolls_only_the_table(page: str, tmp_path: Path) -> None:
    script = "return [document.documentElement.scrollWidth, innerWidth]"
    width, screen = after(page, script, tmp_path, size="390,800")
    assert width <= screen


# Luminance by WCAG 2 of what a text stands on, and the contrast of the two: [text, luminance, contrast].
SEEN = """
  const parts = (c) => c.match(/[0-9.]+/g).map((v, i) => c.startsWith('rgb') && i < 3 ? v / 255 : +v);
  const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = (c) => { const [r, g, b] = parts(c).map(linear); return .2126 * r + .7152 * g + .0722 * b; };
  const solid = (c) => parts(c)[3] === undefined || parts(c)[3] === 1;
  const under = (e) => { while (e && !solid(getComputedStyle(e).backgroundColor)) e = e.parentElement; return getComputedStyle(e).backgroundColor; };
  const seen = (e) => {
    const [ink, paper] = [light(getComputedStyle(e).color), light(under(e))];
    return [e.textContent, paper, (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05)];
  };
"""
SCHEMES = {
    "dark": "--blink-settings=preferredColorScheme=0",
    "light": "--blink-settings=preferredColorScheme=1",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_darker_is_worse_and_texts_are_legible(page: str, tmp_path: Path, scheme: str) -> None:
    script = f"""{SEEN}
      view.heat = 'nll'; view.place = 'letters / SmallCNN'; drawHeatMap();
      const cells = [...document.querySelectorAll('td.heat')];
      const texts = [...document.querySelectorAll('body *')]
        .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && e.checkVisibility() && !e.closest('svg, script'));
      return [matchMedia('(prefers-color-scheme: {scheme})').matches, light(getComputedStyle(document.body).backgroundColor),
        cells.map(seen), texts.map(seen)];
    """
    in_force, background, cells, texts = after(page, script, tmp_path, flags=[SCHEMES[scheme]])
    assert in_force
    assert (background < 0.05) == (scheme == "dark")
    by_value = sorted((float(text), luminance) for text, luminance, _ in cells)
    assert len({luminance for _, luminance in by_value}) >= 3
    darkness = [-luminance for _, luminance in by_value]
    assert darkness == sorted(darkness)
    illegible = [(text[:40], round(contrast, 1)) for text, _, contrast in texts if contrast < 4.5]
    assert illegible == []
