"""Training of one run: from a configuration to a trained network, its logits and its run folder."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.training.calibration_callback import Calibration as Calibration

__all__ = [
    "Calibration",
]

if not TYPE_CHECKING:  # Lightning takes seconds
    __getattr__, __dir__ = lazy_exports(
        __name__, {"Calibration": "calibench.training.calibration_callback"}
    )
