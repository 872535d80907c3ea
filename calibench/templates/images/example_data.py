"""Makes example images, handwritten digits in a folder per class: `photos/<class>/<number>.png`."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

digits = load_digits()
for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
    if digit < 5:  # five classes are enough for an example
        folder = Path("photos") / f"digit {digit}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((15 * pixels).astype(np.uint8)).save(folder / f"{number}.png")
