from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from calibench.plots import figure_with_numbers
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


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that pictures are written of, which are not drawn: that takes most of a picture's time."""
    found: list[Figure] = []

    def kept(figure: Figure, form: str) -> bytes:
        found.append(figure)
        return form.encode()

    monkeypatch.setattr(figure_with_numbers, "as_file", kept)
    return found
