"""Names that data and prediction files share, without torch: tasks, parts, evaluation sets and patterns of them."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Final

from calibench.messages.errors import near_matches

MULTICLASS: Final = "multiclass"
MULTILABEL: Final = "multilabel"

# Of several labels an example: the two classes of each, and the target of one that is not known.
CLASSES: Final = ("absent", "present")
UNKNOWN: Final = -1

PART_NAMES: Mapping[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
"""Names of folders, files and cells, in any case, by the part of the data that they say."""
PARTS = {name: part for part, names in PART_NAMES.items() for name in names}
"""The part that each name says."""

OUT_OF_DISTRIBUTION = ("svhn", "cifar10", "cifar100", "mnist", "tiny_imagenet", "noise")
CORRUPTED = ("cifar10", "cifar100", "tiny_imagenet", "imagenet")  # that have a `-C` archive
IMAGENET_VARIANTS = ("imagenet_v2", "imagenet_r", "imagenet_a")
CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise",
    "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "gaussian_blur",
    "snow", "frost", "fog", "brightness", "spatter",
    "contrast", "elastic_transform", "pixelate", "jpeg_compression", "saturate",
)  # fmt: skip
SEVERITIES = (1, 2, 3, 4, 5)
_SHOWN = 8  # names in a message


def part_of(name: str) -> str | None:
    """The part, `train`, `val` or `test`, that a name says; None if it says none."""
    return PARTS.get(name.strip().lower())


def image_evaluation_sets(dataset: str) -> list[str]:
    """Evaluation sets of an image data set: all other sets, and its corruptions where it has them."""
    names = [name for name in OUT_OF_DISTRIBUTION if name != dataset]
    if dataset == "imagenet":
        names += IMAGENET_VARIANTS
    if dataset in CORRUPTED:
        names += [f"{kind}-{severity}" for kind in CORRUPTIONS for severity in SEVERITIES]
    return names


def match_set_names(patterns: Sequence[str], all_names: Sequence[str] | None) -> list[str]:
    """Match patterns such as `noise` or `*-5` with names, in order and once; the patterns if any name may be one.

    Raises a ValueError for a pattern that means none.
    """
    if all_names is None:
        return [*patterns]
    names: dict[str, None] = {}
    for pattern in patterns:
        matches = fnmatch.filter(all_names, pattern)
        if not matches:
            ellipsis = ", ..." if len(all_names) > _SHOWN else ""
            choices = (
                f"known: {', '.join(all_names[:_SHOWN])}{ellipsis}"
                if all_names
                else "there are none"
            )
            near = near_matches(pattern, all_names)
            raise ValueError(f"there is no evaluation set `{pattern}` here{near} ({choices}).")
        names |= dict.fromkeys(matches)
    return [*names]
