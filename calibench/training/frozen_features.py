"""Frozen features: the inputs of a network's last layer, written once for every example, with a benchmark of heads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from numpy.lib.format import open_memmap
from torch import nn

from calibench.configuration.merging import Config
from calibench.data import ClassificationDataModule, Splits
from calibench.data.features import FEATURE_NOTES, digest_features
from calibench.files.atomic_files import failures_of
from calibench.files.set_names import MULTICLASS
from calibench.messages.errors import UsageError, one_line
from calibench.messages.progress import with_progress
from calibench.runs import Run, json_bytes
from calibench.training.experiment import Experiment
from calibench.training.export import load_trained_network
from calibench.training.last_layer import iterate_last_layer

_TRAINED_ON_THEM = "features of the training examples are of a network that was trained on them"


class FeatureSource(NamedTuple):
    """A network and the data whose features it computes, with the title of both and caveats."""

    network: nn.Module
    data: ClassificationDataModule
    title: str
    caveats: Sequence[str] = ()


def build_source(
    network: str, run: Run | None, config: Config | None, trusted: bool
) -> FeatureSource:
    """Build the network of a run, or an untrained backbone, and the data of a configuration or of the run."""
    trained = None if run is None else load_trained_network(run, trusted=trusted)
    title = network if run is None else "/".join(run.folder.resolve().parts[-5:])
    if trained is not None and config is None:
        return FeatureSource(trained.backbone, trained.data, title, [_TRAINED_ON_THEM])
    assert config is not None
    experiment = Experiment(config)
    experiment.build()
    experiment.datamodule.prepare_data()
    experiment.datamodule.setup("validate")
    if trained is not None:
        return FeatureSource(trained.backbone, experiment.datamodule, title)
    data, backbone = experiment.datamodule, experiment.model.backbone
    if data.tokens is not None:
        backbone.on_tokens(data.tokens)
    backbone.on_training_inputs(data.training_inputs())
    return FeatureSource(backbone, data, title)


def write_features(source: FeatureSource, output: Path) -> tuple[int, str]:
    """Write the features of every split and set, and a benchmark of a linear head. Returns their number and digest.

    Raises:
        UsageError: If the network does not end in a linear layer, or does not take these inputs.
    """
    data = source.data
    if data.task.name != MULTICLASS:
        raise UsageError(f"{data.title()} has several labels an example; heads are of classes.")
    sets = [*Splits._fields, *data.evaluation_sets]
    place = output.absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as temporary:
        folder = Path(temporary) / place.name
        folder.mkdir()
        for name in sets:
            dimensions = _write_set(source, name, folder)
        digest = digest_features(folder, sets)
        notes = {
            "network": source.title, "data": data.title(), "fingerprint": data.fingerprint,
            "features": dimensions, "sets": sets, "digest": digest,
        }  # fmt: skip
        text = _benchmark(output, notes, len(data.splits.train.target))
        (folder / f"{place.name}.yaml").write_text(text)
        (folder / FEATURE_NOTES).write_bytes(json_bytes(notes))
        with failures_of(place):
            folder.rename(place)  # which may be there if it is empty
    return dimensions, digest


def _write_set(source: FeatureSource, name: str, folder: Path) -> int:
    """Write the features of a set, batch by batch. Returns how many there are of an example."""
    loader = source.data.plain_batches(name)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = source.network.to(device)
    on_device = (batch._replace(inputs=batch.inputs.to(device)) for batch in loader)
    features, start, target = None, 0, loader.examples.target.cpu().numpy()
    outputs = iterate_last_layer(network, on_device, scaled=True)
    try:
        for batch in with_progress(outputs, len(loader), f"features of {name}"):
            part = batch.features.float().cpu().numpy()
            if features is None:
                shape = (len(target), part.shape[1])
                features = open_memmap(folder / f"{name}.npy", "w+", np.dtype("<f4"), shape)
            features[start : start + len(part)] = part
            start += len(part)
    except RuntimeError as error:  # torch's, of shapes
        text = one_line(error, 200)
        raise UsageError(f"{source.title} does not take {source.data.title()}: {text}") from error
    if features is None or start != len(target):
        raise UsageError(f"`{name}` has {len(target)} examples and {start} rows of features.")
    features.flush()
    statistics = {}
    if name == "train":
        mean = features.mean(axis=0, dtype=np.float64)
        parts = np.array_split(
            features, 1 + start // 4096
        )  # one after the other: float64 takes room
        std = np.sqrt(sum(np.square(part - mean).sum(axis=0) for part in parts) / start)
        statistics = {"mean": mean.astype("f4"), "std": np.where(std > 0, std, 1).astype("f4")}
    metadata = source.data.metadata_of(name, source.caveats)
    metadata_array = np.array(json.dumps({"format": 1, **metadata}))
    np.savez(folder / f"{name}.npz", target=target, metadata=metadata_array, **statistics)
    return int(features.shape[1])


def _benchmark(output: Path, notes: Mapping[str, Any], examples: int) -> str:
    """Benchmark of a linear head, trained for about 2,000 steps in 20 epochs or more."""
    batch = 512 if examples > 10_000 else 64
    epochs = min(max(20, 2000 * batch // examples), 100)
    head = {"class_path": "MLP", "init_args": {"in_features": notes["features"], "hidden": []}}
    adam = {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.003}}
    ood = [name for name in notes["sets"] if name not in Splits._fields]
    data = {
        "root": str(output.absolute()),
        "digest": notes["digest"],
        "batch_size": batch,
        "ood": ood,
    }
    content = {
        "seed_everything": 1,
        "threads": 1,
        "data": {"class_path": "FeaturesDataModule", "init_args": data},
        "model": {
            "backbone": head, "loss": {"class_path": "CrossEntropyLoss"}, "optimizer": adam, "loss_scale": "mean",
        },
        "trainer": {"max_epochs": epochs, "accelerator": "cpu", "devices": 1},
    }  # fmt: skip
    first = "# A linear head on frozen features; an MLP: --model.backbone.hidden [256]\n"
    return f"{first}{yaml.safe_dump(content, sort_keys=False)}"
