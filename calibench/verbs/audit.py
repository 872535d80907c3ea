"""`calibench audit`: whether a loss is proper, numerically stable and DDP-safe, and what it costs."""

from pathlib import Path
from typing import Annotated

from calibench.command_line.typed_arguments import Option
from calibench.loss_audit.named_losses import read_losses
from calibench.messages.checks import ends_in
from calibench.messages.printable_text import loading

LOSS = Option(
    "LOSS",
    help="A class, an import path, the name of a file in benchmarks/losses, or `all` of these files. A loss takes "
    "arguments as CLASS:NAME=VALUE,NAME=VALUE.",
)
LossNames = Annotated[tuple[str, ...], LOSS]
LossArguments = Annotated[
    tuple[str, ...],
    Option("NAME=VALUE", repeated=True, help="An argument that every loss receives."),
]


def audit(
    losses: LossNames,
    *,
    argument: LossArguments = (),
    output: Annotated[Path | None, Option("FILE", ("-o",)), ends_in(".json", ".md")] = None,
) -> int:
    """Check that a loss is proper, numerically stable, differentiable and DDP-safe, and measure what it costs.

    The audit checks whether training ends at the true probabilities (properness), and whether the loss is finite at
    logits of 1e4 and -inf. It reports what the loss depends on, and whether it is batch-coupled. It also checks
    torch.func, bfloat16, 2 and 3 processes with unequal and empty shards, and a resume. The loss is evaluated in the
    second of three epochs, after one validation.

    Args:
        losses: The losses.
        argument: An argument of all of them.
        output: Also write the results to a .json or .md file.

    Returns:
        1 if a loss has a fault, else 0.

    Examples:
        calibench audit FocalLoss --argument gamma=3
        calibench audit FocalLoss:gamma=1 FocalLoss:gamma=5 focal_calibration@cifar10/resnet50
        calibench audit mylosses.my_loss -o audit.json     a function of (logits, target), or a class
        calibench audit all -o audit.md                    every loss of `calibench list benchmarks` under losses/
    """
    blocks = read_losses(losses, argument)
    with loading():
        from calibench.loss_audit.page import audit_losses
    return audit_losses(blocks, output)
