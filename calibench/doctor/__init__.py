"""The doctor: what is wrong with anybody's predictions, where, and which calibrator helps."""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.doctor.diagnosis import Diagnosis, diagnose
    from calibench.doctor.examples import Examples, LabelledExamples

__all__ = ["Diagnosis", "Examples", "LabelledExamples", "diagnose"]

lazy(__name__)
