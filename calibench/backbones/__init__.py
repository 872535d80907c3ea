"""Backbones: networks from a batch of inputs to logits."""

from calibench.backbones.base import Backbone
from calibench.backbones.mlp import MLP
from calibench.backbones.small_cnn import SmallCNN
from calibench.backbones.timm_backbone import TimmBackbone

__all__ = ["MLP", "Backbone", "SmallCNN", "TimmBackbone"]
