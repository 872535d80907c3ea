"""Made-up scans: what the generator promises, and the benchmark on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.configuration.files import load_configuration_file
from calibench.data import TableDataModule
from calibench.data.fakes import REGION_COLUMNS, make_scans, write_scans
from calibench.training import fit as training
from calibench.verbs.fit import configuration_of


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scans")
    write_scans(folder)
    return folder


def benchmark(root: Path, **options: object) -> TableDataModule:
    arguments = (
        load_configuration_file("av1451")["data"]["init_args"]
        | {"split_seed": 1, "root": str(root)}
        | options
    )
    data = TableDataModule(**arguments)
    data.setup()
    return data


def test_the_benchmark_reads_what_was_made(root: Path) -> None:
    data, scans = benchmark(root), make_scans()
    assert data.class_names == ["AD", "CN", "MCI"]
    rows = torch.cat([part.inputs for part in data.splits]).numpy()
    assert rows.shape == (1080, 68)
    np.testing.assert_allclose(np.sort(rows, axis=0), np.sort(scans.uptake, axis=0), atol=6e-6)


def test_the_splits_have_the_papers_sizes_but_for_a_scan_and_share_no_subject(root: Path) -> None:
    data, scans = benchmark(root), make_scans()
    for part, size in zip(data.splits, (864, 108, 108), strict=True):
        assert abs(len(part.target) - size) <= 1
    every = torch.from_numpy(scans.uptake).float()
    found = [
        set(scans.subjects[torch.cdist(part.inputs, every).argmin(1)].tolist())
        for part in data.splits
    ]
    assert sum(map(len, found)) == len(set.union(*found)) == 300


def test_subjects_have_1_to_6_scans_and_one_diagnosis() -> None:
    scans = make_scans()
    assert set(np.bincount(scans.subjects)) == {1, 2, 3, 4, 5, 6}
    assert len(np.unique(np.stack([scans.subjects, scans.target]), axis=1)[0]) == 300


def test_every_region_has_its_pattern_in_the_benchmark() -> None:
    patterns = load_configuration_file("av1451")["data"]["init_args"]["features"]
    assert len(patterns) == 34
    assert (
        len(REGION_COLUMNS)
        == 68
        == load_configuration_file("av1451")["model"]["backbone"]["init_args"]["in_features"]
    )


@pytest.mark.slow
def test_the_benchmark_runs(root: Path) -> None:
    fast = ["--trainer.fast_dev_run=true", "--trainer.enable_progress_bar=false"]
    where = [f"--data.root={root}", f"--trainer.default_root_dir={root / 'results'}"]
    outcome, _ = training.fit(configuration_of(["--config", "av1451", *fast, *where]))
    assert outcome == "done"


def test_the_starting_point_runs_on_a_table_of_ones_own(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 5},{i % 2},{i // 2}\n" for i in range(60))
    (tmp_path / "own.csv").write_text("a,b,kind,who\n" + rows)
    options = [f"--data.train_file={tmp_path / 'own.csv'}", "--data.label_column=kind", "--data.group_column=who", "--model.backbone.in_features=2"]  # fmt: skip
    fast = ["--trainer.fast_dev_run=true", "--trainer.enable_progress_bar=false", f"--trainer.default_root_dir={tmp_path}"]  # fmt: skip
    outcome, _ = training.fit(configuration_of(["--config", "own_table", *options, *fast]))
    assert outcome == "done"
