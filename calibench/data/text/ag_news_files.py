"""The articles of AG News, from the official CSV files, parquet files, or the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibench.data.source import DataError, sources
from calibench.data.text.corpus import Corpus, from_hub
from calibench.data.text.table import label_numbers, read_table

CLASSES = ("World", "Sports", "Business", "Sci/Tech")
ROWS = {"train": 120_000, "test": 7_600}

HUB = "fancyzhx/ag_news"


def read_csv(root: Path, part: str) -> tuple[Corpus, list[str]]:
    """`ag_news_csv/{train,test}.csv`: class 1 to 4, title, description, without a header.

    Returns:
        Title and description in one text, and caveats.

    Raises:
        DataError: The file is missing or has a broken row.
    """
    path = _expected(root / "ag_news_csv" / f"{part}.csv")
    columns = ("label", "title", "description")
    table = read_table(path, columns[1:], "label", columns=columns)
    labels = label_numbers(table, ["1", "2", "3", "4"], path)
    return _counted(Corpus(table.texts, labels), part, table.caveats)


def read_parquet(root: Path, part: str) -> tuple[Corpus, list[str]]:
    """`ag_news/{train,test}.parquet` with columns `text` and `label` (0 to 3), as on the hub.

    Raises:
        DataError: The file is missing or has a broken row.
    """
    path = _expected(root / "ag_news" / f"{part}.parquet")
    table = read_table(path, ("text",), "label")
    labels = label_numbers(table, ["0", "1", "2", "3"], path)
    return _counted(Corpus(table.texts, labels), part, table.caveats)


def read_hub(root: Path, part: str) -> tuple[Corpus, list[str]]:
    """`fancyzhx/ag_news` of the hub."""
    return _counted(from_hub(HUB, part, num_classes=len(CLASSES)), part, [])


def _expected(path: Path) -> Path:
    if not path.is_file():
        raise DataError(
            f"{path} is missing: AG News is expected there; get it from {sources()['ag_news'].url}."
        )
    return path


def _counted(corpus: Corpus, part: str, caveats: Sequence[str]) -> tuple[Corpus, list[str]]:
    n = len(corpus.texts)
    if n == ROWS[part]:
        return corpus, list(caveats)
    return corpus, [*caveats, f"ag_news: {n} {part} texts, the official set has {ROWS[part]}"]
