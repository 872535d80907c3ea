"""`calibench analyse features`: maps of the features of test examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from calibench.analyses.arguments import (
    NumbersFile,
    RunFolders,
    Trust,
    finished_runs,
    labels_of,
    write,
)
from calibench.ground.errors import UsageError
from calibench.ground.names import MULTILABEL
from calibench.ground.output import FileRow, loading, say
from calibench.ground.verb import Count

if TYPE_CHECKING:
    from calibench.analyses.features.maps import FeatureMaps


def features(
    runs: RunFolders, *, trust: Trust = False, output: NumbersFile = None, examples: Count = 2000
) -> int:
    """Map the features that go into the last layer of trained networks, of test examples, into the plane.

    By their principal components, and by t-SNE (whose distances between groups mean nothing), coloured by class and by
    confidence. The runs need their checkpoints and their data.

    Args:
        runs: The runs.
        trust: Whether their own classes are built.
        output: The place of every example in both maps: as .csv, or a picture (.png, .svg, .pdf) with the .csv beside
            it.
        examples: Of the test set.

    Examples:
        calibench analyse features results/digits_lt -o features.png
        calibench analyse features RUN --examples 5000 -o features.csv
    """
    finished = finished_runs(runs)
    with loading():
        from calibench.analyses.features.maps import feature_maps, picture
        from calibench.ground.bar import with_progress
        from calibench.training.trained import trained_network

    names: list[str] = []

    def made() -> Iterator[FeatureMaps]:
        for run in finished:
            trained = trained_network(run, trusted=trust)
            if trained.data.task.name == MULTILABEL:
                raise UsageError(f"{run.folder} has several labels an example: no class to colour.")
            names[:] = trained.data.class_names
            yield feature_maps(trained.backbone, trained.data.plain_batches("test"), limit=examples)

    maps = dict(zip(labels_of(finished), with_progress(made(), len(finished), "runs"), strict=True))
    for label, of in maps.items():
        shares = " and ".join(f"{share:.0%}" for share in of.explained)
        say(f"{label}: the two principal components have {shares} of the variance")
    write(output, list(_numbers(maps)), lambda: picture(maps, names))
    return 0


def _numbers(maps: Mapping[str, FeatureMaps]) -> Iterator[FileRow]:
    names = ("target", "predicted", "confidence", "pca_1", "pca_2", "tsne_1", "tsne_2")
    for label, of in maps.items():
        columns = (of.target, of.predicted, of.confidence, *of.pca.T, *of.tsne.T)
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield {"loss": label, **dict(zip(names, values, strict=True))}
