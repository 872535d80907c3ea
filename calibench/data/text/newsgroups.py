"""20 Newsgroups as a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from calibench.data.batch import EvaluationSet, Examples
from calibench.data.text import newsgroup_files as files
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import Corpus, CorpusSplits, cut
from calibench.ground.errors import near_matches
from calibench.ground.evaluation_sets import sets_named


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

    Raises:
        ValueError: An argument is outside its range.
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
        sets_named(ood, ("ag_news", *(["held_out"] if held_out else [])))
        for group in held_out:
            if group not in files.GROUPS:
                raise ValueError(
                    f"there is no newsgroup `{group}`{near_matches(group, files.GROUPS)}."
                )
        if corpus == "raw" and split == "bydate":
            raise ValueError("`split: bydate` needs `corpus: bydate` or `hub`, got `raw`.")
        super().__init__(
            class_names=[group for group in files.GROUPS if group not in held_out],
            ood=ood,
            max_length=max_length,
            **common,
        )
        self.corpus, self.split, self.val_size = corpus, split, val_size
        self.headers = headers
        self._held_out_texts: list[str] = []

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read the posts and cut them as the split says."""
        train, test = self._read()
        self.caveats.append(f"20 newsgroups: {self.corpus} posts, {self.split} split")
        whole = train + test
        self._held_out_texts = whole.take((whole.target < 0).nonzero().squeeze(1)).texts
        train, test = (part.take((part.target >= 0).nonzero().squeeze(1)) for part in (train, test))
        if self.split == "bydate":
            train, val, _ = cut(train, test_size=0, val_size=self.val_size, seed=seed)
            return CorpusSplits(train, val, test)
        whole = train + test
        fifth = int(0.2 * len(whole.texts))
        return CorpusSplits(*cut(whole, test_size=fifth, val_size=self.val_size, seed=seed))

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`held_out` or `ag_news`."""
        if name == "held_out":
            return self.unlabelled_set(name, self._held_out_texts)
        return super().load_evaluation_set(name, test)

    def _read(self) -> tuple[Corpus, Corpus]:
        readers = {
            "bydate": lambda: files.read_by_date(self.root),
            "raw": lambda: (files.read_raw(self.root), Corpus([], torch.empty(0).long())),
            "hub": files.read_hub,
        }
        train, test = readers[self.corpus]()
        return self._numbered(train), self._numbered(test)

    def _numbered(self, corpus: Corpus) -> Corpus:
        """The posts as texts with the classes of this module, -1 for the newsgroups held out."""
        names, texts = self.class_names, corpus.texts
        if not self.headers:
            texts = [files.without_headers(post) for post in texts]
        classes = torch.tensor([names.index(g) if g in names else -1 for g in files.GROUPS])
        return Corpus(texts, classes[corpus.target])
