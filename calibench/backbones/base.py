"""The contract of a backbone."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator

from torch import Tensor, nn

from calibench.plugins.import_paths import parameters_of
from calibench.tensors.scores import TokenInputs

_DROPOUT = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip


def _drop_rates(module: nn.Module) -> Iterator[float]:
    """The rates at which a layer drops something: `p` of torch's, elsewhere `drop_prob`, `attention_dropout`, ..."""
    # slow to import, and only runs of many processes ask
    from torchvision.ops import StochasticDepth

    if isinstance(module, (*_DROPOUT, StochasticDepth)):
        yield module.p
    for name, value in vars(module).items():
        if "drop" in name and isinstance(value, float):
            yield value


class Backbone(nn.Module, ABC):
    """A network from a batch of inputs to logits (N, num_classes).

    Every subclass takes `num_classes` as a keyword; the data module says the number once and the
    command line links it here. Its subclasses are known by their short names in a YAML.

    Attributes:
        is_trained: Whether its weights, last layer included, are those of a training on so many classes that is over.
    """

    num_classes: int
    is_trained: bool = False

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (N, num_classes); a batch of 0 rows gives (0, num_classes)."""

    @property
    def draws_in_training(self) -> bool:
        """Whether a training step draws random numbers, so that each process of a run draws others.

        True where a layer of the network has a positive rate of dropout or stochastic depth; a network that draws
        otherwise overrides it.
        """
        return any(rate > 0 for module in self.modules() for rate in _drop_rates(module))

    def title(self) -> str:
        """Name of the network in messages."""
        return type(self).__name__

    def argument_names(self) -> Collection[str]:
        """Names of the arguments that a configuration may give the network."""
        return parameters_of(type(self))

    def on_tokens(self, tokens: TokenInputs) -> None:
        """Hear what the token numbers are, before training or testing and before a checkpoint is loaded.

        Called only where the data module's inputs are token numbers; raises a UsageError if it cannot take them.
        """

    def on_training_inputs(self, inputs: Iterable[Tensor]) -> None:
        """See training inputs before training, and before a checkpoint is loaded, to learn from them without gradients.

        They are batches as the network takes them, not augmented, in a random order that is always the same, also in
        every process. What is kept belongs into parameters or buffers, so that checkpoints hold it. The default does
        nothing, and nothing is read for it; raises a UsageError if the network cannot take them.
        """
