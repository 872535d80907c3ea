"""Boxes around what shows a class, and how well maps find them: pointing game and IoU."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibench.ground.errors import UsageError, near_matches

FIELDS = ("image", "class", "x", "y", "width", "height")
THRESHOLDS = (0.1, 0.3, 0.5)
SHARE = 0.2
# What BBox_List_2017.csv calls a finding that Data_Entry_2017.csv calls otherwise.
ALSO_CALLED = {"Infiltrate": "Infiltration"}


class Box(NamedTuple):
    """A box: the name of its image, the class, and left, top, right and bottom in pixels of the image file."""

    image: str
    label: str
    corners: tuple[float, float, float, float]


class Localisation(NamedTuple):
    """How well a map finds the boxes of its class in its image.

    Attributes:
        hit: Whether its maximum lies in one of the boxes.
        iou: Intersection over union of its own box and the box that fits best, in [0, 1].
    """

    hit: bool
    iou: float


def read_boxes(path: Path, classes: Sequence[str]) -> list[Box]:
    """Read a CSV of boxes with a header; a row is image, class, x, y, width, height; later fields are left out.

    This is the format of ChestX-ray14's `BBox_List_2017.csv`.

    Raises:
        UsageError: The file is missing, or a row is something else; the message names it.
    """
    boxes = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except (OSError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"`--boxes {path}` cannot be read: {reason}.") from None
    for number, row in enumerate(rows[1:], start=2):
        try:
            image, label, *texts = row[: len(FIELDS)]
            x, y, width, height = map(float, texts)
        except ValueError:
            said = f"{', '.join(FIELDS)} are expected, got {','.join(row)}."
            raise UsageError(f"{path}, row {number}: {said}") from None
        label = ALSO_CALLED.get(label, label)
        if label not in classes:
            near = near_matches(label, classes)
            raise UsageError(f"{path}, row {number}: there is no class `{label}`{near}.")
        if not (np.isfinite([x, y]).all() and 0 < width < np.inf and 0 < height < np.inf):
            raise UsageError(f"{path}, row {number}: the box {','.join(texts)} has no area.")
        boxes.append(Box(image, label, (x, y, x + width, y + height)))
    return boxes


def measured(heat: npt.NDArray[np.float32], boxes: npt.NDArray[np.float64]) -> Localisation:
    """How well a map finds boxes.

    Pointing game: whether the maximum lies in a box (Zhang et al. 2018, without their tolerance of 15 pixels). The
    map's own box is that around the largest connected region of at least 20 % of the maximum (Zhou et al. 2016,
    section 3.2). A map of zeros finds nothing.

    Args:
        heat: A map (H, W), maximum 1.
        boxes: Left, top, right and bottom in pixels of the map (M, 4), M >= 1.
    """
    import torch
    from scipy import ndimage
    from torchvision.ops import box_iou

    if not heat.any():
        return Localisation(False, 0.0)
    row, column = np.unravel_index(heat.argmax(), heat.shape)
    left, top, right, bottom = boxes.T
    x, y = column + 0.5, row + 0.5
    hit = ((left <= x) & (x <= right) & (top <= y) & (y <= bottom)).any()
    regions, _ = ndimage.label(heat >= SHARE * heat.max())
    largest = np.bincount(regions.ravel())[1:].argmax()
    rows, columns = ndimage.find_objects(regions)[largest]
    own = torch.tensor([[columns.start, rows.start, columns.stop, rows.stop]], dtype=torch.float64)
    return Localisation(bool(hit), float(box_iou(own, torch.from_numpy(boxes)).max()))


def summary(found: Sequence[Localisation]) -> Mapping[str, float]:
    """Shares of maps by name: hits of the pointing game, IoU above each threshold; and the mean IoU."""
    iou = np.array([one.iou for one in found])
    above = {f"IoU > {level:g}": float((iou > level).mean()) for level in THRESHOLDS}
    hits = float(np.mean([one.hit for one in found]))
    return {"pointing game": hits, **above, "mean IoU": float(iou.mean())}
