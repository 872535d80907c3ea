"""A user's own texts in tables."""

import codecs
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calibench.data.batch import EvaluationSet, Examples
from calibench.data.layouts import find_part_files
from calibench.data.source import locate_file
from calibench.data.splits import held_out_shares, make_splits
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import Corpus, CorpusSplits, TextTable, read_text_table
from calibench.data.text.near_duplicates import describe_near_duplicates
from calibench.data.users_table import (
    check_labels,
    class_numbers,
    drop_unlabelled_parts,
    lacking_classes,
)
from calibench.files.set_names import match_set_names


class TextFileDataModule(TextDataModule):
    """Your own texts and labels from CSV, TSV, JSON, JSON lines or parquet files (this package).

    The classes are the labels of the training file, sorted. Rows with too many or too few cells, an empty label, or one
    that only another file has are refused, all at once, unless `skip_bad` leaves them out; damaged bytes of UTF-8 are
    replaced and counted, texts without a known word are kept and counted. Evaluation sets: `newsgroups`, `ag_news`,
    and `outside` where `ood_file` is given.

    Args:
        train_file: The training texts, or a folder with `train.csv`, `dev.tsv`, `test.jsonl` or the like, of which
            files without a column of labels are not used. A relative path is looked for here, then below `root`.
        val_file: The validation texts; None to hold some of the training texts out.
        test_file: The test texts; None to hold some of the training texts out.
        ood_file: Texts of no class, for the set `outside`; its labels are not looked at.
        text_columns: The columns that make a text, joined by blanks.
        label_column: The column of the labels, any strings or numbers.
        column_names: Names of the columns of CSV and TSV files without a header; None where their first rows are one.
        encoding: Of the files, as Python calls it; None for the first that fits of UTF-8, UTF-16 and Latin-1.
        separator: Between the cells of CSV and TSV files; None for what their headers have most.
        quotes: Whether quotes enclose cells of CSV and TSV files, or are characters like others; None for the former,
            where a file that seems to be written without quoting is refused.
        skip_bad: Leave out rows that cannot be used, which results then say; else such a row is an error.
        near_duplicates: Count the validation and test texts that nearly repeat a training text; results say how many.
        val_fraction: Share of the training file held out for validation, stratified.
        test_fraction: Share of the training file held out for testing, stratified.
        ood: Evaluation sets beside the test set.
        max_length: Tokens of a text that are kept, at its end (a tokenizer file: at its beginning).
        common: Those of all text sets, see `calibench fit --data.help TextFileDataModule`.

    Raises:
        DataError: A file is missing or damaged.
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
        column_names: Sequence[str] | None = None,
        encoding: str | None = None,
        separator: str | None = None,
        quotes: bool | None = None,
        skip_bad: bool = False,
        near_duplicates: bool = True,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        ood: Sequence[str] = (),
        max_length: int = 1000,
        **common: Any,
    ) -> None:
        self.held_out = held_out_shares(val_fraction, test_fraction)
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise ValueError(
                f"`encoding` must be one that Python knows, such as utf-8 or latin-1, got `{encoding}`."
            ) from None
        match_set_names(ood, ("newsgroups", "ag_news", *(["outside"] if ood_file else [])))
        self.label_column, self._given_root = label_column, common.get("root")
        self._read = partial(
            read_text_table, text=tuple(text_columns), skip=skip_bad, columns=column_names, encoding=encoding,
            separator=separator, quotes=quotes,
        )  # fmt: skip
        named = {"val": val_file, "test": test_file}
        paths = {part: self._locate(file) for part, file in named.items() if file is not None}
        files = find_part_files(self._locate(train_file), paths)
        options = {
            "separator": separator,
            "encoding": encoding,
            "names": column_names,
            "quotes": quotes,
        }
        self.files, unlabelled = drop_unlabelled_parts(files, label_column, **options)
        self._train = self._table(self.files.paths["train"])
        check_labels(self._train.labels, train_file, label_column)
        names = sorted({*self._train.labels})
        super().__init__(class_names=names, ood=ood, max_length=max_length, **common)
        self.near_duplicates, self.ood_file, self.train_file = near_duplicates, ood_file, train_file
        self.caveats += unlabelled
        self.inventory += self.files.notes

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read the given files; splits without one are held out of the training texts."""
        corpus, parts = self._corpus(self._train), dict[str, Corpus | float](self.held_out)
        for part in ("test", "val"):
            if part in self.files.paths:
                table = self._table(self.files.paths[part], classes=self.class_names)
                parts[part] = self._corpus(table)
        splits = CorpusSplits(*make_splits(corpus, parts, seed=seed, title=self.train_file))
        counts = {part: len(getattr(splits, part).texts) for part in splits._fields}
        self.inventory.insert(0, self.files.describe(counts, self.num_classes))
        self.caveats += lacking_classes(splits, self.class_names)
        if self.near_duplicates:
            self.caveats += describe_near_duplicates(splits, self.root / ".calibench")
        return splits

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`outside`, or another corpus."""
        if name == "outside" and self.ood_file is not None:
            return self.unlabelled_set(
                name, self._table(self._locate(self.ood_file), labelled=False).texts
            )
        return super().load_evaluation_set(name, test)

    def _locate(self, file: str) -> Path:
        return locate_file(file, self._given_root)

    def _table(
        self, path: Path, *, labelled: bool = True, classes: Sequence[str] | None = None
    ) -> TextTable:
        return self._read(path, label=self.label_column if labelled else None, classes=classes)

    def _corpus(self, table: TextTable) -> Corpus:
        self.caveats += table.caveats
        return Corpus(table.texts, class_numbers(table.labels, self.class_names))
