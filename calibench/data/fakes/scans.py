"""Made-up tau PET scans in the form that `benchmarks/av1451.yaml` reads: three overlapping Gaussians."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

FILE = "av1451/av1451.csv"
SUBJECTS, SCANS = 300, 1080
CLASSES = ("CN", "MCI", "AD")
# Regions of Desikan and Killiany's atlas, as the archive writes them.
REGIONS = (
    "BANKSSTS", "CAUDALANTERIORCINGULATE", "CAUDALMIDDLEFRONTAL", "CUNEUS", "ENTORHINAL", "FRONTALPOLE",
    "FUSIFORM", "INFERIORPARIETAL", "INFERIORTEMPORAL", "INSULA", "ISTHMUSCINGULATE", "LATERALOCCIPITAL",
    "LATERALORBITOFRONTAL", "LINGUAL", "MEDIALORBITOFRONTAL", "MIDDLETEMPORAL", "PARACENTRAL",
    "PARAHIPPOCAMPAL", "PARSOPERCULARIS", "PARSORBITALIS", "PARSTRIANGULARIS", "PERICALCARINE", "POSTCENTRAL",
    "POSTERIORCINGULATE", "PRECENTRAL", "PRECUNEUS", "ROSTRALANTERIORCINGULATE", "ROSTRALMIDDLEFRONTAL",
    "SUPERIORFRONTAL", "SUPERIORPARIETAL", "SUPERIORTEMPORAL", "SUPRAMARGINAL", "TEMPORALPOLE",
    "TRANSVERSETEMPORAL",
)  # fmt: skip
COLUMNS = [f"CTX_{side}_{region}_SUVR" for side in ("LH", "RH") for region in REGIONS]
_UNKNOWN = ["CTX_LH_UNKNOWN_SUVR", "CTX_RH_UNKNOWN_SUVR"]  # in the archive, no region of the atlas

_SHARES = (0.5, 0.35, 0.15)  # of the subjects
_BASE, _STEP = 1.2, 0.02  # SUVR of the first class in every region, and from class to class
_OF_SUBJECT, _OF_SCAN = 0.1, 0.1  # standard deviations


class Scans(NamedTuple):
    """Subjects (N,), diagnoses as numbers of `CLASSES` (N,), and uptake ratios (N, 68)."""

    subjects: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    uptake: npt.NDArray[np.float64]


def make_scans(seed: int = 0) -> Scans:
    """1,080 scans of 300 subjects with 1 to 6 each: Gaussian about the class's mean, alike within a subject."""
    random = np.random.default_rng(seed)
    diagnosis = random.permutation(
        np.repeat(range(3), np.rint(np.array(_SHARES) * SUBJECTS).astype(int))
    )
    counts = np.ones(SUBJECTS, np.int64)
    while counts.sum() < SCANS:
        counts[random.choice(np.flatnonzero(counts < 6))] += 1
    subjects = np.repeat(np.arange(SUBJECTS), counts)
    target = diagnosis[subjects]
    own = random.normal(0, _OF_SUBJECT, (SUBJECTS, len(COLUMNS)))[subjects]
    noise = random.normal(0, _OF_SCAN, own.shape)
    return Scans(subjects, target, _BASE + _STEP * target[:, None] + own + noise)


def posterior(scans: Scans) -> npt.NDArray[np.float64]:
    """True class probabilities (N, 3) of each scan alone, at the classes' shares of the scans."""
    means = _BASE + _STEP * np.arange(3)
    variance = _OF_SUBJECT**2 + _OF_SCAN**2
    squares = ((scans.uptake[:, :, None] - means) ** 2).sum(1)
    prior = np.bincount(scans.target) / len(scans.target)
    probs: npt.NDArray[np.float64] = softmax(-squares / (2 * variance) + np.log(prior), axis=1)
    return probs


def write_scans(root: Path) -> Scans:
    """Write `av1451/av1451.csv` below a folder, with columns RID, DX and one of each region."""
    import pandas

    scans = make_scans()
    path = root / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pandas.DataFrame(scans.uptake, columns=COLUMNS)
    frame[_UNKNOWN] = 1.0
    frame.insert(0, "RID", scans.subjects)
    frame.insert(1, "DX", np.array(CLASSES)[scans.target])
    frame.to_csv(path, index=False, float_format="%.5f")
    return scans
