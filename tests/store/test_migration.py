"""Results of format 1 are refused in a line that names the command, which brings them up to date, numbers unchanged."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calibench.cli import main
from calibench.messages.errors import UsageError
from calibench.runs import CorruptRun, read_json, write_json
from calibench.runs.files import OldFormat
from calibench.store import Entry, Folder, find, migration, read_index
from calibench.store.entry import entry_digest
from calibench.store.index import wrong_card
from calibench.store.locations import find_place
from calibench.store.migration import migrate, migrate_config, migrate_settings
from tests.golden.desk import FIXTURES
from tests.run_folders import write_run

OLD = FIXTURES / "format_1"
RUN = Path("digits_lt", "SmallCNN", "CrossEntropyLoss", "dfbf1189fe", "seed=1")
ENTRY = Path("gaussians", "MLP", "CrossEntropyLoss", "8906d02b26", "seed=1")
NEW_RUN = RUN.parents[1] / "95453d076f" / "seed=1"
NEW_ENTRY = ENTRY.parents[1] / "ed95a437b0" / "seed=1"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of results of format 1."""
    return Path(shutil.copytree(OLD / "runs", tmp_path / "runs"))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A store of format 1."""
    return Path(shutil.copytree(OLD / "mine", tmp_path / "mine"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def numbers(content: Any) -> list[Any]:
    """Every number of a metrics.json but its format, in order."""

    def walk(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for key, item in value.items():
                if key not in ("format", "settings", "evaluation", "bytes"):
                    yield from walk(item)
        elif isinstance(value, list):
            for item in value:
                yield from walk(item)
        elif not isinstance(value, str):
            yield value

    return [*walk(content)]


@pytest.mark.parametrize(
    "command",
    [
        "leaderboard runs", "leaderboard mine", "store list mine", "store verify mine", "store add runs other",
        "store add new mine", "store push mine elsewhere", f"evaluate runs/{RUN.as_posix()}",
        f"evaluate mine/{ENTRY.as_posix()}/predictions/test.npz", f"doctor mine/{ENTRY.as_posix()}",
        "report runs", "methods runs", "posthoc mine", "ensemble mine", "runs list mine",
        "fit --config digits_lt --seed 1 --trainer.default_root_dir runs --trainer.max_epochs 3",
        "sweep digits_lt --losses cross_entropy --seeds 1 --trainer.default_root_dir runs --dry-run",
    ],
)  # fmt: skip
def test_every_verb_refuses_them_in_one_line_that_names_the_command(
    command: str, runs: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(runs.parent)
    write_run(runs.parent / "new")
    before = contents(runs), contents(mine)
    assert main(command.split()) != 0
    _, err = capfd.readouterr()
    line = err.strip().splitlines()[-1]
    folder = "mine" if "mine" in command else "runs"
    assert re.search(
        rf"format 1, this calibench reads 2: `calibench store migrate (\S*/)?{folder}`", line
    )
    assert err.count("store migrate") == 1
    assert (contents(runs), contents(mine)) == before


def test_a_run_keeps_every_number_and_its_logits(runs: Path) -> None:
    before = json.loads((runs / RUN / "metrics.json").read_text())
    old_files = contents(runs / RUN)
    (row,) = migrate(runs)
    assert (row.old, row.new) == (RUN.as_posix(), NEW_RUN.as_posix())
    assert contents(runs.with_name("runs.format-1") / RUN) == old_files
    after = read_json(runs / NEW_RUN / "metrics.json")
    assert numbers(after) == numbers({k: v for k, v in before.items() if k != "sha256"})
    assert (after["format"], after["key"]) == (2, "95453d076f")
    assert after["settings"]["model.loss.class_path"] == "CrossEntropyLoss"
    assert after["settings"]["model.channels_last"] is False  # newer than the run
    # the defaults of then are none today, and are named
    assert [*after["calibrators"]] == [
        "TemperatureScaling(shrinkage=False)",
        "AdaptiveTemperatureScaling(initial_temperature=1.0, rule=clamped, shrinkage=False)",
    ]
    assert {row["calibrator"] for row in after["rows"]} == {"raw", *after["calibrators"]}
    new_files = contents(runs / NEW_RUN)
    changed = {name for name in old_files if new_files[name] != old_files[name]}
    assert (changed, new_files.keys()) == ({"metrics.json", "config.yaml"}, old_files.keys())


def test_it_is_found_done_by_the_configuration_that_made_it(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate(runs)
    monkeypatch.chdir(runs.parent)
    asked = ["--trainer.default_root_dir", "runs", "--trainer.max_epochs", "2"]
    sweep = ["sweep", "digits_lt", "--losses", "cross_entropy", "--seeds", "1", "--dry-run"]
    assert main([*sweep, *asked]) == 0
    assert "digits_lt cross_entropy seed=1 (done)" in capsys.readouterr().out
    config = f"runs/{NEW_RUN.as_posix()}/config.yaml"
    assert main(["fit", "--config", config, "--trainer.default_root_dir", "runs"]) == 0
    assert "is already done" in capsys.readouterr().out


def test_an_entry_has_new_digests_of_what_changed_alone(mine: Path) -> None:
    old_files = contents(mine)
    before = json.loads(old_files[f"{ENTRY.as_posix()}/status.json"])
    (row,) = migrate(mine)
    entry = find(NEW_ENTRY.as_posix(), mine)
    entry.check()
    assert entry.digest == row.new_digest == entry_digest(entry.status) != row.old_digest
    assert row.old_digest == before["digest"]
    changed = {f for f in before["files"] if entry.status["files"][f] != before["files"][f]}
    assert changed == {"metrics.json"}
    assert entry.status["content"] == before["content"]
    assert numbers(entry.metrics()) == numbers(
        json.loads(old_files[f"{ENTRY.as_posix()}/metrics.json"])
    )
    assert [listed.digest for listed in read_index(Folder(mine))] == [entry.digest]
    labels = {name: content for name, content in old_files.items() if name.startswith("labels/")}
    assert {name: contents(mine)[name] for name in labels} == labels
    assert migrate(mine) == []


def test_the_command_prints_a_table_and_a_dry_run_writes_nothing(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(mine.parent)
    before = contents(mine.parent)
    printed = []
    for options in (["--dry-run"], []):
        assert main(["store", "migrate", "mine", *options]) == 0
        out, err = capsys.readouterr()
        printed.append(out)
        assert "1 run" in err
        if options:
            assert contents(mine.parent) == before
    assert printed[0] == printed[1]
    (row,) = csv.DictReader(printed[0].splitlines())
    assert (row["old"], row["new"]) == (ENTRY.as_posix(), NEW_ENTRY.as_posix())
    assert row["new_digest"] == Entry.read(mine / NEW_ENTRY).digest
    assert main(["store", "migrate", "mine"]) == 0
    out, err = capsys.readouterr()
    assert (out, "nothing to migrate" in err) == ("", True)


@pytest.mark.parametrize("state", ["running", "failed"])
def test_an_interrupted_run_is_refused_with_the_way_out(state: str, runs: Path) -> None:
    other = runs / RUN.parent / "seed=2"
    shutil.copytree(runs / RUN, other)
    (other / "metrics.json").unlink()
    write_json(other / "status.json", {"status": state})
    before = contents(runs)
    with pytest.raises(
        UsageError, match=rf"seed=2 is not finished \({state}\): finish it with the"
    ):
        migrate(runs)
    assert contents(runs) == before
    assert [path.name for path in runs.parent.iterdir()] == ["runs"]
    shutil.rmtree(other)
    assert len(migrate(runs)) == 1


def test_runs_of_today_stay_and_trials_are_left_behind(runs: Path) -> None:
    new = write_run(runs)
    trial = runs / RUN.parent / "seed=2"
    shutil.copytree(runs / RUN, trial)
    (trial / "metrics.json").unlink()
    write_json(trial / "status.json", {"status": "trial"})
    (runs / "notes.txt").write_text("mine")
    (runs / ".runs.parquet").write_text("a cache")
    before = contents(new)
    assert [row.old for row in migrate(runs)] == [RUN.as_posix()]
    assert contents(new) == before
    assert (runs / "notes.txt").read_text() == "mine"
    assert not (runs / ".runs.parquet").exists()
    assert not (runs / RUN.parent).exists()
    assert not (runs / NEW_RUN.parent / "seed=2").exists()


@pytest.mark.parametrize("file", ["metrics.json", "config.yaml", "status.json"])
def test_no_damaged_file_gets_a_new_digest(file: str, mine: Path) -> None:
    path = mine / ENTRY / file
    text = path.read_text()
    place = text.index("1") if file == "config.yaml" else text.index("val")
    path.write_text(text[:place] + "2" + text[place + 1 :])
    before = contents(mine)
    with pytest.raises(CorruptRun, match="damaged"):
        migrate(mine)
    assert contents(mine) == before


def test_damaged_logits_stay_recognisable(mine: Path) -> None:
    path = mine / ENTRY / "predictions" / "test.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    migrate(mine)
    with pytest.raises(CorruptRun, match="its digest differs"):
        find(NEW_ENTRY.as_posix(), mine).check()


def test_one_that_was_stopped_is_begun_anew_or_ended(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(runs)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migration, "_link_others", stop)
        with pytest.raises(KeyboardInterrupt):
            migrate(runs)
    assert contents(runs) == before
    (runs.with_name("runs.migrating") / "left").mkdir(parents=True)  # by a kill
    assert len(migrate(runs)) == 1
    # killed between the two renames
    runs.rename(runs.with_name("runs.migrating"))
    assert migrate(runs) == []
    assert (runs / NEW_RUN / "metrics.json").is_file()


def test_the_current_folder_may_be_migrated(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    assert main(["store", "migrate", "."]) == 0
    assert (runs / NEW_RUN / "metrics.json").is_file()
    assert f"the old folder is {runs}.format-1: remove" in capsys.readouterr().err


def test_an_earlier_old_folder_is_not_written_over(runs: Path) -> None:
    runs.with_name("runs.format-1").mkdir()
    with pytest.raises(UsageError, match="is there already, of an earlier migration"):
        migrate(runs)


@pytest.mark.parametrize("part", ["digits_lt", RUN.as_posix()])
def test_a_part_of_a_folder_is_refused_with_the_whole_one(part: str, runs: Path) -> None:
    with pytest.raises(UsageError, match=f"is a part of .*`calibench store migrate {runs}`"):
        migrate(runs / part)


def test_runs_behind_a_link_are_refused(runs: Path, tmp_path: Path) -> None:
    (runs / "digits_lt").rename(tmp_path / "elsewhere")
    (runs / "digits_lt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is reached by a link"):
        migrate(runs)


def test_a_card_says_the_new_digest(mine: Path) -> None:
    (mine / "README.md").write_text(
        f"<!-- written by `calibench store push` -->\n| digest | `{'0' * 64}` |\n"
    )
    migrate(mine)
    assert main(["store", "list", str(mine)]) == 0
    assert wrong_card(Folder(mine)) == []


def test_settings_have_the_names_of_today() -> None:
    old = {
        "data.class_path": "calibench.data.CIFAR10DataModule",
        "data.init_args.recipe": "published",
        "data.init_args.mixing": [{"class_path": "calibench.data.mixing.Mixup"}],
        "model.backbone.class_path": "mine.calibench.Net",
        "model.loss.class_path": "calibench.losses.focal.FocalLoss",
        "model.optimizer.class_path": "torch.optim.SGD",
        "trainer.callbacks": [{"class_path": "calibench.training.averaging.EMA", "init_args": {}}],
    }
    assert migrate_settings(old) == {
        "data.class_path": "CIFAR10DataModule",
        "data.init_args.corpus": "files",
        "data.init_args.mixing": [{"class_path": "Mixup"}],
        "data.init_args.recipe": "tail_val",
        "model.backbone.class_path": "mine.calibench.Net",
        "model.channels_last": False,
        "model.compile": False,
        "model.loss.class_path": "FocalLoss",
        "model.optimizer.class_path": "torch.optim.SGD",
        "trainer.callbacks": [{"class_path": "EMA", "init_args": {}}],
    }


def test_a_configuration_has_the_arguments_of_today() -> None:
    block = (
        "class_path: calibench.calibrators.TemperatureScaling, init_args: {n_bins: 15, mixture: %s}"
    )
    old = f"""\
# lightning.pytorch==2.6.6
data: {{class_path: calibench.data.CIFAR10DataModule, init_args: {{recipe: published}}}}
evaluation:
  calibrators: [{{{block % "true"}}}, {{{block % "false"}}}, {{class_path: mine.Scaling}}]
"""
    new = migrate_config(old.encode()).decode()
    assert new.startswith("# lightning.pytorch==2.6.6\n")
    assert "recipe: tail_val" in new
    assert "mixture" not in new
    assert new.count("TemperatureWithMixture") == 1
    assert new.count("shrinkage: false") == 2
    assert migrate_config(new.encode()).decode() == new


def test_a_store_far_away_names_no_folder_that_is_none(mine: Path) -> None:
    import fsspec

    fsspec.filesystem("memory").put(str(mine), "/old", recursive=True)
    with pytest.raises(OldFormat, match="`calibench store migrate FOLDER` brings a copy of it"):
        read_index(find_place("memory://old"))
