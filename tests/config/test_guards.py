"""What guards say of values is what the classes themselves say; what is checked only sometimes is left to them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from calibench.config.guards import refusal
from calibench.config.signatures import definition

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("calibench.losses.focal.FocalLoss", {"gamma": -1.0}),
    ("calibench.calibrators.histogram.HistogramBinning", {"n_bins": 0}),
    ("calibench.backbones.small_cnn.SmallCNN", {"num_classes": 3, "width": -2}),
    ("calibench.data.images.digits.DigitsDataModule", {"batch_size": 0}),
    ("calibench.data.images.digits.DigitsDataModule", {"split_seed": -1}),
    ("calibench.data.images.digits.DigitsDataModule", {"imbalance_factor": 0.5}),
    ("calibench.data.images.digits.DigitsDataModule", {"val_fraction": 0.9}),
    ("calibench.data.images.cifar.CIFAR10DataModule", {"imbalance_factor": 0.5, "root": "x"}),
    (
        "calibench.data.tabular.bundled.BundledTableDataModule",
        {"table": "wine", "test_fraction": -0.1},
    ),
    ("calibench.data.tabular.bundled.BundledTableDataModule", {"table": "wine", "ood": ["noise"]}),
    ("calibench.data.images.digits.DigitsDataModule", {"ood": ["foo"]}),
    ("calibench.data.images.cifar.CIFAR10DataModule", {"ood": ["svhn", "cifar10"]}),
    ("calibench.data.images.svhn.SVHNDataModule", {"ood": ["fog-5"]}),
    ("calibench.data.text.ag_news.AGNewsDataModule", {"ood": ["ag_news"]}),
    ("calibench.data.text.newsgroups.NewsgroupsDataModule", {"ood": ["held_out"]}),
    ("calibench.evaluation.evaluation.Evaluation", {"n_bins": [15, 15]}),
]
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": -1.0}),
    ("SGD", {"momentum": -0.5}),
    ("AdamW", {"lr": -0.1}),
    ("Adam", {"betas": [0.9, 1.5]}),
    ("SGD", {"nesterov": True}),
]


def said(path: str, given: dict[str, Any]) -> str | None:
    found = definition(path)
    assert found is not None
    return refusal(found, given)


@pytest.mark.parametrize(("path", "given"), REFUSED)
def test_a_class_says_the_same_when_it_is_made(path: str, given: dict[str, Any]) -> None:
    module, _, name = path.rpartition(".")
    with pytest.raises(ValueError, match=r".") as error:
        getattr(import_module(module), name)(**given)
    assert said(path, given) == str(error.value)
    assert said(path, {name: str(value) for name, value in given.items()}) is not None or any(
        isinstance(value, list) for value in given.values()
    )


@pytest.mark.parametrize(("name", "given"), OPTIMIZERS)
def test_so_does_an_optimizer(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        getattr(torch.optim, name)([torch.zeros(1)], **given)
    assert said(f"torch.optim.{name}", given) == str(error.value)
    assert said(f"torch.optim.{name}", {"lr": 0.1, "weight_decay": "1e-4"}) is None
    assert said("torch.optim.SGD", {"lr": 0.1, "nesterov": "false"}) is None


def test_what_is_checked_only_sometimes_is_left_to_the_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sometimes.py").write_text(
        "from calibench.ground.arguments import positive\n"
        "class Base:\n"
        "    def __init__(self, size=1):\n"
        "        positive('size', size)\n"
        "class Own(Base):\n"
        "    def __init__(self, size=1, rate=1, other=1, kind='a'):\n"
        "        super().__init__(size=size + 2)\n"
        "        self.rate = positive('rate', rate) if kind == 'a' else rate\n"
        "        if kind == 'a':\n"
        "            positive('rate', rate)\n"
        "        other = abs(other)\n"
        "        positive('other', other)\n"
        "def check(low, high=2):\n"
        "    if low is None:\n"
        "        return\n"
        "    if low > high or high < 0:\n"
        "        raise ValueError(f'{low} is above {high}.')\n"
        "def check_name(name):\n"
        "    if name != 'run':\n"
        "        positive('name', name)\n"
        "class Following:\n"
        "    def __init__(self, name='run', low=1, high=None):\n"
        "        check_name(name)\n"
        "        check(low, high)\n"
        "class Handed(Base):\n"
        "    def __init__(self, rate=1, **options):\n"
        "        super().__init__(**options)\n"
    )
    for given in ({"size": -1}, {"rate": -1, "kind": "b"}, {"other": -1}, {"size": "auto"}):
        assert said("sometimes.Own", given) is None
    assert said("sometimes.Handed", {"size": -1}) == "`size` must be a finite number > 0, got -1."
    assert (
        said("sometimes.Following", {"name": -1}) == "`name` must be a finite number > 0, got -1."
    )
    for given in ({"name": "null"}, {"low": 3}, {"low": 3, "high": 2}):
        assert said("sometimes.Following", given) is None


def test_what_a_constructor_calls_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("following.py").write_text(
        "from dataclasses import dataclass\n"
        "def check(low, high=2):\n"
        "    if low > high or high < 0:\n"
        "        raise ValueError(f'{low} is above {high}.')\n"
        "@dataclass\n"
        "class Range:\n"
        "    low: int\n"
        "    high: int = 2\n"
        "    def __post_init__(self):\n"
        "        check(self.low, high=self.high)\n"
        "class Own:\n"
        "    def __init__(self, low=1, high=5, other=2):\n"
        "        self.range = Range(low, high=high)\n"
        "        check(other, len([low]))\n"
    )
    assert said("following.Own", {"low": "6"}) == "6 is above 5."
    assert said("following.Own", {"high": 0}) == "1 is above 0."
    assert said("following.Own", {"low": 3, "other": 9}) is None
