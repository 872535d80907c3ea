"""FinSen: financial news and their topics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from calibench.config import Seed, data_root
from calibench.data.source import sources
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import Corpus, CorpusSplits
from calibench.data.text.near_duplicates import describe
from calibench.data.text.table import label_numbers, read_table

FILE = "FinSen_US_Categorized_Timestamp.csv"


class FinSenDataModule(TextDataModule):
    """FinSen, US financial news to topics (Liang et al. 2024; split of the authors' public loader).

    The text is the column `Content`, the class the column `Category` without blanks around it, sorted. 70 % of the
    texts train, 15 % validate and 15 % test, at random and not stratified: `train_test_split` of scikit-learn with
    the seed 42, twice. Texts of one split that nearly repeat a training text are counted, and results say how many.
    The public loader has TF-IDF of 2,000 words in place of word vectors.

    Args:
        balanced_sampling: Draw the training texts of an epoch with replacement, by inverse class counts, as the
            public loader does.
        split_seed: What chooses the splits; "run" follows the run's seed.
        ood: Evaluation sets beside the test set, of `ag_news` and `newsgroups`.
        max_length: Tokens of a text that are kept, at its end.
        root: Folder of the datasets and of the cache of tokens; by default the environment's CALIBENCH_DATA, else
            ~/.cache/calibench.
        common: Those of all text sets, see `calibench fit --data.help FinSenDataModule`.

    Raises:
        DataError: The file is missing or damaged.
        ValueError: An argument is outside its range.
    """

    known_sets = ("ag_news", "newsgroups")

    def __init__(
        self,
        *,
        balanced_sampling: bool = False,
        split_seed: Seed = 42,
        ood: Sequence[str] = ("ag_news", "newsgroups"),
        max_length: int = 256,
        root: str | None = None,
        **common: Any,
    ) -> None:
        folder, source = data_root(root), sources()["finsen"]
        source.require(folder, checksum="off")
        self._path = source.path(folder, FILE)
        self._table = read_table(self._path, ["Content"], "Category")
        super().__init__(
            class_names=sorted(set(self._table.labels)),
            split_seed=split_seed,
            ood=ood,
            max_length=max_length,
            root=root,
            **common,
        )
        self.balanced_sampling = balanced_sampling
        if balanced_sampling:
            self.shuffled_loader = partial(self.shuffled_loader, balanced=True)

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Cut the file as the public loader does."""
        from sklearn.model_selection import train_test_split

        target = label_numbers(self._table, self.class_names, self._path)
        corpus = Corpus(self._table.texts, target)
        positions = torch.arange(len(target))
        train, rest = train_test_split(positions, test_size=0.3, random_state=seed)
        val, test = train_test_split(rest, test_size=0.5, random_state=seed)
        splits = CorpusSplits(*(corpus.take(part) for part in (train, val, test)))
        self.caveats += [*self._table.caveats, *describe(splits, self.root / ".calibench")]
        return splits
