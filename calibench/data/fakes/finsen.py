"""Made-up financial news in the form of FinSen's file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from calibench.data.text.finsen import FILE

TOPICS = {
    "Currency": ("euro", "yen", "exchange", "peso"),
    "Employment": ("jobs", "payrolls", "unemployment", "wages"),
    "Housing": ("homes", "mortgage", "builders", "permits"),
    "Inflation": ("prices", "consumer", "inflation", "energy"),
    "Interest Rate": ("rate", "bank", "committee", "hike"),
    "Stock Market": ("shares", "index", "stocks", "futures"),
}
_OTHERS = "the month rose fell to a from percent in year above forecast analysts said quarter since".split()  # noqa: SIM905


def write_finsen(root: Path, *, texts: int = 600, seed: int = 0) -> list[tuple[str, str]]:
    """Write `FinSen/FinSen_US_Categorized_Timestamp.csv` below a folder; returns (category, content) of each row.

    A tenth of the texts is of another topic than its words. Categories end in blanks here and there; contents have
    quotes and newlines; every 20th text is the one before it with another last word.
    """
    random = np.random.default_rng(seed)
    rows: list[tuple[str, str]] = []
    for number in range(texts):
        category, content = str(random.choice(list(TOPICS))), ""
        if number % 20 == 19:
            category, content = rows[-1][0], f"{rows[-1][1].rsplit(' ', 1)[0]} again"
        else:
            content = _content(category, random)
            category = str(random.choice(list(TOPICS))) if random.random() < 0.1 else category
        rows.append((category, content))
    path = root / "FinSen" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Title", "Category", "Time", "Content"])
        for number, (category, content) in enumerate(rows):
            blanks = " " * int(number % 5 == 0)
            writer.writerow([f"Title {number}", category + blanks, "01/02/2019", content])
    return rows


def _content(category: str, random: np.random.Generator) -> str:
    """Some forty words, of which a few are the topic's, in two lines with a quotation."""
    words = list(random.choice(_OTHERS, 38))
    for place in random.choice(len(words), 4, replace=False):
        words[place] = random.choice(TOPICS[category])
    middle = len(words) // 2
    return f'{" ".join(words[:middle])}.\n"{words[middle]}", {" ".join(words[middle:])}'
