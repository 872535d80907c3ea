from __future__ import annotations

from pathlib import Path

import pytest

from calibench.tables.published import (
    MODELS,
    PAPERS,
    PUBLISHED_LOSSES,
    dataset_of,
    load_published,
    loss_names,
    model_names,
    published_number,
)


def test_every_number_is_there() -> None:
    numbers = load_published()
    assert len(numbers) == 2089
    assert {number.paper for number in numbers} == set(PAPERS)


def test_the_file_is_the_reference(shared: Path) -> None:
    import calibench.tables.published

    ours = Path(calibench.tables.published.__file__).with_name("published.csv").read_bytes()
    assert ours == (shared / "reference" / "published.csv").read_bytes()


def test_numbers_are_fractions() -> None:
    """GCE table 1, first row: cross-entropy on CIFAR-10 with ResNet-50 has error 4.82 +- 0.15 %."""
    first = load_published("gce", table="1")[0]
    assert (first.loss, first.value, first.std) == (
        "cross_entropy",
        pytest.approx(0.0482),
        pytest.approx(0.0015),
    )
    rates = [n for n in load_published() if n.metric != "seconds_per_epoch"]
    assert all(0 <= number.value <= 1 for number in rates)
    assert all(number.value > 1 for number in load_published("gce", table="6"))


def test_every_error_of_a_table_is_in_the_same_unit() -> None:
    """FCL table 9 prints fractions where its other tables print percent: 0.1738, 0.6134; 0.1292, 0.3248."""
    table = load_published("fcl", table="9")
    read = {(n.loss, n.metric): n.value for n in table if n.metric in ("ece", "mce")}
    assert read == {
        ("bce", "ece"): pytest.approx(0.1738),
        ("bce", "mce"): pytest.approx(0.6134),
        ("fcl", "ece"): pytest.approx(0.1292),
        ("fcl", "mce"): pytest.approx(0.3248),
    }


def test_every_number_is_possible() -> None:
    for n in load_published():
        assert n.std is None or 0 <= n.std < n.value
        assert n.temperature is None or 0.3 < n.temperature < 5
        assert n.n_bins in (None, PAPERS[n.paper].n_bins)
        assert n.bins == PAPERS[n.paper].n_bins
        assert "auroc" not in n.metric or n.value > 0.5
        if n.stage == "pre" and n.metric == "ece":  # no paper has so small an ECE of a raw network
            assert n.value >= 0.001
    worst = {(n.paper, n.table, n.loss): n.value for n in load_published() if n.metric == "mce"}
    mean = {(n.paper, n.table, n.loss): n.value for n in load_published() if n.metric == "ece"}
    assert all(mean[place] <= value for place, value in worst.items())


@pytest.mark.parametrize("paper", PAPERS)
def test_every_number_is_printed_in_its_paper(paper: str, shared: Path) -> None:
    """In percent, as a fraction, or as what an accuracy leaves of 100 %."""
    text = (shared / "papers" / f"{paper}.txt").read_text(encoding="utf-8")
    for n in load_published(paper):
        scales = (1, 100) if n.metric == "seconds_per_epoch" or "auroc:" in n.metric else (100, 1)
        printed = [n.value * scale for scale in scales] + [100 * (1 - n.value)]
        forms = [f"{value:.{digits}f}" for value in printed for digits in (1, 2, 3, 4)]
        assert any(form in text for form in forms), n


def test_a_table_has_other_names_and_numbers() -> None:
    for names in (["4", "1", "ece", "ECE"], ["5", "3", "smece"], ["2", "error"], ["ood"]):
        tables = [load_published("fcl", table=name) for name in names]
        assert all(table == tables[0] for table in tables)
    metrics = {
        name: {n.metric for n in load_published("fcl", table=name)} for name in PAPERS["fcl"].tables
    }
    assert metrics["ece"] == {"ece"}
    assert metrics["smece"] == {"smooth_ece"}
    assert {n.metric for n in load_published("fcl", table="ood")} == {"ood_auroc"}


def test_bins_and_temperatures_are_kept() -> None:
    ece = published_number(
        "gce", dataset="cifar10", model="resnet50", loss="gce", metric="ece", stage="post_ats"
    )
    assert ece is not None
    assert ece.n_bins == 20
    assert any(number.temperature for number in load_published("fcl", table="4"))


def test_a_table_that_varies_something_else_is_not_the_cell() -> None:
    """GCE table 10 repeats CIFAR-10 with other numbers of calibrator bins; table 2 is the cell."""
    for loss in ("cross_entropy", "gce"):
        where = {"dataset": "cifar10", "model": "resnet50", "loss": loss, "metric": "ece"}
        number = published_number("gce", **where, stage="post_ats")
        assert number is not None
        assert number.table == "2"


def test_what_is_not_published_is_none() -> None:
    where = {"dataset": "digits", "model": "resnet50", "loss": "gce", "metric": "ece"}
    assert published_number("gce", **where, stage="pre") is None


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(ValueError, match="`paper` must be one of gce, fcl, bsce_gra, got 'gcx'"):
        load_published("gcx")
    with pytest.raises(ValueError, match="`table` must be one of 1, 2, 7"):
        load_published("gce", table="99")


def test_our_names_are_the_papers() -> None:
    published = load_published()
    losses = {name for names in PUBLISHED_LOSSES.values() for name in names}
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
    assert "cifar10_lt100" in {number.dataset for number in load_published("gce")}
