"""From the numbers of a table to inputs of a network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Prepare:
    """(x - mean) / std of each column, with `fill` in place of a missing number. Each is (F,)."""

    fill: Tensor
    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, rows: Tensor, *, standardise: bool) -> Prepare:
        """Take the statistics of training rows (N, F), without their missing numbers.

        The population's standard deviation, as scikit-learn's StandardScaler; a constant column becomes 0. Of a
        column without numbers all are NaN. Without `standardise`, the mean is 0 and the deviation 1.
        """
        # A single NaN stands for a column without numbers.
        known = [column[~column.isnan()].double() for column in rows.T]
        columns = [column if len(column) else column.new_full((1,), torch.nan) for column in known]
        mean = torch.stack([column.mean() for column in columns]).float()
        std = torch.stack([column.std(correction=0) for column in columns]).float()
        if not standardise:
            return cls(mean, torch.zeros_like(mean), torch.ones_like(mean))
        return cls(mean, mean, torch.where(std > 0, std, 1))

    def __call__(self, inputs: Tensor) -> Tensor:
        """Prepare rows (n, F)."""
        fill, mean, std = (part.to(inputs.device) for part in (self.fill, self.mean, self.std))
        return (torch.where(inputs.isnan(), fill, inputs) - mean) / std
