from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.data import CIFAR100DataModule, DataError, EvaluationSet, Examples
from calibench.data.images import decode
from calibench.data.images.sets import EvaluationContext, load_named_set
from tests.data import fakes

LABELS = [i % 10 for i in range(20)]


@pytest.fixture
def here(tmp_path: Path) -> EvaluationContext:
    pixels = torch.from_numpy(fakes.pixels(20, seed=9)).permute(0, 3, 1, 2)
    test = Examples(pixels, torch.tensor(LABELS))
    return EvaluationContext(tmp_path, "off", "cifar10", 32, test, [str(k) for k in range(10)])


MAKERS = {
    "cifar10": lambda root: fakes.cifar10(root),
    "cifar100": lambda root: fakes.cifar100(root),
    "svhn": lambda root: fakes.svhn(root),
    "mnist": lambda root: fakes.mnist(root),
    "tiny_imagenet": lambda root: fakes.tiny_imagenet_32(root),
    "noise": lambda root: None,
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_set_is_unlabelled_images_of_the_right_size(here, name: str) -> None:
    MAKERS[name](here.root)
    for side in (32, 64):
        found = load_named_set(name, replace(here, side=side))
        assert_unlabelled(found, name, side)


def assert_unlabelled(found: EvaluationSet, name: str, side: int) -> None:
    assert (found.name, found.kind) == (name, "ood")
    assert found.examples.inputs.dtype == torch.uint8
    assert found.examples.inputs.shape[1:] == (3, side, side)
    assert len(found.examples.inputs) == len(found.examples.target) > 0
    assert found.examples.target.unique().tolist() == [-1]


def test_a_missing_set_is_one_line_with_a_place_and_a_source(here) -> None:
    for name in set(MAKERS) - {"noise"}:
        with pytest.raises(DataError, match=r" is missing: .* get it from http") as error:
            load_named_set(name, here)
        assert str(here.root) in str(error.value)
        assert "\n" not in str(error.value)


def test_svhn_is_the_test_half(here) -> None:
    fakes.svhn(here.root, test=20)
    inputs = load_named_set("svhn", here).examples.inputs
    assert np.array_equal(inputs.permute(0, 2, 3, 1).numpy(), fakes.pixels(20, seed=20))


def test_mnist_is_padded_and_grey(here) -> None:
    fakes.mnist(here.root)
    inputs = load_named_set("mnist", here).examples.inputs
    assert bool((inputs[:, :, :2] == 0).all())
    assert bool((inputs[:, :, :, -2:] == 0).all())
    assert inputs[7, :, 2, 10].tolist() == [7, 7, 7]
    assert bool((inputs[:, :, 3:30, 2:30] == 255).all())


def test_tiny_imagenet_is_decoded_once(here, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.tiny_imagenet_32(here.root)
    first = load_named_set("tiny_imagenet", here).examples.inputs
    order = first[:, 0].float().mean((1, 2)) / 40
    assert order.round().tolist() == [0, 3, 1, 4, 2, 5]  # by folder, then by file

    def fail(*args, **kwargs):
        raise AssertionError("decoded again")

    monkeypatch.setattr(decode, "decode_images", fail)
    assert torch.equal(load_named_set("tiny_imagenet", here).examples.inputs, first)


def test_noise_is_clipped_gaussian_and_repeatable(here) -> None:
    inputs = load_named_set("noise", here).examples.inputs
    assert torch.equal(inputs, load_named_set("noise", here).examples.inputs)
    share = float((inputs == 0).float().mean())
    assert share == pytest.approx(0.3093, abs=0.01)  # P(N(0.5, 1) < 0.5 / 255)


def test_severities_are_rows_of_the_archive(here) -> None:
    fakes.cifar_c(here.root, ["fog", "gaussian_noise"], labels=LABELS)
    for name in ("fog-1", "fog-3", "gaussian_noise-5"):
        found = load_named_set(name, here)
        assert (found.name, found.kind) == (name, "shift")
        assert found.examples.inputs.unique().tolist() == [10 * int(name[-1])]
        assert found.examples.inputs.shape == (20, 3, 32, 32)
        assert found.examples.target.tolist() == LABELS


def test_noise_is_generated_without_the_archive_and_says_so(here) -> None:
    found = load_named_set("gaussian_noise-5", here)
    assert found.name == "gaussian_noise-5-generated"
    assert torch.equal(found.examples.target, here.test.target)
    clean, noisy = here.test.inputs.float(), found.examples.inputs.float()
    inside = (clean > 100) & (clean < 155)
    assert float((noisy - clean)[inside].std()) == pytest.approx(25.5, rel=0.03)
    assert float((noisy - clean)[inside].mean()) == pytest.approx(-0.5, abs=0.5)  # truncated


def test_other_corruptions_are_not_generated(here) -> None:
    with pytest.raises(DataError, match=r"CIFAR-10-C/.* is missing: .* https://zenodo\.org"):
        load_named_set("glass_blur-5", here)


def test_damaged_archives_are_named(here) -> None:
    folder = here.root / "CIFAR-10-C"
    fakes.cifar_c(here.root, ["fog"], labels=LABELS)
    np.save(folder / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))
    with pytest.raises(DataError, match=r"fog\.npy has shape \(10, 32, 32, 3\)"):
        load_named_set("fog-5", here)
    (folder / "fog.npy").write_bytes(b"not numpy")
    with pytest.raises(DataError, match=r"fog\.npy is not a readable \.npy file"):
        load_named_set("fog-5", here)
    fakes.cifar_c(here.root, ["fog"], labels=LABELS[::-1])
    with pytest.raises(DataError, match=r"labels\.npy has other labels"):
        load_named_set("fog-5", here)
    (folder / "labels.npy").unlink()
    with pytest.raises(DataError, match=r"labels\.npy is missing"):
        load_named_set("fog-5", here)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "MNIST/raw/t10k-images-idx3-ubyte"),
        ("svhn", "svhn/test_32x32.mat"),
        ("cifar10", "cifar-10-batches-py/test_batch"),
        ("tiny_imagenet", "tiny-imagenet-32x32/n1/val_1.JPEG"),
    ],
)
def test_truncated_files_are_named(here, name: str, file: str) -> None:
    MAKERS[name](here.root)
    path = here.root / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=path.name) as error:
        load_named_set(name, here)
    assert "\n" not in str(error.value)


def test_a_set_that_is_not_the_official_one_says_so(here) -> None:
    fakes.cifar_c(here.root, ["fog"], labels=LABELS)
    fakes.svhn(here.root)
    with pytest.raises(DataError, match=r"fog\.npy is not the official file"):
        load_named_set("fog-5", replace(here, checksum="strict"))
    for name, file in (("fog-5", "cifar10_c: fog.npy"), ("svhn", "svhn: test_32x32.mat")):
        with pytest.warns(UserWarning, match="differ from the official"):
            (caveat,) = load_named_set(name, replace(here, checksum="warn")).caveats
        assert caveat.startswith(file)
    assert load_named_set("fog-5", here).caveats == ()


def test_the_caveats_of_a_set_are_those_of_the_data(tmp_path: Path) -> None:
    fakes.cifar100(tmp_path)
    fakes.cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").unlink()  # only the test half is looked at
    options = {"root": str(tmp_path), "val_size": 50, "checksum": "warn"}
    data = CIFAR100DataModule(ood=["cifar10", "noise"], **options)
    with pytest.warns(UserWarning, match="differ from the official"):
        data.setup()
    assert [caveat.partition(":")[0] for caveat in data.caveats] == ["cifar100", "cifar10"]
