"""`calibench plot grad-cam`: where in images networks find evidence for a class (Selvaraju et al. 2017), and boxes."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.analyses.arguments import MapChoice, labels_of
from calibench.data import ClassificationDataModule
from calibench.data.images.decode import scale_boxes
from calibench.messages.errors import UsageError, near_matches
from calibench.messages.printable_text import FileRow, say
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.style import PALETTE, Axes, Figure, panels, tidied
from calibench.runs import Run
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.tensors.arrays import Floats
from calibench.training.export import Trained, load_trained_network

AUTO = "auto"
Heat = npt.NDArray[np.float32]
"""Maps of images, (N, H, W) or (H, W), in [0, 1]."""


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


def grad_cam(
    network: nn.Module, inputs: Tensor, classes: Tensor, layer: str
) -> tuple[Tensor, Tensor]:
    """Grad-CAM maps (N, h, w), ReLU(sum_k alpha_k A_k), alpha_k = mean over positions of dz_c / dA_k; their classes.

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
    return (alpha * features).sum(1).relu().detach(), chosen


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


def measured(heat: Heat, boxes: Floats) -> Localisation:
    """How well a map finds boxes.

    Pointing game: whether the maximum lies in a box (Zhang et al. 2018, without their tolerance of 15 pixels). The
    map's own box is that around the largest connected region of at least 20 % of the maximum (Zhou et al. 2016,
    section 3.2). A map of zeros finds nothing. Boxes (M, 4), M >= 1, are left, top, right and bottom in pixels.
    """
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


SHOWN = 4
PANEL_HEIGHT, OPACITY = 2.9, 0.6
BATCH = 16
PREDICTED = -1

Places = Mapping[tuple[int, int], Floats]
"""Boxes (M, 4) in pixels of the stored image, by the number of the test image and the class."""


class ChosenImages(NamedTuple):
    """What is drawn and measured, the same for every run: images as stored, the class of each, boxes."""

    examples: list[int]
    classes: list[int]
    images: Tensor
    places: Places


def draw(runs: Sequence[Run], maps: MapChoice, output: Path) -> None:
    """Draw the maps of all runs, which must have the same test images, and print a table if there are boxes."""
    asked: ChosenImages | None = None
    shown: dict[str, tuple[Heat, list[str]]] = {}
    lines: dict[str, Mapping[str, float]] = {}
    numbers: list[FileRow] = []
    for run, label in zip(runs, labels_of(runs), strict=True):
        trained = load_trained_network(run, trusted=maps.trust)
        network, data = trained.backbone.eval(), trained.data
        asked = asked or _asked(maps, data)
        if not torch.equal(data.stored_of_test(torch.tensor(asked.examples)), asked.images):
            raise UsageError(f"{run.folder} has other test images than {runs[0].folder}.")
        layer = feature_layer(network, data.transform(asked.images[:1]), maps.layer)
        heat, classes = _heat(trained, layer, asked.examples, asked.classes)
        names = [data.task.names[number] for number in classes]
        shown[f"{label}\n{layer}"] = heat, names
        numbers += [
            {"run": label, "layer": layer, "test_image": n, "class": name, **_maximum(one)}
            for n, name, one in zip(asked.examples, names, heat, strict=True)
        ]
        if asked.places:
            found = list(_found(trained, layer, asked.places, label))
            lines[label] = summary(found)
            numbers += _scores(label, layer, asked.places, found, data.task.names)
    assert asked is not None
    targets = (data.task.described(data.splits.test.target[n]) for n in asked.examples)
    titles = [f"test image {n}: {of}" for n, of in zip(asked.examples, targets, strict=True)]
    boxes = [asked.places.get(key) for key in zip(asked.examples, classes, strict=True)]
    Picture(picture(asked.images, titles, boxes, shown), numbers).write(output)
    if lines:
        show(_table(lines, asked.places))


def picture(
    images: Tensor,
    titles: Sequence[str],
    boxes: Sequence[Floats | None],
    shown: Mapping[str, tuple[Heat, Sequence[str]]],
) -> Figure:
    """Draw images (N, C, H, W) with their boxes (M, 4), and for each label a row of maps over them, each of a class."""
    across = len(images)
    figure, grid = panels(across * (len(shown) + 1), columns=across, height=PANEL_HEIGHT)
    first, *others = (grid[start : start + across] for start in range(0, len(grid), across))
    for axes, *of in zip(first, images, boxes, titles, strict=True):
        _draw_image(axes, *of)
    for own, (label, (heat, names)) in zip(others, shown.items(), strict=True):
        own[0].set_ylabel(label)
        for axes, image, of_image, one, name in zip(own, images, boxes, heat, names, strict=True):
            _draw_image(axes, image, of_image, f"{'' if one.any() else 'no '}evidence for {name}")
            axes.imshow(one, cmap="inferno", vmin=0, vmax=1, alpha=OPACITY)
    return figure


def _draw_image(axes: Axes, image: Tensor, boxes: Floats | None, title: str) -> None:
    """An image (C, H, W) stretched from black to white, with its boxes: left, top, right, bottom in pixels."""
    from matplotlib.patches import Rectangle

    pixels = image.permute(1, 2, 0).float().numpy()
    low, high = float(pixels.min()), float(pixels.max())
    shades = (pixels - low) / (high - low if high > low else 1)
    axes.imshow(shades if pixels.shape[2] == 3 else shades[:, :, 0], cmap="gray", vmin=0, vmax=1)
    for left, top, right, bottom in () if boxes is None else boxes:
        # the centre of the first pixel is at 0, its edge at -0.5
        corner, width, height = (left - 0.5, top - 0.5), right - left, bottom - top
        box = Rectangle(corner, width, height, fill=False, color=PALETTE[5], linewidth=1.2)
        axes.add_patch(box)
    tidied(axes, xticks=[], yticks=[], title=title)


def _scores(
    run: str, layer: str, places: Places, found: Sequence[Localisation], names: Sequence[str]
) -> Iterator[FileRow]:
    """A row for each image and class with boxes, then one for each share that the table has."""
    of_run = {"run": run, "layer": layer}
    for (image, label), one in zip(places, found, strict=True):
        scored = {"pointing_game": int(one.hit), "iou": one.iou}
        yield {**of_run, "test_image": image, "class": names[label], **scored}
    for name, value in summary(found).items():
        yield {**of_run, "measure": name, "value": value, "pairs": len(found)}


def _maximum(heat: Heat) -> dict[str, int]:
    """The pixel of the largest evidence; none where there is no evidence."""
    if not heat.any():
        return {}
    y, x = divmod(int(heat.argmax()), heat.shape[1])
    return {"x": x, "y": y}


def _asked(maps: MapChoice, data: ClassificationDataModule) -> ChosenImages:
    names, total = data.task.names, len(data.splits.test.target)
    if maps.class_ is not None and maps.class_ not in names:
        near = near_matches(maps.class_, names)
        raise UsageError(f"`--class {maps.class_}`: there is no such class{near}.")
    image = data.stored_of_test(torch.arange(1))
    if data.transform(image).dim() != 4:
        raise UsageError(f"Grad-CAM is of images; {data.title()} has none.")
    places: Places = {}
    if maps.boxes is not None:
        given = read_boxes(maps.boxes, names)
        boxes = [box for box in given if maps.class_ in (None, box.label)]
        places = _places(boxes, data, image.shape[2:])
        left_out = len(boxes) - sum(map(len, places.values()))
        if not places:
            of = "" if maps.class_ is None else f" of {maps.class_}"
            raise UsageError(f"no box{of} in {maps.boxes} is of a test image.")
        if left_out:
            say(f"{left_out} of {len(boxes)} boxes are of no test image and are left out.")
    of_boxes = dict(reversed(list(places)))  # the first class of each image
    examples = maps.examples or sorted(of_boxes)[:SHOWN] or list(range(min(SHOWN, total)))
    if max(examples) >= total:
        raise UsageError(f"`--examples {max(examples)}`: the test images are 0 to {total - 1}.")
    one = None if maps.class_ is None else names.index(maps.class_)
    classes = [of_boxes.get(n, PREDICTED) if one is None else one for n in examples]
    return ChosenImages(examples, classes, data.stored_of_test(torch.tensor(examples)), places)


def _places(boxes: Sequence[Box], data: ClassificationDataModule, size: Sequence[int]) -> Places:
    """The boxes of test images."""
    from PIL import Image

    files = data.test_files
    names = [file.name for file in files] or map(str, range(len(data.splits.test.target)))
    number_of = {name: number for number, name in enumerate(names)}
    found = defaultdict(list)
    for box in boxes:
        if box.image in number_of:
            number = number_of[box.image]
            corners = np.array([box.corners])
            if files:
                with Image.open(files[number]) as image:
                    corners = scale_boxes(corners, image.size, size[0])
            found[number, data.task.names.index(box.label)].append(corners)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _heat(
    trained: Trained, layer: str, examples: Sequence[int], classes: Sequence[int]
) -> tuple[Heat, list[int]]:
    """Maps (N, H, W) of test images at the size of the stored ones, maximum 1, and the class of each."""
    images = trained.data.stored_of_test(torch.tensor(examples))
    inputs = trained.data.transform(images)
    maps, chosen = grad_cam(trained.backbone, inputs, torch.tensor(classes), layer)
    return enlarged(maps, (images.shape[2], images.shape[3])).numpy(), chosen.tolist()


def _found(trained: Trained, layer: str, places: Places, title: str) -> Iterator[Localisation]:
    """How well the map of each image and class finds its boxes."""
    keys = list(places)
    batches = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    for batch in with_progress(iter(batches), len(batches), title):
        examples, classes = zip(*batch, strict=True)
        heat, _ = _heat(trained, layer, examples, classes)
        yield from (measured(one, places[key]) for one, key in zip(heat, batch, strict=True))


def _table(lines: Mapping[str, Mapping[str, float]], places: Places) -> Grid:
    columns = headings("run", *(f"{name} %" for name in next(iter(lines.values()))))
    rows: list[list[PrintedNumber | str]] = [
        [label, *(PrintedNumber(f"{100 * share:.1f}") for share in found.values())]
        for label, found in lines.items()
    ]
    boxes = sum(map(len, places.values()))
    return Grid(
        "", columns, rows, [f"{len(places)} pairs of an image and a class, with {boxes} boxes"]
    )
