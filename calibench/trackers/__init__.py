"""What trackers of experiments (TensorBoard, MLflow, Weights & Biases) keep of a finished run beside its curves."""

from calibench.trackers.artefacts import keep_artefacts

__all__ = ["keep_artefacts"]
