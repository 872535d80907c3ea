"""AG News, 20 Newsgroups and FinSen: news texts and their topics."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import torch

from calibench.configuration.files import data_root
from calibench.configuration.seeds import Seed
from calibench.data.batch import EvaluationSet, Examples
from calibench.data.source import made_up_caveats, official_sources
from calibench.data.splits import hold_out
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import (
    AG_NEWS_TOPICS,
    NEWSGROUPS,
    Corpus,
    CorpusSplits,
    read_ag_news,
    read_newsgroups,
    read_text_table,
    remove_headers,
    split_corpus,
)
from calibench.data.text.near_duplicates import describe_near_duplicates
from calibench.data.users_table import class_numbers
from calibench.files.set_names import match_set_names
from calibench.messages.errors import near_matches

FINSEN = "FinSen_US_Categorized_Timestamp.csv"


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
        super().__init__(class_names=AG_NEWS_TOPICS, ood=ood, max_length=max_length, **common)
        self.corpus, self.val_fraction = corpus, val_fraction

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read both files and hold the validation texts out."""
        (train, caveats), (test, test_caveats) = (
            read_ag_news(self.root, part, self.corpus) for part in ("train", "test")
        )
        self.caveats += caveats + test_caveats
        return CorpusSplits(*hold_out(train, self.val_fraction, seed), test)


class NewsgroupsDataModule(TextDataModule):
    """20 Newsgroups, posts to 20 groups (Lang 1995; protocol of Kumar et al. 2018, MMCE).

    The reference split is of the 19,997 posts of Lang's original collection: after a seeded shuffle
    the last fifth (3,999) is for testing, the 900 before it for validation, 15,098 are left. It is
    not stratified, and cross-posts may lie on both sides. The same rule cuts the 18,846 posts of
    the by-date version (14,177, 900, 3,769). The by-date split keeps its own 7,532 test posts.
    Headers are left out as in the public code of MMCE (the text starts at the first empty line);
    footers and quotes stay.

    Evaluation sets: `held_out` (the newsgroups of that name that are not trained on), `ag_news`.

    Args:
        corpus: "bydate", the 18,846 posts below `20news-bydate`; "raw", the 19,997 below
            `20_newsgroups`; "hub", `SetFit/20_newsgroups` by `datasets`, whose footers and quotes
            are removed as well.
        split: "reference", the random split of the papers; "bydate", the official one.
        val_size: Posts held out for validation, at random.
        held_out: Groups that are neither trained nor tested on but make the set `held_out`.
        headers: Keep the posts' headers (which all but name the group).
        ood: Evaluation sets beside the test set, of `held_out` and `ag_news`.
        max_length: Tokens of a post that are kept, at its end (a tokenizer file: at its beginning).
        common: Those of all text sets, see `calibench fit --data.help NewsgroupsDataModule`.
    """

    near_ood = ("held_out",)

    def __init__(
        self,
        *,
        corpus: Literal["bydate", "raw", "hub"] = "bydate",
        split: Literal["reference", "bydate"] = "reference",
        val_size: int = 900,
        held_out: Sequence[str] = (),
        headers: bool = False,
        ood: Sequence[str] = ("ag_news",),
        max_length: int = 1000,
        **common: Any,
    ) -> None:
        match_set_names(ood, ("ag_news", *(["held_out"] if held_out else [])))
        for group in set(held_out) - set(NEWSGROUPS):
            raise ValueError(f"there is no newsgroup `{group}`{near_matches(group, NEWSGROUPS)}.")
        if corpus == "raw" and split == "bydate":
            raise ValueError("`split: bydate` needs `corpus: bydate` or `hub`, got `raw`.")
        names = [group for group in NEWSGROUPS if group not in held_out]
        super().__init__(class_names=names, ood=ood, max_length=max_length, **common)
        self.corpus, self.split, self.val_size = corpus, split, val_size
        self.headers = headers
        self._held_out_texts: list[str] = []

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read the posts and cut them as the split says."""
        train, test = map(self._numbered, read_newsgroups(self.root, self.corpus))
        self.caveats.append(f"20 newsgroups: {self.corpus} posts, {self.split} split")
        self.caveats += made_up_caveats(self.root / "20news-bydate")
        corpus = train + test
        self._held_out_texts = corpus.take((corpus.target < 0).nonzero().squeeze(1)).texts
        train, test = (part.take((part.target >= 0).nonzero().squeeze(1)) for part in (train, test))
        if self.split == "bydate":
            train, val, _ = split_corpus(train, test_size=0, val_size=self.val_size, seed=seed)
            return CorpusSplits(train, val, test)
        corpus = train + test
        fifth = int(0.2 * len(corpus.texts))
        return CorpusSplits(
            *split_corpus(corpus, test_size=fifth, val_size=self.val_size, seed=seed)
        )

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`held_out` or `ag_news`."""
        if name == "held_out":
            return self.unlabelled_set(name, self._held_out_texts)
        return super().load_evaluation_set(name, test)

    def _numbered(self, corpus: Corpus) -> Corpus:
        """The posts as texts with the classes of this module, -1 for the newsgroups held out."""
        names, texts = self.class_names, corpus.texts
        if not self.headers:
            texts = [remove_headers(post) for post in texts]
        classes = torch.tensor([names.index(g) if g in names else -1 for g in NEWSGROUPS])
        return Corpus(texts, classes[corpus.target])


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
        common: Those of all text sets, see `calibench fit --data.help FinSenDataModule`.

    Raises:
        DataError: The file is missing or damaged.
    """

    known_sets = ("ag_news", "newsgroups")

    def __init__(
        self,
        *,
        balanced_sampling: bool = False,
        split_seed: Seed = 42,
        ood: Sequence[str] = ("ag_news", "newsgroups"),
        max_length: int = 256,
        **common: Any,
    ) -> None:
        folder, source = data_root(common.get("root")), official_sources()["finsen"]
        source.require(folder, checksum="off")
        path = source.path(folder, FINSEN)
        self._table = read_text_table(path, ["Content"], "Category", encoding="utf-8")
        names = sorted(set(self._table.labels))
        super().__init__(
            class_names=names, split_seed=split_seed, ood=ood, max_length=max_length, **common
        )
        if balanced_sampling:
            self.shuffled_loader = partial(self.shuffled_loader, balanced=True)

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Cut the file as the public loader does."""
        from sklearn.model_selection import train_test_split

        target = class_numbers(self._table.labels, self.class_names)
        corpus = Corpus(self._table.texts, target)
        train, train_corpus = train_test_split(
            torch.arange(len(target)), test_size=0.3, random_state=seed
        )
        val, test = train_test_split(train_corpus, test_size=0.5, random_state=seed)
        splits = CorpusSplits(*(corpus.take(part) for part in (train, val, test)))
        self.caveats += [
            *self._table.caveats,
            *describe_near_duplicates(splits, self.root / ".calibench"),
        ]
        return splits
