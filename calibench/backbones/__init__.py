"""Backbones: networks from a batch of inputs to logits."""

from typing import TYPE_CHECKING

from calibench.ground.family import Family
from calibench.ground.lazily import lazy, lines_on_classes

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


BACKBONES = Family("backbones", "Backbone", lines_on_classes(__name__))


lazy(__name__)
