"""`calibench analyse features`: maps of the features of test examples."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from calibench.analyses.output import add_output_argument, check_file, write
from calibench.analyses.run_arguments import add_runs_arguments, finished_runs, labels_of
from calibench.ground.arguments import positive_integer
from calibench.ground.errors import UsageError
from calibench.ground.output import loading, say

if TYPE_CHECKING:
    from calibench.analyses.features.maps import FeatureMaps

DESCRIPTION = """\
Maps the features that go into the last layer of trained networks, of test examples, into the plane: by their principal
components, and by t-SNE (whose distances between groups mean nothing), coloured by class and by confidence. The runs
need their checkpoints and their data."""

EPILOG = """\
examples:
  calibench analyse features results/digits_lt -o features.png
  calibench analyse features RUN --examples 5000 -o features.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `calibench analyse features`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    add_runs_arguments(parser)
    add_output_argument(parser, "the place of every example in both maps")
    parser.add_argument(
        "--examples", type=int, default=2000, metavar="N", help="of the test set (default: 2000)"
    )


def run(options: argparse.Namespace) -> int:
    """Make the maps. Returns the exit status, 0.

    Raises:
        UsageError: If a run lacks its checkpoint, or has several labels an example.
    """
    check_file(options.output)
    limit = positive_integer("--examples", options.examples)
    runs = finished_runs(options.runs)
    with loading():
        from calibench.analyses.features.maps import feature_maps
        from calibench.analyses.features.picture import picture
        from calibench.data.task import Multiclass
        from calibench.ground.bar import with_progress
        from calibench.training.trained import trained_network

    names: list[str] = []

    def made() -> Iterator[FeatureMaps]:
        for run in runs:
            trained = trained_network(run, trusted=options.trust)
            if not isinstance(trained.data.task, Multiclass):
                raise UsageError(f"{run.folder} has several labels an example: no class to colour.")
            names[:] = trained.data.class_names
            yield feature_maps(trained.backbone, trained.data.plain_batches("test"), limit=limit)

    maps = dict(zip(labels_of(runs), with_progress(made(), len(runs), "runs"), strict=True))
    for label, of in maps.items():
        shares = " and ".join(f"{share:.0%}" for share in of.explained)
        say(f"{label}: the two principal components have {shares} of the variance")
    write(options.output, list(_numbers(maps)), lambda: picture(maps, names))
    return 0


def _numbers(maps: Mapping[str, FeatureMaps]) -> Iterator[dict[str, Any]]:
    names = ("target", "predicted", "confidence", "pca_1", "pca_2", "tsne_1", "tsne_2")
    for label, of in maps.items():
        columns = (of.target, of.predicted, of.confidence, *of.pca.T, *of.tsne.T)
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield {"loss": label, **dict(zip(names, values, strict=True))}
