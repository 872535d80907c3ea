"""Types of numpy's arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating]
Integers = npt.NDArray[np.integer]
Booleans = npt.NDArray[np.bool_]
