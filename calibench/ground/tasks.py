"""What an example is classified into, as prediction files and data modules say it: one class, or several labels."""

from __future__ import annotations

from typing import Final

MULTICLASS: Final = "multiclass"
MULTILABEL: Final = "multilabel"

# Of several labels an example: the two classes of each, and the target of one that is not known.
CLASSES: Final = ("absent", "present")
UNKNOWN: Final = -1
