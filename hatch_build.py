"""Makes the README's links absolute in the metadata, for an index shows it without the files beside it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(\]\(|src=\")(?!https?://|#|mailto:)([^)\"]+)")


def absolute(text: str, repository: str) -> str:
    """Markdown whose links to files of the repository name the site that has them; pictures the files themselves."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def link(found: re.Match[str]) -> str:
        picture = found[2].endswith((".svg", ".png"))
        root = f"{raw}/main" if picture else f"{repository}/blob/main"
        return f"{found[1]}{root}/{found[2]}"

    return _LINK.sub(link, text)


class ReadmeWithAbsoluteLinks(MetadataHookInterface):
    """Sets `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md and make its links absolute."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = absolute(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
