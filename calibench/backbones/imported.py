"""Any network by import path."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.files.hub import one_line_errors
from calibench.messages.errors import UsageError
from calibench.plugins.import_paths import accepts, check_arguments, import_by_path, parameters_of


class ImportedBackbone(Backbone):
    """Any network: a class of `torch.nn.Module`, or a function that returns one (this package).

    `--model.backbone torchvision.models.resnet18` and `--model.backbone mynetworks.Net` stand for this class with that
    `name`; other options below `--model.backbone` are then arguments of the network.

    Args:
        num_classes: Number of logits; passed on where the network takes `num_classes`.
        name: Import path of the class or function.
        arguments: Its arguments.
        replace_head: Do not pass `num_classes` on; replace the network's last linear layer by one with as many
            outputs, as for pretrained weights of another number of classes.

    Raises:
        UsageError: It cannot be imported, refuses its arguments, or makes no network.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        replace_head: bool = False,
    ) -> None:
        super().__init__()
        self.num_classes, self.name = num_classes, name
        make, keywords = import_by_path(name), dict(arguments or {})
        if not replace_head and accepts(make, "num_classes"):
            keywords = {"num_classes": num_classes, **keywords}
        check_arguments(name, make, keywords)
        self._argument_names = parameters_of(make)
        # torchvision's networks take trained weights so
        self.is_trained = keywords.get("weights") is not None and not replace_head
        with one_line_errors(f"`{name}` cannot be made", Exception):
            self.network = make(**keywords)
        if not isinstance(self.network, nn.Module):
            raise UsageError(
                f"`{name}` gives a {type(self.network).__name__}; a torch.nn.Module is expected."
            )
        if replace_head:
            _replace_last_linear(self.network, num_classes, name)

    def title(self) -> str:
        """The import path."""
        return self.name

    def argument_names(self) -> Collection[str]:
        """Names of the arguments of the network itself."""
        return self._argument_names

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of a batch of whatever the network takes.

        Raises:
            UsageError: The network gives something else than one tensor.
        """
        if inputs.shape[0] == 0:  # one of several processes; networks reshape by the number of rows
            return sum(
                (parameter.sum() * 0 for parameter in self.network.parameters()),
                start=inputs.new_zeros(()).float(),
            ).expand(0, self.num_classes)
        logits = self.network(inputs)
        if not isinstance(logits, Tensor):
            raise UsageError(
                f"`{self.name}` gives a {type(logits).__name__}; one tensor of logits "
                f"(N, {self.num_classes}) is expected: wrap it in a module that returns these."
            )
        return logits


def _replace_last_linear(network: nn.Module, num_classes: int, name: str) -> None:
    linear = [(path, part) for path, part in network.named_modules() if isinstance(part, nn.Linear)]
    if not linear or not linear[-1][0]:
        raise UsageError(f"`{name}` has no linear layer to replace: leave `replace_head` out.")
    path, last = linear[-1]
    owner, _, attribute = path.rpartition(".")
    head = nn.Linear(last.in_features, num_classes, bias=last.bias is not None)
    setattr(network.get_submodule(owner), attribute, head)
