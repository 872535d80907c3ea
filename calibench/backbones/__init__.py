"""Backbones: networks from a batch of inputs to logits."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports
from calibench.plugins.registries import Family

if TYPE_CHECKING:
    from calibench.backbones.base import Backbone as Backbone
    from calibench.backbones.densenet import CIFARDenseNet121 as CIFARDenseNet121
    from calibench.backbones.densenet import DenseNet121 as DenseNet121
    from calibench.backbones.imported import ImportedBackbone as ImportedBackbone
    from calibench.backbones.pretrained import HuggingFaceBackbone as HuggingFaceBackbone
    from calibench.backbones.pretrained import TimmBackbone as TimmBackbone
    from calibench.backbones.resnet import CIFARResNet8 as CIFARResNet8
    from calibench.backbones.resnet import CIFARResNet20 as CIFARResNet20
    from calibench.backbones.resnet import CIFARResNet50 as CIFARResNet50
    from calibench.backbones.resnet import CIFARResNet110 as CIFARResNet110
    from calibench.backbones.resnet import TinyImageNetResNet50 as TinyImageNetResNet50
    from calibench.backbones.resnet import TinyImageNetResNet110 as TinyImageNetResNet110
    from calibench.backbones.resnet import WideResNet26x10 as WideResNet26x10
    from calibench.backbones.small import MLP as MLP
    from calibench.backbones.small import SmallCNN as SmallCNN
    from calibench.backbones.speed_net import SpeedNet as SpeedNet
    from calibench.backbones.text_cnn import GlobalPoolingCNN as GlobalPoolingCNN

__all__ = [
    "MLP",
    "Backbone",
    "CIFARDenseNet121",
    "CIFARResNet8",
    "CIFARResNet20",
    "CIFARResNet50",
    "CIFARResNet110",
    "DenseNet121",
    "GlobalPoolingCNN",
    "HuggingFaceBackbone",
    "ImportedBackbone",
    "SmallCNN",
    "SpeedNet",
    "TimmBackbone",
    "TinyImageNetResNet50",
    "TinyImageNetResNet110",
    "WideResNet26x10",
]

# What each is, and where it is from: the first line of its docstring.
BACKBONES = Family(
    "backbones",
    "Backbone",
    dict(
        CIFARDenseNet121="DenseNet-121 with a plain 3x3 stem for 32x32 images (Huang et al. 2017; Mukhoti et al. "
        "2020).",
        CIFARResNet110="The calibration papers' ResNet-110: bottlenecks [3, 4, 26, 3] (Mukhoti et al. 2020).",
        CIFARResNet20="The CIFAR ResNet-20: 6n + 2 layers with n = 3 (He et al. 2016, section 4.2).",
        CIFARResNet50="ResNet-50 with a 3x3 stem for 32x32 images (He et al. 2016; Mukhoti et al. 2020).",
        CIFARResNet8="The smallest CIFAR ResNet, 6n + 2 layers with n = 1, for CPUs (He et al. 2016, section 4.2).",
        DenseNet121="DenseNet-121 of torchvision for images of about 224 pixels, as in CheXNet (Huang et al. 2017).",
        GlobalPoolingCNN="Global-pooling CNN for texts (Lin et al. 2014; as in Kumar et al. 2018, MMCE).",
        HuggingFaceBackbone="Any sequence classifier of transformers, by its name or folder (Wolf et al. 2020).",
        ImportedBackbone="Any network: a class of `torch.nn.Module`, or a function that returns one (this package).",
        MLP="Multi-layer perceptron: linear layers with ReLU on flattened inputs (this package).",
        SmallCNN="Three convolutions with batch normalisation, then global average pooling (this package).",
        SpeedNet="Whitening convolution and three blocks of two convolutions (Jordan 2024, airbench).",
        TimmBackbone="Any image model of timm, by its name (Wightman 2019, timm).",
        TinyImageNetResNet110="ResNet-110 [3, 4, 26, 3] for 64x64 images, 2x2 pooling (Mukhoti et al. 2020).",
        TinyImageNetResNet50="ResNet-50 for 64x64 images: 3x3 stem, 2x2 pooling, 8192 features (Mukhoti et al. 2020).",
        WideResNet26x10='Wide-ResNet-26-10, post-activation: the papers\' "28-10" (Mukhoti et al. 2020).',
    ),
)

_MODULES = {
    "Backbone": "calibench.backbones.base",
    "CIFARDenseNet121": "calibench.backbones.densenet",
    "CIFARResNet110": "calibench.backbones.resnet",
    "CIFARResNet20": "calibench.backbones.resnet",
    "CIFARResNet50": "calibench.backbones.resnet",
    "CIFARResNet8": "calibench.backbones.resnet",
    "DenseNet121": "calibench.backbones.densenet",
    "GlobalPoolingCNN": "calibench.backbones.text_cnn",
    "HuggingFaceBackbone": "calibench.backbones.pretrained",
    "ImportedBackbone": "calibench.backbones.imported",
    "MLP": "calibench.backbones.small",
    "SmallCNN": "calibench.backbones.small",
    "SpeedNet": "calibench.backbones.speed_net",
    "TimmBackbone": "calibench.backbones.pretrained",
    "TinyImageNetResNet110": "calibench.backbones.resnet",
    "TinyImageNetResNet50": "calibench.backbones.resnet",
    "WideResNet26x10": "calibench.backbones.resnet",
}

if not TYPE_CHECKING:  # else every name would be one of the package

    def _describe_library_network(name: str) -> str:
        from calibench.backbones.spellings import (
            describe_library_network,
        )  # which reads this module

        return describe_library_network(name)

    __getattr__, __dir__ = lazy_exports(
        __name__, _MODULES, family=BACKBONES, describe=_describe_library_network
    )
