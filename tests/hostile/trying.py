"""Hostile files: seeded damages of every kind of file that is read, each met by a verb that reads it, and what came of it.

`python -m tests.hostile.trying --tries 100` prints the table of docs/security.md. A try is *silent* where the verb ends well and
says something else than before, though the damage could be told (see `Judge`), without a new line that names the file or its folder.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from calibench.cli import main
from calibench.configuration.files import benchmarks_folder, load_configuration_file
from calibench.plots.curves import training_curves
from calibench.predictions import Reader
from calibench.run_configuration.trusted_names import check_is_trusted
from calibench.runs import Predictions, read_json, write_json
from calibench.runs.files import describe_files
from calibench.store import Folder as StoreFolder
from calibench.store.entry import entry_digest
from calibench.store.index import INDEX, rebuild_index
from calibench.store.verdicts import CACHE
from calibench.training.experiment import GROUP_CLASSES
from tests.hostile.entries import HOSTILE, verbs
from tests.hostile.server import hostile_server
from tests.run_folders import write_predictions, write_run

BAD = ("silent", "executed", "escaped", "hang", "traceback", "lost")
QUICK_VERBS = ("leaderboard", "list", "pull")
SECONDS = 300.0  # after which a verb hangs, on a busy machine too
SHIPPED = benchmarks_folder() / "store"
METADATA = {
    "format": 1,
    "class_names": ["a", "b", "c"],
    "class_counts": [1, 2, 3],
    "task": "multiclass",
    "split": "test",
}
CURVE = "epoch,step,val/nll\n" + "".join(
    f"{epoch},{epoch * 10},{1 / (epoch + 1)}\n" for epoch in range(9)
)


@dataclass
class Tally:
    """What came of the tries of a kind.

    Attributes:
        tried: How many there were.
        bad: How many of them were silent, ran code, wrote outside, hung, ended in a traceback or lost another file.
        examples: The first lines of the bad ones.
    """

    tried: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)


class Hang(BaseException):
    """A verb that takes too long."""


@dataclass(frozen=True)
class Ground:
    """A folder with results, a store of them, files of logits and a calibrator, and the mark that payloads leave."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> Ground:
        """Make one."""
        ground = cls(folder)
        for seed in (1, 2):
            run = write_run(ground.results, seed=seed)
            write_predictions(run, n=30)
            (run / "metrics.csv").write_text(CURVE)
            (run / "config.yaml").write_text(
                yaml.safe_dump(load_configuration_file("breast_cancer"))
            )
            content = read_json(run / "metrics.json")
            its = {"class_counts": [9] * 5, "evaluation": {"calibrators": [], "n_bins": [15, 20]}}
            its["files"] = describe_files(run)
            write_json(run / "metrics.json", {**content, **its}, sealed=True)
        shutil.copytree(SHIPPED / "labels", ground.store / "labels")
        for seed in (1, 2):
            entry = next((SHIPPED / "digits_lt").glob(f"SmallCNN/BrierLoss/*/seed={seed}"))
            shutil.copytree(entry, ground.store / entry.relative_to(SHIPPED))
        rebuild_index(StoreFolder(ground.store))
        random_logits = np.random.default_rng(1).normal(size=(2, 60, 3)) * 3
        for name, logits in zip(("val", "test"), random_logits, strict=True):
            target = np.arange(60) % 3
            np.savez(
                folder / f"{name}.npz",
                logits=logits,
                target=target,
                metadata=np.array(json.dumps(METADATA)),
            )
            torch.save(
                {"logits": torch.tensor(logits), "target": torch.tensor(target)},
                folder / f"{name}.pt",
            )
            probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            table = "".join(
                ",".join(map(str, row)) + f",{y}\n" for row, y in zip(probs, target, strict=True)
            )
            (folder / f"{name}.csv").write_text("a,b,c,label\n" + table)
        quietly(["calibrate", "--val", str(folder / "val.npz"), "-o", str(folder / "cal.pt")])
        return ground

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def mark(self) -> Path:
        return self.folder / "was-run"

    @property
    def index(self) -> Path:
        return self.store / INDEX

    @property
    def page(self) -> Path:
        return self.folder / "page.html"

    @property
    def mine(self) -> Path:
        return self.folder / "inside" / "mine"

    @property
    def trained(self) -> Path:
        return self.folder / "inside" / "trained"

    def run(self) -> Path:
        """The first run."""
        return sorted(self.results.rglob("metrics.json"))[0].parent

    def entry(self) -> Path:
        """The first entry of the store."""
        return sorted(self.store.rglob("status.json"))[0].parent


@dataclass(frozen=True)
class Reading:
    """What a verb reads a file with, without the verb: a hundredth of its time; `printed` is what it read."""

    printed: Callable[[], str]

    def __call__(self) -> int:
        """Print it, or the error as `calibench` does; other errors than those of files are raised."""
        try:
            print(self.printed())
        except (ValueError, OSError) as error:
            print(" ".join(str(error).split()))
            return 1
        return 0


Verb = list[str] | Reading


def quietly(verb: Verb) -> tuple[int, str, str]:
    """Exit code and both outputs of a command line, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        code = verb() if isinstance(verb, Reading) else main(list(verb))
    return code, out.getvalue(), err.getvalue()


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The content of a file after an accident."""
    place = chance.randrange(len(content))
    kind = chance.randrange(6)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes(min(64, len(content) - place)) + content[place + 64 :]
    if kind == 2:
        return content + chance.randbytes(chance.randrange(1, 64))
    if kind == 3:
        return chance.randbytes(place + 1)
    changed = bytearray(content)
    changed[place] ^= 1 << chance.randrange(8)
    return bytes(changed)


def flipped(content: bytes, chance: random.Random) -> bytes:
    """The content of a file in which one bit has changed, as a disk or a wire does it."""
    changed = bytearray(content)
    changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(changed)


VALUES: tuple[Any, ...] = (
    None, 5, -1, 1e300, "1", "", "../../up", [], [2], {}, {"a": 5}, True, 10**30, "x" * 5000, json.loads("[" * 300 + "]" * 300)
)  # fmt: skip


def changed(content: Any, chance: random.Random) -> Any:
    """Plain data in which one value has another type, or a key is gone."""
    if isinstance(content, dict) and content and chance.random() < 0.9:
        key = chance.choice(list(content))
        if chance.random() < 0.15:
            return {name: value for name, value in content.items() if name != key}
        return {**content, key: changed(content[key], chance)}
    if isinstance(content, list) and content and chance.random() < 0.7:
        place = chance.randrange(len(content))
        return [*content[:place], changed(content[place], chance), *content[place + 1 :]]
    return chance.choice(VALUES)


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


Judge = Callable[[bytes, bytes], bool]
"""Whether a reader can tell a damage, from the file before and after it."""

Try = tuple[Path, Callable[[bytes, random.Random], bytes], Verb, Judge]
"""A file, what is done to it, the verb that reads it, and whether another output without a word is bad."""


def always(before: bytes, after: bytes) -> bool:
    """Where there is a checksum, or the new content is no such file."""
    return before != after


def other_type(before: bytes, after: bytes) -> bool:
    """JSON with a value of another type, which a schema tells; another value of its type, or a key less, is anybody's right."""
    try:
        return _of_other_type(_json(before), _json(after))
    except ValueError:
        return True


def _json(content: bytes) -> Any:
    if not content.startswith(b"PK"):
        return json.loads(content)
    with np.load(io.BytesIO(content)) as file:
        said = json.loads(str(file["metadata"]))
    if isinstance(said, dict) and isinstance(names := said.get("class_names"), list):
        said["class_names"] = [str(one) if isinstance(one, int) else one for one in names]
    return said  # where a class may be called 1


def _of_other_type(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return any(_of_other_type(one[key], other[key]) for key in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return any(map(_of_other_type, one, other))
    number = isinstance(one, int | float) and isinstance(other, int | float)
    return None not in (one, other) and not number and type(one) is not type(other)


def not_shifted(before: bytes, after: bytes) -> bool:
    """Arrays other than labels that are names or yes and no, and than logits plus a constant, which have the same probabilities."""
    with np.load(io.BytesIO(before)) as one, np.load(io.BytesIO(after)) as other:
        if other["target"].dtype.kind in "bS":
            return False
        if one["logits"].shape != other["logits"].shape or other["logits"].dtype.kind != "f":
            return True
        constant = bool((np.ptp(other["logits"] - one["logits"], axis=1) < 1e-6).all())
        return not (constant and np.array_equal(one["target"], other["target"]))


def no_table(before: bytes, after: bytes) -> bool:
    """A CSV without a checksum that is no table of probabilities any more."""
    header, *rows = csv.reader(io.StringIO(after.decode(errors="replace")))
    if before.splitlines()[0].decode() != ",".join(header):
        return len(set(header)) < 4 or "label" not in header
    try:
        sums = [
            sum(map(float, row[:3])) for row in rows if int(row[3]) in range(3) and len(row) == 4
        ]
    except (ValueError, IndexError):
        return True
    return len(sums) < len(rows) or any(abs(total - 1) > 0.01 for total in sums)


def _resealed(content: bytes, chance: random.Random) -> bytes:
    """A run's JSON with another value and a checksum that fits, as a stranger can write it."""
    its = json.loads(content)
    its.pop("sha256", None)
    other = changed(its, chance)
    other = other if isinstance(other, dict) else {"rows": other}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        write_json(path, {**other, "z": 1}, sealed=True)
        return path.read_bytes()


def _redigested(content: bytes, chance: random.Random) -> bytes:
    """The status of an entry with another value and a digest that fits."""
    status = changed(json.loads(content), chance)
    status = status if isinstance(status, dict) else {"files": status}
    with contextlib.suppress(ValueError, OverflowError):
        status["digest"] = entry_digest(status)
    return json.dumps(status).encode()


def _with_metadata(content: bytes, chance: random.Random) -> bytes:
    """A prediction file whose metadata have another value."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    arrays["metadata"] = np.array(json.dumps(changed(METADATA, chance)))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _with_arrays(content: bytes, chance: random.Random) -> bytes:
    """A prediction file with strange arrays."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    name = chance.choice(["logits", "target"])
    strange: list[Callable[[Any], Any]] = [
        lambda a: a.astype("S8"), lambda a: a[:0], lambda a: a[..., None], lambda a: a + 1e39, lambda a: a * np.nan,
        lambda a: a.astype(complex), lambda a: a[:3], lambda a: np.asarray(5.0), lambda a: a > 0, lambda a: a - 10**6,
    ]  # fmt: skip
    arrays[name] = chance.choice(strange)(arrays[name].astype(float))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def kinds(ground: Ground, *, quick: bool = False) -> dict[str, Callable[[random.Random], Try]]:
    """What can be tried, by its name; each draws a file, a damage and a verb, of the quick ones if `quick`."""
    folder, run, entry = ground.folder, ground.run(), ground.entry()
    results, store, mine = str(ground.results), str(ground.store), str(ground.mine)
    test = run / "predictions" / "test.npz"
    no_calibrators = ["--calibrators", "none", "--metrics", "ece"]
    leaderboard = ["leaderboard", results]
    of_results = [
        leaderboard,
        ["methods", results],
        ["reproduce", "gce", "--table", "3", "--results", results],
        ["report", results, "-o", str(ground.page)],
        ["doctor", str(run)],
    ]
    of_run = [
        ["evaluate", str(run), *no_calibrators],
        ["store", "add", str(run), "--to", mine],
        ["doctor", str(run)],
        [
            "posthoc",
            str(run),
            "--calibrators",
            "TemperatureScaling",
            "--jobs",
            "1",
            "-o",
            f"{mine}/posthoc",
        ],
        ["report", results, "-o", str(ground.page)],
    ]
    pull = ["store", "pull", store, "--to", mine]
    of_store = [["leaderboard", store], ["store", "list", store], pull]
    verify = ["store", "verify", store]
    curve = Reading(lambda: str(training_curves(run, points=9)))
    curves = [["plot", "curves", results, "-o", str(folder / "a.svg")], of_results[3]]
    config = [["export", str(run)], of_run[1]]
    known = Reading(lambda: str(check_is_trusted(run / "config.yaml", GROUP_CLASSES)))

    def read(path: Path) -> Reading:
        return Reading(lambda: _printed(Reader()(str(path))))

    def logits(suffix: str) -> list[Verb]:
        path = folder / f"test{suffix}"
        apply = [
            "calibrate",
            "--apply",
            str(folder / "cal.pt"),
            "--input",
            str(path),
            "-o",
            str(folder / "p.npz"),
        ]
        if quick:
            return [read(path)]
        return [["evaluate", "--test", str(path), *no_calibrators], ["doctor", str(path)], apply]

    def drawn(
        path: Path,
        damage: Callable[[bytes, random.Random], bytes],
        verbs: Sequence[Verb],
        judge: Judge,
        quickly: Sequence[Verb] = (),
    ) -> Callable[[random.Random], Try]:
        some = quickly or verbs if quick else verbs
        return lambda chance: (path, damage, chance.choice(some), judge)

    apply = [
        "calibrate",
        "--apply",
        str(folder / "cal.pt"),
        "--input",
        str(folder / "val.npz"),
        "-o",
        str(folder / "p.npz"),
    ]
    return {
        "run: metrics.json": drawn(run / "metrics.json", damaged, of_results, always, [leaderboard]),
        "run: metrics.json, sealed anew": drawn(run / "metrics.json", _resealed, of_results[:4], other_type, [leaderboard]),
        "run: environment.json": drawn(run / "environment.json", damaged, of_results[:4], always, [leaderboard]),
        "run: status.json": drawn(run / "status.json", damaged, [leaderboard, of_results[3]], other_type, [leaderboard]),
        "run: metrics.csv": drawn(run / "metrics.csv", damaged, curves, always, [curve]),
        "run: test.npz": drawn(test, damaged, of_run, always, [read(test)]),
        "run: config.yaml": drawn(run / "config.yaml", damaged, config, always, [known]),
        "store: status.json": drawn(entry / "status.json", damaged, [*of_store, verify], always, of_store),
        "store: status.json, digest anew": drawn(entry / "status.json", _redigested, [*of_store, verify], other_type, of_store),
        "store: test.npz": drawn(entry / "predictions" / "test.npz", damaged, [pull, verify], always, [pull]),
        "store: metrics.json": drawn(entry / "metrics.json", damaged, [pull, verify, of_store[0]], always, [pull]),
        "store: labels": drawn(sorted((ground.store / "labels").iterdir())[0], damaged, [pull, verify], always, [pull]),
        "store: index.parquet": drawn(ground.index, damaged, of_store[1:2], always),
        "logits: .npz": drawn(folder / "test.npz", damaged, logits(".npz"), always),
        "logits: .npz, metadata": drawn(folder / "test.npz", _with_metadata, logits(".npz"), other_type),
        "logits: .npz, arrays": drawn(folder / "test.npz", _with_arrays, logits(".npz"), not_shifted),
        "logits: .csv": drawn(folder / "test.csv", damaged, logits(".csv"), no_table),
        "logits: .pt": drawn(folder / "test.pt", damaged, logits(".pt"), always),
        "calibrator: cal.pt": drawn(folder / "cal.pt", damaged, [apply], always),
        "pickles and YAML tags": _pickles(ground),
        "bits: metrics.json": drawn(run / "metrics.json", flipped, of_results[:4], always, [leaderboard]),
        "bits: environment.json": drawn(run / "environment.json", flipped, of_results[:4], always, [leaderboard]),
        "bits: test.npz of a run": drawn(test, flipped, of_run, always, [read(test)]),
        "bits: status.json of a store": drawn(entry / "status.json", flipped, [*of_store, verify], always, of_store),
        "bits: metrics.json of a store": drawn(entry / "metrics.json", flipped, [pull, verify, of_store[0]], always, [pull]),
        "bits: test.npz of a store": drawn(entry / "predictions" / "test.npz", flipped, [pull, verify], always, [pull]),
        "bits: .npz, .pt": drawn(folder / "test.npz", flipped, logits(".npz"), always),
        "bits: cal.pt": drawn(folder / "cal.pt", flipped, [apply], always),
    }  # fmt: skip


def _printed(read: Predictions) -> str:
    """All that was read, for a comparison."""
    content = (
        read.logits.tobytes(),
        read.target.tobytes(),
        repr(sorted(read.metadata.items())).encode(),
    )
    return hashlib.sha256(b"".join(content)).hexdigest()


def _pickles(ground: Ground) -> Callable[[random.Random], Try]:
    """Code in the place of each file, and of arrays in it."""

    def of_any(chance: random.Random) -> Try:
        test, run = ground.folder / "test.npz", ground.run()
        evaluate = ["evaluate", "--calibrators", "none", "--test"]
        bare = pickle.dumps(Payload(ground.mark), protocol=chance.randrange(2, 6))
        array, tensors = io.BytesIO(), io.BytesIO()
        np.savez(array, logits=np.array([Payload(ground.mark)], dtype=object), target=np.arange(1))
        torch.save({"state": Payload(ground.mark), "logits": Payload(ground.mark)}, tensors)
        tag = chance.choice(
            ["apply:os.system", "new:subprocess.Popen", "apply:builtins.exec", "name:os.system"]
        )
        text = f"!!python/object/{tag} ['touch {ground.mark}']\n".encode()
        hook = f"trainer: {{profiler: {chance.choice(['os.system', 'antigravity.X', 'this.X'])}}}\n".encode()
        trained = ["--trainer.max_epochs", "1", "--trainer.default_root_dir", str(ground.trained)]
        content, path, verb = chance.choice([
            (bare, test, [*evaluate, str(test)]), (array.getvalue(), test, [*evaluate, str(test)]),
            (tensors.getvalue(), ground.folder / "test.pt", [*evaluate, str(ground.folder / "test.pt")]),
            (tensors.getvalue(), ground.folder / "cal.pt", ["calibrate", "--apply", str(ground.folder / "cal.pt"), "--input", str(test), "-o", str(ground.folder / "p.npz")]),
            (text, run / "config.yaml", ["export", str(run)]), (hook, run / "config.yaml", ["export", str(run)]),
            (text, run / "config.yaml", ["fit", "--config", str(run / "config.yaml"), *trained]),
            (bare, run / "metrics.json", ["leaderboard", str(ground.results)]),
        ])  # fmt: skip
        return path, lambda *_: content, verb, always

    return of_any


def attempt(
    ground: Ground, one: Try, chance: random.Random, tally: Tally, plain: dict[str, tuple[int, str]]
) -> None:
    """Damage a file, let the verb read it, note what came of it, and put the file back."""
    path, damage, verb, judge = one
    content, name = path.read_bytes(), str(verb)
    index = ground.index.read_bytes()  # `store verify` writes it anew
    if name not in plain:
        plain[name] = _said(ground, verb)
        ends_well = plain[name][0] == 0 or "export" in name or "fit" in name
        assert ends_well, (verb, plain[name])  # else nothing would be tried
    outside = set(ground.folder.iterdir()) | set((ground.folder / "inside").glob("*"))
    others = _stamps(ground, path)
    tally.tried += 1
    bad, said = "", ""
    after = damage(content, chance)
    path.write_bytes(after)
    try:
        with _alarm():
            code, said = _said(ground, verb)
        if code == 0 and is_silent(plain[name][1], said, path) and judge(content, after):
            bad = "silent"
    except Hang:
        bad = "hang"
    except Exception:
        bad, said = "traceback", traceback.format_exc()
    finally:
        ground.index.write_bytes(index)
        path.write_bytes(content)
    if ground.mark.exists():
        ground.mark.unlink()
        bad = "executed"
    written = (set(ground.folder.iterdir()) | set((ground.folder / "inside").glob("*"))) - outside
    known = {
        "inside",
        "entries",
        "mine",
        "trained",
        "p.npz",
        "a.svg",
        "model.pt2",
        ground.page.name,
    }
    if {place.name for place in written} - known:
        bad = "escaped"
    if _stamps(ground, path) != others:
        bad = "lost"
    if bad:
        tally.bad[bad] += 1
        tally.examples.append(f"{bad}: {path.name}, {name[:60]}: {said[-600:]}")


def _stamps(ground: Ground, but: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of each file of the results, the store and the predictions but one: what nothing may change."""
    places = (ground.results, ground.store, *ground.folder.glob("[tv][ea]*.*"))
    files = (file for place in places for file in (place, *place.rglob("*")) if file.is_file())
    kept = (file for file in files if file != but and file.name not in _DERIVED)
    return {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in kept}


_DERIVED = (INDEX, ".runs.parquet", "store.lock")


def tried_entries(
    folder: Path, names: Collection[str] = (), number: int | None = None
) -> dict[str, Tally]:
    """Let verbs meet each hostile entry beside two good ones. Returns the tallies by verb.

    Args:
        folder: An empty one, made if it is not there.
        names: The verbs, all if empty.
        number: How many of the entries, from the first on; all if None.
    """
    folder.mkdir(exist_ok=True)
    ground = Ground.made(folder)
    (folder / "inside").mkdir()
    spoiled = ground.entry().parent / "seed=9"
    tallies: dict[str, Tally] = {}
    for name, (words, reads) in verbs(ground.store, ground.mine).items():
        if names and name not in names:
            continue
        tally = tallies[f"hostile entries: {name}"] = Tally()
        usual = _said(ground, words)
        assert usual[0] == 0, usual
        others = _stamps(ground, spoiled)
        for kind, (spoil, needed) in islice(HOSTILE.items(), number):
            shutil.copytree(ground.entry(), spoiled)
            spoil(spoiled)
            tally.tried += 1
            bad, said = "", ""
            try:
                with _alarm():
                    _, said = _said(ground, words)
                new = [line for line in said.splitlines() if line not in usual[1].splitlines()]
                named = any(spoiled.name in line for line in new)
                if not named and set(needed) & set(reads):
                    bad = "silent"
            except Hang:
                bad = "hang"
            except Exception:
                bad, said = "traceback", traceback.format_exc()
            shutil.rmtree(spoiled)
            whole = sum(1 for _ in ground.mine.glob("*ed/*/*/*/*/seed=[12]/status.json"))
            if whole not in (0, 2) or (name in ("add", "pull", "push") and not whole):
                bad = "lost"
            if _stamps(ground, spoiled) != others:
                bad = "lost"
            if bad:
                tally.bad[bad] += 1
                tally.examples.append(f"{bad}: {name}, {kind}: {said[-600:]}")
    return tallies


def is_silent(before: str, said: str, path: Path) -> bool:
    """Whether an output has changed without a new line that names the file, or the folder of its run or entry."""
    new = [line for line in said.splitlines() if line not in before.splitlines()]
    folder = path.parent.parent if path.parent.name == "predictions" else path.parent
    return said != before and not any(path.name in line or folder.name in line for line in new)


def _said(ground: Ground, verb: Verb) -> tuple[int, str]:
    """Exit code of a verb, and all that it says: on the terminal, in a page or a picture."""
    shutil.rmtree(ground.mine, ignore_errors=True)
    pages = [ground.page, ground.folder / "a.svg"]
    for page in pages:
        page.unlink(missing_ok=True)
    code, out, err = quietly(verb)
    return code, "\n".join([out, err, *(page.read_text() for page in pages if page.exists())])


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def hang(*_: object) -> None:
        raise Hang

    earlier = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def tried(
    folder: Path,
    tries: int,
    seed: int = 1,
    *,
    quick: bool = False,
    kind: str = "",
    entries: int | None = None,
    of_entries: Collection[str] = (),
) -> dict[str, Tally]:
    """Try every kind so many times, servers a fifth as often. Returns the tallies by kind.

    Args:
        folder: An empty one.
        tries: How many of each kind.
        seed: Of what is drawn.
        quick: Whether files are read by the quickest verb, or by what the verbs read them with.
        kind: Only kinds of files whose names have this text, without entries and servers.
        entries: How many of the hostile entries are tried, all if None.
        of_entries: The verbs that meet hostile entries, all nine if empty.
    """
    ground, plain = Ground.made(folder), dict[str, tuple[int, str]]()
    (folder / "inside").mkdir()
    tallies = {}
    for name, draw in kinds(ground, quick=quick).items():
        if kind not in name:
            continue
        tallies[name] = Tally()
        chance = random.Random(f"{name} {seed}")
        for _ in range(tries):
            attempt(ground, draw(chance), chance, tallies[name], plain)
    if kind:
        return tallies
    tallies |= tried_entries(folder / "entries", of_entries, entries)
    tallies["servers"] = servers = Tally()
    for number in range(max(1, tries // 5)):
        servers.tried += 1
        with hostile_server(random.Random(seed * 1000 + number)) as url:
            try:
                with _alarm():
                    pull = ["store", "pull", url, "--to", str(ground.mine), "--largest", "1"]
                    servers.bad["silent"] += _said(ground, pull)[0] == 0
            except Hang:
                servers.bad["hang"] += 1
            except Exception:
                servers.bad["traceback"] += 1
                servers.examples.append(traceback.format_exc()[-600:])
    return tallies


def table(tallies: dict[str, Tally]) -> str:
    """The tallies as a table in Markdown."""
    lines = [
        f"| what | tried | {' | '.join(BAD)} |",
        f"| --- | {'---: | ' * (len(BAD) + 1)}".strip(),
    ]
    for name, tally in tallies.items():
        lines.append(
            f"| {name} | {tally.tried} | {' | '.join(str(tally.bad[one]) for one in BAD)} |"
        )
    total = [str(sum(tally.bad[one] for tally in tallies.values())) for one in BAD]
    every = sum(tally.tried for tally in tallies.values())
    return "\n".join([*lines, f"| all | {every:,} | {' | '.join(total)} |"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=50, help="tries of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--quick", action="store_true", help="files by the quickest verb, or by readers"
    )
    parser.add_argument("--kind", default="", help="only kinds with this text in their names")
    options = parser.parse_args()
    os.environ.setdefault("COLUMNS", "200")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        os.environ[CACHE] = cache  # another process may note meanwhile what it has verified
        choice = {"quick": options.quick, "kind": options.kind}
        found = tried(Path(folder), options.tries, options.seed, **choice)
    if not found:
        parser.error(f"no kind of files has `{options.kind}` in its name")
    print(table(found))
    for tally in found.values():
        print(*tally.examples[:3], sep="\n")
