"""Predictions in Python: `calibench.load`, for whatever the command line reads."""

from pathlib import Path
from typing import Any

from calibench.predictions.files import Reader, is_a_file
from calibench.predictions.pairs import ConfidencePairs
from calibench.runs import Predictions
from calibench.store import finding
from calibench.store.entry import STATUS


def load(
    name: Path | str, store: Path | str = finding.SHIPPED, **reading: Any
) -> Predictions | ConfidencePairs | dict[str, Predictions]:
    """Read predictions: of a file of any framework, a run, or an entry of a store.

    Args:
        name: A file, as `calibench evaluate` reads it (`x.npz`, `x.csv`, `logits.npy:labels.npy`, ...); the folder of a
            run; or an entry `<benchmark>/<backbone>/<loss>/[<key>/]seed=<k>`.
        store: Where an entry is: a folder, a URL or `store`, the store that comes with calibench.
        **reading: Of a file, the arguments of `Reader`: `scores`, `clip`, `task`.

    Returns:
        Of a file its predictions, or the pairs of confidence and hit that it holds; else those of each split and set.

    Raises:
        FileNotFoundError: If there is no such file, or folder of results.
        StoreError: If there is no such entry, or more than one; the message lists them.
        CorruptRun: If it is damaged, or holds something else.
    """
    if is_a_file(str(name)):
        return Reader(**reading).read(str(name))
    if (Path(name) / STATUS).is_file():
        return finding.find_run(str(name)).predictions()
    return finding.load(str(name), store)
