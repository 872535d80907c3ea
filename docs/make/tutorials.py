"""The tutorials: the notebooks as they were executed, code and outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter


def pages(root: Path) -> dict[str, str | bytes]:
    """A page for each notebook, its pictures, and the notebook itself."""
    made: dict[str, str | bytes] = {}
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        text, resources = MarkdownExporter().from_notebook_node(notebook)
        for name, content in resources["outputs"].items():
            made[f"tutorials/{path.stem}/{name}"] = content
            text = text.replace(f"]({name})", f"]({path.stem}/{name})")
        made[f"tutorials/{path.name}"] = path.read_bytes()
        heading, _, rest = text.partition("\n")
        made[f"tutorials/{path.stem}.md"] = (
            f"{heading}\n\n[Download this notebook]({path.name})\n{rest}"
        )
    return made
