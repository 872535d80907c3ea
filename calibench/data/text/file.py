"""A user's own texts in tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibench.data.base import check_sets
from calibench.data.batch import EvaluationSet, Examples
from calibench.data.source import DataError
from calibench.data.splits import check_fractions, given_or_held_out
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import Corpus, CorpusSplits
from calibench.data.text.table import TextTable, label_numbers, read_table


class TextFileDataModule(TextDataModule):
    """Your own texts and labels from CSV, TSV, parquet or JSON-lines files (this package).

    The classes are the labels of the training file, sorted. A label that only another file has, a
    broken row or a missing column is refused with its place; bytes that are not UTF-8 are replaced
    and counted, texts without a known word are kept and counted. Evaluation sets: `newsgroups`,
    `ag_news`, and `outside` where `ood_file` is given.

    Args:
        train_file: The training texts.
        val_file: The validation texts; None to hold some of the training texts out.
        test_file: The test texts; None to hold some of the training texts out.
        ood_file: Texts of no class, for the set `outside`; its labels are not looked at.
        text_columns: The columns that make a text, joined by blanks.
        label_column: The column of the labels, any strings or numbers.
        val_fraction: Share of the training file held out for validation, stratified.
        test_fraction: Share of the training file held out for testing, stratified.
        ood: Evaluation sets beside the test set.
        max_length: Tokens of a text that are kept, at its end (a tokenizer file: at its beginning).
        common: Those of all text sets, see `calibench fit --data.help TextFileDataModule`.

    Raises:
        DataError: A file is missing or damaged.
        ValueError: An argument is outside its range.
    """

    def __init__(
        self,
        *,
        train_file: str,
        val_file: str | None = None,
        test_file: str | None = None,
        ood_file: str | None = None,
        text_columns: Sequence[str] = ("text",),
        label_column: str = "label",
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        ood: Sequence[str] = (),
        max_length: int = 1000,
        **common: Any,
    ) -> None:
        check_fractions(val_fraction, test_fraction)
        check_sets(ood, ("newsgroups", "ag_news", *(["outside"] if ood_file else [])))
        self.text_columns, self.label_column = tuple(text_columns), label_column
        self._train = self._table(train_file)
        names = sorted(set(self._train.labels))
        if len(names) < 2:
            raise DataError(f"{train_file} has the label `{names[0]}` only; 2 are needed.")
        super().__init__(
            class_names=names,
            ood=ood,
            max_length=max_length,
            **common,
        )
        self.train_file, self.val_file, self.test_file = train_file, val_file, test_file
        self.ood_file = ood_file
        self.val_fraction, self.test_fraction = val_fraction, test_fraction

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read the given files; splits without one are held out of the training texts."""
        train, val, test = given_or_held_out(
            self._corpus(self._train, self.train_file),
            test=self._given(self.test_file, self.test_fraction),
            val=self._given(self.val_file, self.val_fraction),
            seed=seed,
            what=self.train_file,
        )
        return CorpusSplits(train, val, test)

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`outside`, or another corpus."""
        if name == "outside" and self.ood_file is not None:
            return self.unlabelled_set(name, self._table(self.ood_file, labelled=False).texts)
        return super().load_evaluation_set(name, test)

    def _table(self, file: str, *, labelled: bool = True) -> TextTable:
        label = self.label_column if labelled else None
        return read_table(Path(file).expanduser(), self.text_columns, label)

    def _given(self, file: str | None, fraction: float) -> Corpus | float:
        return fraction if file is None else self._corpus(self._table(file), file)

    def _corpus(self, table: TextTable, file: str) -> Corpus:
        self.caveats += table.caveats
        return Corpus(table.texts, label_numbers(table, self.class_names, Path(file)))
