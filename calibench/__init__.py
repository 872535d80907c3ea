"""calibench: which loss, with which calibrator, gives probabilities you can trust."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibench.calibrators import as_estimator
    from calibench.evaluation.in_python import evaluate_arrays as evaluate

__version__ = "0.1.0"
__all__ = ["as_estimator", "evaluate"]

# Imported when they are used, so that `import calibench` is instant.
_PLACES = {
    "as_estimator": ("calibench.calibrators", "as_estimator"),
    "evaluate": ("calibench.evaluation.in_python", "evaluate_arrays"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
