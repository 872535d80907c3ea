from __future__ import annotations

from pathlib import Path

import pytest

from tests.run_folders import write_predictions, write_run


@pytest.fixture(scope="package")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    for benchmark in ("a", "b", "c"):
        for loss in ("CrossEntropyLoss", "BrierLoss"):
            for seed in (1, 2):
                shifted = [
                    {
                        "split": f"noise_{k}",
                        "calibrator": "raw",
                        "metric": "error",
                        "value": 0.1 * k,
                    }
                    for k in (1, 2)
                ]
                values = {"error": 0.1 * seed, "nll": 0.2 * seed, "ece": 0.03}
                folder = write_run(
                    root, loss=loss, seed=seed, benchmark=benchmark, values=values, rows=shifted
                )
                write_predictions(folder, n=60)
                (folder / "metrics.csv").write_text("epoch,step,train/loss\n0,1,2.0\n1,2,1.0\n")
    return root
