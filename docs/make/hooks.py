"""What `mkdocs build` makes beside the written pages: a page a method, the gallery, tutorials, results, equations."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gallery
import methods
import reference
import results
import tutorials
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_MATH = re.compile(r'class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*<', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and put them where the navigation names their folder."""
    made = _made()
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    for path in results.files(ROOT):
        files.append(File(path, str(ROOT), str(config.site_dir), config.use_directory_urls))
    config.nav = _with_folders(config.nav, [file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Link what the site does not have in the repository; show the committed rows below the page that links them."""
    linked = results.linked(markdown, ROOT, page.file.src_uri, files.src_uris)
    return linked + results.tables_below(markdown, ROOT / page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """Equations as MathML, which browsers draw without a script, a font or a fetch; source that search skips."""
    html = html.replace(
        'class="mkdocstrings-source"', 'class="mkdocstrings-source" data-search-exclude'
    )
    return _MATH.sub(lambda found: f'class="math">{mathml(found[2], found[1] == "[")}<', html)


def mathml(latex: str, display: bool) -> str:
    """An equation as MathML."""
    return convert(html.unescape(latex.strip()), display="block" if display else "inline")


@cache
def _made() -> dict[str, str | bytes]:
    pages: dict[str, str | bytes] = {}
    for maker in (methods, reference, gallery, tutorials):
        pages |= maker.pages(ROOT)
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        pages[f"{name.lower()}.md"] = text.replace("](docs/", "](")
    return pages


def _with_folders(nav: Any, pages: Sequence[str]) -> Any:
    """The navigation, a folder's name replaced by the pages that lie in it, its index first."""
    if isinstance(nav, list):
        return [part for item in nav for part in _parts(item, pages)]
    if isinstance(nav, dict):
        return {title: _with_folders(item, pages) for title, item in nav.items()}
    return nav


def _parts(item: Any, pages: Sequence[str]) -> Iterator[Any]:
    if isinstance(item, str) and item.endswith("/"):
        inside = (page for page in pages if page.startswith(item))
        yield from sorted(inside, key=lambda page: (not page.endswith("index.md"), page))
    else:
        yield _with_folders(item, pages)
