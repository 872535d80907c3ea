"""Tables of numbers with a column of labels: a user's own, and those that scikit-learn bundles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Examples, Splits
from calibench.data.splits import held_out_shares, make_splits
from calibench.data.tabular.columns import TableParts


@dataclass(frozen=True)
class Prepare:
    """(x - mean) / std of each column, with `fill` in place of a missing number. Each is (F,)."""

    fill: Tensor
    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, rows: Tensor, *, standardise: bool) -> Self:
        """Take the statistics of training rows (N, F), without their missing numbers.

        The population's standard deviation, as scikit-learn's StandardScaler; a constant column becomes 0. Of a
        column without numbers all are NaN. Without `standardise`, the mean is 0 and the deviation 1.
        """
        # A single NaN stands for a column without numbers.
        numbers = [column[~column.isnan()].double() for column in rows.T]
        columns = [
            column if len(column) else column.new_full((1,), torch.nan) for column in numbers
        ]
        mean = torch.stack([column.mean() for column in columns]).float()
        std = torch.stack([column.std(correction=0) for column in columns]).float()
        if not standardise:
            return cls(mean, torch.zeros_like(mean), torch.ones_like(mean))
        return cls(mean, mean, torch.where(std > 0, std, 1))

    def __call__(self, inputs: Tensor) -> Tensor:
        """Prepare rows (n, F)."""
        fill, mean, std = (part.to(inputs.device) for part in (self.fill, self.mean, self.std))
        return (torch.where(inputs.isnan(), fill, inputs) - mean) / std


class TableDataModule(ClassificationDataModule):
    """Your own table with a column of labels: CSV, JSON lines, parquet, ... (this package).

    The classes are the labels of the training file, sorted. Dates count in days; text of at most 30 levels is one-hot.
    Rows with too many or too few cells, text among the numbers, an empty cell (unless `missing` says what becomes of
    it) or a label that only another file has are refused, all at once, unless `skip_bad` leaves them out; so is a
    group that two files have. There are no evaluation sets beside the test rows.

    Args:
        train_file: The training rows, or a folder with `train.csv`, `valid.csv`, `test.csv` or the like, of which files
            without a column of labels are not used. A relative path is looked for here, then below `root`.
        val_file: The validation rows; None to hold some of the training rows out.
        test_file: The test rows; None to hold some of the training rows out.
        label_column: The column of the labels, any strings or numbers.
        group_column: The column that says which rows belong together, such as those of one patient: no two splits
            have rows of the same group. None where every row is on its own.
        features: The columns to use, by name or pattern (`suvr_*`); None for all but the label and the group,
            those without a name, and one like `id` that only counts the rows.
        separator: Between the cells of CSV and TSV files; None for what their headers have most.
        quotes: Whether quotes enclose cells of CSV and TSV files, or are characters like others; None for the former,
            where a file that seems to be written without quoting is refused.
        skip_bad: Leave out rows that cannot be used, which results then say; else such a row is an error.
        val_fraction: Share of the training file held out for validation, stratified.
        test_fraction: Share of the training file held out for testing, stratified.
        val_size: Rows of the training file held out for validation, stratified, instead of a share; with groups as
            nearly so many as these allow.
        test_size: The same for testing.
        standardise: Subtract each column's mean and divide by its standard deviation, both of the training rows.
        missing: What becomes of an empty cell among the numbers (also `NA`, `NaN`, `null`): "refuse" the file, take
            the column's "mean" of the training rows, or "drop" the row; results say how many.
        root: Folder of the datasets; by default the environment's CALIBENCH_DATA, else ~/.cache/calibench.
        common: Those of all data modules.

    Raises:
        DataError: A file is missing or damaged.
    """

    known_sets = ()

    def __init__(
        self,
        *,
        train_file: str,
        val_file: str | None = None,
        test_file: str | None = None,
        label_column: str = "label",
        group_column: str | None = None,
        features: Sequence[str] | None = None,
        separator: str | None = None,
        quotes: bool | None = None,
        skip_bad: bool = False,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        val_size: int | None = None,
        test_size: int | None = None,
        standardise: bool = True,
        missing: Literal["refuse", "mean", "drop"] = "refuse",
        root: str | None = None,
        **common: Any,
    ) -> None:
        self.parts = TableParts(
            train_file=train_file, val_file=val_file, test_file=test_file, label_column=label_column,
            group_column=group_column, features=features, separator=separator, quotes=quotes, skip_bad=skip_bad,
            val_fraction=val_fraction, test_fraction=test_fraction, val_size=val_size, test_size=test_size,
            missing=missing, root=root,
        )  # fmt: skip
        self.standardise = standardise
        super().__init__(class_names=self.parts.class_names, **common)

    def load_splits(self, seed: int) -> Splits:
        """Read the given files; splits without one are held out of the training rows."""
        splits = self.parts.load_splits(seed)
        self.caveats += self.parts.caveats
        self.inventory += self.parts.inventory
        self.transform = Prepare.fit(splits.train.inputs, standardise=self.standardise)
        return splits


_CLASSES = {"breast_cancer": ("malignant", "benign"), "wine": ("class_0", "class_1", "class_2")}


class BundledTableDataModule(ClassificationDataModule):
    """A table of scikit-learn's: breast cancer (Wolberg et al. 1995) or wine (Forina et al. 1988).

    UCI's copies. `breast_cancer`: 569 biopsies, 30 numbers each about the cell nuclei in an image. `wine`: 178 chemical
    analyses of 13 numbers each. Validation and test splits are stratified. There are no evaluation sets.

    Args:
        table: Which one.
        val_fraction: Share of the rows held out for validation.
        test_fraction: Share of the rows held out for testing.
        standardise: Subtract each column's mean and divide by its standard deviation, both of the training rows.
        common: Those of all data modules, see `calibench fit --data.help BundledTableDataModule`.
    """

    known_sets = ()

    def __init__(
        self,
        *,
        table: Literal["breast_cancer", "wine"],
        val_fraction: float = 0.2,
        test_fraction: float = 0.3,
        standardise: bool = True,
        **common: Any,
    ) -> None:
        self.held_out = held_out_shares(val_fraction, test_fraction)
        super().__init__(class_names=_CLASSES[table], **common)
        self.table, self.standardise = table, standardise

    def load_splits(self, seed: int) -> Splits:
        """Hold out test and validation rows."""
        from sklearn import datasets  # most of a second

        loaders = {"breast_cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}
        numbers, target = loaders[self.table](return_X_y=True)
        examples = Examples(torch.from_numpy(numbers).float(), torch.from_numpy(target).long())
        splits = make_splits(examples, self.held_out, seed=seed, title=self.table)
        self.transform = Prepare.fit(splits[0].inputs, standardise=self.standardise)
        return Splits(*splits)
