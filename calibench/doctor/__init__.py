"""The doctor: what is wrong with anybody's predictions, where, and which calibrator helps.

`calibench.doctor(logits, labels)`, or `calibench.doctor("test.npz")`, calls `examine`: what the verb does.
"""

from typing import TYPE_CHECKING

from calibench.ground.lazily import lazy

if TYPE_CHECKING:
    from calibench.doctor.diagnosis import Diagnosis as Diagnosis
    from calibench.doctor.diagnosis import diagnose as diagnose
    from calibench.doctor.examples import Examples as Examples
    from calibench.doctor.examples import LabelledExamples as LabelledExamples
    from calibench.doctor.options import examine as examine


lazy(__name__, called="examine")
