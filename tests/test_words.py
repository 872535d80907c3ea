"""Sentences that readers in this field do not expect are gone from what is printed, from pages and from docstrings."""

from __future__ import annotations

from pathlib import Path

from tests.examples import for_each

ROOT = Path(__file__).parent.parent
PLACES = (
    "calibench/**/*.py",
    "calibench/**/*.html",
    "calibench/**/*.js",
    "calibench/**/*.jinja",
    "docs/**/*.md",
)
TEXTS = {
    path.relative_to(ROOT).as_posix(): " ".join(path.read_text(encoding="utf-8").split())
    for path in (ROOT / "README.md", *(path for place in PLACES for path in ROOT.glob(place)))
}

GONE = (
    "promise no more than their seeds",
    "can be told",
    "cannot be told",
    "told apart",
    "tell them apart",
    "cannot be seen",
    "cannot see differences",
    "are no OOD sets",
    "for its own scatter",
    "plug-in value",
    "at other confidences",
    "tells a gap of",
    "needed for 1 point",
    "of the labels have moved",
    "is a trial (",
    "nothing counts it",
    "the next one takes its place",
    "validation examples without an error",
    "no interval, for want of",
    "does the order of the classes not matter",
    "the other noes",
    "right in several processes",
    "within 0.005",
    "compared with its floor",
    "at their floor",
    "training loss needs no fixing",
    "are at its heart",
    "a commented start",
    "small, commented start",
    "leave it, as nothing",
    "expected gain in",
    "after it: ",
    "Keep a canary",
    "0.6 for everybody",
    "of flipped signs",
    "sets cannot decide",
    "what 95 % of calibrated models",
    "the accuracy alone gives",
    "as nobody computed",
    "nothing can select by",
    "say how many hold",
    "an image of bytes, say",
    "whatever the files say",
    "the word that names it",
    "is a row of its own",
    "labels of its own",
    "as they come: timed alike",
    "no verdict below a gap",
    "goes on where it stopped",
    "whose logits come out of",
    "of what is no image",
    "seem to be of other rows",
    "a notebook too",
    "where these files name",
)


def test_something_is_read() -> None:
    assert len(TEXTS) > 300
    assert any("consistent with perfect calibration" in text for text in TEXTS.values())


@for_each(GONE)
def test_a_sentence_is_gone(words: str) -> None:
    assert [path for path, text in TEXTS.items() if words in text] == []
