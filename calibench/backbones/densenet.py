"""DenseNet-121, for CIFAR and for images of 224 pixels, with the exact parameter counts of the papers."""

from torch import Tensor, nn

from calibench.backbones.base import Backbone
from calibench.messages.errors import errors_as
from calibench.messages.spelling import spell_key


class CIFARDenseNet121(Backbone):
    """DenseNet-121 with a plain 3x3 stem for 32x32 images (Huang et al. 2017; Mukhoti et al. 2020).

    6,956,298 parameters with 10 classes, 7,048,548 with 100: growth 32, blocks [6, 12, 24, 16],
    compression 0.5, bottlenecks of 4 x 32; PyTorch's default initialisation.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
    """

    def __init__(self, *, num_classes: int, in_channels: int = 3) -> None:
        from timm.models.densenet import DenseNet

        super().__init__()
        self.num_classes = num_classes
        self.network = DenseNet(num_classes=num_classes, in_chans=in_channels)
        features = self.network.features
        features.conv0 = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
        features.norm0, features.pool0 = nn.Identity(), nn.Identity()
        for module in self.network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.reset_parameters()  # timm draws He-normal weights and zero biases

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, in_channels, H, W)."""
        logits: Tensor = self.network(inputs)
        return logits


class DenseNet121(Backbone):
    """DenseNet-121 of torchvision for images of about 224 pixels, as in CheXNet (Huang et al. 2017).

    6,968,206 parameters with 14 outputs.

    Args:
        num_classes: Number of logits.
        pretrained: Begin with ImageNet's weights, from torchvision's cache, or downloaded.

    Raises:
        ValueError: The weights cannot be had.
    """

    def __init__(self, *, num_classes: int, pretrained: bool = True) -> None:
        from torchvision.models import DenseNet121_Weights, densenet121

        super().__init__()
        failure = (
            "no weights of DenseNet-121 "
            f"({spell_key('model.backbone.pretrained', False)} goes on without them)"
        )
        with errors_as(failure, OSError, RuntimeError, kind=ValueError):
            self.network = densenet121(weights=DenseNet121_Weights.DEFAULT if pretrained else None)
        self.network.classifier = nn.Linear(self.network.classifier.in_features, num_classes)
        self.num_classes = num_classes

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, num_classes) of images (N, 3, H, W)."""
        logits: Tensor = self.network(inputs)
        return logits
