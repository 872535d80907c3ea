"""Sharpness-aware minimisation around any optimiser: its gradient is taken where the loss nearby is highest."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from calibench.messages.checks import positive
from calibench.messages.errors import UsageError
from calibench.messages.spelling import spell_key


class SharpnessAware(Optimizer, ABC):
    """Takes an optimiser's step by the gradient at w + rho t^2 g / ||t g||, with a scale t of each weight.

    Each step computes the loss twice, so it takes twice as long, and `train/loss` is the mean over both. Under several
    processes both gradients are those of the global batch, so N processes train what one trains (the paper's code
    perturbs in each process by its own share). Batch normalisation's running statistics see both passes.

    Args:
        optimizer: What moves the weights; its groups, state and learning rates are this one's.
        rho: Radius, above 0.
    """

    def __init__(self, optimizer: Optimizer, rho: float) -> None:
        self.base, self.rho = optimizer, positive("rho", rho)
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._names: dict[int, str] = {}
        for group in optimizer.param_groups:  # torch keeps the names that it was given
            self.take_names(zip(group.get("param_names", ()), group["params"], strict=False))
        self._share()

    def take_names(self, named_parameters: Iterable[tuple[str, Tensor]]) -> None:
        """Take the names of the parameters, as `network.named_parameters()` gives them."""
        self._names |= {id(parameter): name for name, parameter in named_parameters}

    def name_of(self, parameter: Tensor) -> str:
        """The name of a parameter; a ValueError if the optimiser was built without names."""
        if id(parameter) not in self._names:
            raise ValueError(
                f"{type(self).__name__} needs the names of the parameters: build its optimiser from "
                "`network.named_parameters()`."
            )
        return self._names[id(parameter)]

    def _share(self) -> None:
        self.param_groups, self.state = self.base.param_groups, self.base.state

    @abstractmethod
    def scales(self, weight: Tensor) -> Tensor | float:
        """t, by how much a step of each weight counts."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Compute the loss and its gradient, once more where the loss is higher, and let the optimiser step.

        Raises a UsageError if there is no closure, as with float16, whose gradients are scaled.
        """
        if closure is None:
            precision = spell_key("trainer.precision", "16-mixed")
            raise UsageError(
                f"`model.sharpness`: {type(self).__name__} does not go with {precision}."
            )
        closure = torch.enable_grad()(closure)
        loss = closure()
        weights = [w for group in self.param_groups for w in group["params"] if w.grad is not None]
        directions = [w.grad * self.scales(w) for w in weights]
        length = (
            torch.stack([direction.norm() for direction in directions]).norm()
            if directions
            else torch.tensor(0.0)
        )
        moves = [
            direction * self.scales(w) * (self.rho / (length + 1e-12))
            for w, direction in zip(weights, directions, strict=True)
        ]
        before = [w.clone() for w in weights]
        for weight, move in zip(weights, moves, strict=True):
            weight.add_(move)
        closure()
        for weight, old in zip(weights, before, strict=True):
            weight.copy_(old)
        self.base.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """State of the optimiser."""
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the optimiser."""
        self.base.load_state_dict(state_dict)
        self._share()


class SAM(SharpnessAware):
    """Sharpness-aware minimisation (Foret et al. 2021): the gradient at w + rho g / ||g||.

    Args:
        optimizer: As of `SharpnessAware`.
        rho: Radius, above 0.
    """

    def __init__(self, optimizer: Optimizer, rho: float = 0.05) -> None:
        super().__init__(optimizer, rho)

    def scales(self, weight: Tensor) -> Tensor | float:
        """1."""
        return 1.0


class ASAM(SharpnessAware):
    """Adaptive SAM (Kwon et al. 2021): w + rho T^2 g / ||T g|| with T = |w| + eta: the radius follows a weight's size.

    As in the authors' code T is 1 for parameters that are not called `weight`: else biases, which start near 0, would
    hardly be perturbed. So the optimiser is built from `network.named_parameters()`.

    Args:
        optimizer: As of `SharpnessAware`.
        rho: Radius, above 0.
        eta: Above 0.
    """

    def __init__(self, optimizer: Optimizer, rho: float = 0.5, eta: float = 0.01) -> None:
        self.eta = positive("eta", eta)
        super().__init__(optimizer, rho)

    def scales(self, weight: Tensor) -> Tensor | float:
        """|w| + eta of a `weight`, 1 of any other parameter."""
        is_weight = "weight" in self.name_of(weight).rpartition(".")[2]
        return weight.abs() + self.eta if is_weight else 1.0
