"""Card of a pushed store: README.md, which says what its entries are, whose, under which licence, and their digest."""

import hashlib
import re

from calibench.ground.errors import UsageError
from calibench.ground.version import __version__
from calibench.runs import CorruptRun
from calibench.store.index import entry_names, listed
from calibench.store.places import Place

CARD = "README.md"
_MADE = "written by `calibench store push`"
_DIGEST = re.compile(r"^\| digest \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def card_text(name: str, text: str | None) -> str | None:
    """The check of an argument that a card shows: one line, without what Markdown or YAML would take for its own."""
    if text is not None and (not text.strip() or re.search(r"[\x00-\x1f|`<>\[\]{}]", text)):
        raise UsageError(f"`{name}` must be a line of plain text, got {text!r}.")
    return text


def write_card(place: Place, *, about: str, by: str, licence: str) -> None:
    """Write the card of what a store holds now.

    Args:
        place: The store.
        about: What the entries are.
        by: Who made them.
        licence: Its SPDX name.

    Raises:
        CorruptRun: If there is a README.md that is no card: it stays as it is.
    """
    there = _read(place)
    if there and _MADE not in there:
        raise CorruptRun(f"{place}/{CARD} is no card of `calibench store push`: it stays as it is")
    names = entry_names(place)
    rows = dict.fromkeys("/".join(name.split("/")[:3]) for name in names)
    text = f"""\
---
license: {licence.lower()}
tags: [calibration, calibench]
---

# {about}

<!-- {_MADE} {__version__} -->

| | |
|---|---|
| what | {len(names)} runs of {len(rows)} methods: logits, labels, and the numbers that follow from them |
| by | {by} |
| licence | {licence} |
| command | `calibench verify {place}` computes every number again |
| digest | `{_digest(place, names)}` |

{"".join(f"* {row}{chr(10)}" for row in rows)}"""
    place.write(CARD, text.encode())


def wrong_card(place: Place) -> list[str]:
    """What is wrong with the card of a store, if it has one: its digest is of other entries."""
    said = _DIGEST.search(_read(place))
    if said is None or said[1] == _digest(place, entry_names(place)):
        return []
    return [f"{place}/{CARD}: its digest {said[1][:10]} is of other entries than are there"]


def _read(place: Place) -> str:
    try:
        return place.read(CARD).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _digest(place: Place, names: list[str]) -> str:
    """Over the names and digests of the entries; a damaged one has none."""
    found = hashlib.sha256()
    for row in listed(place, sorted(names)):
        found.update(f"{row.name} {row.digest}\n".encode())
    return found.hexdigest()
