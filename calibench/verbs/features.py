"""`calibench features`: inputs of a network's last layer, written once as a benchmark of heads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from calibench.command_line.typed_arguments import Option
from calibench.command_line.verb_parser import VerbParser
from calibench.configuration.building import build_configuration
from calibench.configuration.run_arguments import read_arguments
from calibench.messages.checks import names_a_folder
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import loading, say
from calibench.run_configuration.checks import check_configuration
from calibench.runs.finished import find_finished_runs

Trust = Annotated[
    bool, Option(help="Import and build your own classes that a run's config.yaml names.")
]


def _check_key(name: str, parser: VerbParser) -> None:
    if not name.startswith(("--model.", "--data.")):
        parser.refuse_option(name)


def features(
    network: Annotated[str, "RUN|BACKBONE"],
    data: Annotated[str | None, "DATA"] = None,
    *,
    trust: Trust = False,
    output: Annotated[Path, Option("DIR", ("-o",)), names_a_folder],
    overrides: Annotated[Sequence[str], Option(rest=_check_key)] = (),
) -> int:
    """Write a network's penultimate features of every example, and a benchmark that trains heads on them.

    You can then train a head (linear, or an MLP) with any loss in seconds, like any other benchmark.

    Args:
        network: The folder of a finished run, whose weights are used, or a backbone.
        data: The benchmark whose data are used (default: the run's own).
        trust: Whether the run's own classes are built.
        output: The folder to create for the features.
        overrides: Keys and values of the configuration of DATA, such as --model.backbone.pretrained true.

    Examples:
        calibench features RUN -o probes                 a run's own data
        calibench features RUN cifar100 -o probes        other data of the same type
        calibench features timm:resnet18 cifar10 --model.backbone.pretrained true -o probes
        calibench sweep probes/probes.yaml --seeds 1..5
        calibench sweep probes/probes.yaml --seeds 1..5 --model.backbone.hidden [256]
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"`--output {output}` is there already: features are written once.")
    options = read_arguments(overrides).options
    is_run = Path(network).is_dir()
    if data is None and (options or not is_run):
        subject = (
            "keys of a configuration are" if is_run else f"`{network}` is a backbone, which is"
        )
        raise UsageError(f"{subject} shown the data of a benchmark: name it after `{network}`.")
    config = None
    if data is not None:
        backbone = [] if is_run else [("model.backbone", network)]
        config = build_configuration([data], [*backbone, *options])
        check_configuration(config)
    runs = find_finished_runs([Path(network)]) if is_run else [None]
    if len(runs) > 1:
        raise UsageError(f"{network} holds {len(runs)} runs: name one of them.")
    with loading():
        from calibench.training.frozen_features import build_source, write_features
    source = build_source(network, runs[0], config, trust)
    dimensions, digest = write_features(source, output)
    benchmark = output / f"{output.absolute().name}.yaml"
    say(
        f"{output}  {dimensions} features of {source.title}, digest {digest}",
        f"calibench sweep {benchmark} --seeds 1..5",
    )
    return 0
