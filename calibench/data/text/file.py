"""A user's own texts in tables."""

from collections.abc import Sequence
from typing import Any

from calibench.data.batch import EvaluationSet, Examples
from calibench.data.text.base import TextDataModule
from calibench.data.text.corpus import CorpusSplits
from calibench.data.text.near_duplicates import describe_near_duplicates
from calibench.data.text.parts import TextParts
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
        match_set_names(ood, ("newsgroups", "ag_news", *(["outside"] if ood_file else [])))
        self.parts = TextParts(
            train_file=train_file, val_file=val_file, test_file=test_file, text_columns=text_columns,
            label_column=label_column, column_names=column_names, encoding=encoding, separator=separator, quotes=quotes,
            skip_bad=skip_bad, val_fraction=val_fraction, test_fraction=test_fraction, root=common.get("root"),
        )  # fmt: skip
        self.near_duplicates, self.ood_file = near_duplicates, ood_file
        super().__init__(
            class_names=self.parts.class_names, ood=ood, max_length=max_length, **common
        )

    def load_corpus(self, seed: int) -> CorpusSplits:
        """Read the given files; splits without one are held out of the training texts."""
        splits = self.parts.load_splits(seed)
        self.caveats += self.parts.caveats
        self.inventory += self.parts.inventory
        if self.near_duplicates:
            self.caveats += describe_near_duplicates(splits, self.root / ".calibench")
        return splits

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """`outside`, or another corpus."""
        if name == "outside" and self.ood_file is not None:
            return self.unlabelled_set(name, self.parts.read_unlabelled(self.ood_file))
        return super().load_evaluation_set(name, test)
