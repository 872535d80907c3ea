"""AG News as a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from calibench.data.splits import hold_out_positions
from calibench.data.text import ag_news_files as files
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import Corpus, CorpusSplits


class AGNewsDataModule(TextDataModule):
    """AG News, titles and descriptions of 127,600 articles to 4 topics (Zhang et al. 2015).

    120,000 training and 7,600 test texts; there is no official validation split: a stratified,
    seeded tenth of the training texts. A result says so where the files have another number of
    rows. Evaluation set: `newsgroups` (the by-date test posts).

    Args:
        corpus: "csv", the official files below `ag_news_csv`; "parquet", `train.parquet` and
            `test.parquet` below `ag_news`; "hub", `fancyzhx/ag_news` by `datasets`.
        val_fraction: Share of the training texts held out for validation, in (0, 1).
        ood: Evaluation sets beside the test set, of `newsgroups`.
        max_length: Tokens of a text that are kept, at its end; the longest texts have about 200.
        common: Those of all text sets, see `calibench fit --data.help AGNewsDataModule`.

    Raises:
        ValueError: An argument is outside its range.
    """

    known_sets = ("newsgroups",)

    def __init__(
        self,
        *,
        corpus: Literal["csv", "parquet", "hub"] = "csv",
        val_fraction: float = 0.1,
        ood: Sequence[str] = ("newsgroups",),
        max_length: int = 256,
        **common: Any,
    ) -> None:
        if not 0 < val_fraction < 1:
            raise ValueError(f"`val_fraction` must be in (0, 1), got {val_fraction}.")
        super().__init__(class_names=files.CLASSES, ood=ood, max_length=max_length, **common)
        self.corpus, self.val_fraction = corpus, val_fraction

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read both files and hold the validation texts out."""
        train = self._read("train")
        rest, val = hold_out_positions(train.target, self.val_fraction, seed)
        return CorpusSplits(train.take(rest), train.take(val), self._read("test"))

    def _read(self, part: str) -> Corpus:
        readers = {"csv": files.read_csv, "parquet": files.read_parquet, "hub": files.read_hub}
        corpus, caveats = readers[self.corpus](self.root, part)
        self.caveats += caveats
        return corpus
