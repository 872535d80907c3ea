"""`calibench features`: what goes into the last layer of a network, of every example, written once."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import yaml

from calibench.analyses.arguments import Trust, finished_runs
from calibench.config import Config, configuration, read_arguments
from calibench.ground.errors import UsageError, one_line
from calibench.ground.output import loading, say
from calibench.ground.verb import Option, VerbParser

if TYPE_CHECKING:
    from torch import nn

    from calibench.data import ClassificationDataModule

_SEEN = "features of the training examples are of a network that was trained on them"


class Source(NamedTuple):
    """A network, the data that it is shown, what both are called, and what a reader should know."""

    network: nn.Module
    data: ClassificationDataModule
    title: str
    caveats: Sequence[str] = ()


def _key(name: str, parser: VerbParser) -> None:
    if not name.startswith(("--model.", "--data.")):
        parser.refuse_option(name)


def features(
    network: Annotated[str, "RUN|BACKBONE"],
    data: Annotated[str | None, "DATA"] = None,
    *,
    trust: Trust = False,
    output: Annotated[Path, Option("DIR", ("-o",))],
    overrides: Annotated[Sequence[str], Option(rest=_key)] = (),
) -> int:
    """Write what goes into the last layer of a network, of every example, once, and a benchmark of heads on it.

    Heads (a linear one, or an MLP) are then trained with any loss in seconds, as any benchmark.

    Args:
        network: The folder of a finished run, whose weights are taken, or a backbone.
        data: A benchmark, whose data the network is shown (default: the run's own).
        trust: Whether the run's own classes are built.
        output: Folder of the features, which is made.
        overrides: Keys and values of the configuration of DATA, such as --model.backbone.pretrained true.

    Examples:
        calibench features RUN -o probes                 a run's own data
        calibench features RUN cifar100 -o probes        other data of the same kind
        calibench features timm:resnet18 cifar10 --model.backbone.pretrained true -o probes
        calibench sweep probes/probes.yaml --seeds 1..5
        calibench sweep probes/probes.yaml --seeds 1..5 --model.backbone.hidden [256]
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"`--output {output}` is there already: features are written once.")
    options = read_arguments(overrides).options
    is_run = Path(network).is_dir()
    if data is None and (options or not is_run):
        what = "keys of a configuration are" if is_run else f"`{network}` is a backbone, which is"
        raise UsageError(f"{what} shown the data of a benchmark: name it after `{network}`.")
    asked = None
    if data is not None:
        from calibench.training.mistakes import check

        backbone = [] if is_run else [("model.backbone", network)]
        asked = configuration([data], [*backbone, *options])
        check(asked)
    run = finished_runs([Path(network)]) if is_run else []
    if len(run) > 1:
        raise UsageError(f"{network} holds {len(run)} runs: name one of them.")
    with loading():
        import calibench.training.trained  # noqa: F401
    source = _of_run(Path(network), asked, trust) if is_run else _of_backbone(network, asked or {})
    dimensions, digest = write_features(source, output)
    benchmark = output / f"{output.absolute().name}.yaml"
    say(
        f"{output}  {dimensions} features of {source.title}, digest {digest}",
        f"calibench sweep {benchmark} --seeds 1..5",
    )
    return 0


def _of_run(folder: Path, asked: Config | None, trusted: bool) -> Source:
    from calibench.runs import Run
    from calibench.training.experiment import Experiment
    from calibench.training.trained import trained_network

    trained = trained_network(Run(folder), trusted=trusted)
    title = "/".join(folder.resolve().parts[-5:])
    if asked is None:
        return Source(trained.backbone, trained.data, title, [_SEEN])
    shown = Experiment(asked)
    shown.build()
    return Source(trained.backbone, _ready(shown.datamodule), title)


def _of_backbone(name: str, config: Config) -> Source:
    from calibench.training.experiment import Experiment

    experiment = Experiment(config)
    experiment.build()
    data, network = _ready(experiment.datamodule), experiment.model.backbone
    if data.tokens is not None:
        network.on_tokens(data.tokens)
    network.on_training_inputs(data.training_inputs())
    return Source(network, data, name)


def _ready(data: ClassificationDataModule) -> ClassificationDataModule:
    data.prepare_data()
    data.setup("validate")
    return data


def write_features(source: Source, output: Path) -> tuple[int, str]:
    """Write the features of every split and set, and a benchmark of a linear head. Returns their number and digest.

    Raises:
        UsageError: If the network does not end in a linear layer, or does not take these inputs.
    """
    from calibench.data.features import NOTES, digest_of
    from calibench.ground.names import MULTICLASS
    from calibench.runs import json_bytes

    data = source.data
    if data.task.name != MULTICLASS:
        raise UsageError(f"{data.title()} has several labels an example; heads are of classes.")
    sets = ["train", "val", "test", *data.evaluation_sets]
    with _whole(output) as folder:
        for name in sets:
            metadata = data.metadata_of(name, source.caveats)
            dimensions = _write_set(source, name, folder, metadata)
        digest = digest_of(folder, sets)
        notes = {
            "network": source.title, "data": data.title(), "fingerprint": data.fingerprint,
            "features": dimensions, "sets": sets, "digest": digest,
        }  # fmt: skip
        name = output.absolute().name
        ood = [*data.evaluation_sets]
        examples = len(data.splits.train.target)
        text = _benchmark(output, dimensions, digest, ood, examples)
        (folder / f"{name}.yaml").write_text(text)
        (folder / NOTES).write_bytes(json_bytes(notes))
    return dimensions, digest


@contextmanager
def _whole(output: Path) -> Iterator[Path]:
    """A folder beside, which takes the place of the output when everything is written; removed after an error."""
    folder = output.absolute().with_name(f".{output.absolute().name}-{secrets.token_hex(4)}")
    folder.mkdir(parents=True)
    try:
        yield folder
        if output.exists():
            output.rmdir()  # it is empty
        folder.rename(output.absolute())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_set(source: Source, name: str, folder: Path, metadata: dict[str, Any]) -> int:
    """Write the features of a set, batch by batch. Returns how many there are of an example."""
    import numpy as np
    import torch
    from numpy.lib.format import open_memmap

    from calibench.analyses.features import outputs_of
    from calibench.ground.bar import with_progress

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
    noted = np.array(json.dumps({"format": 1, **metadata}))
    np.savez(folder / f"{name}.npz", target=target, metadata=noted, **statistics)
    return int(found.shape[1])


def _benchmark(
    output: Path, dimensions: int, digest: str, ood: Sequence[str], examples: int
) -> str:
    """A linear head, trained for about 2,000 steps: 20 epochs or more."""
    batch = 512 if examples > 10_000 else 64
    epochs = min(max(20, 2000 * batch // examples), 100)
    head = {"class_path": "MLP", "init_args": {"in_features": dimensions, "hidden": []}}
    adam = {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.003}}
    data = {"root": str(output.absolute()), "digest": digest, "batch_size": batch, "ood": [*ood]}
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
