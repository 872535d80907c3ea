"""The notebooks run from top to bottom."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # transformers, where it is installed, looks for Jupyter's widgets: without them tqdm says so
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:IProgress not found")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notebook client's own
        nbformat = pytest.importorskip("nbformat")
        client = pytest.importorskip("nbclient").NotebookClient
        notebook = nbformat.read(path, as_version=4)
        client(
            notebook,
            timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
    images = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert images
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output["text"]
