"""Tests of the backbones; torchvision is imported here: torch 2.6 cannot import it below `torch.device("meta")`."""

import torchvision  # noqa: F401
