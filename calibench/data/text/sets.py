"""Named sets of texts that any text data module can be evaluated on: the other corpora's test texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from calibench.data.text import ag_news_files, newsgroup_files


def _newsgroups(root: Path) -> list[str]:
    posts = newsgroup_files.read_by_date(root)[1].texts
    return [newsgroup_files.without_headers(post) for post in posts]


def _ag_news(root: Path) -> list[str]:
    return ag_news_files.read_csv(root, "test")[0].texts


SETS: dict[str, Callable[[Path], list[str]]] = {"newsgroups": _newsgroups, "ag_news": _ag_news}
"""From the data root to the texts of a set; a DataError says that its files are missing or damaged."""
