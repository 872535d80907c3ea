"""Features, what goes into the last linear layer of any network, and their maps in the plane.

The maps are principal components and t-SNE (van der Maaten and Hinton 2008).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from calibench.analyses.arguments import labels_of, write
from calibench.data import Batch
from calibench.files.set_names import MULTILABEL
from calibench.messages.errors import UsageError
from calibench.messages.printable_text import FileRow, say
from calibench.messages.progress import with_progress
from calibench.plots.style import PALETTE, Figure, color, legend_below, marker, panels, tidied
from calibench.runs import Run
from calibench.tensors.arrays import Floats, Integers
from calibench.training.export import load_trained_network


class LastLayerOutputs(NamedTuple):
    """Input (n, D) and output (n, K) of the last linear layer on a batch, the classes, and whether it has a bias."""

    features: Tensor
    logits: Tensor
    target: Tensor
    bias: bool


def outputs_of(
    network: nn.Module, batches: Iterable[Batch], *, scaled: bool = False
) -> Iterator[LastLayerOutputs]:
    """Features and logits of each batch, of a network whose rows do not depend on each other, without gradient.

    Logits that are not the output of a linear layer, or with `scaled` a multiple of it, are a UsageError.
    """
    seen: list[tuple[nn.Linear, Tensor]] = []

    def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if isinstance(layer, nn.Linear) and inputs[0].dim() == 2:
            seen.append((layer, inputs[0]))

    network.eval()
    with torch.no_grad(), ExitStack() as hooks:
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                hooks.enter_context(layer.register_forward_pre_hook(note))
        for batch in batches:
            seen.clear()
            logits = network(batch.inputs)
            last = (entry for entry in reversed(seen) if entry[0].out_features == logits.shape[1])
            end, features = next(last, (None, logits))
            if end is None or not _is_output(end(features), logits, scaled=scaled):
                name = type(network).__name__
                raise UsageError(f"{name} does not end in a linear layer (torch.nn.Linear).")
            yield LastLayerOutputs(features, logits, batch.target, end.bias is not None)


def _is_output(output: Tensor, logits: Tensor, *, scaled: bool) -> bool:
    if torch.equal(output, logits):
        return True
    if not scaled:
        return False
    factor = (output * logits).sum() / output.square().sum()
    return torch.allclose(factor * output, logits, rtol=1e-4, atol=1e-6)


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


def feature_maps(network: nn.Module, batches: Iterable[Batch], *, limit: int) -> FeatureMaps:
    """Maps of the inputs of a network's last linear layer; of more examples the same random ones are taken each time.

    Raises:
        UsageError: If the network does not end in a linear layer, or there are fewer than five examples.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    parts = [(of.features, of.logits, of.target) for of in outputs_of(network, batches)]
    features, logits, target = (torch.cat(part) for part in zip(*parts, strict=True))
    chosen = torch.randperm(len(target), generator=torch.Generator().manual_seed(0))[:limit]
    if len(chosen) < FEWEST:
        raise UsageError(f"maps of features need {FEWEST} examples or more, got {len(chosen)}.")
    chosen = chosen.sort().values
    confidence, predicted = logits[chosen].double().softmax(1).max(dim=1)
    vectors = features[chosen].double().numpy()
    pca = PCA(n_components=2, svd_solver="full").fit(vectors)
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=0).fit_transform(vectors)
    return FeatureMaps(
        target[chosen].numpy(), predicted.numpy(), confidence.numpy(), pca.transform(vectors),
        tsne.astype(np.float64), pca.explained_variance_ratio_,
    )  # fmt: skip


def picture(maps: Mapping[str, FeatureMaps], class_names: Sequence[str]) -> Figure:
    """Draw the maps of each run."""
    figure, grid = panels(4 * len(maps), columns=4)
    for row, (label, of) in enumerate(maps.items()):
        own = grid[4 * row : 4 * row + 4]
        for place, (name, title) in enumerate({"pca": "PCA", "tsne": "t-SNE"}.items()):
            xs, ys = getattr(of, name).T
            by_class, by_confidence = own[2 * place : 2 * place + 2]
            for number, words in enumerate(class_names):
                mask = of.target == number
                shape = marker(number // len(PALETTE))
                by_class.scatter(
                    xs[mask], ys[mask], s=5, color=color(number), marker=shape, linewidths=0, label=words
                )  # fmt: skip
            shades: Any = by_confidence.scatter(
                xs, ys, s=5, c=of.confidence, cmap="cividis_r", vmin=0, vmax=1, linewidths=0
            )
            by_class.set_title(f"{label}\n{title}, by class")
            by_confidence.set_title(f"{label}\n{title}, by confidence")
        figure.colorbar(shades, ax=own[-1], shrink=0.8).ax.tick_params(labelsize=6)
        for axes in own:
            tidied(axes, xticks=[], yticks=[])
    legend_below(figure, grid[:1], columns=10)
    return figure


def _numbers(maps: Mapping[str, FeatureMaps]) -> Iterator[FileRow]:
    names = ("target", "predicted", "confidence", "pca_1", "pca_2", "tsne_1", "tsne_2")
    for label, of in maps.items():
        columns = (of.target, of.predicted, of.confidence, *of.pca.T, *of.tsne.T)
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield {"loss": label, **dict(zip(names, values, strict=True))}


def study(runs: Sequence[Run], examples: int, trusted: bool, output: Path | None) -> None:
    """Say what the components explain, and write the maps of runs."""
    maps: dict[str, FeatureMaps] = {}
    labelled = zip(labels_of(runs), runs, strict=True)
    for label, run in with_progress(labelled, len(runs), "runs"):
        trained = load_trained_network(run, trusted=trusted)
        if trained.data.task.name == MULTILABEL:
            raise UsageError(f"{run.folder} has several labels an example: no class to colour.")
        names, batches = trained.data.class_names, trained.data.plain_batches("test")
        maps[label] = feature_maps(trained.backbone, batches, limit=examples)
    for label, of in maps.items():
        shares = " and ".join(f"{share:.0%}" for share in of.explained)
        say(f"{label}: the two principal components have {shares} of the variance")
    write(output, list(_numbers(maps)), lambda: picture(maps, names))
