"""calibench: which loss, with which calibrator, gives probabilities you can trust."""

__version__ = "0.1.0"
