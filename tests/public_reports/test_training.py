"""Training as people reported that it ended, or that something else was recorded: each names its thread."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from calibench.losses import FocalLoss, GenerativeCrossEntropy, WeightedSum
from calibench.losses.imported import ImportedLoss
from calibench.messages.errors import ExpectedFailure, UsageError
from calibench.runs import Predictions, Run, read_json
from calibench.training.fit import fit
from calibench.training.infer import check_count
from calibench.verbs.fit import configuration_of
from tests import warm

PLANS = "tests.public_reports.plans"
BASE = f"""
--data {PLANS}.Vectors --model.backbone {PLANS}.Normalised --model.loss CrossEntropyLoss
--trainer.max_epochs 2 --trainer.enable_progress_bar false --evaluation.calibrators [] --model.optimizer SGD --model.optimizer.lr 0.01
""".split()


def train(root: Path, *options: str) -> Run:
    line = [*BASE, *" ".join(options).split(), "--trainer.default_root_dir", str(root)]
    return fit(configuration_of(line))[1]


def caveats(run: Run) -> list[str]:
    found: list[str] = read_json(run.folder / "metrics.json")["caveats"]
    return found


def curve(run: Run) -> list[dict[str, str]]:
    with (run.folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_last_batch_of_one_is_left_out_and_said(tmp_path: Path) -> None:
    """chemprop/chemprop#680, C2D#5: 65 examples in batches of 16, batch normalisation: torch raises in epoch 1."""
    text = "the last batch of each epoch, 1 example, is left out"
    with pytest.warns(UserWarning, match=text):
        run = train(tmp_path)
    assert any(line.startswith(text) for line in caveats(run))
    assert [row["step"] for row in curve(run)] == ["4", "8"]


def test_a_last_batch_that_batch_normalisation_takes_is_used(tmp_path: Path) -> None:
    """The same with 66 examples: the last batch has two."""
    run = train(tmp_path, "--data.train 66")
    assert caveats(run) == []
    assert [row["step"] for row in curve(run)] == ["5", "10"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("examples", [65, 66, 67])
def test_a_last_batch_over_two_processes(examples: int, workers: int, tmp_path: Path) -> None:
    """Of the last batch each process has its slice: of 66 images one each, of 67 one process has one, the other two."""
    options = f"--data.train {examples} --data.workers {workers} --trainer.accelerator cpu"
    line = [*BASE, *options.split(), "--trainer.default_root_dir", str(tmp_path)]
    for done in warm.torchrun(["fit", *line, "--trainer.devices", "auto"]):
        assert done.returncode == 0, done.stderr
    run = Run(next(tmp_path.rglob("status.json")).parent)
    told = [text for text in caveats(run) if text.startswith("the last batch of each epoch")]
    assert len(told) == 1
    assert told[0].startswith(
        f"the last batch of each epoch, {examples % 16} example{'s' * (examples % 16 > 1)}, is left out"
    )
    assert [row["step"] for row in curve(run)] == ["4", "8"]
    assert len(Predictions.load(run.folder / "predictions" / "test.npz").target) == 31


def test_one_training_example_is_refused(tmp_path: Path) -> None:
    """A batch of one, and no other: nothing is left to train on."""
    with pytest.raises(UsageError, match="training split has 1 example: batch normalisation needs"):
        train(tmp_path, "--data.train 1")
    assert list(tmp_path.iterdir()) == []


def test_a_lonely_example_is_said_of_a_batch_coupled_loss(tmp_path: Path) -> None:
    """Generative cross-entropy of one example is 0 without gradient; a network without batch normalisation takes it."""
    layer = "--model.backbone MLP --model.backbone.in_features 4"
    with pytest.warns(UserWarning, match="last batch of each epoch has 1 example, and Generative"):
        train(tmp_path, layer, "--model.loss GenerativeCrossEntropy --trainer.max_epochs 1")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("check_val_every_n_epoch 5 --evaluated_checkpoint best_nll", "after 8 training batches, before the first validation, which comes after 20, and `evaluated_checkpoint` best_nll needs one"),
        ("check_val_every_n_epoch 5 --trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor val/nll", "EarlyStopping of `val/nll` needs one"),
        ("max_steps 3 --evaluated_checkpoint best_nll", "after 3 training batches, before the first validation, which comes after 4"),
        ("val_check_interval 9 --trainer.check_val_every_n_epoch null --evaluated_checkpoint best_error", "which comes after 9, and"),
        ("val_check_interval 9", "`trainer.val_check_interval` is 9, and an epoch has 4 batches"),
        ("val_check_interval 3 --trainer.limit_train_batches 2", "`trainer.val_check_interval` is 3, and an epoch has 2 batches"),
        ("val_check_interval 8 --trainer.check_val_every_n_epoch null --trainer.max_steps 3 --trainer.accumulate_grad_batches 3 --evaluated_checkpoint best_nll", "after 7 training batches, before the first validation, which comes after 8"),
    ],
)  # fmt: skip
def test_a_validation_that_never_comes_is_refused(options: str, text: str, tmp_path: Path) -> None:
    """Lightning-AI/pytorch-lightning#1901, #18259: validation every 5 epochs of 2; a traceback came after training."""
    with pytest.raises(UsageError) as refused:
        train(tmp_path, f"--data.train 64 --trainer.{options}")
    assert text in str(refused.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("options", "validated"),
    [
        ("check_val_every_n_epoch 2 --trainer.val_check_interval 0.5 --trainer.max_steps 6", [False, True]),
        pytest.param("check_val_every_n_epoch null --trainer.val_check_interval 8", [False, True], marks=pytest.mark.slow),
        pytest.param("limit_train_batches 2 --trainer.max_epochs 1 --trainer.val_check_interval 2", [True], marks=pytest.mark.slow),
        ("accumulate_grad_batches 3 --trainer.max_steps 2", [True]),
    ],
)  # fmt: skip
def test_a_validation_that_comes_in_time_is_enough(
    options: str, validated: list[bool], tmp_path: Path
) -> None:
    """At the last batch of the run, whatever counts it."""
    run = train(tmp_path, f"--data.train 64 --evaluated_checkpoint best_nll --trainer.{options}")
    assert [bool(row["val/nll"]) for row in curve(run)] == validated


def test_a_plateau_is_looked_for_after_validations(tmp_path: Path) -> None:
    """Lightning looks for `val/nll` after every epoch, and ends a run whose first epoch is not validated."""
    plateau = "--model.lr_scheduler torch.optim.lr_scheduler.ReduceLROnPlateau"
    factor = "--model.lr_scheduler.patience 0 --model.lr_scheduler.threshold 0.9"
    every = "--trainer.check_val_every_n_epoch 2 --trainer.max_epochs 5 --data.train 64"
    run = train(tmp_path, plateau, factor, every)
    assert [float(row["lr"]) for row in curve(run)] == pytest.approx([0.01] * 4 + [0.001])


@pytest.mark.parametrize(
    ("limit", "count"), [("1", 16), pytest.param("7", 31, marks=pytest.mark.slow)]
)
def test_results_of_some_test_batches_say_it(limit: str, count: int, tmp_path: Path) -> None:
    """`limit_test_batches` 1 is one batch: the run was trained and then failed."""
    run = train(tmp_path, f"--data.train 64 --trainer.limit_test_batches {limit}")
    assert len(Predictions.load(run.folder / "predictions" / "test.npz").target) == count
    line = "test: 16 of 31 examples, as `trainer.limit_test_batches` says"
    assert (line in caveats(run)) == (count < 31)


def test_epochs_without_validation_have_no_validation_numbers(tmp_path: Path) -> None:
    """Lightning#1901: every second epoch is validated; the first has no numbers, and the best is the last."""
    run = train(
        tmp_path,
        "--data.train 64 --trainer.max_epochs 3 --trainer.check_val_every_n_epoch 2 --evaluated_checkpoint best_nll",
    )
    assert [bool(row["val/nll"]) for row in curve(run)] == [False, True, False]
    assert (run.checkpoints / "best.ckpt").is_file()


def test_validations_within_an_epoch_are_lightnings(tmp_path: Path) -> None:
    """`val_check_interval` 0.5: twice an epoch; the numbers of the epoch are those of its last validation."""
    run = train(tmp_path, "--data.train 64 --trainer.val_check_interval 0.5")
    assert [bool(row["val/nll"]) for row in curve(run)] == [True, True]


@pytest.mark.parametrize(
    ("callback", "instead"),
    [
        ("BatchSizeFinder", "another batch size than is recorded: set `data.batch_size`"),
        ("LearningRateFinder", "set `model.optimizer.lr`"),
        ("StochasticWeightAveraging --trainer.callbacks.swa_lrs 0.1", "use `protocols/swa`"),
    ],
)  # fmt: skip
def test_callbacks_that_train_otherwise_than_is_recorded_are_refused(
    callback: str, instead: str, tmp_path: Path
) -> None:
    """BatchSizeFinder trained with 256 where 16 was recorded; Lightning's averaging runs one epoch too many."""
    with pytest.raises(UsageError) as refused:
        train(tmp_path, f"--trainer.callbacks+={callback}")
    assert instead in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_float16_on_a_cpu_is_recorded_as_what_runs(tmp_path: Path) -> None:
    """Lightning takes bfloat16 in its place and says so in a warning that no file keeps."""
    run = train(tmp_path, "--trainer.precision 16-mixed --data.train 64 --trainer.accelerator cpu")
    assert "precision: bf16-mixed" in (run.folder / "config.yaml").read_text()
    assert "trained with bf16-mixed: a CPU has no 16-mixed precision" in caveats(run)


def test_a_class_that_training_lacks_is_a_note(tmp_path: Path) -> None:
    """Only the split took it out: the run goes on, and every result says it."""
    run = train(tmp_path, "--data.train 64 --data.lacks 2")
    assert "training has no example of 1 of 3 classes: 2" in caveats(run)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("train 7", "input 1 of example"),
        ("val 3", "input 1 of example 3 of `val` is nan"),
        pytest.param("test 5", "input 1 of example 5 of `test` is nan", marks=pytest.mark.slow),
    ],
)
def test_an_input_that_is_no_number_is_named(place: str, text: str, tmp_path: Path) -> None:
    """Not "the logits are NaN": the input, the example and the split."""
    with pytest.raises((UsageError, ExpectedFailure)) as failed:
        train(tmp_path, "--data.train 64", f"--data.nan_at {place.replace(chr(32), chr(95))}")
    assert text in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_network_that_ends_in_a_sigmoid_is_refused(tmp_path: Path) -> None:
    """As one that ends in softmax is: cross-entropy of values in [0, 1] hardly learns."""
    with pytest.raises(UsageError, match="it ends in a sigmoid; it must give logits"):
        train(tmp_path, f"--data.train 64 --model.backbone {PLANS}.EndsInSigmoid")


def test_a_divergence_is_said_in_results(tmp_path: Path) -> None:
    """An NLL of thousands is no result of a method."""
    run = train(
        tmp_path, f"--data.train 64 --model.backbone {PLANS}.Exploding --trainer.max_epochs 1"
    )
    assert any(
        line.startswith("training diverged: the NLL on the test set is") for line in caveats(run)
    )
    assert not any("diverged" in line for line in caveats(train(tmp_path, "--data.train 64")))


@pytest.mark.parametrize(
    ("loss", "coupled"),
    [
        (FocalLoss(gamma=2.0), False),
        (GenerativeCrossEntropy(), True),
        (WeightedSum(losses=[FocalLoss(gamma=1.0)], weights=[1.0]), False),
        (WeightedSum(losses=[FocalLoss(gamma=1.0), GenerativeCrossEntropy()], weights=[1.0, 1.0]), True),
        (ImportedLoss(name="torch.nn.functional.cross_entropy"), False),
        (ImportedLoss(name="torch.nn.CrossEntropyLoss", arguments={"weight": [1.0, 2.0, 3.0]}), True),
    ],
)  # fmt: skip
def test_only_batch_coupled_losses_are_said_to_be(loss: Any, coupled: bool) -> None:
    assert loss.batch_coupled is coupled


def test_each_example_is_predicted_once() -> None:
    """Lightning#6966, pytorch#38925: 150 examples, 192 that came from two workers, 128 different ones."""
    check_count("test", 150, (150, 150))
    check_count("test", 150, (64, 64), limited=True)
    with pytest.raises(
        ExpectedFailure, match="`test` has 150 examples, its loader gave 192, and 128"
    ):
        check_count("test", 150, (192, 128))
    for given in ((149, 149), (151, 150), (150, 149)):
        with pytest.raises(ExpectedFailure, match="each must come once"):
            check_count("test", 150, given)
    with pytest.raises(ExpectedFailure):
        check_count("test", 150, (65, 64), limited=True)


@pytest.mark.slow
def test_accumulation_in_a_hugging_face_trainer_is_one_batch(tmp_path: Path) -> None:
    """transformers, `num_items_in_batch`: the step of the page's recipe, 4 batches of 8 against one of 32."""
    transformers = pytest.importorskip("transformers")
    loss = FocalLoss(gamma=2.0)

    def compute_loss(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        return loss(outputs.logits, labels, reduction="sum") / num_items_in_batch

    tiny = dict(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
    )  # fmt: skip
    rows = [
        {"input_ids": torch.tensor([1 + n % 7, n % 5, n % 3]), "labels": n % 3} for n in range(32)
    ]

    def weights(batch: int, accumulated: int) -> torch.Tensor:
        torch.manual_seed(0)
        model = transformers.BertForSequenceClassification(transformers.BertConfig(**tiny))
        args = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=batch, gradient_accumulation_steps=accumulated, max_steps=1,
            optim="sgd", learning_rate=0.1, lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[],
            save_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        transformers.Trainer(
            model, args, train_dataset=rows, compute_loss_func=compute_loss
        ).train()
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    torch.testing.assert_close(weights(8, 4), weights(32, 1), rtol=1e-5, atol=1e-6)


def test_accumulated_losses_are_divided_by_the_number_of_all() -> None:
    """transformers: 8 rows at a time, 4 times, are one batch of 32, where the sum is divided by the rows of all."""
    torch.manual_seed(0)
    network = nn.Linear(5, 3).double()
    inputs, target = torch.randn(32, 5).double(), torch.arange(32) % 3
    loss = FocalLoss(gamma=2.0)

    def gradient(parts: int) -> torch.Tensor:
        network.zero_grad()
        for rows, classes in zip(inputs.chunk(parts), target.chunk(parts), strict=True):
            (loss(network(rows), classes, reduction="sum") / len(inputs)).backward()
        return torch.cat([p.grad.flatten().clone() for p in network.parameters()])

    torch.testing.assert_close(gradient(4), gradient(1), rtol=1e-10, atol=1e-12)
    loss(network(inputs), target).backward()  # on top: twice the gradient
    twice = torch.cat([p.grad.flatten() for p in network.parameters()])
    torch.testing.assert_close(twice, 2 * gradient(1), rtol=1e-10, atol=1e-12)
