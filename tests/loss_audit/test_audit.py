"""Audits find what is known of our losses, and the faults of losses that have one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from calibench.cli import main
from calibench.loss_audit import checks, page, propriety
from calibench.loss_audit.checks import AuditedLoss, in_processes
from calibench.loss_audit.page import ANSWER_WORDS, AUDIT_CHECKS, Audit, ask
from calibench.loss_audit.propriety import is_proper


@cache  # so that a loss comes to rest once
def subject(name: str, **arguments: Any) -> AuditedLoss:
    path = name if name[0].isupper() else f"tests.loss_audit.test_audit.{name}"
    return AuditedLoss(name, {"class_path": path, "init_args": arguments})


def of_softmax_plus(logits: Tensor, target: Tensor) -> Tensor:
    """Not finite where a probability underflows."""
    return -logits.softmax(1).gather(1, target[:, None]).log().mean()


def of_raw_logits(logits: Tensor, target: Tensor) -> Tensor:
    """Changed by a constant that is added to a row."""
    return (logits - F.one_hot(target, logits.shape[1])).square().mean()


def by_class_number(logits: Tensor, target: Tensor) -> Tensor:
    """Changed by the order of the classes."""
    return (F.cross_entropy(logits, target, reduction="none") * (1 + target)).mean()


def times_processes(logits: Tensor, target: Tensor) -> Tensor:
    """Another loss in several processes."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    return world * F.cross_entropy(logits, target)


def without_graph(logits: Tensor, target: Tensor) -> Tensor:
    """A gradient written by hand, without a second derivative."""
    return _ByHand.apply(logits, target)


class _ByHand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(logits, target)
        return F.cross_entropy(logits, target)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        logits, target = ctx.saved_tensors
        off = logits.softmax(1) - F.one_hot(target, logits.shape[1])
        return grad * off / len(target), None


class Counting(nn.Module):
    """Keeps what it counts outside its state."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        self.calls += 1
        return self.calls * F.cross_entropy(logits, target)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CrossEntropyLoss", "BrierLoss"])
def test_proper_losses_end_at_the_true_probabilities(name: str) -> None:
    for posterior, found in checks.train_to_rest(subject(name)):
        torch.testing.assert_close(found, posterior, atol=2e-3, rtol=0)


def power_score(logits: Tensor, target: Tensor) -> Tensor:
    """The power score of order 8 (Selten 1998): (7 sum_k p_k^8 - 8 p_y^7), strictly proper and nearly flat."""
    probs = logits.softmax(1)
    return (7 * probs.pow(8).sum(1) - 8 * probs.gather(1, target[:, None]).squeeze(1).pow(7)).mean()


@pytest.mark.parametrize(
    ("name", "arguments", "holds"),
    [
        ("CrossEntropyLoss", {}, True),
        pytest.param("BrierLoss", {}, True, marks=pytest.mark.slow),
        pytest.param("power_score", {}, True, marks=pytest.mark.slow),
        pytest.param("GenerativeCrossEntropy", {}, True, marks=pytest.mark.slow),
        ("LabelSmoothingLoss", {"smoothing": 0.005}, False),
        pytest.param("MarginLoss", {"margin": 0.1}, False, marks=pytest.mark.slow),
        pytest.param("MarginLoss", {"margin": 10.0}, False, marks=pytest.mark.slow),
        pytest.param("FocalLoss", {"gamma": 0.01}, False, marks=pytest.mark.slow),
        pytest.param("BSCEGRALoss", {"gamma": 2.0}, False, marks=pytest.mark.slow),
        ("DCALoss", {}, None),
    ],
)
def test_the_gradient_at_the_truth_says_what_is_proper(
    name: str, arguments: dict[str, Any], holds: bool | None
) -> None:
    found, seen = is_proper(subject(name, **arguments))
    assert found is holds, seen
    assert bool(seen) == (not holds)


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "BrierLoss", "power_score"])
def test_proper_losses_have_no_gradient_at_posteriors_of_a_millionth(name: str) -> None:
    assert propriety._find_steepest(subject(name)).size < 1e-9
    posterior = propriety._posteriors(4)
    torch.testing.assert_close(posterior.sum(1), torch.ones(7, dtype=torch.float64))
    assert posterior.min() < 1.1e-6


class WeightedByProbability(nn.Module):
    """Cross-entropy times 1 + weight p_y, held constant: improper by as little as the weight says."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        loss = F.cross_entropy(logits, target, reduction="none")
        return (loss * (1 + self.weight * (-loss).exp().detach())).mean()


@pytest.mark.parametrize(("weight", "holds"), [(1.8e-6, True), (2.2e-6, None)])
def test_a_relative_gradient_of_a_millionth_is_none(
    weight: float, holds: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At (1 - r, r) the two parts are opposed and in the ratio of their factors: (w0 - w1) / (w0 + w1) remains."""
    monkeypatch.setattr(checks, "STEPS", 1)  # where training ends is not asked
    path = "tests.loss_audit.test_audit.WeightedByProbability"
    block = {"class_path": path, "init_args": {"weight": weight}}
    found, seen = is_proper(AuditedLoss("slightly improper", block))
    assert found is holds
    assert seen.startswith("" if holds else "relative expected gradient 1.1e-06 at (1, 1e-06)")


@pytest.mark.slow
def test_label_smoothing_ends_at_the_smoothed_probabilities() -> None:
    smoothed = subject("LabelSmoothingLoss", smoothing=0.2)
    for posterior, found in checks.train_to_rest(smoothed):
        torch.testing.assert_close(found, 0.8 * posterior + 0.2 / 5, atol=2e-3, rtol=0)
    assert is_proper(smoothed)[0] is False
    assert checks.keeps_order(smoothed)[0]


def test_a_factor_held_constant_and_a_coupled_batch_are_seen() -> None:
    assert not checks.gradient_is_the_slope(subject("BSCEGRALoss", gamma=2.0))[0]
    assert checks.separable(subject("BSCEGRALoss", gamma=2.0))[0]
    assert not checks.separable(subject("MDCALoss"))[0]
    assert checks.gradient_is_the_slope(subject("MDCALoss"))[0]


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("of_softmax_plus", checks.finite_when_saturated),
        ("of_raw_logits", checks.shift_invariant),
        ("by_class_number", checks.permutes_with_the_classes),
        ("Counting", checks.resumable),
    ],
)
def test_a_fault_is_found(name: str, check: Any) -> None:
    with_fault = AuditedLoss(name, {"class_path": f"tests.loss_audit.test_audit.{name}"})
    assert not check(with_fault)[0]
    assert check(subject("CrossEntropyLoss"))[0]


def test_what_a_loss_raises_is_a_no() -> None:
    (transforms,) = [check for check in AUDIT_CHECKS if check.name == "torch.func"]
    holds, seen = ask(transforms, subject("without_graph"))
    assert not holds
    assert "functorch transforms" in seen


@pytest.mark.slow
def test_processes() -> None:
    assert in_processes(subject("AdaFocalLoss"), processes=2) == (True, "")
    holds, seen = in_processes(subject("times_processes"), processes=2)
    assert not holds
    assert "2 processes differ from one" in seen


@pytest.mark.slow
def test_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process: to start others takes most of an audit's time, and the slow tests do."""
    alone = [check for check in AUDIT_CHECKS if not check.name.endswith(" processes")]
    monkeypatch.setattr(page, "AUDIT_CHECKS", alone)
    file = tmp_path / "audit.json"
    faulty = "tests.loss_audit.test_audit.without_graph"
    assert main(["audit", faulty, "-o", str(file)]) == 1
    (found,) = json.loads(file.read_text())
    assert found["loss"] == faulty
    assert set(found["answers"]) == {check.name for check in alone}
    assert not found["answers"]["torch.func"]["holds"]
    assert found["answers"]["batch"]["holds"]
    assert found["cost"] > 0
    assert re.search(
        r"supports torch.func and double backward\? +no \(!\)", capsys.readouterr().out
    )


def test_a_page_in_markdown_makes_no_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {check: (True, "") for check in AUDIT_CHECKS}
    monkeypatch.setattr(page, "audit_loss", lambda subject: Audit(subject.name, answers, 1.0))
    monkeypatch.delattr(Audit, "as_json")
    assert main(["audit", "CrossEntropyLoss", "-o", str(tmp_path / "audit.md")]) == 0
    assert "Audit of CrossEntropyLoss" in (tmp_path / "audit.md").read_text()


@pytest.mark.slow
def test_no_loss_of_ours_has_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    assert main(["audit", "all", "-o", str(file)]) == 0
    found = {audit["loss"]: audit["answers"] for audit in json.loads(file.read_text())}
    infinite = {loss for loss, answers in found.items() if not answers["finite -inf"]["holds"]}
    assert infinite == {"label_smoothing", "margin", "acls"}
    of_size = {loss for loss, answers in found.items() if not answers["shift"]["holds"]}
    assert of_size == {"logit_norm", "acls"}
    elsewhere = {loss for loss, answers in found.items() if not answers["keeps order"]["holds"]}
    # two shift by the class counts, to MaxEnt classes are numbers; the fourth as its row of the committed table says
    assert elsewhere == {"balanced_softmax", "logit_adjustment", "maxent", "generative_focal"}
    numbered = {loss for loss, answers in found.items() if not answers["classes"]["holds"]}
    assert numbered == {"maxent"}
    results = Path(__file__).parents[2] / "benchmarks/results"
    page = (results / "audit.md").read_text().replace("\\_", "_")
    for loss, answers in found.items():
        words = [ANSWER_WORDS[answer["holds"]] for answer in answers.values()]
        assert f"| {loss} | {' | '.join(words)} |" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Foo"], "there is no loss `Foo`"),
        (["focl"], "did you mean focal"),
        (["FocalLoss", "--argument", "gama=3"], "no argument `gama`; did you mean gamma?"),
        (["FocalLoss", "--argument", "gamma"], "NAME=VALUE is expected"),
        (["FocalLoss", "-o", "audit.csv"], "must end in .json or .md"),
    ],
)
def test_mistakes(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments]) == 2
    assert said in capsys.readouterr().err


def _probability(logits: Tensor, target: Tensor) -> Tensor:
    return logits.softmax(1).gather(1, target[:, None]).squeeze(1)


def _distance(logits: Tensor) -> Tensor:
    return logits.amax(1) - logits.amin(1)


# The branches that losses have: margins of ten logits, thresholds of FLSD, bins of confidence, right and wrong answers.
BRANCHES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "within the margin": lambda z, y: _distance(z) < 10,
    "beyond the margin": lambda z, y: _distance(z) > 10,
    "top logit beyond ten": lambda z, y: z.amax(1) > 10,
    "top logit below 0": lambda z, y: z.amax(1) < 0,
    "true class below .2": lambda z, y: _probability(z, y) < 0.2,
    "true class above .2": lambda z, y: _probability(z, y) >= 0.2,
    "true class above .9": lambda z, y: _probability(z, y) > 0.9,
    "nearly uniform": lambda z, y: z.softmax(1).amax(1) < 0.3,
    "wrong and sure": lambda z, y: (z.softmax(1).amax(1) > 0.9) & (z.argmax(1) != y),
    "wrong and unsure": lambda z, y: (z.softmax(1).amax(1) < 0.5) & (z.argmax(1) != y),
    "right and unsure": lambda z, y: (z.softmax(1).amax(1) < 0.5) & (z.argmax(1) == y),
}


class HeldInBranch(nn.Module):
    """Cross-entropy times itself, held constant, for the examples of one branch: there the gradient is no slope."""

    def __init__(self, branch: str) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        loss = F.cross_entropy(logits, target, reduction="none")
        return torch.where(BRANCHES[self.branch](logits, target), loss.detach() * loss, loss).mean()


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_fault_in_one_branch_of_a_loss_is_found(branch: str) -> None:
    path = "tests.loss_audit.test_audit.HeldInBranch"
    broken = AuditedLoss(branch, {"class_path": path, "init_args": {"branch": branch}})
    holds, seen = checks.gradient_is_the_slope(broken)
    assert not holds, seen


@pytest.mark.parametrize("gamma", [-1, 1])
def test_gammas_of_either_sign_are_met(gamma: int) -> None:
    """AdaFocal's gamma is negative in bins that are underconfident on validation: audits see both."""
    loss = subject("AdaFocalLoss").live()
    logits, target = checks.random_batch(checks.BATCH)
    gammas = loss.focus(_probability(logits, target))  # type: ignore[operator]
    assert bool((gamma * gammas > 0).any())


def test_acls_holds_the_largest_logit_constant_and_the_margin_loss_does_not() -> None:
    holds, seen = checks.gradient_is_the_slope(subject("ACLSLoss"))
    assert not holds, seen
    assert checks.gradient_is_the_slope(subject("MarginLoss"))[0]
    assert not checks.shift_invariant(subject("ACLSLoss"))[0]
    assert checks.shift_invariant(subject("MarginLoss"))[0]
