from __future__ import annotations

from pathlib import Path

import pytest

from calibench.ranking import Column, rank_results
from tests.run_folders import write_run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for loss in ("CrossEntropyLoss", "GenerativeCrossEntropy", "LDAMLoss"):
        for seed in (1, 2):
            write_run(tmp_path, loss=loss, seed=seed, benchmark="cifar10", backbone="CIFARResNet50")
    return tmp_path


def test_the_papers_own_columns_with_its_bins_and_its_post_hoc_method(results: Path) -> None:
    (table,) = rank_results(results, against="gce").tables
    names = [str(column) for column in table.columns]
    assert names[:4] == ["error", "error=gce", "ece_20", "ece_20=gce"]
    assert "ece_20@AdaptiveTemperatureScaling=gce" in names
    assert not any("@TemperatureScaling" in name for name in names)  # the paper has no such numbers
    cells = {row.loss: row.values[Column("error", paper="gce")] for row in table.rows}
    assert (cells["CrossEntropyLoss"].mean, cells["CrossEntropyLoss"].std) == pytest.approx(
        (0.0482, 0.0015)
    )
    assert cells["GenerativeCrossEntropy"].mean == pytest.approx(0.0475)
    assert cells["LDAMLoss"].mean != cells["LDAMLoss"].mean  # a hole
    assert not any(cell.tied for cell in cells.values())


def test_other_bins_are_not_compared(results: Path) -> None:
    (table,) = rank_results(results, against="gce", metrics=["ece", "ece_20"]).tables
    assert [str(column) for column in table.columns] == ["ece", "ece_20", "ece_20=gce"]
    (table,) = rank_results(results, against="fcl", metrics=["ece", "ece_20"]).tables
    assert [str(column) for column in table.columns] == ["ece", "ece=fcl", "ece_20"]


def test_the_wide_resnet_of_the_papers(tmp_path: Path) -> None:
    write_run(tmp_path, benchmark="cifar100", backbone="WideResNet26x10")
    for paper in ("gce", "fcl", "bsce_gra"):
        (table,) = rank_results(tmp_path, against=paper).tables
        assert any(column.paper for column in table.columns), paper


def test_ood_sets(tmp_path: Path) -> None:
    write_run(tmp_path, benchmark="cifar10", backbone="CIFARResNet50", sets={"svhn": 0.9})
    (table,) = rank_results(tmp_path, against="gce").tables
    theirs = table.rows[0].values[Column("ood_auroc", "svhn", paper="gce")]
    assert 0.8 < theirs.mean < 1


def test_a_benchmark_without_published_numbers_says_so_and_shows_ours(tmp_path: Path) -> None:
    write_run(tmp_path)
    board = rank_results(tmp_path, against="gce")
    names = [str(column) for column in board.tables[0].columns]
    assert names[:3] == ["error", "error@TemperatureScaling", "error@AdaptiveTemperatureScaling"]
    assert "ece_20" in names
    assert "ood_auroc/svhn" not in names
    assert "gce has no numbers for digits_lt / SmallCNN" in board.lines[0]


def test_a_wrong_paper_is_told(results: Path) -> None:
    with pytest.raises(ValueError, match="`against` must be one of gce, fcl, bsce_gra"):
        rank_results(results, against="gcx")
