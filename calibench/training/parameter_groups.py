"""Parameter groups: learning rates and weight decay of their own, by rules that a YAML can say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import nn
from torch.optim import Optimizer

from calibench.messages.checks import non_negative, positive
from calibench.messages.errors import UsageError


@dataclass(frozen=True)
class Rule:
    """A rule of which parameters have another learning rate: by the class of their layer and their name in it.

    Attributes:
        layers: Pattern of class names of layers, such as `*BatchNorm*`.
        parameters: Pattern of parameter names in such a layer, such as `bias`.
        lr_scale: Factor of their learning rate, above 0.
    """

    layers: str
    parameters: str = "*"
    lr_scale: float = 1.0

    def __post_init__(self) -> None:
        positive("lr_scale", self.lr_scale)

    def applies(self, layer: nn.Module, name: str) -> bool:
        """Whether the parameter of this name in the layer is meant."""
        return fnmatchcase(type(layer).__name__, self.layers) and fnmatchcase(name, self.parameters)


@dataclass(frozen=True)
class ParameterGroups:
    """Groups of parameters with learning rates of their own, and weight decay that does not depend on the rate.

    Attributes:
        rules: The first one that applies to a parameter decides; the others keep the optimiser's rate.
        weight_decay: Decay a step at the full rate, by which every group's parameters shrink whatever its learning
            rate: the optimiser's `weight_decay` of a group is it over the group's rate (Loshchilov and Hutter 2019,
            decoupled weight decay, up to momentum). None leaves the optimiser's own.
    """

    rules: Sequence[Rule] = ()
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        if self.weight_decay is not None:
            non_negative("weight_decay", self.weight_decay)

    def optimizer(self, build: Callable[[Any], Optimizer], module: nn.Module) -> Optimizer:
        """The optimiser that `build` makes of groups of a module's parameters, those without a rule in its first one.

        Raises a UsageError if a rule applies to no parameter, or the optimiser has a weight decay, too.
        """
        optimizer = build([{"params": members} for members in self._members(module)])
        for group, rule in zip(optimizer.param_groups[1:], self.rules, strict=True):
            group["lr"] *= rule.lr_scale
        for group in optimizer.param_groups if self.weight_decay is not None else ():
            if group.get("weight_decay"):
                raise UsageError(
                    "`model.parameter_groups.weight_decay` takes the place of the optimiser's: set "
                    "`model.optimizer.weight_decay` to 0."
                )
            group["weight_decay"] = self.weight_decay / group["lr"]
        return optimizer

    def _members(self, module: nn.Module) -> list[list[nn.Parameter]]:
        """The parameters without a rule, then those of each rule."""
        members: list[list[nn.Parameter]] = [[] for _ in range(len(self.rules) + 1)]
        placed: set[nn.Parameter] = set()
        for layer in module.modules():
            for name, parameter in layer.named_parameters(recurse=False):
                applying = (n for n, rule in enumerate(self.rules, 1) if rule.applies(layer, name))
                if parameter not in placed:
                    members[next(applying, 0)].append(parameter)
                    placed.add(parameter)
        for rule, its_own in zip(self.rules, members[1:], strict=True):
            if not its_own:
                layers = (part for part in module.modules() if [*part.parameters(recurse=False)])
                kinds = sorted({type(layer).__name__ for layer in layers})
                raise UsageError(
                    f"`model.parameter_groups`: no parameter `{rule.parameters}` of a layer `{rule.layers}`; "
                    f"the layers are {', '.join(kinds)}."
                )
        return members
