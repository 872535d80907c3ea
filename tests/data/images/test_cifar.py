from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.data import CIFAR10DataModule, CIFAR100DataModule, DataError, Examples, Splits
from calibench.data.images.cifar import load_human_probabilities
from calibench.data.label_noise import SymmetricNoise
from calibench.data.mixing import LabelSmoothing
from calibench.data.splits import reference_split
from calibench.messages.errors import UsageError
from calibench.training.experiment import Experiment
from calibench.verbs.fit import configuration_of
from tests.data import fakes

# By data module: what makes its files, and the arguments that fit so few of them.
EXAMPLES = {
    "CIFAR10DataModule": (fakes.cifar10, {"checksum": "off", "val_size": 50}),
    "CIFAR100DataModule": (fakes.cifar100, {"checksum": "off", "val_size": 50}),
}

# Fingerprints of the fake CIFAR-10 at imbalance factor 10 and split seed 7, before tails had a seed of their own.
BEFORE = {"tail_val": "ec6234cf10554fb9", "balanced_val": "9f10bd2efe0e2fe3"}
OPTIONS = {"checksum": "off", "ood": (), "val_size": 50}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    fakes.cifar10(folder)
    fakes.cifar100(folder)
    return folder


def cifar10(root: Path, **options) -> CIFAR10DataModule:
    data = CIFAR10DataModule(root=str(root), **{**OPTIONS, **options})
    data.setup()
    return data


def test_reference_split_is_the_papers() -> None:
    # focal_calibration, Data/cifar10.py, run with seed 1 (475422a): head and SHA-256 of the positions
    train, val = reference_split(50_000, 5_000, seed=1)
    assert val[:5].tolist() == [26247, 35067, 34590, 16668, 12196]
    digest = hashlib.sha256(val.numpy().tobytes()).hexdigest()
    assert digest.startswith("43b49072da2ed7dd")
    assert sorted(torch.cat([train, val]).tolist()) == list(range(50_000))


def test_balanced_splits_follow_the_reference(root: Path) -> None:
    data = cifar10(root)
    images = torch.from_numpy(
        np.concatenate([fakes.pixels(40, seed=number) for number in range(1, 6)])
    ).permute(0, 3, 1, 2)
    _, val = reference_split(200, 50, seed=1)
    assert torch.equal(data.splits.val.inputs, images[val.sort().values])
    assert len(data.splits.train.target) == 150
    assert torch.equal(data.splits.test.target, torch.arange(20) % 10)
    assert data.num_classes == 10
    assert data.caveats == []


def test_a_part_of_the_tail_may_validate(root: Path) -> None:
    data = cifar10(root, imbalance_factor=10, recipe="tail_val")
    tail = [round(20 * 10 ** (-k / 9)) for k in range(10)]
    held = torch.bincount(data.splits.val.target, minlength=10)
    assert (data.class_counts + held).tolist() == tail
    assert held.tolist() == [round(size * 0.1) for size in tail]
    assert data.caveats == [
        "cifar10: long tail of 73 training images, 18 to 2 a class "
        "(a tenth of the tail validates, the GCE paper trains on all of it)"
    ]


def test_the_whole_tail_may_train(root: Path) -> None:
    data = cifar10(root, imbalance_factor=10, recipe="full")
    assert data.class_counts.tolist() == [round(20 * 10 ** (-k / 9)) for k in range(10)]
    held = torch.bincount(data.splits.val.target, minlength=10)
    assert (held.sum(), held[0]) == (50, 0)  # the tail has every image of the largest class
    trained = {row.numpy().tobytes() for row in data.splits.train.inputs}
    assert trained.isdisjoint(row.numpy().tobytes() for row in data.splits.val.inputs)
    (caveat,) = data.caveats
    assert "81 training images, 20 to 2 a class (all of the tail; the validation" in caveat


def test_the_whole_tail_of_cifar10_is_the_papers() -> None:
    labels = torch.arange(50_000) % 10
    data = CIFAR10DataModule(imbalance_factor=100, recipe="full")
    train, val = data._cut(Examples(torch.arange(50_000), labels), seed=1)
    expected = [5000, 2997, 1797, 1077, 646, 387, 232, 139, 83, 50]
    assert torch.bincount(train.target).tolist() == expected
    assert (len(train.target), len(val.target)) == (12_408, 5_000)


def images(*parts: Examples) -> set[bytes]:
    return {row.numpy().tobytes() for part in parts for row in part.inputs}


def test_every_run_has_the_same_long_tail(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a split of its own (it was drawn anew with the split)."""

    def of_seed(seed: int, **options) -> Splits:
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        return cifar10(root, imbalance_factor=10, split_seed="run", **options).splits

    one, two = of_seed(1), of_seed(2)
    assert images(one.train, one.val) == images(two.train, two.val)
    assert images(one.val) != images(two.val)
    one, two = (of_seed(seed, recipe="full") for seed in (1, 2))
    assert images(one.train) == images(two.train)
    assert images(one.val) != images(two.val)
    # Images that validate are not in the tail; the others come in the same order for every run.
    one, two = (of_seed(seed, recipe="balanced_val") for seed in (1, 2))
    smallest = images(*(part.train.take(part.train.target == 9) for part in (one, two)))
    assert len(smallest - images(one.val, two.val)) <= 2
    assert len(images(one.train) & images(two.train)) > 0.6 * len(one.train.target)
    one, two = (of_seed(seed, tail_seed="run") for seed in (1, 2))
    assert images(one.train, one.val) != images(two.train, two.val)


@pytest.mark.parametrize("recipe", ["tail_val", "balanced_val"])
def test_a_fixed_split_draws_the_tail_as_before(root: Path, recipe: str) -> None:
    alone = cifar10(root, imbalance_factor=10, recipe=recipe, split_seed=7)
    apart = cifar10(root, imbalance_factor=10, recipe=recipe, split_seed=7, tail_seed=3)
    same = cifar10(root, imbalance_factor=10, recipe=recipe, split_seed=7, tail_seed=7)
    assert alone.fingerprint == same.fingerprint == BEFORE[recipe]
    assert alone.fingerprint != apart.fingerprint


def test_balanced_val_recipe_holds_out_first(root: Path) -> None:
    balanced, tailed = cifar10(root), cifar10(root, imbalance_factor=10, recipe="balanced_val")
    assert torch.equal(tailed.splits.val.inputs, balanced.splits.val.inputs)
    head = int(balanced.class_counts.max())
    expected = [int(head * 10 ** (-k / 9) + 0.5) for k in range(10)]
    assert tailed.class_counts.tolist() == [
        min(pair) for pair in zip(expected, balanced.class_counts.tolist(), strict=True)
    ]


def test_rounding_reaches_the_class_sizes(root: Path) -> None:
    down = cifar10(root, imbalance_factor=10, rounding="floor")
    held = torch.bincount(down.splits.val.target, minlength=10)
    assert (down.class_counts + held).tolist() == [int(20 * 10 ** (-k / 9)) for k in range(10)]


def test_split_seed_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")
    assert cifar10(root, split_seed="run").fingerprint == cifar10(root, split_seed=7).fingerprint
    assert cifar10(root, split_seed="run").fingerprint != cifar10(root).fingerprint


@pytest.mark.parametrize("rho", [1, 10])
def test_human_labels_train_and_clean_ones_evaluate(tmp_path: Path, rho: float) -> None:
    fakes.cifar10(tmp_path)
    fakes.cifar10n(tmp_path, [i % 40 % 10 for i in range(200)])
    clean = cifar10(tmp_path, imbalance_factor=rho)
    for labels, shift in (("aggregate", 1), ("random1", 2), ("worst", 3)):
        noisy = cifar10(tmp_path, imbalance_factor=rho, labels=labels)
        assert_relabelled(noisy, clean, labels, shift)


def assert_relabelled(
    noisy: CIFAR10DataModule, clean: CIFAR10DataModule, labels: str, shift: int
) -> None:
    assert torch.equal(noisy.splits.train.inputs, clean.splits.train.inputs)
    assert torch.equal(noisy.splits.train.target, (clean.splits.train.target + shift) % 10)
    assert torch.equal(noisy.splits.val.target, clean.splits.val.target)
    assert noisy.class_counts.tolist() == clean.class_counts.roll(shift).tolist()
    assert noisy.caveats[-1] == f"cifar10: trained on {labels} human labels"


def test_the_authors_own_label_file(tmp_path: Path) -> None:
    fakes.cifar10(tmp_path)
    labels = fakes.cifar10n(tmp_path, [i % 40 % 10 for i in range(200)])
    (tmp_path / "cifar-n" / "cifar10n.npz").unlink()
    official = {name: values.astype(np.int64) for name, values in labels.items()}
    torch.save(official, tmp_path / "cifar-n" / "CIFAR-10_human.pt")
    noisy, clean = cifar10(tmp_path, labels="worst"), cifar10(tmp_path)
    assert torch.equal(noisy.splits.train.target, (clean.splits.train.target + 3) % 10)


@pytest.mark.parametrize(
    ("benchmark", "overlay", "said"),
    [
        ("cifar10", "cifar10n", "cifar10: trained on worst human labels"),
        ("cifar100", "cifar100n", "cifar100: trained on noisy human labels"),
        ("cifar10", "cifar10h", "18 of the test images, with their label distributions"),
    ],
)
def test_the_overlay_reads_the_published_files(
    benchmark: str, overlay: str, said: str, root: Path, tmp_path: Path
) -> None:
    fakes.cifar10n(tmp_path, [i % 40 % 10 for i in range(200)])
    fine = np.arange(600) % 100
    torch.save(
        {"clean_label": fine, "noisy_label": fine[::-1].copy()},
        tmp_path / "cifar-n" / "CIFAR-100_human.pt",
    )
    (tmp_path / "cifar-10h").mkdir()
    np.save(tmp_path / "cifar-10h" / "cifar10h-probs.npy", np.full((20, 10), 0.1))
    for folder in ("cifar-10-batches-py", "cifar-100-python"):
        (tmp_path / folder).symlink_to(root / folder)
    files = ["--config", benchmark, "--config", f"protocols/{overlay}", "--data.ood=[]"]
    fake = [f"--data.root={tmp_path}", "--data.checksum=off", "--data.val_size=50"]
    experiment = Experiment(configuration_of([*files, *fake, "--trainer.accelerator=cpu"]))
    experiment.build()
    experiment.datamodule.setup()
    assert any(said in line for line in experiment.datamodule.caveats)


def test_human_labels_that_do_not_fit(tmp_path: Path) -> None:
    fakes.cifar10(tmp_path)
    with pytest.raises(DataError, match=r"CIFAR-10_human\.pt is missing: .* get it from https"):
        cifar10(tmp_path, labels="worst")
    fakes.cifar10n(tmp_path, [0] * 200)
    with pytest.raises(DataError, match=r"cifar10n\.npz was made for other clean labels"):
        cifar10(tmp_path, labels="worst")
    (tmp_path / "cifar-n" / "cifar10n.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"cifar10n\.npz is not a readable"):
        cifar10(tmp_path, labels="worst")


def test_human_probabilities(tmp_path: Path) -> None:
    assert load_human_probabilities(tmp_path) is None
    (tmp_path / "cifar-10h").mkdir()
    path = tmp_path / "cifar-10h" / "cifar10h-probs.npy"
    np.save(path, np.full((10_000, 10), 0.1))
    assert load_human_probabilities(tmp_path).shape == (10_000, 10)
    np.save(path, np.full((10, 10), 0.1))
    with pytest.raises(DataError, match=r"shape \(10, 10\); \(10000, 10\) is expected"):
        load_human_probabilities(tmp_path)


def test_cifar100_uses_fine_labels(root: Path) -> None:
    data = CIFAR100DataModule(root=str(root), **OPTIONS)
    data.setup()
    assert data.num_classes == len(set(data.class_names)) == 100
    assert data.splits.test.target.tolist() == list(range(100))


def test_class_names_are_in_the_official_order(shared: Path) -> None:
    import pickle

    meta = pickle.loads((shared / "data" / "uoft-cs" / "cifar100" / "meta").read_bytes())
    assert CIFAR100DataModule.names == tuple(meta["fine_label_names"])
    meta = pickle.loads((shared / "data" / "uoft-cs" / "cifar10" / "batches.meta").read_bytes())
    assert CIFAR10DataModule.names == tuple(meta["label_names"])


def test_reference_test_normalization_touches_the_test_set_alone(root: Path) -> None:
    plain = CIFAR100DataModule(root=str(root), **OPTIONS)
    odd = CIFAR100DataModule(root=str(root), reference_test_normalization=True, **OPTIONS)
    for data in (plain, odd):
        data.setup()
    ours, theirs = (next(iter(data.test_dataloader()[0])).inputs for data in (plain, odd))
    pixels = plain.splits.test.inputs[: len(ours)].float() / 255
    mean, std = torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))
    expected = (pixels - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    torch.testing.assert_close(theirs, expected, rtol=0, atol=1e-5)
    assert (ours - theirs).abs().max() > 0.1
    first, second = (next(iter(data.val_dataloader())).inputs for data in (plain, odd))
    assert torch.equal(first, second)
    assert odd.caveats == ["cifar100: test images normalised with ImageNet's constants"]


def test_augmentation_can_be_switched_off(root: Path) -> None:
    data = cifar10(root, augment=False, batch_size=200)
    batch = next(iter(data.train_dataloader()))
    assert torch.equal(batch.inputs, data.transform(data.splits.train.inputs[batch.index]))


def test_strict_checksums_refuse_the_fake_and_warn_says_so(root: Path) -> None:
    with pytest.raises(DataError, match="data_batch_1 is not the official file"):
        cifar10(root, checksum="strict")
    with pytest.warns(UserWarning, match="differ from the official"):
        data = cifar10(root, checksum="warn")
    assert len(data.caveats) == 1


def test_missing_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cifar-10-batches-py/data_batch_1 is missing"):
        cifar10(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"imbalance_factor": 0.1}, "`imbalance_factor` is the largest class"),
        ({"ood": ("cifar10",)}, "no evaluation set `cifar10` here; did you mean cifar100"),
        ({"ood": ("gausian_noise-5",)}, "did you mean gaussian_noise-5"),
    ],
)
def test_arguments_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        CIFAR10DataModule(**options)


def test_a_validation_set_that_leaves_nothing(root: Path) -> None:
    with pytest.raises(ValueError, match="`val_size` must be between 1 and 199, got 200"):
        cifar10(root, val_size=200)


def test_jsonargparse_sees_the_options_of_both() -> None:
    from jsonargparse import ArgumentParser

    from calibench.data import ClassificationDataModule

    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(ClassificationDataModule, "data")
    parsed = parser.parse_args(
        ["--data=CIFAR10DataModule", "--data.labels=worst", "--data.imbalance_factor=100"]
    )
    assert parsed.data.init_args.labels == "worst"
    assert parsed.data.init_args.recipe == "tail_val"
    assert parser.instantiate_classes(parsed).data.long_tail.imbalance_factor == 100


def test_human_distributions_are_the_posterior_of_the_test_set(tmp_path: Path) -> None:
    fakes.cifar10(tmp_path)
    assert cifar10(tmp_path).test_posterior is None
    people = np.random.default_rng(0).dirichlet(np.ones(10), size=20)
    (tmp_path / "cifar-10h").mkdir()
    path = tmp_path / "cifar-10h" / "cifar10h-probs.npy"
    np.save(path, people)
    found = cifar10(tmp_path).test_posterior
    assert found is not None
    torch.testing.assert_close(found.probs.double(), torch.from_numpy(people), rtol=0, atol=1e-7)
    assert "CIFAR-10H" in found.source
    np.save(path, 51 * people)  # the counts are no distributions
    with pytest.raises(DataError, match=r"cifar10h-probs\.npy does not hold probabilities"):
        cifar10(tmp_path)


def test_people_train_on_nine_tenths_of_the_test_images_and_the_others_test(tmp_path: Path) -> None:
    fakes.cifar10(tmp_path)
    with pytest.raises(DataError, match=r"cifar10h-probs\.npy is missing: get it from https"):
        cifar10(tmp_path, labels="distributions")
    people = np.random.default_rng(0).dirichlet(np.ones(10), size=20).astype(np.float32)
    (tmp_path / "cifar-10h").mkdir()
    np.save(tmp_path / "cifar-10h" / "cifar10h-probs.npy", people)
    plain, data = cifar10(tmp_path), cifar10(tmp_path, labels="distributions")
    train, val, test = data.splits
    assert (len(train.target), len(test.target)) == (18, 2)
    place = {image.numpy().tobytes(): n for n, image in enumerate(plain.splits.test.inputs)}
    of_train, of_test = ([place[one.numpy().tobytes()] for one in p.inputs] for p in (train, test))
    assert sorted(of_train + of_test) == list(range(20))
    assert torch.equal(train.distributions, torch.from_numpy(people[of_train]))
    assert torch.equal(train.target, plain.splits.test.target[of_train])
    assert torch.equal(data.test_posterior.probs, torch.from_numpy(people[of_test]))
    assert torch.equal(val.inputs, plain.splits.val.inputs)
    assert data.soft_targets == "its labels"
    assert "18 of the test images" in data.caveats[-1]
    assert "the other 2 test" in data.caveats[-1]
    batch = next(iter(data.train_dataloader()))
    assert torch.equal(batch.target, train.distributions[batch.index])
    mixed = cifar10(tmp_path, labels="distributions", mixing=LabelSmoothing(epsilon=0.5))
    smoothed = next(iter(mixed.train_dataloader())).target
    torch.testing.assert_close(smoothed, batch.target / 2 + 0.05)
    same = cifar10(tmp_path, labels="same_images")
    assert torch.equal(same.splits.train.inputs, train.inputs)
    assert torch.equal(next(iter(same.train_dataloader())).target, train.target[batch.index])
    assert same.soft_targets == ""
    with pytest.raises(ValueError, match="has no long tail"):
        cifar10(tmp_path, labels="distributions", imbalance_factor=10)
    with pytest.raises(UsageError, match="SymmetricNoise changes classes, not distributions"):
        cifar10(tmp_path, labels="distributions", label_noise=SymmetricNoise())


@pytest.mark.slow
def test_a_run_is_scored_against_people(tmp_path: Path) -> None:
    from calibench.runs import Predictions
    from calibench.training import fit as training

    fakes.cifar10(tmp_path)
    people = np.random.default_rng(0).dirichlet(np.ones(10), size=20).astype(np.float32)
    (tmp_path / "cifar-10h").mkdir()
    np.save(tmp_path / "cifar-10h" / "cifar10h-probs.npy", people)
    options = [
        "--data.checksum=off",
        "--data.val_size=50",
        f"--data.root={tmp_path}",
        "--data.ood=[gaussian_noise-5]",
    ]
    network = [
        "--model.backbone=SmallCNN",
        "--model.backbone.in_channels=3",
        "--model.backbone.width=4",
        "--trainer.accelerator=cpu",
    ]
    where = [
        "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false",
        f"--trainer.default_root_dir={tmp_path}/r",
    ]
    _, run = training.fit(configuration_of(["--config", "cifar10_lt", *network, *options, *where]))
    test = Predictions.load(run.predictions("test"))
    np.testing.assert_array_equal(test.posterior, people)
    assert "CIFAR-10H" in test.metadata["posterior"]
    assert Predictions.load(run.predictions("gaussian_noise-5-generated")).posterior is None
