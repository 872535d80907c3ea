"""Frozen features: what goes into the last layer of a network, of every example, written once, with a benchmark."""

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

from calibench.analyses.features import outputs_of
from calibench.configuration.merging import Config
from calibench.data import ClassificationDataModule, Splits
from calibench.data.features import FEATURE_NOTES, digest_features
from calibench.files.set_names import MULTICLASS
from calibench.messages.errors import UsageError, one_line
from calibench.messages.progress import with_progress
from calibench.runs import Run, json_bytes
from calibench.training.experiment import Experiment
from calibench.training.export import load_trained_network

_SEEN = "features of the training examples are of a network that was trained on them"


class Source(NamedTuple):
    """A network, the data that it is shown, what both are called, and what a reader should know."""

    network: nn.Module
    data: ClassificationDataModule
    title: str
    caveats: Sequence[str] = ()


def source_of(network: str, run: Run | None, asked: Config | None, trusted: bool) -> Source:
    """The network of a run, or a backbone as it is built, with the data of a configuration, or else the run's own."""
    trained = None if run is None else load_trained_network(run, trusted=trusted)
    title = network if run is None else "/".join(run.folder.resolve().parts[-5:])
    if trained is not None and asked is None:
        return Source(trained.backbone, trained.data, title, [_SEEN])
    assert asked is not None
    shown = Experiment(asked)
    shown.build()
    shown.datamodule.prepare_data()
    shown.datamodule.setup("validate")
    if trained is not None:
        return Source(trained.backbone, shown.datamodule, title)
    data, backbone = shown.datamodule, shown.model.backbone
    if data.tokens is not None:
        backbone.on_tokens(data.tokens)
    backbone.on_training_inputs(data.training_inputs())
    return Source(backbone, data, title)


def write_features(source: Source, output: Path) -> tuple[int, str]:
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
    with TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as beside:
        folder = Path(beside) / place.name
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
        folder.rename(place)  # which may be there if it is empty
    return dimensions, digest


def _write_set(source: Source, name: str, folder: Path) -> int:
    """Write the features of a set, batch by batch. Returns how many there are of an example."""
    loader = source.data.plain_batches(name)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = source.network.to(device)
    on_device = (batch._replace(inputs=batch.inputs.to(device)) for batch in loader)
    found, place, target = None, 0, loader.examples.target.cpu().numpy()
    outputs = outputs_of(network, on_device, scaled=True)
    try:
        for of in with_progress(outputs, len(loader), f"features of {name}"):
            part = of.features.float().cpu().numpy()
            if found is None:
                shape = (len(target), part.shape[1])
                found = open_memmap(folder / f"{name}.npy", "w+", np.dtype("<f4"), shape)
            found[place : place + len(part)] = part
            place += len(part)
    except RuntimeError as error:  # torch's, of shapes
        text = one_line(error, 200)
        raise UsageError(f"{source.title} does not take {source.data.title()}: {text}") from error
    if found is None or place != len(target):
        raise UsageError(f"`{name}` has {len(target)} examples and {place} rows of features.")
    found.flush()
    statistics = {}
    if name == "train":
        mean = found.mean(axis=0, dtype=np.float64)
        parts = np.array_split(found, 1 + place // 4096)  # one after the other: float64 takes room
        std = np.sqrt(sum(np.square(part - mean).sum(axis=0) for part in parts) / place)
        statistics = {"mean": mean.astype("f4"), "std": np.where(std > 0, std, 1).astype("f4")}
    metadata = source.data.metadata_of(name, source.caveats)
    noted = np.array(json.dumps({"format": 1, **metadata}))
    np.savez(folder / f"{name}.npz", target=target, metadata=noted, **statistics)
    return int(found.shape[1])


def _benchmark(output: Path, notes: Mapping[str, Any], examples: int) -> str:
    """A linear head, trained for about 2,000 steps: 20 epochs or more."""
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
