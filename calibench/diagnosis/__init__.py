"""Diagnosis: what is wrong with anybody's predictions, where, and which calibrator helps."""

from typing import TYPE_CHECKING

from calibench.plugins.lazy_imports import lazy

if TYPE_CHECKING:
    from calibench.diagnosis.diagnosis import Diagnosis as Diagnosis
    from calibench.diagnosis.diagnosis import diagnose as diagnose
    from calibench.diagnosis.examples import Examples as Examples
    from calibench.diagnosis.examples import LabelledExamples as LabelledExamples


lazy(__name__)
