"""A click on a head of a table sorts it, in a real browser."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.reports.test_browser import BROWSER, FLAGS

PAGE = """\
<article><table><thead><tr><th>loss</th><th>NLL</th></tr></thead><tbody>
<tr><td>b</td><td>10.5 ± 1</td></tr><tr><td>a</td><td><strong>9.1 ± 2</strong></td></tr><tr><td>c</td><td>0.2</td></tr>
</tbody></table></article>
<script>{sort}</script>
<script>
const [loss, nll] = document.querySelectorAll("button"), seen = [];
for (const button of [nll, nll, loss]) {{
  button.click();
  seen.push([...document.querySelectorAll("tbody tr")].map((row) => row.cells[0].textContent).join(""));
}}
document.title = seen.join(" ") + " " + loss.parentElement.getAttribute("aria-sort");
</script>
"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
def test_numbers_sort_by_value_and_words_by_letters(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(sort=(ROOT / "docs/assets/sort.js").read_text()))
    done = subprocess.run(
        [str(BROWSER), *FLAGS, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.findall("<title>(.*)</title>", done.stdout) == ["cab bac abc ascending"]
