from __future__ import annotations

from pathlib import Path

import pytest

from calibench.published import PAPERS, dataset_of, find, load, loss_names, model_names
from calibench.published.names import LOSSES, MODELS


def test_every_number_is_there() -> None:
    numbers = load()
    assert len(numbers) == 2089
    assert {number.paper for number in numbers} == set(PAPERS)


def test_the_file_is_the_reference(shared: Path) -> None:
    import calibench.published

    ours = Path(calibench.published.__file__).with_name("published.csv").read_bytes()
    assert ours == (shared / "reference" / "published.csv").read_bytes()


def test_numbers_are_fractions() -> None:
    """GCE table 1, first row: cross-entropy on CIFAR-10 with ResNet-50 has error 4.82 +- 0.15 %."""
    first = load("gce", table="1")[0]
    assert (first.loss, first.value, first.std) == (
        "cross_entropy",
        pytest.approx(0.0482),
        pytest.approx(0.0015),
    )
    rates = [n for n in load() if n.metric != "seconds_per_epoch"]
    assert all(0 <= number.value <= 1 for number in rates)
    assert all(number.value > 1 for number in load("gce", table="6"))


def test_bins_and_temperatures_are_kept() -> None:
    ece = find(
        "gce", dataset="cifar10", model="resnet50", loss="gce", metric="ece", stage="post_ats"
    )
    assert ece is not None
    assert ece.n_bins == 20
    assert any(number.temperature for number in load("fcl", table="4"))


def test_a_table_that_varies_something_else_is_not_the_cell() -> None:
    """GCE table 10 repeats CIFAR-10 with other numbers of calibrator bins; table 2 is the cell."""
    for loss in ("cross_entropy", "gce"):
        where = {"dataset": "cifar10", "model": "resnet50", "loss": loss, "metric": "ece"}
        number = find("gce", **where, stage="post_ats")
        assert number is not None
        assert number.table == "2"


def test_what_is_not_published_is_none() -> None:
    where = {"dataset": "digits", "model": "resnet50", "loss": "gce", "metric": "ece"}
    assert find("gce", **where, stage="pre") is None


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(ValueError, match="`paper` must be one of gce, fcl, bsce_gra, got 'gcx'"):
        load("gcx")
    with pytest.raises(ValueError, match="`table` must be one of 1, 2, 7"):
        load("gce", table="99")


def test_our_names_are_the_papers() -> None:
    published = load()
    losses = {name for names in LOSSES.values() for name in names}
    assert losses <= {number.loss for number in published}
    models = {name for names in MODELS.values() for name in names}
    assert models <= {number.model for number in published}
    assert loss_names("LDAMLoss") == ("LDAMLoss",)
    assert model_names("SmallCNN") == ("SmallCNN",)


def test_the_imbalance_factor_names_the_long_tailed_set() -> None:
    settings = {"data.init_args.imbalance_factor": 100.0}
    assert dataset_of("cifar10_lt", settings) == "cifar10_lt100"
    assert dataset_of("cifar10", settings) == "cifar10"
    assert dataset_of("newsgroups", settings) == "20newsgroups"
    assert "cifar10_lt100" in {number.dataset for number in load("gce")}
