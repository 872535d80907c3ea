"""The three families of methods: what the picture of each shows, the code that draws it, and what a page adds."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

import yaml

from calibench.metrics import TABLE

Note = dict[str, str]
ROOT = Path(__file__).resolve().parents[2]


class Family(ABC):
    """Losses, calibrators or metrics.

    Attributes:
        kind: What `calibench list` calls them.
        singular: One of them.
        alt: What the picture of {name} shows, for those who do not see it.
        legend: How the picture is read.
        cells: What the columns of its table of support mean.
    """

    kind: str
    singular: str
    alt: str
    legend: str
    cells: str

    @abstractmethod
    def code(self, name: str, note: Note) -> str:
        """The code that draws the picture of a method."""

    @abstractmethod
    def beside(self, name: str, note: Note) -> list[str]:
        """Further parts of its page."""


class Losses(Family):
    """Losses: the pull at the true class's logit, and the audit."""

    kind, singular = "losses", "loss"
    alt = "How hard {name} pulls at the logit of the true class, against its probability"
    legend = (
        "*The pull at the true class's logit (minus the gradient, times the batch size). Where the curve is below the"
        " dashed one, the loss is content earlier than cross-entropy. One batch of three classes, 99, 50 and 33"
        " examples.*"
    )

    cells = (
        "*Needs*: what you pass to `calibench.losses.attach` in your own loop; `fit` and the callback"
        " `Calibration` pass it by themselves. *As one batch*: gradients of micro-batches and of processes add up to"
        " that of the whole batch;"
        " *batch-coupled* losses need `calibench.gather_batch`, and cannot be accumulated. *(N, K, d)*: logits of maps"
        " or tokens. *Several labels*: labels (N, L). *compile*: one graph of `torch.compile`;"
        " *export*: `torch.export`; *ONNX*: ONNX Runtime gives the same value."
    )

    def code(self, name: str, note: Note) -> str:
        """The loss as its first file in benchmarks/losses builds it."""
        call = note.get("call") or constructed(next(iter(loss_files(name).values())))
        imports = ", ".join(sorted(set(re.findall(r"\b([A-Z]\w+)\(", call))))
        return Template(LOSS).substitute(call=call, imports=imports, name=name)

    def beside(self, name: str, note: Note) -> list[str]:
        """Its rows of the committed audit, and commands that train with it."""
        stems = list(loss_files(name))
        commands = "\n".join(
            f"calibench fit --config digits_lt --config losses/{stem}" for stem in stems
        )
        calls = "\n".join(
            f'calibench.fit("digits_lt", loss={constructed(block)})'
            for block in loss_files(name).values()
        )
        names = sorted(set(re.findall(r"\b([A-Z]\w+)\(", calls)))
        python = f"import calibench\nfrom calibench.losses import {', '.join(names)}\n\n{calls}"
        return [*_audit(stems), f"## Train with it\n\n{tabs(commands, python)}"] if stems else []


class Calibrators(Family):
    """Calibrators: the map of a probability."""

    kind, singular = "calibrators", "calibrator"
    alt = "The probability of a class after {name}, against that before"
    legend = "*Fitted on 1,000 overconfident predictions of three classes whose true temperature is 2.5.*"

    cells = (
        "*Fitted numbers*: of ten classes; *by the data*: more of them with more examples. *Weights*: `sample_weight`."
        " *Masked classes*: logits of -inf. *Gradient*: with respect to the logits. *JSON file*: `save_calibrator`."
        " *compile*: one graph of `torch.compile`; *export*: `torch.export`; *ONNX*: ONNX Runtime gives the same."
    )

    def code(self, name: str, note: Note) -> str:
        """The calibrator with its defaults."""
        return Template(CALIBRATOR).substitute(name=name)

    def beside(self, name: str, note: Note) -> list[str]:
        """A command that scores it."""
        return [on_your_logits(f"--calibrators {name}", f'calibrators=["{name}"]')]


class Metrics(Family):
    """Metrics: their answer to less and more sure predictions."""

    kind, singular = "metrics", "metric"
    alt = "{name} of predictions that are made less and more sure"
    legend = (
        "*Logits of 2,000 predictions that are calibrated at 1, divided by the temperature on the axis: overconfident"
        " to its left, underconfident to its right.*"
    )

    cells = (
        "*Keeps*: sums, whose size does not depend on the number of examples, or a confidence and a hit per example,"
        " gathered from all processes. *(N, K, d)*: maps or tokens. *P(y = 1)*: one column of two classes."
    )

    def code(self, name: str, note: Note) -> str:
        """The metric, called by its name or by the note's block."""
        metric = note.get("metric", repr(name))
        return Template(METRIC).substitute(metric=metric, names=list(TABLE[name].values))

    def beside(self, name: str, note: Note) -> list[str]:
        """A command that computes it, where its name alone says all it needs."""
        alone = not note.keys() & {"code", "metric"}
        option = on_your_logits(f"--metrics {name}", f'metrics=["{name}"]')
        return [option] if alone else []


FAMILIES: list[Family] = [Losses(), Calibrators(), Metrics()]


def on_your_logits(option: str, argument: str) -> str:
    """A part with the command on anybody's logits, and the call in Python."""
    command = f"calibench evaluate --val val.npz --test test.npz {option}"
    call = f"calibench.evaluate(logits, labels, val=(val_logits, val_labels), {argument})"
    python = f"import calibench\n\n{call}"
    return f"## On your logits\n\n{tabs(command, python)}"


def tabs(shell: str, python: str) -> str:
    """The same thing in a shell and in Python, one beside the other."""
    blocks = {"Shell": ("bash", shell), "Python": ("python", python)}
    return "\n".join(
        f'=== "{title}"\n\n' + indent(f"```{language}\n{text}\n```\n", "    ")
        for title, (language, text) in blocks.items()
    )


@cache
def loss_files(name: str) -> dict[str, dict[str, Any]]:
    """The blocks of the files in benchmarks/losses that name a loss."""
    files = sorted((ROOT / "benchmarks/losses").glob("*.yaml"))
    blocks = {path.stem: yaml.safe_load(path.read_text())["model"]["loss"] for path in files}
    return {stem: block for stem, block in blocks.items() if block["class_path"] == name}


def constructed(block: Any) -> str:
    """A block of a configuration as the Python that builds it."""
    if isinstance(block, list):
        return f"[{', '.join(map(constructed, block))}]"
    if not (isinstance(block, dict) and "class_path" in block):
        return repr(block)
    given = block.get("init_args", {}).items()
    arguments = ", ".join(f"{key}={constructed(value)}" for key, value in given)
    return f"{block['class_path']}({arguments})"


def _audit(stems: list[str]) -> list[str]:
    """The first columns and the cost of the committed audit of some losses."""
    page = (ROOT / "benchmarks/results/audit.md").read_text().replace("\\_", "_")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if line[0] in ("loss", *stems) and len(line) > 8]
    if len(rows) < 2:
        return []
    head, *others = [f"| {' | '.join([*row[:7], row[-1]])} |" for row in rows]
    table = "\n".join([head, "|---" * 8 + "|", *others])
    return [
        f"## Is it proper?\n\n{table}\n\n[What the columns mean](../benchmarks/results/audit.md)"
    ]


LOSS = """\
import torch
from matplotlib import pyplot as plt
from calibench.losses import $imports

loss = $call
loss.on_fit_start(torch.tensor([500, 200, 90]))          # for losses that know the class counts

p = torch.linspace(0.01, 0.99, 99)                       # of the true class; the others share the rest 7 to 3
rows = torch.stack([p, 0.7 * (1 - p), 0.3 * (1 - p)], dim=1)
probs = torch.cat([rows, rows[::2].roll(1, dims=1), rows[::3].roll(2, dims=1)])  # 99, 50 and 33 of the classes
target = torch.arange(3).repeat_interleave(torch.tensor([99, 50, 33]))
logits = probs.log().requires_grad_()
(slope,) = torch.autograd.grad(loss(logits, target), logits)
pull = -len(target) * slope.gather(1, target[:, None])

plt.plot(p, pull[:99], label="the most frequent class")
plt.plot(p[::3], pull[149:], ":", lw=2.5, label="the rarest class")
plt.plot(p, 1 - p, "k--", lw=1, label="cross-entropy")
plt.xlabel("probability of the true class")
plt.ylabel("pull at its logit")
plt.legend()
"""

CALIBRATOR = """\
import torch
from matplotlib import pyplot as plt
from calibench.calibrators import $name

torch.manual_seed(0)
logits = 4 * torch.randn(1000, 3)
target = torch.distributions.Categorical(logits=logits / 2.5).sample()
after = $name().fit(logits, target)(logits)

plt.plot([0, 1], [0, 1], "k--", lw=1)
plt.scatter(logits.softmax(1)[:, 0], after[:, 0], s=6)
plt.xlabel("probability of class 0 before")
plt.ylabel("and after")
"""

METRIC = """\
import calibench
import torch
from matplotlib import pyplot as plt

torch.manual_seed(0)
logits = 2 * torch.randn(2000, 3)                        # calibrated, as the labels are drawn from them
labels = torch.distributions.Categorical(logits=logits).sample()
temperatures = [0.4, 0.7, 1, 1.4, 2]
reports = [
    calibench.evaluate(  # the first half is the validation set, which some metrics need
        logits[1000:] / t, labels[1000:], val=(logits[:1000] / t, labels[:1000]),
        calibrators=[], n_bins=[15], metrics=[$metric],
    )
    for t in temperatures
]
for name in $names:
    plt.plot(temperatures, [report.value(name) for report in reports], "o-", label=name)
plt.xlabel("temperature that divides the logits")
plt.legend()
"""
