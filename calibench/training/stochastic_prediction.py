"""Other networks that predict in the place of a trained one: the mean of passes with dropout, last-layer Laplace."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import lightning.pytorch as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn

from calibench.data import ClassificationDataModule
from calibench.data.in_memory_loader import mix_seeds, run_seed
from calibench.data.task import Task
from calibench.messages.errors import UsageError, errors_as, pip_install
from calibench.messages.spelling import spell_argument, spell_key
from calibench.training.module import ClassificationModule


class Predictive(Callback, ABC):
    """Puts another network, which files call `title`, in the place of the trained one for `predict` (this package)."""

    title: str

    @abstractmethod
    def network(self, module: ClassificationModule, data: ClassificationDataModule) -> nn.Module:
        """The other network; its outputs are logits (N, L), or logarithms of probabilities."""

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Put it there, and say so in the files; raises a UsageError if it cannot be had of this network."""
        assert isinstance(pl_module, ClassificationModule)
        data: ClassificationDataModule = trainer.datamodule  # type: ignore[attr-defined]
        pl_module.backbone = self.network(pl_module, data)  # type: ignore[assignment]
        pl_module.caveats.append(f"probabilities are those of {self.title}")


class DropoutPasses(Predictive):
    """The mean probabilities of several passes with dropout as in training, MC dropout (Gal and Ghahramani 2016).

    What else a network draws in training it draws too (stochastic depth); batch normalisation is as in evaluation.

    Args:
        passes: How many, at least 2.
    """

    def __init__(self, passes: int) -> None:
        if passes < 2:
            raise UsageError(
                f"{spell_argument('passes')} must be an integer from 2 on, got {passes}."
            )
        self.passes = passes
        self.title = f"{passes} passes with dropout"

    def network(self, module: ClassificationModule, data: ClassificationDataModule) -> nn.Module:
        """The network, several times for each batch."""
        if not module.backbone.draws_in_training:
            title = module.backbone.title()
            raise UsageError(
                f"{spell_argument('passes')}: {title} has no dropout here, so its passes are all the same."
            )
        if module.trainer.world_size > 1:
            devices = spell_key("trainer.devices", 1)
            raise UsageError(
                f"{spell_argument('passes')} draws dropout in one process: set {devices}."
            )
        torch.manual_seed(mix_seeds(run_seed(), 3))
        return _Mean(module.backbone, self.passes, module.task)


class _Mean(nn.Module):
    """The mean probabilities of several passes of a network in training mode, as logits."""

    def __init__(self, network: nn.Module, passes: int, task: Task) -> None:
        super().__init__()
        self.inner, self.passes, self.task = network.train(), passes, task
        for part in network.modules():
            if hasattr(part, "running_mean"):
                part.eval()

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, L) of the mean."""
        passes = [self.inner(inputs) for _ in range(self.passes)]
        return self.task.mean_of_views(torch.stack(passes, 1))


class LastLayerLaplace(Predictive):
    """A Gaussian over the last layer's weights, by `laplace-torch` (Daxberger et al. 2021), the extra `laplace`.

    Its curvature is that of cross-entropy on the training examples as they are, its prior precision the one of largest
    marginal likelihood, its probabilities the probit approximation (MacKay 1992). For another loss the weights are not
    the mode that it takes them for.

    Args:
        structure: Of the curvature: `kron`, `diag` or `full`.
    """

    def __init__(self, structure: str) -> None:
        structures = ("kron", "diag", "full")
        if structure not in structures:
            raise UsageError(
                f"{spell_argument('laplace')} must be one of {', '.join(structures)}, got {structure}."
            )
        try:
            import laplace  # noqa: F401 - to be missed before the network is built
        except ImportError:
            raise UsageError(
                f"{spell_argument('laplace')} needs laplace-torch: {pip_install('laplace')}."
            ) from None
        self.structure = structure
        self.title = f"a last-layer Laplace approximation ({structure})"

    def network(self, module: ClassificationModule, data: ClassificationDataModule) -> nn.Module:
        """The approximation, fitted."""
        from laplace import Laplace

        name = module.backbone.title()
        if type(module.task) is not Task:
            raise UsageError(
                f"{spell_argument('laplace')} is of one class an example, not of several labels."
            )
        # what Lightning predicts in has no gradients
        with (
            torch.inference_mode(False),
            torch.enable_grad(),
            errors_as(
                f"{spell_argument('laplace')} of {name}", ValueError, TypeError, RuntimeError
            ),
        ):
            fitted: Any = Laplace(
                module.backbone,
                "classification",
                subset_of_weights="last_layer",
                hessian_structure=self.structure,
            )
            fitted.fit(_TrainingSet(data))
            inputs = data.first_inputs(2)
            outputs, features = fitted.model.forward_with_features(inputs)
            if not torch.allclose(outputs, fitted.model.last_layer(features), atol=1e-5):
                raise UsageError(
                    f"{spell_argument('laplace')}: what {name} returns is not what its last layer does."
                )
            with warnings.catch_warnings():  # of a call that we make as it wants
                warnings.filterwarnings("ignore", "By default `link_approx`")
                fitted.optimize_prior_precision("glm", method="marglik")
        return _Probabilities(fitted)


class _TrainingSet:
    """The training examples as they are, as (inputs, classes)."""

    def __init__(self, data: ClassificationDataModule) -> None:
        self.batches, self.dataset = data.plain_batches("train"), data.splits.train.target

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self.batches:
            yield batch.inputs, batch.target


class _Probabilities(nn.Module):
    """A fitted approximation, as a network."""

    def __init__(self, fitted: Any) -> None:
        super().__init__()
        self.fitted = fitted

    def forward(self, inputs: Tensor) -> Tensor:
        """Logarithms of probabilities (N, K)."""
        probs: Tensor = self.fitted(inputs, pred_type="glm", link_approx="probit")
        return probs.clamp(min=torch.finfo(probs.dtype).tiny).log()
