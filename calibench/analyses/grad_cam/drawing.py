"""`calibench plot grad-cam`: maps of the networks of runs, and how well they find boxes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from calibench.analyses.arguments import MapChoice, labels_of
from calibench.analyses.grad_cam.maps import (
    Box,
    ImageColumn,
    Localisation,
    MapRow,
    enlarged,
    feature_layer,
    grad_cam,
    measured,
    picture,
    read_boxes,
    summary,
)
from calibench.data import ClassificationDataModule
from calibench.data.images.decode import fitted
from calibench.ground.arrays import Floats
from calibench.ground.bar import with_progress
from calibench.ground.errors import UsageError, near_matches
from calibench.ground.output import FileRow, say
from calibench.plots.picture import Picture
from calibench.runs import Run
from calibench.tables.grid import Grid, PrintedNumber, headings
from calibench.tables.terminal import show
from calibench.training.trained import trained_network

SHOWN = 4
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
    """Draw the maps of all runs into a file, and print a table if there are boxes.

    Raises:
        UsageError: An option does not fit the data, or the runs have other test images.
    """
    asked: ChosenImages | None = None
    rows, lines = [], []
    numbers: list[FileRow] = []
    for run, label in zip(runs, labels_of(runs), strict=True):
        trained = trained_network(run, trusted=maps.trust)
        network, data = trained.backbone.eval(), trained.data
        asked = asked or _asked(maps, data)
        if not torch.equal(data.stored_of_test(torch.tensor(asked.examples)), asked.images):
            raise UsageError(f"{run.folder} has other test images than {runs[0].folder}.")
        layer = feature_layer(network, data.transform(asked.images[:1]), maps.layer)
        heat, classes = _heat(network, data, layer, asked.examples, asked.classes)
        names = [data.task.names[number] for number in classes]
        rows.append(MapRow(f"{label}\n{layer}", heat, names))
        numbers += [
            {"run": label, "layer": layer, "test_image": n, "class": name, **_maximum(one)}
            for n, name, one in zip(asked.examples, names, heat, strict=True)
        ]
        if asked.places:
            found = list(_found(network, data, layer, asked.places, label))
            lines.append((label, summary(found)))
            numbers += _scores(label, layer, asked.places, found, data.task.names)
    assert asked is not None
    columns = [
        ImageColumn(
            f"test image {n}: {data.task.described(data.splits.test.target[n])}",
            image,
            asked.places.get((n, c)),
        )
        for n, c, image in zip(asked.examples, classes, asked.images, strict=True)
    ]
    Picture(picture(columns, rows), numbers).write(output)
    if lines:
        show(_table(lines, asked.places))


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


def _maximum(heat: npt.NDArray[np.float32]) -> dict[str, int]:
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
                    corners = fitted(corners, image.size, size[0])
            found[number, data.task.names.index(box.label)].append(corners)
    return {key: np.concatenate(parts) for key, parts in found.items()}


def _heat(
    network: nn.Module,
    data: ClassificationDataModule,
    layer: str,
    examples: Sequence[int],
    classes: Sequence[int],
) -> tuple[npt.NDArray[np.float32], list[int]]:
    """Maps (N, H, W) of test images at the size of the stored ones, maximum 1, and the class of each."""
    images = data.stored_of_test(torch.tensor(examples))
    maps, chosen = grad_cam(network, data.transform(images), torch.tensor(classes), layer)
    return enlarged(maps, (images.shape[2], images.shape[3])).numpy(), chosen.tolist()


def _found(
    network: nn.Module, data: ClassificationDataModule, layer: str, places: Places, title: str
) -> Iterator[Localisation]:
    """How well the map of each image and class finds its boxes."""
    keys = list(places)
    starts = range(0, len(keys), BATCH)
    batches = (keys[start : start + BATCH] for start in starts)
    for batch in with_progress(batches, len(starts), title):
        examples, classes = zip(*batch, strict=True)
        heat, _ = _heat(network, data, layer, examples, classes)
        yield from (measured(one, places[key]) for one, key in zip(heat, batch, strict=True))


def _table(lines: Sequence[tuple[str, Mapping[str, float]]], places: Places) -> Grid:
    names = list(lines[0][1])
    columns = headings("run", *(f"{name} %" for name in names))
    rows: list[list[PrintedNumber | str]] = [
        [label, *(PrintedNumber(f"{100 * found[name]:.1f}") for name in names)]
        for label, found in lines
    ]
    number = sum(map(len, places.values()))
    footer = [f"{len(places)} pairs of an image and a class, with {number} boxes"]
    return Grid("", columns, rows, footer)
