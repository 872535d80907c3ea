"""A user's own table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibench.config import near_matches
from calibench.data.base import ClassificationDataModule
from calibench.data.batch import EvaluationSet, Examples, Splits
from calibench.data.source import DataError
from calibench.data.splits import check_fractions, hold_out
from calibench.data.tabular.columns import Columns, class_names, read_columns


@dataclass(frozen=True)
class Standardise:
    """(x - mean) / std of each column."""

    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, rows: Tensor) -> Standardise:
        """The mean and the standard deviation of each column; a constant column becomes 0."""
        exact = rows.double()
        std = exact.std(0, correction=0)
        return cls(exact.mean(0).float(), torch.where(std > 0, std, 1).float())

    def __call__(self, inputs: Tensor) -> Tensor:
        """Standardise rows (n, F)."""
        return (inputs - self.mean.to(inputs.device)) / self.std.to(inputs.device)


class TableDataModule(ClassificationDataModule):
    """Your own table of numbers with a column of labels, from CSV, TSV or parquet (this package).

    The classes are the labels of the training file, sorted. A missing column, an empty cell, text among the numbers or
    a label that only another file has is refused with its place. There are no evaluation sets beside the test rows.

    Args:
        train_file: The training rows.
        val_file: The validation rows; None to hold some of the training rows out.
        test_file: The test rows; None to hold some of the training rows out.
        label_column: The column of the labels, any strings or numbers.
        features: The columns of numbers, by name or pattern (`suvr_*`); None for all but the label.
        val_fraction: Share of the training file held out for validation, stratified.
        test_fraction: Share of the training file held out for testing, stratified.
        standardise: Subtract each column's mean and divide by its standard deviation, both of the training rows.
        common: Those of all data modules.

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
        label_column: str = "label",
        features: Sequence[str] | None = None,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        standardise: bool = True,
        **common: Any,
    ) -> None:
        check_fractions(val_fraction, test_fraction)
        self.label_column, self.features = label_column, features
        self._train = self._table(train_file, features)
        names = class_names(self._train.labels)
        if len(names) < 2:
            raise DataError(f"{train_file} has the label `{names[0]}` only; 2 are needed.")
        super().__init__(class_names=names, **common)
        self.train_file, self.val_file, self.test_file = train_file, val_file, test_file
        self.val_fraction, self.test_fraction = val_fraction, test_fraction
        self.standardise = standardise

    def load_splits(self, seed: int) -> Splits:
        """Read the given files; splits without one are held out of the training rows."""
        rest = self._examples(self._train, self.train_file)
        given, left = {}, 1.0
        wanted = (
            ("test", self.test_file, self.test_fraction),
            ("val", self.val_file, self.val_fraction),
        )
        for name, file, fraction in wanted:
            if file is not None:
                given[name] = self._examples(self._table(file, self._train.features), file)
                continue
            rest, given[name] = hold_out(rest, fraction / left, seed)
            left -= fraction
            if not len(given[name].target):
                raise DataError(f"{self.train_file} has too few rows to hold any out for {name}.")
        if self.standardise:
            self.transform = Standardise.fit(rest.inputs)
        return Splits(rest, given["val"], given["test"])

    def load_evaluation_set(self, name: str, test: Examples) -> EvaluationSet:
        """There are none."""
        raise ValueError(f"a table has no evaluation set `{name}`.")

    def _table(self, file: str, features: Sequence[str] | None) -> Columns:
        return read_columns(Path(file).expanduser(), features, self.label_column)

    def _examples(self, table: Columns, file: str) -> Examples:
        numbers = {name: number for number, name in enumerate(self.class_names)}
        for row, label in enumerate(table.labels, start=1):
            if label not in numbers:
                raise DataError(
                    f"{file}, row {row}: the label `{label}` is none of the {len(numbers)} classes"
                    f"{near_matches(label, numbers)}."
                )
        target = torch.tensor([numbers[label] for label in table.labels])
        return Examples(torch.from_numpy(table.numbers), target)
