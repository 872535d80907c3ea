"""Grad-CAM: where in test images trained networks find evidence for a class, measured against boxes (FCL, Figure 1).

    python benchmarks/papers/fcl/grad_cam.py results/digits_lt -o cam.png
    python benchmarks/papers/fcl/grad_cam.py RUN --examples 3,7 --class 8 -o cam.png
    python benchmarks/papers/fcl/grad_cam.py RUN --boxes BBox_List_2017.csv -o cam.png

Grad-CAM is Selvaraju et al. (2017). A row for each run, a column for each image; the runs need their checkpoints and
their data. The pixel of the largest evidence of each map is written beside the picture as CSV.

A CSV of boxes has a header; a row is image,class,x,y,width,height (later fields, as ChestX-ray14 has them, are left
out): the name of an image file, or the number of a test image where images have no files, and pixels of that image.
Then a table says of each run, for every image and class with boxes in the test set: how often the maximum of the map
lies in a box (pointing game), and how often the box around the region above 20 % of the maximum has an IoU above .1, .3
and .5. The CSV beside the picture has these numbers too, of each run and of each image and class.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibench.data import ClassificationDataModule
from calibench.data.images.decode import scale_boxes
from calibench.messages.checks import ends_in, integer_from
from calibench.messages.errors import UsageError, exit_on_mistakes, near_matches
from calibench.messages.printable_text import FileRow, say
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import Picture
from calibench.plots.style import PALETTE, PICTURE_FORMATS, Axes, Figure, check_kept, panels, tidied
from calibench.runs import Run
from calibench.runs.finished import find_finished_runs, label_runs
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.tensors.arrays import Floats
from calibench.training.export import Trained, load_trained_network

AUTO = "auto"
Heat = npt.NDArray[np.float32]
"""Maps of images, (N, H, W) or (H, W), in [0, 1]."""


@dataclass(frozen=True)
class MapChoice:
    """Which maps are drawn.

    Attributes:
        examples: Numbers of test images, from 0 (default: the first four, or the first four that have boxes).
        class_name: Evidence for this class (default: that of the image's first box; without boxes, the predicted one).
        layer: Layer whose feature map is taken (default: the last with more than one position).
        boxes: CSV of boxes.
        trust: Whether classes of the user's own are built.
    """

    examples: list[int] | None = None
    class_name: str | None = None
    layer: str = AUTO
    boxes: Path | None = None
    trust: bool = False


@contextmanager
def _record_outputs(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Record the output of each layer of the passes inside, by the layer's name, in the order in which they ended."""
    outputs: dict[str, Tensor] = {}

    def record(name: str, layer: nn.Module, inputs: object, output: object) -> None:
        outputs.pop(name, None)
        if isinstance(output, Tensor):
            outputs[name] = output

    with ExitStack() as hooks:
        for name, layer in list(network.named_modules())[1:]:
            hooks.enter_context(layer.register_forward_hook(partial(record, name)))
        yield outputs


def find_feature_layer(network: nn.Module, inputs: Tensor, layer: str = AUTO) -> str:
    """Find the name of the layer whose feature map is taken, of a network in evaluation mode on images (N, C, H, W).

    It is a name of `network.named_modules()`, or `auto` for the last layer whose output has more than one position:
    DenseNet's `features`, the last stage of a ResNet.

    Raises:
        UsageError: The layer is not there, or gives no feature map (N, C, h, w).
    """
    with torch.no_grad(), _record_outputs(network) as outputs:
        network(inputs)
    maps = {name: out.dim() == 4 for name, out in outputs.items() if _count_positions(out) > 1}
    if layer != AUTO:
        if layer not in outputs:
            near = near_matches(layer, maps)
            raise UsageError(f"`--layer {layer}`: the network has no such layer{near}.")
        if outputs[layer].dim() != 4:
            raise UsageError(f"`--layer {layer}` gives no feature map (N, C, height, width).")
        return layer
    last = next(reversed(maps), None)
    if last is None or not maps[last]:  # the patches that a transformer begins with are no features
        reason = "the network ends in no feature map of several positions"
        raise UsageError(f"{reason}: name a layer by `--layer`.")
    return last


def _count_positions(output: Tensor) -> int:
    """Count the positions in an image of a layer's output: of (N, C, h, w), or of tokens (N, T, C)."""
    shape = output.shape
    return {4: shape[2:].numel(), 3: shape[1]}.get(output.dim(), 1)


def compute_grad_cam(
    network: nn.Module, inputs: Tensor, classes: Tensor, layer: str
) -> tuple[Tensor, Tensor]:
    """Compute Grad-CAM maps (N, h, w), ReLU(sum_k alpha_k A_k), and their classes (N,).

    alpha_k is the mean over positions of dz_c / dA_k.

    Selvaraju et al. (2017), equations 1 and 2. Where a network's last feature map goes through global average pooling
    and one linear layer, alpha_k is w_ck / (h w): the class activation map of Zhou et al. (2016). A layer whose output
    is changed in place afterwards counts as changed: DenseNet's `features` with the ReLU that follows. The network, in
    evaluation mode, has rows that do not depend on each other; class -1 is that with the largest logit.
    """
    with torch.enable_grad(), _record_outputs(network) as outputs:
        logits = network(inputs.detach().requires_grad_())
        features = outputs[layer]
        class_numbers = torch.where(classes < 0, logits.argmax(1), classes)
        score = logits.gather(1, class_numbers[:, None]).sum()
        (gradient,) = torch.autograd.grad(score, features)
    alpha = gradient.mean((2, 3), keepdim=True)
    return (alpha * features).sum(1).relu().detach(), class_numbers


def enlarge_maps(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Enlarge maps (N, h, w) to (H, W), bilinear, each divided by its maximum; one of zeros stays so."""
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
            problem = f"{', '.join(FIELDS)} are expected, got {','.join(row)}."
            raise UsageError(f"{path}, row {number}: {problem}") from None
        label = ALSO_CALLED.get(label, label)
        if label not in classes:
            near = near_matches(label, classes)
            raise UsageError(f"{path}, row {number}: there is no class `{label}`{near}.")
        if not (np.isfinite([x, y]).all() and 0 < width < np.inf and 0 < height < np.inf):
            raise UsageError(f"{path}, row {number}: the box {','.join(texts)} has no area.")
        boxes.append(Box(image, label, (x, y, x + width, y + height)))
    return boxes


def localise(heat: Heat, boxes: Floats) -> Localisation:
    """Measure how well a map finds boxes.

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
    region = torch.tensor(
        [[columns.start, rows.start, columns.stop, rows.stop]], dtype=torch.float64
    )
    return Localisation(bool(hit), float(box_iou(region, torch.from_numpy(boxes)).max()))


def summarise_localisations(localisations: Sequence[Localisation]) -> Mapping[str, float]:
    """Summarise the shares of maps by name: hits of the pointing game, IoU above each threshold; and the mean IoU."""
    iou = np.array([localisation.iou for localisation in localisations])
    above = {f"IoU > {level:g}": float((iou > level).mean()) for level in THRESHOLDS}
    hits = float(np.mean([localisation.hit for localisation in localisations]))
    return {"pointing game": hits, **above, "mean IoU": float(iou.mean())}


SHOWN_IMAGES = 4
PANEL_HEIGHT, OPACITY = 2.9, 0.6
BATCH = 16
PREDICTED = -1

Places = Mapping[tuple[int, int], Floats]
"""Boxes (M, 4) in pixels of the stored image, by the number of the test image and the class."""


class ChosenImages(NamedTuple):
    """Images that are drawn and measured for every run, as stored, with the class of each and boxes."""

    examples: list[int]
    classes: list[int]
    images: Tensor
    places: Places


def draw(runs: Sequence[Run], maps: MapChoice, output: Path) -> None:
    """Draw the maps of all runs, which must have the same test images, and print a table if there are boxes."""
    chosen: ChosenImages | None = None
    heat_by_label: dict[str, tuple[Heat, list[str]]] = {}
    lines: dict[str, Mapping[str, float]] = {}
    numbers: list[FileRow] = []
    for run, label in zip(runs, label_runs(runs), strict=True):
        trained = load_trained_network(run, trusted=maps.trust)
        network, data = trained.backbone.eval(), trained.data
        chosen = chosen or _choose_images(maps, data)
        if not torch.equal(data.stored_of_test(torch.tensor(chosen.examples)), chosen.images):
            raise UsageError(f"{run.folder} has other test images than {runs[0].folder}.")
        layer = find_feature_layer(network, data.transform(chosen.images[:1]), maps.layer)
        heat, classes = _compute_heat(trained, layer, chosen.examples, chosen.classes)
        names = [data.task.names[number] for number in classes]
        heat_by_label[f"{label}\n{layer}"] = heat, names
        numbers += [
            {"run": label, "layer": layer, "test_image": n, "class": name, **_find_maximum(map_)}
            for n, name, map_ in zip(chosen.examples, names, heat, strict=True)
        ]
        if chosen.places:
            localisations = list(localise_boxes(trained, layer, chosen.places, label))
            lines[label] = summarise_localisations(localisations)
            numbers += _score_rows(label, layer, chosen.places, localisations, data.task.names)
    assert chosen is not None
    targets = (data.task.described(data.splits.test.target[n]) for n in chosen.examples)
    titles = [
        f"test image {n}: {target}" for n, target in zip(chosen.examples, targets, strict=True)
    ]
    boxes = [chosen.places.get(key) for key in zip(chosen.examples, classes, strict=True)]
    Picture(draw_maps(chosen.images, titles, boxes, heat_by_label), numbers).write(output)
    if lines:
        show(_build_table(lines, chosen.places))


def draw_maps(
    images: Tensor,
    titles: Sequence[str],
    boxes: Sequence[Floats | None],
    heat_by_label: Mapping[str, tuple[Heat, Sequence[str]]],
) -> Figure:
    """Draw images (N, C, H, W) with their boxes (M, 4), and for each label a row of maps over them, each of a class."""
    across = len(images)
    figure, grid = panels(across * (len(heat_by_label) + 1), columns=across, height=PANEL_HEIGHT)
    first, *others = (grid[start : start + across] for start in range(0, len(grid), across))
    for axes, image, image_boxes, title in zip(first, images, boxes, titles, strict=True):
        _draw_image(axes, image, image_boxes, title)
    for row, (label, (heat, names)) in zip(others, heat_by_label.items(), strict=True):
        row[0].set_ylabel(label)
        panels_of_row = zip(row, images, boxes, heat, names, strict=True)
        for axes, image, image_boxes, map_, name in panels_of_row:
            evidence = "evidence" if map_.any() else "no evidence"
            _draw_image(axes, image, image_boxes, f"{evidence} for {name}")
            axes.imshow(map_, cmap="inferno", vmin=0, vmax=1, alpha=OPACITY)
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


def _score_rows(
    run: str,
    layer: str,
    places: Places,
    localisations: Sequence[Localisation],
    names: Sequence[str],
) -> Iterator[FileRow]:
    """Yield a row for each image and class with boxes, then one for each share that the table has."""
    prefix = {"run": run, "layer": layer}
    for (image, label), localisation in zip(places, localisations, strict=True):
        scores = {"pointing_game": int(localisation.hit), "iou": localisation.iou}
        yield {**prefix, "test_image": image, "class": names[label], **scores}
    for name, value in summarise_localisations(localisations).items():
        yield {**prefix, "measure": name, "value": value, "pairs": len(localisations)}


def _find_maximum(heat: Heat) -> dict[str, int]:
    """Find the pixel of the largest evidence; nothing where there is no evidence."""
    if not heat.any():
        return {}
    y, x = divmod(int(heat.argmax()), heat.shape[1])
    return {"x": x, "y": y}


def _choose_images(maps: MapChoice, data: ClassificationDataModule) -> ChosenImages:
    names, total = data.task.names, len(data.splits.test.target)
    if maps.class_name is not None and maps.class_name not in names:
        near = near_matches(maps.class_name, names)
        raise UsageError(f"`--class {maps.class_name}`: there is no such class{near}.")
    image = data.stored_of_test(torch.arange(1))
    if data.transform(image).dim() != 4:
        raise UsageError(f"Grad-CAM is of images; {data.title()} has none.")
    places: Places = {}
    if maps.boxes is not None:
        all_boxes = read_boxes(maps.boxes, names)
        boxes = [box for box in all_boxes if maps.class_name in (None, box.label)]
        places = find_places(boxes, data, image.shape[2:])
        left_out = len(boxes) - sum(map(len, places.values()))
        if not places:
            suffix = "" if maps.class_name is None else f" of {maps.class_name}"
            raise UsageError(f"no box{suffix} in {maps.boxes} is of a test image.")
        if left_out:
            say(f"{left_out} of {len(boxes)} boxes are of no test image and are left out.")
    first_classes = dict(reversed(list(places)))  # the first class of each image
    examples = (
        maps.examples
        or sorted(first_classes)[:SHOWN_IMAGES]
        or list(range(min(SHOWN_IMAGES, total)))
    )
    if max(examples) >= total:
        raise UsageError(f"`--examples {max(examples)}`: the test images are 0 to {total - 1}.")
    if maps.class_name is None:
        classes = [first_classes.get(n, PREDICTED) for n in examples]
    else:
        classes = [names.index(maps.class_name)] * len(examples)
    return ChosenImages(examples, classes, data.stored_of_test(torch.tensor(examples)), places)


def find_places(
    boxes: Sequence[Box], data: ClassificationDataModule, size: Sequence[int]
) -> Places:
    """Find the boxes of test images."""
    from PIL import Image

    files = data.test_files
    names = [file.name for file in files] or map(str, range(len(data.splits.test.target)))
    number_of = {name: number for number, name in enumerate(names)}
    corners_by_key = defaultdict(list)
    for box in boxes:
        if box.image in number_of:
            number = number_of[box.image]
            corners = np.array([box.corners])
            if files:
                with Image.open(files[number]) as image:
                    corners = scale_boxes(corners, image.size, size[0])
            corners_by_key[number, data.task.names.index(box.label)].append(corners)
    return {key: np.concatenate(parts) for key, parts in corners_by_key.items()}


def _compute_heat(
    trained: Trained, layer: str, examples: Sequence[int], classes: Sequence[int]
) -> tuple[Heat, list[int]]:
    """Compute maps (N, H, W) of test images at the size of the stored ones, maximum 1, and the class of each."""
    images = trained.data.stored_of_test(torch.tensor(examples))
    inputs = trained.data.transform(images)
    maps, class_numbers = compute_grad_cam(trained.backbone, inputs, torch.tensor(classes), layer)
    return enlarge_maps(maps, (images.shape[2], images.shape[3])).numpy(), class_numbers.tolist()


def localise_boxes(
    trained: Trained, layer: str, places: Places, title: str
) -> Iterator[Localisation]:
    """Measure how well the map of each image and class finds its boxes."""
    keys = list(places)
    batches = [keys[start : start + BATCH] for start in range(0, len(keys), BATCH)]
    for batch in with_progress(iter(batches), len(batches), title):
        examples, classes = zip(*batch, strict=True)
        heat, _ = _compute_heat(trained, layer, examples, classes)
        yield from (localise(map_, places[key]) for map_, key in zip(heat, batch, strict=True))


def _build_table(lines: Mapping[str, Mapping[str, float]], places: Places) -> Grid:
    columns = headings("run", *(f"{name} %" for name in next(iter(lines.values()))))
    rows: list[list[PrintedNumber | str]] = [
        [label, *(PrintedNumber(f"{100 * share:.1f}") for share in shares.values())]
        for label, shares in lines.items()
    ]
    boxes = sum(map(len, places.values()))
    return Grid(
        "", columns, rows, [f"{len(places)} pairs of an image and a class, with {boxes} boxes"]
    )


def read_examples(text: str) -> list[int]:
    """Read different numbers of test images from 0 on, as in `3,7`."""
    try:
        numbers = [integer_from("--examples", int(part), 0) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"`--examples` takes numbers from 0, as in 3,7; got {text}.") from None
    return list(dict.fromkeys(numbers))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="grad_cam.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs"
    )
    parser.add_argument("--examples", metavar="N,N", help="numbers of test images, from 0")
    parser.add_argument(
        "--class", dest="class_name", metavar="NAME", help="evidence for this class"
    )
    parser.add_argument("--layer", default=AUTO, metavar="NAME", help="layer of the feature map")
    parser.add_argument("--boxes", type=Path, metavar="FILE", help="CSV of boxes")
    parser.add_argument("--trust", action="store_true", help="build classes that config.yaml names")
    parser.add_argument("--output", "-o", type=Path, required=True, help=".png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        ends_in(*PICTURE_FORMATS)("--output", options.output)
        check_kept(options.output, *filter(None, [options.boxes]))
        examples = read_examples(options.examples) if options.examples else None
        maps = MapChoice(examples, options.class_name, options.layer, options.boxes, options.trust)
        draw(find_finished_runs(options.runs), maps, options.output)


if __name__ == "__main__":
    main()
