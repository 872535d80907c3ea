"""Maps of the features of test examples in the plane: principal components and t-SNE, from checkpoints.

    python benchmarks/papers/gce/feature_maps.py results/digits_lt -o features.png
    python benchmarks/papers/gce/feature_maps.py RUN --examples 5000 -o features.csv

The features are the inputs of a network's last linear layer; the maps their principal components, and t-SNE (van der
Maaten and Hinton 2008; its distances between groups mean nothing), coloured by class and by confidence. The runs need
their checkpoints and their data. Written: the place of every example in both maps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from calibench.data import Batch
from calibench.files.set_names import MULTILABEL
from calibench.messages.checks import ends_in, positive_integer
from calibench.messages.errors import UsageError, exit_on_mistakes
from calibench.messages.printable_text import FileRow, say
from calibench.messages.progress import with_progress
from calibench.plots.figure_with_numbers import write_numbers
from calibench.plots.style import (
    PALETTE,
    PICTURE_FORMATS,
    Figure,
    color,
    legend_below,
    marker,
    panels,
    tidied,
)
from calibench.runs import Run
from calibench.runs.finished import find_finished_runs, label_runs
from calibench.tensors.arrays import Floats, Integers
from calibench.training.export import load_trained_network
from calibench.training.last_layer import iterate_last_layer

FEWEST = 5
PERPLEXITY = 30.0


class FeatureMaps(NamedTuple):
    """Examples (N,) with their places (N, 2) in two maps, and the share of the variance of the two components, (2,)."""

    target: Integers
    predicted: Integers
    confidence: Floats
    pca: Floats
    tsne: Floats
    explained: Floats


def map_features(network: nn.Module, batches: Iterable[Batch], *, limit: int) -> FeatureMaps:
    """Map the inputs of a network's last linear layer; of more than `limit` examples the same random ones each time.

    Raises:
        UsageError: If the network does not end in a linear layer, or there are fewer than five examples.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    outputs = iterate_last_layer(network, batches)
    parts = [(batch.features, batch.logits, batch.target) for batch in outputs]
    features, logits, target = (torch.cat(part) for part in zip(*parts, strict=True))
    rows = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))[:limit]
    if len(rows) < FEWEST:
        raise UsageError(f"maps of features need {FEWEST} examples or more, got {len(rows)}.")
    rows = rows.sort().values
    confidence, predicted = logits[rows].double().softmax(1).max(dim=1)
    vectors = features[rows].double().numpy()
    pca = PCA(n_components=2, svd_solver="full").fit(vectors)
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=0).fit_transform(vectors)
    return FeatureMaps(
        target[rows].numpy(), predicted.numpy(), confidence.numpy(), pca.transform(vectors),
        tsne.astype(np.float64), pca.explained_variance_ratio_,
    )  # fmt: skip


def draw_maps(maps: Mapping[str, FeatureMaps], class_names: Sequence[str]) -> Figure:
    """Draw the maps of each run."""
    figure, grid = panels(4 * len(maps), columns=4)
    for row, (label, maps_of_run) in enumerate(maps.items()):
        row_axes = grid[4 * row : 4 * row + 4]
        for place, (name, title) in enumerate({"pca": "PCA", "tsne": "t-SNE"}.items()):
            xs, ys = getattr(maps_of_run, name).T
            by_class, by_confidence = row_axes[2 * place : 2 * place + 2]
            for number, words in enumerate(class_names):
                mask = maps_of_run.target == number
                shape = marker(number // len(PALETTE))
                by_class.scatter(
                    xs[mask], ys[mask], s=5, color=color(number), marker=shape, linewidths=0, label=words
                )  # fmt: skip
            shades: Any = by_confidence.scatter(
                xs,
                ys,
                s=5,
                c=maps_of_run.confidence,
                cmap="cividis_r",
                vmin=0,
                vmax=1,
                linewidths=0,
            )
            by_class.set_title(f"{label}\n{title}, by class")
            by_confidence.set_title(f"{label}\n{title}, by confidence")
        figure.colorbar(shades, ax=row_axes[-1], shrink=0.8).ax.tick_params(labelsize=6)
        for axes in row_axes:
            tidied(axes, xticks=[], yticks=[])
    legend_below(figure, grid[:1], columns=10)
    return figure


def _iterate_rows(maps: Mapping[str, FeatureMaps]) -> Iterator[FileRow]:
    names = ("target", "predicted", "confidence", "pca_1", "pca_2", "tsne_1", "tsne_2")
    for label, run in maps.items():
        columns = (run.target, run.predicted, run.confidence, *run.pca.T, *run.tsne.T)
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield {"loss": label, **dict(zip(names, values, strict=True))}


def study(runs: Sequence[Run], examples: int, trusted: bool, output: Path | None) -> None:
    """Say what the components explain, and write the maps of runs."""
    maps: dict[str, FeatureMaps] = {}
    labelled = zip(label_runs(runs), runs, strict=True)
    for label, run in with_progress(labelled, len(runs), "runs"):
        trained = load_trained_network(run, trusted=trusted)
        if trained.data.task.name == MULTILABEL:
            raise UsageError(f"{run.folder} has several labels an example: no class to colour.")
        names, batches = trained.data.class_names, trained.data.plain_batches("test")
        maps[label] = map_features(trained.backbone, batches, limit=examples)
    for label, maps_of_run in maps.items():
        shares = " and ".join(f"{share:.0%}" for share in maps_of_run.explained)
        say(f"{label}: the two principal components have {shares} of the variance")
    write_numbers(output, list(_iterate_rows(maps)), lambda: draw_maps(maps, names))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="feature_maps.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs"
    )
    parser.add_argument("--examples", type=int, default=2000, help="of the test set")
    parser.add_argument("--trust", action="store_true", help="build classes that config.yaml names")
    parser.add_argument("--output", "-o", type=Path, help=".csv, .png, .svg or .pdf")
    options = parser.parse_args(arguments)
    with exit_on_mistakes(parser.prog):
        positive_integer("--examples", options.examples)
        if options.output is not None:
            ends_in(".csv", *PICTURE_FORMATS)("--output", options.output)
        runs = find_finished_runs(options.runs)
        study(runs, options.examples, options.trust, options.output)


if __name__ == "__main__":
    main()
