"""What `calibench plot grad-cam` is asked for: images, class, layer, boxes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from calibench.analyses.arguments import Trust, whole_numbers


@dataclass(frozen=True)
class MapChoice:
    """Which maps are drawn.

    Attributes:
        examples: Numbers of test images, from 0 (default: the first four, or the first four that have boxes).
        class_: Evidence for this class (default: that of the image's first box; without boxes, the predicted one).
        layer: Layer whose feature map is taken (default: the last with more than one position).
        boxes: CSV of boxes.
        trust: Whether classes of the user's own are built.
    """

    examples: Annotated[list[int] | None, "N,N", whole_numbers(0, "3,7")] = None
    class_: Annotated[str | None, "NAME"] = None
    layer: Annotated[str, "NAME"] = "auto"
    boxes: Annotated[Path | None, "FILE"] = None
    trust: Trust = False
