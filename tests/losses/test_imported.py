"""Any loss by import path."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from calibench.losses import ImportedLoss
from calibench.messages.errors import UsageError

EXAMPLES = {
    "ImportedLoss": lambda: ImportedLoss(
        name="tests.own_classes.poly_loss", arguments={"epsilon": 2.0}
    ),
    "ImportedLoss class": lambda: ImportedLoss(
        name="torch.nn.CrossEntropyLoss", arguments={"reduction": "none"}
    ),
}
LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([0, 1, 2, 2, 1, 0])
WEIGHT = [1.0, 2.0, 3.0]


def test_functions_and_classes_give_torchs_numbers() -> None:
    expected = F.cross_entropy(LOGITS, TARGET, torch.tensor(WEIGHT), label_smoothing=0.1)
    for name in ("torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy"):
        loss = ImportedLoss(name=name, arguments={"weight": WEIGHT, "label_smoothing": 0.1})
        torch.testing.assert_close(loss(LOGITS, TARGET), expected)


def test_one_value_per_example_becomes_their_mean() -> None:
    each = ImportedLoss(name="torch.nn.functional.cross_entropy", arguments={"reduction": "none"})
    torch.testing.assert_close(each(LOGITS, TARGET), F.cross_entropy(LOGITS, TARGET))


def test_tensors_move_with_the_module_and_are_not_cast() -> None:
    loss = ImportedLoss(name="torch.nn.functional.cross_entropy", arguments={"weight": WEIGHT})
    assert next(loss.to("meta").buffers()).device.type == "meta"
    loss = ImportedLoss(name="torch.nn.functional.cross_entropy", arguments={"weight": WEIGHT})
    assert next(loss.bfloat16().buffers()).dtype == torch.float32


def matrix(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return logits


def number(logits: torch.Tensor, target: torch.Tensor) -> float:
    return 0.5


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (
            "torch.nn.CrossEntropyLoss",
            {"reduction": "sum"},
            "`options={\"model.loss_scale\": 'sum'}`",
        ),
        (
            "torch.nn.functional.cross_entropy",
            {"reduction": "sum"},
            "`options={\"model.loss_scale\": 'sum'}`",
        ),
        ("torch.nn.CrossEntropyLoss", {"wieght": 1}, "no argument `wieght`; did you mean weight"),
        ("torch.nn.functional.cross_entropy", {"smooth": 1}, "no argument `smooth`"),
        ("torch.tensor", {}, "too many positional arguments|has no argument|must give|cannot take"),
        (f"{__name__}.matrix", {}, r"a scalar or one value per example \(6,\), got \(6, 3\)"),
        (f"{__name__}.number", {}, "got float"),
        ("torch.nn.L1Loss", {}, r"cannot take logits \(6, 3\) and classes \(6,\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_what_is_no_loss_is_one_line(name: str, arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ImportedLoss(name=name, arguments=arguments)(LOGITS, TARGET)
