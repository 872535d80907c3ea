"""The logits that `validate`, `test` and `predict` collected, as prediction files."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as L

from calibench.data import ClassificationDataModule
from calibench.runs import Predictions
from calibench.training.module import ClassificationModule


def save_collected(trainer: L.Trainer, folder: Path) -> dict[str, Predictions]:
    """Write the logits that the trainer collected last, one .npz file for each split and set, in dataset order.

    Returns:
        What was written, by the name of the split or set; nothing in processes but the first.
    """
    if not trainer.is_global_zero:
        return {}
    module, data = trainer.lightning_module, trainer.datamodule  # type: ignore[attr-defined]
    assert isinstance(module, ClassificationModule)
    assert isinstance(data, ClassificationDataModule)
    kinds = {"val": "val", "test": "test"}
    kinds |= {name: item.kind for name, item in data.evaluation_sets.items()}
    saved = {}
    for name, outputs in module.outputs.items():
        metadata = {
            "split": name,
            "kind": kinds[name],
            **data.task.metadata(data.class_counts),
            "fingerprint": data.fingerprint,
            "caveats": [*data.caveats, *module.caveats],
        }
        if kinds[name] == "ood":
            metadata["distance"] = "near" if name in data.near_ood else "far"
        logits, target = outputs.logits.float().cpu().numpy(), outputs.target.cpu().numpy()
        known = data.test_posterior if name == "test" else None
        posterior = None if known is None else known.probs[: len(target)].numpy()
        metadata |= {} if known is None else {"posterior": known.source}
        saved[name] = Predictions.of_outputs(logits, target, metadata, posterior=posterior)
        saved[name].save(folder / f"{name}.npz")
    return saved
