"""Two-dimensional maps of features: principal components, and t-SNE (van der Maaten and Hinton 2008)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from torch import nn

from calibench.analyses.last_layer import outputs_of
from calibench.data import Batch
from calibench.ground.errors import UsageError

Floats = npt.NDArray[np.float64]

FEWEST = 5
PERPLEXITY = 30.0


class FeatureMaps(NamedTuple):
    """Examples with their places in two maps.

    Attributes:
        target: The classes (N,).
        predicted: The predicted classes (N,).
        confidence: The largest probabilities (N,).
        pca: Places (N, 2) by the two principal components.
        tsne: Places (N, 2) by t-SNE.
        explained: Share of the variance of each of the two components, (2,).
    """

    target: npt.NDArray[np.int64]
    predicted: npt.NDArray[np.int64]
    confidence: Floats
    pca: Floats
    tsne: Floats
    explained: Floats


def feature_maps(network: nn.Module, batches: Iterable[Batch], *, limit: int) -> FeatureMaps:
    """Maps of the inputs of a network's last linear layer.

    Args:
        network: A network that ends in a linear layer.
        batches: The examples.
        limit: Number of examples; of more the same random ones are taken each time.

    Raises:
        UsageError: If the network does not end in a linear layer, or there are fewer than five examples.
    """
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
