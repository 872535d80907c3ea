"""Tables that scikit-learn bundles: real measurements, no download."""

from __future__ import annotations

from typing import Any, Literal

import torch

from calibench.data.base import ClassificationDataModule
from calibench.data.batch import Examples, Splits
from calibench.data.splits import check_fractions, given_or_held_out
from calibench.data.tabular.prepare import Prepare

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

    Raises:
        ValueError: An argument is outside its range.
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
        check_fractions(val_fraction, test_fraction)
        super().__init__(class_names=_CLASSES[table], **common)
        self.table, self.standardise = table, standardise
        self.val_fraction, self.test_fraction = val_fraction, test_fraction

    def load_splits(self, seed: int) -> Splits:
        """Hold out test and validation rows."""
        from sklearn import datasets  # most of a second

        loaders = {"breast_cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}
        numbers, target = loaders[self.table](return_X_y=True)
        whole = Examples(torch.from_numpy(numbers).float(), torch.from_numpy(target).long())
        splits = given_or_held_out(
            whole, test=self.test_fraction, val=self.val_fraction, seed=seed, what=self.table
        )
        self.transform = Prepare.fit(splits[0].inputs, standardise=self.standardise)
        return Splits(*splits)
