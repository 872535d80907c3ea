"""Public reports of people whose training data were read as something else, and layouts drawn at random.

What is trained and tested equals the tree on the disk, or is refused in one line before training.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from calibench.data import (
    DataError,
    ImageFolderDataModule,
    ImportedDataModule,
    TableDataModule,
    TextFileDataModule,
    TinyImageNetDataModule,
    adapters,
    disk_loader,
    in_memory_loader,
)
from calibench.data.batch import Examples
from calibench.data.disk_loader import StreamedLoader
from calibench.data.given_loaders import GivenLoaders
from calibench.data.images.pixels import square_pixels
from calibench.verbs.new import new
from tests.data import fakes
from tests.data.wide_images import png, tiff
from tests.processes import run_processes

SIDE = 6
PLANS = "tests.public_reports.plans"


def picture(seed: int, *, high: int = 255) -> np.ndarray:
    """Grey pixels (6, 6) uint8, of which one is `high`, so that the range of a set is known."""
    pixels = np.random.default_rng(seed).integers(20, 250, (SIDE, SIDE)).astype(np.uint8)
    pixels[0, 0] = high
    return pixels


def save(path: Path, image: Image.Image | bytes, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(image, bytes):
        path.write_bytes(image)
    else:
        image.save(path, **options)


def images(folder: Path, **options: Any) -> ImageFolderDataModule:
    data = ImageFolderDataModule(folder=str(folder), side=SIDE, ood=[], **options)
    data.prepare_data()
    data.setup()
    return data


def contents(data: ImageFolderDataModule, part: str) -> Counter[tuple[str, bytes]]:
    """The pictures of a split with their classes, as read: the first channel's bytes."""
    examples = getattr(data.splits, part)
    stored = examples.inputs if data.decode is None else data.decode(examples.inputs)
    pixels = stored[:, 0].numpy()
    labels = [data.class_names[label] for label in examples.target.tolist()]
    return Counter((label, row.tobytes()) for label, row in zip(labels, pixels, strict=True))


def tree(folder: Path, sizes: dict[str, int], *, parts: tuple[str, ...] = ("",)) -> None:
    """A folder of pictures: `sizes` of each class in each part."""
    for part in parts:
        for name, number in sizes.items():
            for seed in range(number):
                save(folder / part / name / f"{seed}.png", Image.fromarray(picture(seed)))


# --- pixels ---


@pytest.mark.parametrize(("streams", "suffix"), [(False, "png"), (True, "png"), (False, "pgm")])
def test_sixteen_bits_are_scaled_as_the_header_says(
    tmp_path: Path, streams: bool, suffix: str
) -> None:
    """pytorch/vision#2218, keras-preprocessing#227, Pillow#2574."""
    values = {"low": 8000, "middle": 30000, "high": 55000}
    for name, value in values.items():
        for number in range(10):
            pixels = np.full((SIDE, SIDE), value, np.uint16)
            save(tmp_path / name / f"{number}.{suffix}", Image.fromarray(pixels))
    data = images(tmp_path, **({"memory_limit": 1e-9} if streams else {}))
    for part in ("train", "val", "test"):
        for label, content in contents(data, part):
            assert {*content} == {round(values[label] * 255 / 65535)}
    assert "16-bit images are scaled from 0 to 65,535 (by the header)" in data.caveats


def wide(grey: np.ndarray, channels: int = 3, white: int = 65_535) -> np.ndarray:
    """A grey picture as values (H, W, channels) of 0 to white."""
    return np.repeat(np.rint(grey[..., None] * (white / 255)), channels, axis=2)


def transparent_palette(grey: np.ndarray) -> Image.Image:
    image = Image.fromarray(grey).convert("P")
    image.info["transparency"] = 7
    return image


MODES: dict[str, tuple[Any, str]] = {  # how a grey picture is written, and the ending
    "1": (lambda grey: Image.fromarray(grey).point(lambda value: 255 * (value > 127)).convert("1"), "png"),
    "L": (Image.fromarray, "png"),
    "LA": (lambda grey: Image.merge("LA", [Image.fromarray(grey)] * 2), "png"),
    "P": (lambda grey: Image.fromarray(grey).convert("P"), "gif"),
    "RGB": (lambda grey: Image.fromarray(grey).convert("RGB"), "bmp"),
    "RGBA": (lambda grey: Image.fromarray(grey).convert("RGBA"), "webp"),
    "CMYK": (lambda grey: Image.fromarray(grey).convert("RGB").convert("CMYK"), "tif"),
    "I;16 png": (lambda grey: Image.fromarray(grey.astype(np.uint16) * 257), "png"),
    "I;16 tiff": (lambda grey: Image.fromarray(grey.astype(np.uint16) * 257), "tiff"),
    "I;16 pgm": (lambda grey: Image.fromarray(grey.astype(np.uint16) * 257), "pgm"),
    "12 bits in 16": (lambda grey: Image.fromarray(np.rint(grey.astype(float) * 4095 / 255).astype(np.uint16)), "png"),
    "I": (lambda grey: Image.fromarray(grey.astype(np.int32) * 1000), "tiff"),
    "I;16B tiff": (lambda grey: tiff(wide(grey, 1), order=">", photometric=1), "tiff"),
    "I;16 jp2": (lambda grey: Image.fromarray(grey.astype(np.uint16) * 257), "jp2"),
    "PA": (lambda grey: Image.fromarray(grey).convert("P").convert("PA"), "tif"),
    "P, transparent": (transparent_palette, "png"),
    "RGBX": (lambda grey: tiff(np.dstack([grey] * 4), bits=8, extra=0), "tiff"),
    "RGBa": (lambda grey: tiff(np.dstack([grey] * 3 + [np.full_like(grey, 255)]), bits=8, extra=1), "tiff"),
    "48 bits, png": (lambda grey: png(wide(grey)), "png"),
    "48 bits, 12 used, png": (lambda grey: png(wide(grey, white=4095)), "png"),
    "48 bits, 10 significant, png": (lambda grey: png(wide(grey, white=1023), significant=10), "png"),
    "64 bits, png": (lambda grey: png(wide(grey, 4)), "png"),
    "grey and alpha of 16 bits, png": (lambda grey: png(wide(grey, 2)), "png"),
    "48 bits, tiff": (lambda grey: tiff(wide(grey)), "tiff"),
    "48 bits, big-endian tiff": (lambda grey: tiff(wide(grey), order=">"), "tif"),
    "48 bits, packed tiff": (lambda grey: tiff(wide(grey), packed=True), "tiff"),
    "48 bits, packed big-endian tiff": (lambda grey: tiff(wide(grey), packed=True, order=">"), "tiff"),
    "48 bits, planes, packed tiff": (lambda grey: tiff(wide(grey), packed=True, planes=True), "tiff"),
    "64 bits, tiff": (lambda grey: tiff(wide(grey, 4), extra=2), "tiff"),
    "64 bits, nothing in 16, tiff": (lambda grey: tiff(wide(grey, 4), extra=0), "tiff"),
    "CMYK of 16 bits": (lambda grey: tiff(wide(255 - grey, 4) * [1, 1, 1, 0], photometric=5), "tiff"),
    "F to 1": (lambda grey: Image.fromarray(grey.astype(np.float32) / 255), "tiff"),
    "F to 255": (lambda grey: Image.fromarray(grey.astype(np.float32)), "tiff"),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_pillow_gives_the_same_picture(tmp_path: Path, mode: str) -> None:
    write, ending = MODES[mode]
    expected = Counter[tuple[str, bytes]]()
    for number in range(12):
        grey = picture(number)
        name = "ab"[number % 2]
        options = {"lossless": True, "exact": True} if ending == "webp" else {}
        save(tmp_path / name / f"{number}.{ending}", write(grey), **options)
        shown = np.where(grey > 127, 255, 0).astype(np.uint8) if mode == "1" else grey
        expected[name, shown.tobytes()] += 1
    data = images(tmp_path)
    assert sum((contents(data, part) for part in ("train", "val", "test")), Counter()) == expected


UNREAD_MODES = {
    "48 bits in planes": (lambda grey: tiff(wide(grey), planes=True), "in an order that is not read"),
    "64 bits, multiplied by alpha": (lambda grey: tiff(wide(grey, 4), extra=1), "in an order that is not read"),
}  # fmt: skip


@pytest.mark.parametrize("mode", UNREAD_MODES)
def test_what_pillow_would_give_otherwise_is_refused(tmp_path: Path, mode: str) -> None:
    """Of 16-bit colours in planes Pillow gives the bytes as if they were of 8 bits."""
    write, message = UNREAD_MODES[mode]
    for name in "ab":
        for number in range(8):
            save(tmp_path / name / f"{number}.tiff", write(picture(number)))
    with pytest.raises(DataError, match=rf"{message}.* \(16 of 16 images"):
        images(tmp_path)


@pytest.mark.parametrize("write", [png, tiff, partial(tiff, packed=True, order=">")])
def test_colours_of_sixteen_bits_are_rounded_and_upright(tmp_path: Path, write: Any) -> None:
    """Each channel by itself, to the nearest of 256 levels; Pillow alone cuts the lower byte off."""
    values = np.random.default_rng(0).integers(0, 65_536, (SIDE, SIDE, 3))
    values[0, 0] = 65_535
    path = tmp_path / "image"
    path.write_bytes(write(values))
    with Image.open(path) as image:
        pixels = square_pixels(image, SIDE)
    np.testing.assert_array_equal(pixels, np.rint(values / 257).astype(np.uint8))
    assert (pixels != values >> 8).any()


def test_images_of_a_kind_that_training_lacks_are_said_or_refused(tmp_path: Path) -> None:
    """Training photos of 8 bits, test X-rays of 12 bits in 16: scaled by the header they would be black."""
    tree(tmp_path, {"a": 8, "b": 8}, parts=("train",))
    for name in "ab":
        save(tmp_path / "test" / name / "1.png", Image.fromarray(np.full((6, 6), 4000, np.uint16)))
    with pytest.raises(DataError, match=r"2 images are 16-bit, .* no value above 4,095: `white`"):
        images(tmp_path)
    data = images(tmp_path, white=4095)
    assert {content[0] for _, content in contents(data, "test")} == {round(4000 * 255 / 4095)}
    for name in "ab":
        save(
            tmp_path / "test" / name / "2.png", Image.fromarray(np.full((6, 6), 40_000, np.uint16))
        )
    line = (
        "4 images are 16-bit, which no training image is: scaled from 0 to 65,535 (by the header)"
    )
    assert line in images(tmp_path).caveats


def test_a_scale_is_the_training_images_and_nothing_is_clipped(tmp_path: Path) -> None:
    """One scale a data set: a dark validation image stays dark, and one beyond the range is refused."""
    for part, high in (("train", 40_000), ("val", 10_000), ("test", 40_000)):
        for name in "ab":
            for number in range(3):
                values = picture(number).astype(np.int32)
                values[0, 0] = high
                save(tmp_path / part / name / f"{number}.tiff", Image.fromarray(values))
    data = images(tmp_path)
    assert {content[0] for _, content in contents(data, "val")} == {round(10_000 * 255 / 40_000)}
    assert any("0 to 40,000 (the largest training value" in line for line in data.caveats)
    save(tmp_path / "test" / "a" / "9.tiff", Image.fromarray(np.full((6, 6), 50_000, np.int32)))
    with pytest.raises(DataError, match=r"9\.tiff: holds values up to 50,000, above 40,000"):
        images(tmp_path)
    assert any(
        "0 to 60,000 (as `white` says)" in line for line in images(tmp_path, white=60_000).caveats
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [(-1024.0, "values from -1,024 to"), (float("nan"), "NaN or infinite")],
)
def test_values_that_are_no_greys_are_refused(tmp_path: Path, values: float, message: str) -> None:
    for name in "ab":
        pixels = picture(0).astype(np.float32)
        pixels[0, 1] = values
        save(tmp_path / name / "1.tiff", Image.fromarray(pixels))
        save(tmp_path / name / "2.tiff", Image.fromarray(picture(1).astype(np.float32)))
    with pytest.raises(DataError, match=message):
        images(tmp_path)


def test_photos_are_upright(tmp_path: Path) -> None:
    """sd-scripts#1316, kraken#760: EXIF orientation."""
    undo = {
        3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270,
        2: Image.Transpose.FLIP_LEFT_RIGHT,
    }  # fmt: skip
    for number in range(20):
        orientation = (1, 3, 6, 8, 2)[number % 5]
        photo = Image.fromarray(picture(number))
        stored = photo.transpose(undo[orientation]) if orientation in undo else photo
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(tmp_path / "ab"[number % 2] / f"{number}.png", stored, exif=exif)
    data = images(tmp_path)
    read = sum((contents(data, part) for part in ("train", "val", "test")), Counter())
    assert read == Counter(("ab"[number % 2], picture(number).tobytes()) for number in range(20))


def test_animations_and_unread_files_are_counted(tmp_path: Path) -> None:
    tree(tmp_path, {"a": 8, "b": 8})
    frames = [Image.fromarray(picture(seed)) for seed in (50, 51)]
    save(tmp_path / "a" / "moving.gif", frames[0], save_all=True, append_images=frames[1:])
    (tmp_path / "b" / "IMG_1.HEIC").write_bytes(b"phone")
    data = images(tmp_path)
    assert "1 of 17 images have several frames: the first is read" in data.caveats
    assert "train: not read, no images by their endings: 1 .heic" in data.caveats


def test_pictures_that_are_all_the_same_are_said(tmp_path: Path) -> None:
    for name in "ab":
        for number in range(8):
            save(tmp_path / name / f"{number}.png", Image.fromarray(picture(1)))
    assert any("are the same picture" in line for line in images(tmp_path).caveats)


# --- layouts ---


def test_kaggles_training_and_testing_are_parts(tmp_path: Path) -> None:
    """fastai#2336, #1552: `Training/` and `Testing/`."""
    tree(tmp_path, {"glioma": 20, "notumor": 20}, parts=("Training",))
    tree(tmp_path, {"glioma": 5, "notumor": 5}, parts=("Testing",))
    (tmp_path / "__MACOSX").mkdir()
    data = images(tmp_path)
    assert data.class_names == ["glioma", "notumor"]
    assert data.inventory == [
        "train 36 images, 2 classes; validation 4 (held out of train); test 10"
    ]


def test_roboflows_valid_is_used(tmp_path: Path) -> None:
    """roboflow-python#153, ultralytics#21311: `valid/`."""
    tree(tmp_path, {"a": 6, "b": 6}, parts=("train",))
    tree(tmp_path, {"a": 3, "b": 3}, parts=("valid", "test"))
    (tmp_path / "README.roboflow.txt").touch()
    data = images(tmp_path)
    assert data.inventory == [
        "train 12 images, 2 classes; validation 6; test 6",
        "not used: README.roboflow.txt",
    ]


def test_a_class_in_one_part_alone_is_named(tmp_path: Path) -> None:
    """ultralytics#26192, #13936."""
    tree(tmp_path, {"a": 6, "b": 6, "c": 6}, parts=("train", "val"))
    tree(tmp_path, {"a": 3, "b": 3}, parts=("test",))
    assert "test: no examples of c" in images(tmp_path).caveats
    tree(tmp_path, {"d": 12}, parts=("test",))
    with pytest.raises(DataError, match=r"test.d has 12 images of a class that .*train lacks"):
        images(tmp_path)
    data = images(tmp_path, skip_bad=True)
    assert len(data.splits.test.target) == 6
    assert "left out: test/d, 12 images of a class that train lacks" in data.caveats


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (("val", "valid"), "both name the validation part"),
        (("seg_train", "seg_test"), "looks like a part"),
        (("test",), "train is missing"),
    ],
)
def test_two_readings_are_refused(tmp_path: Path, parts: tuple[str, ...], message: str) -> None:
    if "seg_train" not in parts and "test" not in parts:
        tree(tmp_path, {"a": 3, "b": 3}, parts=("train",))
    tree(tmp_path, {"a": 3, "b": 3}, parts=parts)
    with pytest.raises(DataError, match=message):
        images(tmp_path)


def test_pictures_below_parts_without_classes_are_refused_or_named(tmp_path: Path) -> None:
    tree(tmp_path, {"train": 8, "test": 8})
    with pytest.raises(DataError, match="holds images and no class folders"):
        images(tmp_path)
    tree(tmp_path, {"bus": 8})
    assert images(tmp_path).class_names == ["bus", "test", "train"]  # of vehicles, say


def test_sorted_validation_images_of_tiny_imagenet_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tutorials sort `val/images` into class folders, with or without the annotations left."""
    monkeypatch.setattr(TinyImageNetDataModule, "names", [f"class {n}" for n in range(3)])
    fakes.tiny_imagenet(tmp_path, per_class=4, classes=3)

    def test_set() -> Examples:
        data = TinyImageNetDataModule(root=str(tmp_path), ood=[], val_per_class=1)
        data.setup()
        return data.splits.test

    official, val = test_set(), tmp_path / "tiny-imagenet-200" / "val"
    lines = (val / "val_annotations.txt").read_text().splitlines()
    for line in lines:
        name, wnid = line.split("\t")[:2]
        (val / wnid).mkdir(exist_ok=True)
        (val / "images" / name).rename(val / wnid / name)
    (val / "images").rmdir()
    with_annotations = test_set()
    assert torch.equal(with_annotations.inputs, official.inputs)
    assert torch.equal(with_annotations.target, official.target)
    (val / "val_annotations.txt").unlink()
    by_number = torch.tensor([int(line.split(".")[0].split("_")[1]) for line in lines]).argsort()
    without = test_set()  # in the order of the numbers in their names
    assert torch.equal(without.inputs, official.inputs[by_number])
    assert torch.equal(without.target, official.target[by_number])


# --- tables and texts ---


def write_unquoted(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))


def test_a_tsv_without_quoting_is_refused_or_read_whole(tmp_path: Path) -> None:
    """pytorch/text#349, #612, pandas#39857: a text that begins with a quote, a later one that ends with one."""
    rows = [(f"words number {number}", str(number % 2)) for number in range(100)]
    rows[12], rows[22] = ('"' + rows[12][0], "0"), (rows[22][0] + '"', "0")
    write_unquoted(tmp_path / "train.tsv", rows)
    options = {"train_file": str(tmp_path / "train.tsv"), "text_columns": ["sentence"]}
    with pytest.raises(
        DataError, match=r"lines 14 to 24 are one row.*100 rows then.*`quotes=False`"
    ):
        TextFileDataModule(**options)
    data = TextFileDataModule(**options, quotes=False, root=str(tmp_path))
    corpus = data.load_corpus(1)
    texts = Counter(text for part in corpus for text in part.texts)
    assert texts == Counter(text for text, _ in rows)


def test_quoted_texts_over_lines_and_escaped_quotes_are_read(tmp_path: Path, capfd) -> None:
    rows = [(f"Dear all, I am\nhappy {number}", "spam") for number in range(8)]
    rows += [(f'say "no" {number}', "ham") for number in range(8)]
    with (tmp_path / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    (tmp_path / "escaped.csv").write_text(
        "text,label\n" + "".join(f'"he said \\"no\\", then {n}",{"ab"[n % 2]}\n' for n in range(20))
    )
    for name, expected in (
        ("train.csv", [text for text, _ in rows]),
        ("escaped.csv", [f'he said "no", then {n}' for n in range(20)]),
    ):
        data = TextFileDataModule(train_file=str(tmp_path / name), root=str(tmp_path))
        texts = [text for part in data.load_corpus(1) for text in part.texts]
        assert sorted(texts) == sorted(expected)
    said = capfd.readouterr().err
    assert "as 16 rows, with 8 line breaks within quotes" in said
    assert "with quotes that a backslash escapes" in said


def test_glues_folder_is_read_and_its_unlabelled_test_named(tmp_path: Path) -> None:
    for part in ("train", "dev"):
        write_unquoted(tmp_path / f"{part}.tsv", [(f"{part} {n}", str(n % 2)) for n in range(20)])
    (tmp_path / "test.tsv").write_text("index\tsentence\n0\twhich\n")
    data = TextFileDataModule(
        train_file=str(tmp_path), text_columns=["sentence"], root=str(tmp_path)
    )
    train, val, test = data.load_corpus(1)
    assert (len(train.texts), len(val.texts), len(test.texts)) == (16, 20, 4)
    assert {text.split()[0] for text in val.texts} == {"dev"}
    assert "test.tsv: not used, it has no column `label`" in data.caveats


def test_new_finds_the_labels_and_says_what_fit_refuses(tmp_path: Path, capsys) -> None:
    lines = [f"{n % 7},{'ill' if n % 2 else 'well'},{n / 7:.2f},A" for n in range(60)]
    table = tmp_path / "patients.csv"
    table.write_text("visits,group,age,site\n" + "\n".join(lines) + "\n")
    new("table", tmp_path / "found", data=table)
    assert (
        "labels: column `group`" in capsys.readouterr().out
    )  # neither `site`, constant, nor `visits`
    table.write_text("visits,group,age,site\n" + "\n".join([*lines, "1,ill,,A"]) + "\n")
    new("table", tmp_path / "refused", data=table, label="group")
    assert "`fit` will refuse it" in capsys.readouterr().out


# --- data of one's own code ---


class Stream(IterableDataset[Any]):
    """Numbers with their classes, sharded by worker or not, with or without a length."""

    def __init__(self, examples: int, *, sharded: bool) -> None:
        self.examples, self.sharded = examples, sharded

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        worker = get_worker_info() if self.sharded else None
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, self.examples, step):
            yield torch.tensor([float(number)]), number % 3


class CountedStream(Stream):
    def __len__(self) -> int:
        return self.examples


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_an_iterable_set_with_workers_gives_each_example_once(
    sharded: bool, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning#6966, pytorch#38925: 150 examples, two workers; 192 came, or 139."""
    kind = CountedStream if workers % 2 else Stream
    source = DataLoader(kind(150, sharded=sharded), batch_size=16, num_workers=workers)
    read = list[float]()
    for rank in range(2):
        monkeypatch.setattr(disk_loader, "world_size_and_rank", lambda rank=rank: (2, rank))
        loader = StreamedLoader(source, "it", seed=1, device="cpu", examples=150)
        assert len(loader) == 10
        read += [value for batch in loader for value in batch.inputs[:, 0].tolist()]
    assert sorted(read) == [float(number) for number in range(150)]


def loaders(**sources: Any) -> ImportedDataModule:
    """A data module of loaders, of which those that are not named give 30 examples."""
    plain = {
        split: DataLoader(CountedStream(30, sharded=False), 10)
        for split in ("train", "val", "test")
    }
    arguments = {**plain, **sources, "num_classes": 3}
    data = ImportedDataModule(
        name="calibench.data.given_loaders.GivenLoaders", arguments=arguments, digest="always"
    )
    data.setup()
    return data


class Overlong(Stream):
    """A stream with more examples than it says, without an end if it is asked for none."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for number in range(2 * self.examples) if self.examples else count():
            yield torch.tensor([float(number)]), number % 3


class Understated(Overlong):
    def __len__(self) -> int:
        return self.examples


@pytest.mark.parametrize("split", ["train", pytest.param("val", marks=pytest.mark.slow), "test"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_without_an_end_is_refused(
    split: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its examples cannot be counted; the pass that counts them would not end."""
    monkeypatch.setattr(disk_loader, "MOST_EXAMPLES", 500)
    source = DataLoader(Overlong(0, sharded=False), 64, num_workers=workers)
    with pytest.raises(DataError, match="gives more than 500 examples and has no end in sight"):
        loaders(**{split: source})
    assert len(loaders(**{split: DataLoader(Stream(500, sharded=False), 64)}).splits.val.target)


def test_a_stream_beyond_its_length_is_refused() -> None:
    source = DataLoader(Understated(150, sharded=False), 64)
    with pytest.raises(DataError, match="its dataset says 150 examples and gives more"):
        loaders(test=source)


def test_how_far_an_open_stream_is_counted_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(adapters, "SECONDS_BETWEEN_REPORTS", 0.0)
    loaders(train=DataLoader(Stream(30, sharded=False), 10))
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3  # of `train` alone: the others say their length
    assert "20 examples counted so far; its dataset has no `__len__`" in lines[1]


class Batches:
    """A loader of one's own: so many batches of four, and the length that it says."""

    def __init__(self, batches: int, length: int) -> None:
        self.batches, self.length = batches, length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for number in range(self.batches) if self.batches else count():
            yield torch.full((4, 2), float(number)), torch.arange(4) % 3


@pytest.mark.parametrize(
    ("split", "batches", "message"),
    [
        ("val", 6, "says 5 batches and gives more; each example must come once"),
        ("test", 0, "says 5 batches and gives more"),
        ("test", 4, "says 5 batches and gives 4; each example must come once"),
        ("train", 4, "says 5 batches and gives 4: its length must be that of an epoch"),
    ],
)
def test_a_loader_of_another_length_than_it_says_is_refused(
    split: str, batches: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        loaders(**{split: Batches(batches, 5)})


def test_a_training_loader_that_goes_on_is_said() -> None:
    """Samplers without an end are usual in training: an epoch is what the length says."""
    data = loaders(train=Batches(0, 5))
    assert data.class_counts.tolist() == [10, 5, 5]
    assert (
        "train: an epoch has 5 batches, as the loader's length says; it would give more"
        in data.caveats
    )


@pytest.mark.parametrize("kind", [Stream, CountedStream, Batches])
def test_the_digest_of_loaders_tells_other_examples(kind: Any) -> None:
    """By the digest a run is taken for done: it holds what streams and loaders of one's own give."""

    def digest(first: float) -> bytes:
        class Shifted(kind):
            def __iter__(self) -> Iterator[Any]:
                yield from ((inputs + first, target) for inputs, target in super().__iter__())

        own = Shifted(2, 2) if kind is Batches else DataLoader(Shifted(9, sharded=False), 4)
        return b"".join(GivenLoaders(own, own, own, num_classes=3).digest_parts())

    assert digest(0.0) == digest(0.0)
    assert digest(0.0) != digest(1.0)


def test_a_loader_without_a_length_is_refused() -> None:
    """Batches made by the dataset itself, as WebDataset's are."""
    with pytest.raises(DataError, match="has no length: give it a `__len__`"):
        loaders(train=DataLoader(Stream(20, sharded=False), batch_size=None))


# --- layouts drawn at random ---

NAMES = {
    "train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing"),
}  # fmt: skip
DEPTHS = ("L", "I;16 png", "I;16 tiff", "12 bits in 16", "F to 1", "RGB")


def drawn_case(draw: np.random.Generator, name: str) -> str:
    return [name, name.upper(), name.capitalize()][draw.integers(3)]


JUNK = ("__MACOSX/._x.png", ".cache/y.png", "empty/.DS_Store")
Contents = Counter[tuple[str, bytes]]


def draw_part(
    folder: Path, names: list[str], sizes: tuple[int, int], draw: np.random.Generator, depth: str
) -> Contents:
    """Write pictures of each class, some of them in deeper folders, and junk beside; what they hold."""
    write, ending = MODES[depth]
    expected = Contents()
    for name in names:
        for number in range(draw.integers(*sizes)):
            grey = picture(int(draw.integers(2**31)))
            inner = "deeper" if number % 5 == 4 else ""
            save(folder / name / inner / f"{number}.{ending}", write(grey))
            expected[name, grey.tobytes()] += 1
    for junk in draw.choice(JUNK, 2):
        (folder / junk).parent.mkdir(parents=True, exist_ok=True)
        (folder / junk).touch()
    return expected


@pytest.mark.parametrize(
    "seed",
    [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 500))],
)
def test_drawn_layouts_are_trained_as_they_lie_or_refused(tmp_path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    classes = [f"class {number}" for number in range(draw.integers(2, 5))]
    depth = DEPTHS[draw.integers(len(DEPTHS))]
    given = [part for part in ("val", "test") if draw.random() < 0.6]
    folders = {part: drawn_case(draw, str(draw.choice(NAMES[part]))) for part in ("train", *given)}
    train = tmp_path / (folders["train"] if given else "")
    expected = {"train": draw_part(train, classes, (8, 12), draw, depth)}
    unknown = False
    for part in given:
        lacking, adding = draw.random() < 0.3, draw.random() < 0.2
        names = classes[: len(classes) - lacking] + ["another"] * adding
        content = draw_part(tmp_path / folders[part], names, (1, 4), draw, depth)
        expected[part] = Contents({key: n for key, n in content.items() if key[0] in classes})
        unknown = unknown or adding
    options: dict[str, Any] = {"memory_limit": 1e-9} if draw.random() < 0.3 else {}
    if unknown:
        with pytest.raises(DataError, match=r"another has \d+ images of a class that .* lacks"):
            images(tmp_path, **options)
        options["skip_bad"] = True
    data = images(tmp_path, **options)
    assert data.class_names == classes
    held_out = sum((contents(data, part) for part in NAMES if part not in given), Contents())
    assert held_out == expected["train"]
    assert {part: contents(data, part) for part in given} == {
        part: expected[part] for part in given
    }
    assert unknown == any("left out" in line for line in data.caveats)


Read = dict[str, list[tuple[int, str, bytes]]]


def read_as_a_process(rank: int, processes: int, options: dict[str, Any]) -> Read:
    """What the loaders of a process give of each part: positions, classes and pixels."""
    if "folder" in options:
        data: Any = images(Path(options["folder"]), **{**options["data"], "augment": False})
        data.transform = lambda inputs: inputs
    else:
        data = ImportedDataModule(name=f"{PLANS}.Tree", arguments=options["data"], digest="always")
        data.setup()
    tests = data.test_dataloader()
    parts = {
        "train": data.train_dataloader(),
        "val": data.val_dataloader(),
        "test": tests[0] if isinstance(tests, list) else tests,
    }
    read: Read = {}
    for part, loader in parts.items():
        batches = [*loader]
        rows = [
            (int(index), data.class_names[int(label)], pixels.reshape(-1, SIDE, SIDE)[0].byte().numpy().tobytes())
            for batch in batches
            for index, label, pixels in zip(batch.index, batch.target, batch.inputs, strict=True)
        ]  # fmt: skip
        read[part] = rows
    return read


KINDS = ("folder", "streamed folder", "positions", "stream", "shards")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores
@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 45))]
)
def test_drawn_layouts_are_given_to_processes_and_workers_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real processes, or workers, where the test is slow; else ranks one after the other, without workers."""
    draw, is_slow = np.random.default_rng(seed), seed >= 5
    kind = KINDS[seed % len(KINDS)]
    processes, workers = 1 + int(draw.integers(2)), int(draw.integers(4)) if is_slow else 0
    if workers or (not is_slow and "folder" not in kind):
        processes = 1  # several count the examples together; both at once are tried by `fit`
    classes = [f"class {number}" for number in range(draw.integers(2, 5))]
    folders = {part: drawn_case(draw, str(draw.choice(NAMES[part]))) for part in NAMES}
    sizes = {"train": (8, 12), "val": (1, 4), "test": (1, 4)}
    expected = {
        part: draw_part(tmp_path / name, classes, sizes[part], draw, "L")
        for part, name in folders.items()
    }
    if "folder" in kind:
        more = {"memory_limit": 1e-9} if kind == "streamed folder" else {}
        options = {"folder": str(tmp_path), "data": {"batch_size": 5, **more}}
    else:
        paths = {part: str(tmp_path / name) for part, name in folders.items()}
        own = {"folders": paths, "classes": classes, "workers": workers, "kind": kind}
        options = {"data": own}
    if is_slow and not workers:
        reads = run_processes(read_as_a_process, processes, options)
    else:
        reads = []
        for rank in range(processes):
            for module in (disk_loader, in_memory_loader):
                monkeypatch.setattr(
                    module, "world_size_and_rank", lambda rank=rank: (processes, rank)
                )
            reads.append(read_as_a_process(rank, processes, options))
    for part, content in expected.items():
        rows = [row for read in reads for row in read[part]]
        assert Contents((label, pixels) for _, label, pixels in rows) == content, (kind, part)
        assert sorted(index for index, *_ in rows) == [*range(content.total())], (kind, part)


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 200))]
)
def test_drawn_tables_lose_no_row(tmp_path: Path, seed: int) -> None:
    """Texts with quotes, separators and line breaks, written with quoting or without: all rows, or one line."""
    draw = np.random.default_rng(seed)
    quoted, sign = draw.random() < 0.5, ",\t;"[draw.integers(3)]
    pieces = ["word", '"', "some more", "it's", '"quoted"'] + ([sign, "\n"] if quoted else [])
    expected: dict[str, list[tuple[str, str]]] = {}
    for part in ("train", "test"):
        rows = []
        for number in range(40 if part == "train" else 12):
            middle = " ".join(draw.choice(pieces, draw.integers(1, 4)))
            text = f"{middle}{number} x" if draw.random() < 0.5 else f"x {number}{middle}"
            rows.append((text.strip(), "ab"[number % 2]))
        expected[part] = rows
        with (tmp_path / f"{drawn_case(draw, part)}.{'tsv' if sign == chr(9) else 'csv'}").open(
            "w", newline=""
        ) as file:
            if quoted:
                csv.writer(file, delimiter=sign).writerows([("text", "label"), *rows])
            else:
                file.write(
                    f"text{sign}label\n" + "".join(f"{text}{sign}{label}\n" for text, label in rows)
                )
    options: dict[str, Any] = {"train_file": str(tmp_path), "root": str(tmp_path / "cache")}

    def read(**more: Any) -> dict[str, list[tuple[str, str]]]:
        data = TextFileDataModule(**options, **more)
        train, val, test = data.load_corpus(1)
        names = data.class_names
        pairs = [
            [
                (text, names[label])
                for text, label in zip(part.texts, part.target.tolist(), strict=True)
            ]
            for part in (train, val, test)
        ]
        return {"train": sorted(pairs[0] + pairs[1]), "test": sorted(pairs[2])}

    whole = {part: sorted(rows) for part, rows in expected.items()}
    if not quoted:
        assert read(quotes=False) == whole
    if quoted:
        assert read() == whole
        return
    try:
        sizes = {part: len(rows) for part, rows in read().items()}
    except DataError as error:
        sizes = {part: len(rows) for part, rows in whole.items()}
        refusal = str(error)
    else:
        refusal = "quotes"  # no row is lost; quotes around a whole text are taken for enclosing
    assert sizes == {part: len(rows) for part, rows in whole.items()}
    assert "quotes" in refusal


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_lists_of_words_are_no_texts(tmp_path: Path, ending: str) -> None:
    """Tokenised sets, as those of named entities are: their texts would be `['the', 'cat']`."""
    frame = pandas.DataFrame({"text": [["the", "cat"]] * 20, "label": [n % 2 for n in range(20)]})
    path = tmp_path / f"t.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    with pytest.raises(DataError, match="column `text`, row 1: a text is expected, got a "):
        TextFileDataModule(train_file=str(path), root=str(tmp_path))


def test_a_table_in_a_folder_of_parts_is_read_by_names(tmp_path: Path) -> None:
    for part, number in (("Train", 30), ("VALID", 8), ("testing", 6)):
        rows = "".join(f"{n},{n * 2},{'ab'[n % 2]}\n" for n in range(number))
        (tmp_path / f"{part}.csv").write_text("x,y,label\n" + rows)
    (tmp_path / "notes.md").touch()
    data = TableDataModule(train_file=str(tmp_path))
    data.setup()
    assert [len(part.target) for part in data.splits] == [30, 8, 6]
    assert data.inventory == [
        "train 30 rows, 2 classes (Train.csv); validation 8 (VALID.csv); test 6 (testing.csv)",
        "not used: notes.md",
    ]
