"""A site of results: a page for each benchmark and run, with what made it at the top; in a browser, on a phone, for screen readers."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from calibench.cli import main
from calibench.plots import style
from calibench.reports.site import NOT_RECORDED
from calibench.verbs.report import is_site
from tests.reports.test_browser import BROWSER, FLAGS
from tests.reports.test_content import HOSTILE
from tests.run_folders import write_predictions, write_run


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    for benchmark, loss, seed in (("digits", "A", 1), ("digits", "B", 1), ("letters", "A", 2)):
        folder = write_run(root / "r", loss=loss, seed=seed, benchmark=benchmark)
        write_predictions(folder)
        (folder / "config.yaml").write_text("seed_everything: 1\nmodel: {loss: FocalLoss}\n")
        (folder / "metrics.csv").write_text("epoch,step,val/nll\n0,1,2.0\n1,2,1.0\n")
    made = {"commit": "0123abc", "command": "calibench fit --config digits <b>"}
    first = next((root / "r/digits").glob("*/A/*/seed=1"))
    (first / "environment.json").write_text(json.dumps(made))
    write_run(root / "r", loss="C", benchmark="letters", changes={"caveats": [HOSTILE]})
    with pytest.MonkeyPatch.context() as patch:  # to draw them takes most of the time
        patch.setattr(style, "as_file", lambda figure, form: b"<svg><style></style></svg>")
        verb = ["report", str(root / "r"), "-o", f"{root / 'site'}/", "--title", HOSTILE]
        assert main(verb) == 0
    return root / "site"


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("index.html"))


def test_every_benchmark_and_run_has_a_page_that_links_reach(site: Path) -> None:
    assert len(pages(site)) == 1 + 2 + 4
    reached, left = set(), [site / "index.html"]
    while left:
        page = left.pop()
        if page in reached:
            continue
        reached.add(page)
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text()):
            target = (page.parent / unquote(html.unescape(link))).resolve()
            assert target.is_file(), (page, link)
            if target.suffix == ".html":
                left.append(target)
    assert reached == set(pages(site))


def test_what_made_a_run_stands_at_its_top(site: Path) -> None:
    (page,) = site.glob("digits/*/A/*/seed=1/index.html")
    text = page.read_text()
    top = text[: text.index("<main>")]
    assert "<dt>Commit</dt><dd>0123abc</dd>" in top
    assert "<dt>Test size</dt><dd>200 examples</dd>" in top
    assert "<code>calibench fit --config digits &lt;b&gt;</code>" in top
    assert re.search(r"<dt>Date</dt><dd>[^<]+</dd>", top)
    assert "seed_everything: 1\nmodel: {loss: FocalLoss}" in text
    assert (page.parent / "config.yaml").read_text().startswith("seed_everything: 1")
    assert {path.name for path in page.parent.glob("*.svg")} == {"reliability.svg", "curves.svg"}
    assert "prefers-color-scheme: dark" in (page.parent / "reliability.svg").read_text()
    (bare,) = site.glob("letters/*/C/*/seed=*/index.html")
    assert f"<dt>Test size</dt><dd>{NOT_RECORDED}</dd>" in bare.read_text()  # no logits


def test_the_index_and_each_benchmark_lead_with_the_answer_and_notes_are_closed(
    tmp_path: Path,
) -> None:
    for loss, at in (("A", 0.1), ("B", 0.2)):
        chosen = {"split": "val", "metric": "nll_cross_fitted", "calibrator": "raw", "value": at}
        write_run(tmp_path / "r", loss=loss, values={"nll": at}, rows=[chosen], benchmark="digits")
    assert main(["report", str(tmp_path / "r"), "-o", str(tmp_path / "site")]) == 0
    line = (
        "best on validation: A (raw), test NLL 0.100 (1 seed); "
        "for comparison, B (raw) 0.200 (not significantly different)"
    )
    index, page = (
        (tmp_path / "site" / name).read_text() for name in ("index.html", "digits/index.html")
    )
    assert line in index
    assert "Commit" not in index
    assert page.index(line) < page.index('<table id="table">')
    assert "<details><summary>how to read this table</summary>" in page


def test_names_are_text_on_every_page(site: Path) -> None:
    for page in pages(site):
        assert HOSTILE not in page.read_text(), page
    assert html.escape(HOSTILE).split("&")[0] in (site / "index.html").read_text()


def test_a_folder_is_a_site_and_a_page_is_a_page(tmp_path: Path) -> None:
    assert [is_site(name) for name in ("site/", "site", "x.html", "a/x.htm")] == [True, True, False, False]  # fmt: skip
    (tmp_path / "taken").write_text("")
    write_run(tmp_path / "r")
    assert main(["report", str(tmp_path / "r"), "-o", str(tmp_path / "taken")]) == 2


def in_browser(page: Path, probe: str, folder: Path, *, size: str = "1280,900") -> Any:
    """Load a page with a probe at its end, which leaves JSON in an element `outcome`."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    probed = page.with_name("probed.html")
    probed.write_text(text.replace("</body>", f"{probe}</body>"))
    command = [
        str(BROWSER), *FLAGS, "--allow-file-access-from-files", f"--window-size={size}",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", probed.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    probed.unlink()
    found = re.search(r'<pre id="outcome">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


SAY = (
    "const out=document.createElement('pre');out.id='outcome';"
    "out.textContent=JSON.stringify({});document.body.append(out);"
)


def one_of_each(site: Path) -> list[Path]:
    (run,) = site.glob("digits/*/A/*/seed=1/index.html")
    return [site / "index.html", site / "digits/index.html", run]


browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")


@pytest.mark.slow
@browser
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_are_no_wider_than_the_screen(site: Path, tmp_path: Path, width: int) -> None:
    for page in one_of_each(site):
        # Chromium's own window is 500 pixels wide at least; a frame can be narrower.
        frame = f"const f=document.createElement('iframe');f.width={width};f.height=800;f.style.border='0';f.src='{page.as_uri()}';document.body.replaceChildren(f);"
        read = SAY.format("[f.contentDocument.documentElement.scrollWidth, f.contentWindow.innerWidth]")  # fmt: skip
        probe = (
            f"<script>addEventListener('load',()=>{{{frame}f.onload=()=>{{{read}}};}});</script>"
        )
        scrolled, inner = in_browser(page, probe, tmp_path, size="1400,900")
        assert inner == width
        assert scrolled <= width, page


@pytest.mark.slow
@browser
def test_the_keyboard_reaches_what_acts(site: Path, tmp_path: Path) -> None:
    run = one_of_each(site)[2]
    reached = (
        "[...document.querySelectorAll('a,button,pre,[role=region]')].map(e=>{e.focus();"
        "return document.activeElement===e;})"
    )
    outcome = in_browser(run, f"<script>{SAY.format(reached)}</script>", tmp_path)
    assert len(outcome) >= 5
    assert all(outcome)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, from npm."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("no npm on this machine")
    packed = subprocess.run([npm, "pack", "axe-core@4"], cwd=folder, capture_output=True, timeout=120)  # fmt: skip
    if packed.returncode:
        pytest.skip("npm cannot get axe-core here")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode().replace("</script>", "<\\/script>")


@pytest.mark.slow
@browser
def test_axe_finds_nothing_serious(site: Path, tmp_path: Path, axe: str) -> None:
    found = "r.violations.map(v=>[v.id,v.impact,v.nodes[0].html.slice(0,200)])"
    run = f"axe.run(document,{{resultTypes:['violations']}}).then(r=>{{{SAY.format(found)}}});"
    for page in one_of_each(site):
        outcome = in_browser(page, f"<script>{axe}</script><script>{run}</script>", tmp_path)
        serious = [item for item in outcome if item[1] in ("serious", "critical")]
        assert serious == [], page
