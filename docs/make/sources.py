"""The papers of a method, as its page cites them: authors, title, venue and year."""

from __future__ import annotations

import re
import unicodedata

from calibench.verbs.methods import bibtex_entries, class_citations

_ACCENTS = {"~": "\u0303", '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302"}
_LETTERS = {r"{\l}": "ł", r"{\L}": "Ł"}


def sources(kind: str, name: str) -> list[str]:
    """A part of the page of a method with its papers; none where `references.bib` has none of them."""
    entries = [bibtex_entries(f"[{key}]") for key in class_citations(kind, name)]
    lines = [f"- {citation(entry)}" for entry in entries]
    text = "\n".join(lines)
    return [f"## Papers\n\n{text}"] if lines else []


def citation(entry: str) -> str:
    """A BibTeX entry as a line of Markdown."""
    fields = dict(re.findall(r"^  (\w+) = \{(.*?)\},?$", plain(entry), re.MULTILINE))
    authors = [_natural_order(author) for author in fields["author"].split(" and ")]
    venue = fields.get("booktitle") or fields.get("journal") or fields.get("publisher", "")
    preprint = re.search(r"arXiv:(\d{4}\.\d{4,5})", venue)
    if preprint:
        venue = f"[{preprint[0]}](https://arxiv.org/abs/{preprint[1]})"
    title = re.sub(r"[{}]", "", fields["title"])
    return f"{', '.join(authors)}: *{title}*. {venue}, {fields['year']}."


def plain(text: str) -> str:
    """A text with LaTeX's letters as Unicode."""
    for latex, letter in _LETTERS.items():
        text = text.replace(latex, letter)
    text = re.sub(r"\{\\([~\"'`^])(\w)\}", lambda match: match[2] + _ACCENTS[match[1]], text)
    return unicodedata.normalize("NFC", text)


def _natural_order(author: str) -> str:
    last, _, first = author.partition(", ")
    return f"{first} {last}".strip()
