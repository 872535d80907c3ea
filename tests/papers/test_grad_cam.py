"""Grad-CAM equals CAM after global average pooling; its maximum is where a finding is; boxes, layers, the command."""

from __future__ import annotations

import csv
from pathlib import Path

import lightning.pytorch as L
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from calibench.backbones import CIFARResNet8, DenseNet121, SmallCNN
from calibench.data import ChestXray14DataModule, ImportedDataModule
from calibench.data.fakes import SQUARE, finding_corner
from calibench.data.images.chest_xray14 import FINDINGS
from calibench.data.images.decode import decode_images, scale_boxes
from calibench.losses import CrossEntropyLoss
from calibench.messages.errors import UsageError
from calibench.runs import Predictions, Run
from calibench.training.export import Trained, load_trained_network
from tests.data.fakes import incomplete_chest_xrays
from tests.examples import sampled
from tests.papers.scripts import exit_code, load_script

script = load_script("fcl", "grad_cam")
Box, Localisation = script.Box, script.Localisation
find_feature_layer, localise = script.find_feature_layer, script.localise
summarise_localisations = script.summarise_localisations

# Each network with its last feature map and its linear layer, as its own code has them.
POOLED = {
    "features": (
        lambda: SmallCNN(num_classes=5, in_channels=3, width=4),
        lambda net, x: (net.features(x), net.fc),
    ),
    "network.features": (
        lambda: DenseNet121(num_classes=5, pretrained=False),
        lambda net, x: (F.relu(net.network.features(x)), net.network.classifier),
    ),
}


@pytest.mark.parametrize("layer", sampled(POOLED, [*POOLED][::2]))
def test_grad_cam_equals_cam_after_global_average_pooling(layer: str) -> None:
    """Zhou et al. (2016), equation 2: M_c = sum_k w_ck A_k; Grad-CAM is its ReLU over the number of positions."""
    make, parts = POOLED[layer]
    torch.manual_seed(1)
    network, images = make().double().eval(), torch.randn(4, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        features, linear = parts(network, images)
    classes = torch.tensor([3, 0, -1, 4])
    maps, of = script.compute_grad_cam(
        network, images, classes, find_feature_layer(network, images)
    )
    chosen = torch.where(classes < 0, network(images).argmax(1), classes)
    assert find_feature_layer(network, images) == layer
    assert of.tolist() == chosen.tolist()
    cam = torch.einsum("nk,nkhw->nhw", linear.weight[chosen], features).relu()
    assert cam.any()
    expected = (cam / features[0, 0].numel()).detach()
    torch.testing.assert_close(maps, expected, rtol=1e-9, atol=1e-12)


def test_frozen_weights_and_layers_by_name() -> None:
    network, images = (
        CIFARResNet8(num_classes=3).eval().requires_grad_(False),
        torch.randn(2, 3, 16, 16),
    )
    assert find_feature_layer(network, images) == "features"
    early = find_feature_layer(network, images, "features.0")
    assert script.compute_grad_cam(network, images, torch.tensor([0, 1]), early)[0].shape == (
        2,
        16,
        16,
    )
    with pytest.raises(UsageError, match=r"no such layer; did you mean features\?|no such layer"):
        find_feature_layer(network, images, "feature")
    with pytest.raises(UsageError, match="gives no feature map"):
        find_feature_layer(network, images, "fc")


class Patches(nn.Module):
    """A transformer's beginning: a convolution makes patches, then there are tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.block, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.block(self.patch(images).flatten(2).transpose(1, 2))
        logits: Tensor = self.head(tokens.mean(1))
        return logits


def test_patches_of_a_transformer_are_not_taken_for_features() -> None:
    with pytest.raises(UsageError, match="name a layer by `--layer`"):
        find_feature_layer(Patches(), torch.zeros(1, 3, 16, 16))
    assert find_feature_layer(Patches(), torch.zeros(1, 3, 16, 16), "patch") == "patch"


def test_enlarged_maps_have_the_maximum_one_and_zeros_stay() -> None:
    maps = torch.tensor([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    large = script.enlarge_maps(maps, (6, 8))
    assert large.shape == (2, 6, 8)
    assert large[0, 0, 7] == large[0].max() == 1
    assert not large[1].any()


def test_pointing_game_and_iou_by_hand() -> None:
    heat = np.zeros((10, 10), dtype=np.float32)
    heat[2:6, 1:5] = 0.5  # the largest region: x 1 to 5, y 2 to 6
    heat[8, 8] = 1.0  # the maximum, elsewhere
    heat[0, 9] = 0.19  # below 20 %
    region, point = [1.0, 2.0, 5.0, 6.0], [8.0, 8.0, 10.0, 10.0]
    assert localise(heat, np.array([region])) == Localisation(False, 1.0)
    assert localise(heat, np.array([point])) == Localisation(True, 0.0)
    assert localise(heat, np.array([point, region])) == Localisation(True, 1.0)
    assert localise(heat, np.array([[3.0, 2.0, 7.0, 6.0]])) == Localisation(False, 8 / 24)
    assert localise(np.zeros_like(heat), np.array([[0.0, 0.0, 10.0, 10.0]])) == Localisation(
        False, 0.0
    )
    shares = summarise_localisations(
        [
            Localisation(True, 0.2),
            Localisation(False, 0.4),
            Localisation(True, 0.6),
            Localisation(True, 0.0),
        ]
    )
    assert list(shares.values()) == pytest.approx([0.75, 0.75, 0.5, 0.25, 0.3])


HEADER = "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"


def test_boxes_are_read_as_the_official_file_has_them(tmp_path: Path) -> None:
    file = tmp_path / "boxes.csv"
    file.write_text(f"{HEADER}a_000.png,Infiltrate,225.5,547,86.5,79,,,\n")
    assert script.read_boxes(file, FINDINGS) == [
        Box("a_000.png", "Infiltration", (225.5, 547, 312, 626))
    ]
    file.write_text(f'{HEADER}"a\x85b.png",Mass,1,2,3,4\n')  # no end of a line
    assert [box.image for box in script.read_boxes(file, FINDINGS)] == ["a\x85b.png"]
    for row, problem in {
        "a.png,Mas,1,2,3,4": "row 2: there is no class `Mas`; did you mean Mass",
        "a.png,Mass,1,2,3": "row 2: image, class, x, y, width, height are expected",
        "a.png,Mass,1,2,3,x": "row 2: image, class, x, y, width, height are expected",
        "a.png,Mass,1,2,0,4": "row 2: the box 1,2,0,4 has no area",
    }.items():
        file.write_text(f"{HEADER}{row}\n")
        with pytest.raises(UsageError, match=problem):
            script.read_boxes(file, FINDINGS)


def test_a_box_lies_in_the_decoded_square_where_its_pixels_are(tmp_path: Path) -> None:
    pixels = np.zeros((40, 60), dtype=np.uint8)
    pixels[8:24, 20:36] = 255
    Image.fromarray(pixels).save(tmp_path / "x.png")
    bright = decode_images([tmp_path / "x.png"], side=20, mode="L")[0, :, :, 0] > 127
    ((left, top, right, bottom),) = scale_boxes(np.array([[20, 8, 36, 24]]), (60, 40), 20)
    rows, columns = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
    assert (top, bottom, left, right) == (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1)


class Cells(nn.Module):
    """Fixed features: how bright each of 16 x 16 cells is, a channel for each."""

    def forward(self, images: Tensor) -> Tensor:
        bright = F.adaptive_avg_pool2d(images.mean(1), 16).flatten(1)
        above = (bright - bright.median(1, keepdim=True).values).relu()
        return torch.diag_embed(above).view(len(images), 256, 16, 16)


class LinearOfCells(nn.Module):
    """Global average pooling of the cells' features, and one trained layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.fc = Cells(), nn.Linear(256, len(FINDINGS))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(images).mean((2, 3)))
        return logits


@pytest.mark.slow
def test_the_maximum_lies_in_the_square_of_a_finding(tmp_path: Path) -> None:
    fake = incomplete_chest_xrays(tmp_path)
    data = ChestXray14DataModule(root=str(tmp_path), side=32, ten_crops=None, skip_missing=True)
    data.setup()
    torch.manual_seed(1)
    network, train = LinearOfCells(), data.splits.train
    inputs, optimizer = (
        data.transform(train.inputs),
        torch.optim.Adam(network.fc.parameters(), lr=1),
    )
    for _ in range(50):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(network(inputs), train.target.float()).backward()
        optimizer.step()
    boxes = [
        Box(fake.names[image], FINDINGS[finding], (left, top, left + SQUARE, top + SQUARE))
        for image, finding in np.argwhere(fake.target)
        for top, left in [finding_corner(finding)]
    ]
    places = script.find_places(boxes, data, (32, 32))
    assert len(places) == int((data.splits.test.target == 1).sum())  # and none of the other splits
    trained = Trained(network, CrossEntropyLoss(), data)
    assert (
        summarise_localisations(list(script.localise_boxes(trained, "features", places, "")))[
            "pointing game"
        ]
        >= 0.9
    )
    moved = {key: (place + 16) % 32 for key, place in places.items()}
    assert (
        summarise_localisations(list(script.localise_boxes(trained, "features", moved, "")))[
            "pointing game"
        ]
        < 0.1
    )


@pytest.mark.slow
def test_the_script_draws_runs_and_measures_boxes(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, boxes = tmp_path / "cam.svg", tmp_path / "boxes.csv"
    boxes.write_text("image,class,x,y,width,height\n3,5,0,0,8,8\n7,1,0,0,8,8\n100000,1,0,0,8,8\n")
    command = [str(results), "-o", str(picture)]
    assert exit_code(script, [*command, "--boxes", str(boxes), "--examples", "3,0"]) == 0
    out, drawn = capsys.readouterr().out, picture.read_text()
    assert "1 of 3 boxes are of no test image" in out
    assert "2 pairs of an image and a class, with 2 boxes" in out
    run = Run(next(results.glob("*/*/CrossEntropyLoss/*/seed=1")))
    trained = load_trained_network(run)
    network, data = trained.backbone, trained.data
    test = Predictions.load(run.predictions("test"))
    with torch.no_grad():
        logits = network.eval()(data.transform(data.stored_of_test(torch.tensor([3, 0]))))
    np.testing.assert_allclose(logits, test.logits[[3, 0]], rtol=1e-5, atol=1e-5)
    for text in (
        "CrossEntropyLoss", "BrierLoss", f"test image 3: {test.target[3]}", f"evidence for {logits[1].argmax()}",
    ):  # fmt: skip
        assert text in drawn
    numbers = list(csv.DictReader(picture.with_suffix(".csv").read_text().splitlines()))
    first = [row for row in numbers if row["run"] == numbers[0]["run"]]
    assert [row["test_image"] for row in first] == ["3", "0", "3", "7", "", "", "", "", ""]
    scored, shares = first[2:4], {row["measure"]: float(row["value"]) for row in first[4:]}
    assert [(row["class"], row["pointing_game"] in "01") for row in scored] == [
        ("5", True),
        ("1", True),
    ]
    assert shares["mean IoU"] == pytest.approx(np.mean([float(row["iou"]) for row in scored]))
    for name, value in shares.items():
        assert f"{100 * value:.1f}" in out, name
    for options, problem in {
        ("--class", "11"): "`--class 11`: there is no such class",
        ("--examples", "3,a"): "`--examples` takes numbers from 0",
        ("--examples", "100000"): "the test images are 0 to",
        ("--layer", "nothing"): "the network has no such layer",
        ("--boxes", "nowhere.csv"): "`--boxes nowhere.csv` cannot be read: No such file",
        ("--boxes", str(boxes), "--class", "9"): "no box of 9 in",
        ("--boxes", str(picture.with_suffix(".csv"))): "which is the file to draw: `--output",
    }.items():
        assert exit_code(script, [*command, *options]) == 2
        assert problem in capsys.readouterr().err


class Own(L.LightningDataModule):
    """Somebody's own images."""

    num_classes = 2

    def _loader(self) -> DataLoader[tuple[Tensor, ...]]:
        images = torch.arange(10.0)[:, None, None, None].expand(-1, 3, 4, 4)
        return DataLoader(TensorDataset(images, torch.arange(10) % 2), batch_size=4)

    train_dataloader = val_dataloader = test_dataloader = _loader


def test_test_images_of_somebodys_own_data_module() -> None:
    data = ImportedDataModule(name=f"{__name__}.Own")
    data.setup()
    images = data.stored_of_test(torch.tensor([9, 0, 5]))
    assert images.shape == (3, 3, 4, 4)
    assert images[:, 0, 0, 0].tolist() == [9, 0, 5]
