"""What an example is classified into: one of several classes, or several labels. A data module says it."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from calibench.files.set_names import CLASSES, MULTICLASS, MULTILABEL
from calibench.losses import CalibrationLoss
from calibench.losses.several_labels import LabelLoss, two_class_rows


class Task:
    """One class an example: outputs are logits (N, K), targets class indices (N,).

    The one place that knows how a network's outputs and an example's target become logits and classes: losses, metrics
    and calibrators see logits (N, K) and class indices (N,) whatever the task.

    Args:
        names: Names of the classes, or of the labels.

    Attributes:
        name: What files call it.
        what: What the outputs are of.
        class_names: Names of the K classes that losses and metrics see.
        outputs: Logits that a network gives of an example.
    """

    name: ClassVar[str] = MULTICLASS
    what: ClassVar[str] = "classes"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.class_names, self.outputs = self.names, len(self.names)

    def rows(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (M, K) and class indices (M,) for the metrics, from outputs and targets."""
        return logits, target

    def loss(self, loss: CalibrationLoss) -> CalibrationLoss | LabelLoss:
        """The loss of outputs and targets that a loss of classes makes."""
        return loss

    def counts(self, target: Tensor) -> Tensor:
        """Training examples of each class, as the loss is told them, (K,) int64."""
        return torch.bincount(target, minlength=self.outputs)

    def strata(self, target: Tensor) -> Tensor:
        """The stratum of each example for random splits, (N,) int64."""
        return target

    def mean_of_views(self, logits: Tensor) -> Tensor:
        """Logits of the mean probabilities of several views of an example: outputs (n, views, L) -> (n, L)."""
        return logits.log_softmax(2).logsumexp(1)

    def described(self, target: Tensor) -> str:
        """The target of one example in words."""
        return self.names[int(target)]

    def metadata(self, counts: Tensor) -> dict[str, object]:
        """Metadata of the task for prediction files, given `counts` of the training examples."""
        return {"task": self.name, "class_names": self.names, "class_counts": counts.tolist()}


class Multilabel(Task):
    """Several labels an example: outputs are logits (N, L), targets (N, L) with 1 present, 0 absent, -1 unknown.

    Each known label is an example of the classes absent and present, with the logits (0, z).
    """

    name, what = MULTILABEL, "labels"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.class_names = list(CLASSES)

    def rows(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The known labels as two-class logits (M, 2) and targets (M,)."""
        return two_class_rows(logits, target)

    def loss(self, loss: CalibrationLoss) -> LabelLoss:
        """The mean of the loss over the known labels."""
        return LabelLoss(loss, self.names)

    def counts(self, target: Tensor) -> Tensor:
        """How often each label is absent and present, (L, 2) int64."""
        return torch.stack([(target == state).sum(0) for state in (0, 1)], dim=1)

    def strata(self, target: Tensor) -> Tensor:
        """Nothing: there are too many combinations of labels."""
        return torch.zeros(len(target), dtype=torch.int64)

    def mean_of_views(self, logits: Tensor) -> Tensor:
        """Log-odds of the mean of the sigmoids."""
        present, absent = (
            nn.functional.logsigmoid(part).logsumexp(1) for part in (logits, -logits)
        )
        return present - absent

    def described(self, target: Tensor) -> str:
        """The names of the labels that are present."""
        return ", ".join(self.names[i] for i in (target == 1).nonzero()[:, 0].tolist()) or "none"

    def metadata(self, counts: Tensor) -> dict[str, object]:
        """Names and counts of the labels, and counts of all of them together."""
        pooled = {"class_names": self.class_names, "class_counts": counts.sum(0).tolist()}
        of_labels = {"label_names": self.names, "label_counts": counts.tolist()}
        return {"task": self.name, **pooled, **of_labels}
