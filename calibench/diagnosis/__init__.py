"""Diagnosis: what is wrong with anybody's predictions, where, and which calibrator helps."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from calibench.diagnosis.diagnosis import Diagnosis as Diagnosis
    from calibench.diagnosis.diagnosis import diagnose as diagnose
    from calibench.diagnosis.examples import Examples as Examples
    from calibench.diagnosis.examples import LabelledExamples as LabelledExamples

__all__ = [
    "Diagnosis",
    "Examples",
    "LabelledExamples",
    "diagnose",
]


_MODULES = {
    "Diagnosis": "calibench.diagnosis.diagnosis",
    "Examples": "calibench.diagnosis.examples",
    "LabelledExamples": "calibench.diagnosis.examples",
    "diagnose": "calibench.diagnosis.diagnosis",
}

if not TYPE_CHECKING:  # else every name would be one of the package
    __getattr__, __dir__ = lazy_exports(__name__, _MODULES)
