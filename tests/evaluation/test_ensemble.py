"""A deep ensemble is the mean of its members' probabilities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calibench.calibrators import TemperatureScaling
from calibench.cli import main
from calibench.evaluation import deep_ensemble

from .examples import predictions, saved


def test_probabilities_are_averaged() -> None:
    one = predictions()
    other = replace(one, logits=one.logits[:, ::-1] * 0.3)
    mean = (
        torch.from_numpy(one.logits).softmax(1) + torch.from_numpy(other.logits.copy()).softmax(1)
    ) / 2
    found = deep_ensemble([one, other])
    torch.testing.assert_close(torch.from_numpy(found.logits).softmax(1), mean)
    assert found.metadata == {**one.metadata, "members": 2}


def test_a_zero_of_all_members_stays_zero() -> None:
    made = replace(predictions(2, 2), logits=np.array([[0.0, -np.inf], [-np.inf, 0.0]]))
    assert np.exp(deep_ensemble([made, made]).logits).tolist() == [[1, 0], [0, 1]]


def test_other_examples_are_refused() -> None:
    one = predictions()
    for other, what in (
        (predictions(200), "logits"),
        (replace(one, target=one.target[::-1].copy()), "targets"),
        (replace(one, metadata={"kind": "val", "split": "val"}), "metadata"),
    ):
        with pytest.raises(ValueError, match=f"member 2 of an ensemble has other {what}"):
            deep_ensemble([one, other])
    with pytest.raises(ValueError, match="one or more members"):
        deep_ensemble([])


def test_members_are_calibrated_before_they_are_pooled() -> None:
    members = [predictions(seed=seed) for seed in (0, 1)]
    members[1] = replace(members[1], target=members[0].target)
    fitted = [
        TemperatureScaling().fit(part.logits, part.target)
        for part in (predictions(split="val", seed=0), predictions(split="val", seed=1))
    ]
    found = deep_ensemble(members, calibrators=fitted)
    mean = sum(
        model(torch.from_numpy(part.logits).double())
        for model, part in zip(fitted, members, strict=True)
    )
    torch.testing.assert_close(torch.from_numpy(found.logits).double().softmax(1), mean / 2)
    assert found.metadata["members_after"] == "TemperatureScaling"
    with pytest.raises(ValueError, match="2 members need as many calibrators, got 1"):
        deep_ensemble(members, calibrators=fitted[:1])


@pytest.mark.slow
def test_the_command_calibrates_members_on_their_own_validation_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [saved(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    asked = ["evaluate", "--calibrators", "none", "--bootstrap", "0", "--jobs", "1"]
    asked += ["--val", *(f["val"] for f in files), "--test", *(f["test"] for f in files)]
    assert main([*asked, "--calibrate-members", "TemperatureScaling"]) == 0
    assert "ensemble of 2 after TemperatureScaling" in capsys.readouterr().out
    assert (
        main(
            [
                *asked[:5],
                "--jobs",
                "1",
                "--test",
                files[0]["test"],
                "--calibrate-members",
                "TemperatureScaling",
            ]
        )
        != 0
    )
    assert "`--calibrate-members` is for an ensemble" in capsys.readouterr().err
