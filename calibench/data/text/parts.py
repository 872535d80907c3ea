"""The texts of a user's tables by part, read without Lightning."""

import codecs
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calibench.data.layouts import find_part_files
from calibench.data.source import locate_file
from calibench.data.splits import held_out_shares, make_splits
from calibench.data.text.corpus import Corpus, CorpusSplits, TextTable, read_text_table
from calibench.data.users_table import (
    check_labels,
    class_numbers,
    describe_doubtful_classes,
    drop_unlabelled_parts,
    lacking_classes,
)


class TextParts:
    """The texts of a user's tables by part, as `TextFileDataModule`, whose options these are, trains and tests on them.

    Attributes:
        class_names: The labels of the training file, sorted.
        caveats: Lines about the data that results repeat.
        inventory: Lines about the parts, and what of the files is not used.

    Raises:
        DataError: A file is missing or damaged.
    """

    def __init__(
        self,
        *,
        train_file: str,
        val_file: str | None = None,
        test_file: str | None = None,
        text_columns: Sequence[str] = ("text",),
        label_column: str = "label",
        column_names: Sequence[str] | None = None,
        encoding: str | None = None,
        separator: str | None = None,
        quotes: bool | None = None,
        skip_bad: bool = False,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        root: str | None = None,
    ) -> None:
        self._held_out = held_out_shares(val_fraction, test_fraction)
        try:
            codecs.lookup(encoding or "utf-8")
        except LookupError:
            raise ValueError(
                f"`encoding` must be one that Python knows, such as utf-8 or latin-1, got `{encoding}`."
            ) from None
        self._label_column, self._root, self._train_file = label_column, root, train_file
        self._read = partial(
            read_text_table, text=tuple(text_columns), skip=skip_bad, columns=column_names, encoding=encoding,
            separator=separator, quotes=quotes,
        )  # fmt: skip
        named = {"val": val_file, "test": test_file}
        paths = {part: locate_file(file, root) for part, file in named.items() if file is not None}
        files = find_part_files(locate_file(train_file, root), paths)
        options = {
            "separator": separator,
            "encoding": encoding,
            "names": column_names,
            "quotes": quotes,
        }
        self._files, self.caveats = drop_unlabelled_parts(files, label_column, **options)
        self.inventory = list(self._files.notes)
        has_all_parts = [*self._files.paths] == ["train"]
        self._train = self._table(self._files.paths["train"], has_all_parts=has_all_parts)
        check_labels(self._train.labels, train_file, label_column)
        self.class_names = sorted({*self._train.labels})

    def load_splits(self, seed: int) -> CorpusSplits:
        """Read the given files; splits without one are held out of the training texts."""
        corpus, parts = self._corpus(self._train), dict[str, Corpus | float](self._held_out)
        for part in ("test", "val"):
            if part in self._files.paths:
                table = self._table(self._files.paths[part], classes=self.class_names)
                parts[part] = self._corpus(table)
        splits = CorpusSplits(*make_splits(corpus, parts, seed=seed, title=self._train_file))
        counts = {part: len(getattr(splits, part).texts) for part in splits._fields}
        self.inventory.insert(0, self._files.describe(counts, len(self.class_names)))
        self.caveats += lacking_classes(splits, self.class_names)
        self.caveats += describe_doubtful_classes(self.class_names)
        return splits

    def read_unlabelled(self, file: str) -> list[str]:
        """The texts of another file, whose labels are not looked at."""
        return self._read(locate_file(file, self._root), label=None).texts

    def _table(self, path: Path, **options: Any) -> TextTable:
        return self._read(path, label=self._label_column, **options)

    def _corpus(self, table: TextTable) -> Corpus:
        self.caveats += table.caveats
        return Corpus(table.texts, class_numbers(table.labels, self.class_names))
