"""Backbones: networks from a batch of inputs to logits."""

from calibench.backbones.base import Backbone
from calibench.backbones.densenet import CIFARDenseNet121, DenseNet121
from calibench.backbones.hugging_face import HuggingFaceBackbone
from calibench.backbones.imported import ImportedBackbone
from calibench.backbones.mlp import MLP
from calibench.backbones.resnet import (
    CIFARResNet8,
    CIFARResNet20,
    CIFARResNet50,
    CIFARResNet110,
    TinyImageNetResNet50,
    TinyImageNetResNet110,
    WideResNet26x10,
)
from calibench.backbones.small_cnn import SmallCNN
from calibench.backbones.speed_net import SpeedNet
from calibench.backbones.text_cnn import GlobalPoolingCNN
from calibench.backbones.timm_backbone import TimmBackbone

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
