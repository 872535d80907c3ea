"""Grad-CAM maps of any network with convolutions (Selvaraju et al. 2017), how well they find boxes, their picture."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.ground.arrays import Floats
from calibench.ground.errors import UsageError, near_matches
from calibench.plots.style import PALETTE, Axes, Figure, panels, tidied

if TYPE_CHECKING:
    from torch import Tensor

AUTO = "auto"


class Maps(NamedTuple):
    """Grad-CAM maps (N, h, w), >= 0, of the size of the feature map, and the class (N,) int64 that each is of."""

    maps: Tensor
    classes: Tensor


@contextmanager
def _outputs(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The output of each layer of the passes inside, by the layer's name, in the order in which they ended."""
    found: dict[str, Tensor] = {}

    def note(name: str, layer: nn.Module, inputs: object, output: object) -> None:
        found.pop(name, None)
        if isinstance(output, Tensor):
            found[name] = output

    with ExitStack() as hooks:
        for name, layer in list(network.named_modules())[1:]:
            hooks.enter_context(layer.register_forward_hook(partial(note, name)))
        yield found


def feature_layer(network: nn.Module, inputs: Tensor, layer: str = AUTO) -> str:
    """Name of the layer whose feature map is taken, of a network in evaluation mode on images (N, C, H, W).

    It is a name of `network.named_modules()`, or `auto` for the last layer whose output has more than one position:
    DenseNet's `features`, the last stage of a ResNet.

    Raises:
        UsageError: The layer is not there, or gives no feature map (N, C, h, w).
    """
    with torch.no_grad(), _outputs(network) as outputs:
        network(inputs)
    maps = {name: out.dim() == 4 for name, out in outputs.items() if _positions(out) > 1}
    if layer != AUTO:
        if layer not in outputs:
            near = near_matches(layer, maps)
            raise UsageError(f"`--layer {layer}`: the network has no such layer{near}.")
        if outputs[layer].dim() != 4:
            raise UsageError(f"`--layer {layer}` gives no feature map (N, C, height, width).")
        return layer
    last = next(reversed(maps), None)
    if last is None or not maps[last]:  # the patches that a transformer begins with are no features
        said = "the network ends in no feature map of several positions"
        raise UsageError(f"{said}: name a layer by `--layer`.")
    return last


def _positions(output: Tensor) -> int:
    """Positions in an image of a layer's output: of (N, C, h, w), or of tokens (N, T, C)."""
    shape = output.shape
    return {4: shape[2:].numel(), 3: shape[1]}.get(output.dim(), 1)


def grad_cam(network: nn.Module, inputs: Tensor, classes: Tensor, layer: str) -> Maps:
    """Grad-CAM maps, ReLU(sum_k alpha_k A_k) with alpha_k = mean over positions of dz_c / dA_k.

    Selvaraju et al. (2017), equations 1 and 2. Where a network's last feature map goes through global average pooling
    and one linear layer, alpha_k is w_ck / (h w): the class activation map of Zhou et al. (2016). A layer whose output
    is changed in place afterwards counts as changed: DenseNet's `features` with the ReLU that follows. The network, in
    evaluation mode, has rows that do not depend on each other; class -1 is that with the largest logit.
    """
    with torch.enable_grad(), _outputs(network) as outputs:
        logits = network(inputs.detach().requires_grad_())
        features = outputs[layer]
        chosen = torch.where(classes < 0, logits.argmax(1), classes)
        score = logits.gather(1, chosen[:, None]).sum()
        (gradient,) = torch.autograd.grad(score, features)
    alpha = gradient.mean((2, 3), keepdim=True)
    return Maps((alpha * features).sum(1).relu().detach(), chosen)


def enlarged(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Maps (N, h, w) at the size (H, W) of the images, bilinear, each divided by its maximum; one of zeros stays so."""
    large = F.interpolate(maps[:, None], size, mode="bilinear", align_corners=False)[:, 0]
    return large / large.amax((1, 2), keepdim=True).clamp_min(torch.finfo(large.dtype).tiny)


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
    """Whether a map's maximum lies in one of the boxes, and the IoU of its own box and the one that fits best."""

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


def measured(heat: npt.NDArray[np.float32], boxes: Floats) -> Localisation:
    """How well a map finds boxes.

    Pointing game: whether the maximum lies in a box (Zhang et al. 2018, without their tolerance of 15 pixels). The
    map's own box is that around the largest connected region of at least 20 % of the maximum (Zhou et al. 2016,
    section 3.2). A map of zeros finds nothing. Boxes (M, 4), M >= 1, are left, top, right and bottom in pixels.
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


PANEL_HEIGHT = 2.9
OPACITY = 0.6


class ImageColumn(NamedTuple):
    """An image (C, H, W) with its title, and boxes (M, 4) in its pixels: left, top, right, bottom."""

    title: str
    image: Tensor
    boxes: Floats | None


class MapRow(NamedTuple):
    """Maps (N, H, W) in [0, 1] of a run, with the name of the class of each."""

    label: str
    heat: npt.NDArray[np.float32]
    classes: Sequence[str]


def picture(columns: Sequence[ImageColumn], rows: Sequence[MapRow]) -> Figure:
    """Draw maps over their images, a column for each image and a row for each run."""
    figure, grid = panels(len(columns) * (len(rows) + 1), columns=len(columns), height=PANEL_HEIGHT)
    across = len(columns)
    first, *others = (grid[start : start + across] for start in range(0, len(grid), across))
    for axes, column in zip(first, columns, strict=True):
        _draw_image(axes, column, column.title)
    for own, row in zip(others, rows, strict=True):
        own[0].set_ylabel(row.label)
        for axes, column, heat, name in zip(own, columns, row.heat, row.classes, strict=True):
            _draw_image(axes, column, f"{'' if heat.any() else 'no '}evidence for {name}")
            axes.imshow(heat, cmap="inferno", vmin=0, vmax=1, alpha=OPACITY)
    return figure


def _draw_image(axes: Axes, column: ImageColumn, title: str) -> None:
    """An image stretched from black to white, with its boxes."""
    from matplotlib.patches import Rectangle

    image = column.image.permute(1, 2, 0).float().numpy()
    low, high = float(image.min()), float(image.max())
    shades = (image - low) / (high - low if high > low else 1)
    axes.imshow(shades if image.shape[2] == 3 else shades[:, :, 0], cmap="gray", vmin=0, vmax=1)
    for left, top, right, bottom in () if column.boxes is None else column.boxes:
        # the centre of the first pixel is at 0, its edge at -0.5
        corner = (left - 0.5, top - 0.5)
        look: dict[str, Any] = {"fill": False, "color": PALETTE[5], "linewidth": 1.2}
        axes.add_patch(Rectangle(corner, right - left, bottom - top, **look))
    tidied(axes, xticks=[], yticks=[], title=title)
