"""The notebooks run from top to bottom."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.processes import run_processes
from tests.sources import nodes

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def _run_cells(rank: int, n: int, path: Path, folder: Path) -> tuple[int, str, str]:
    """The pictures, texts and errors of a notebook's code, run without a kernel."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    os.chdir(folder)
    variables: dict[str, object] = {}
    with redirect_stdout(io.StringIO()) as texts, redirect_stderr(io.StringIO()) as errors:
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), variables)
    return len(pyplot.get_fignums()), texts.getvalue(), errors.getvalue()


def names_of_ours(path: Path) -> set[tuple[str, str]]:
    """Modules of calibench that the code of a notebook names, each with a name that it takes from it."""
    cells = json.loads(path.read_text())["cells"]
    code = [
        line for cell in cells if cell["cell_type"] == "code" for line in [*cell["source"], "\n"]
    ]
    names = set()
    for node in nodes(ast.parse("".join(line for line in code if line[:1] not in ("%", "!")))):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                names |= {(module, alias.name) for alias in aliases}
            case ast.Attribute(value=ast.Name(id="calibench"), attr=name):
                names.add(("calibench", name))
    return {(module, name) for module, name in names if module.partition(".")[0] == "calibench"}


@every_notebook
def test_what_it_takes_of_calibench_is_there(path: Path) -> None:
    assert names_of_ours(path)
    for module, name in names_of_ours(path):
        assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


@pytest.mark.slow
def test_the_code_of_the_first_one_runs(tmp_path: Path) -> None:
    """Without a kernel, in seconds; beside `test_what_it_takes_of_calibench_is_there`."""
    ((pictures, texts, errors),) = run_processes(_run_cells, 1, NOTEBOOKS[0], tmp_path)
    assert pictures
    assert "NLL" in texts
    assert max(map(len, texts.splitlines())) <= 100  # 163 without a width
    assert errors == ""


@every_notebook
def test_it_has_public_functions_and_outputs_of_no_machine(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    imports = re.findall(
        r"^\s*(?:from|import) (calibench\S*)",
        "\n".join("".join(cell["source"]) for cell in cells),
        re.MULTILINE,
    )
    assert imports
    assert max(module.count(".") for module in imports) <= 1, imports
    outputs = json.dumps([cell["outputs"] for cell in cells])
    assert not re.search(r"/(?:tmp|home|root|Users)/|\[33m|stderr|--[a-z]+ all", outputs)


@pytest.mark.slow
@every_notebook
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
