"""Hostile files: seeded damages of every kind of file that is read, each met by a verb that reads it, and what came of it.

`python -m tests.hostile.trying --tries 100` prints the table of docs/howto/security.md.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from calibench.cli import main
from calibench.config import load
from calibench.runs import read_json, write_json
from calibench.runs.digests import files_of
from calibench.store import add
from calibench.store.entry import entry_digest
from tests.hostile.server import hostile_server
from tests.run_folders import write_predictions, write_run

BAD = ("silent", "executed", "escaped", "hang", "traceback")
SECONDS = 60  # after which a verb hangs, on a busy machine too
CURVE = "epoch,step,val/nll\n" + "".join(
    f"{epoch},{epoch * 10},{1 / (epoch + 1)}\n" for epoch in range(9)
)


@dataclass
class Tally:
    """What came of the tries of a kind.

    Attributes:
        tried: How many there were.
        bad: How many of them were silent (a changed output without a word), ran code, wrote outside, hung or ended in
            a traceback.
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
            (run / "config.yaml").write_text(yaml.safe_dump(load("digits_lt")))
            content = read_json(run / "metrics.json")
            its = {"class_counts": [9] * 5, "evaluation": {"calibrators": [], "n_bins": [15, 20]}}
            its["files"] = files_of(run)
            write_json(run / "metrics.json", {**content, **its}, sealed=True)
        add(ground.store, ground.results)
        random_logits = np.random.default_rng(1).normal(size=(2, 60, 3)) * 3
        for name, logits in zip(("val", "test"), random_logits, strict=True):
            target = np.arange(60) % 3
            np.savez(
                folder / f"{name}.npz",
                logits=logits,
                target=target,
                metadata=np.array('{"format": 1}'),
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
    def mine(self) -> Path:
        return self.folder / "inside" / "mine"

    def run(self) -> Path:
        """The first run."""
        return sorted(self.results.rglob("metrics.json"))[0].parent

    def entry(self) -> Path:
        """The first entry of the store."""
        return sorted(self.store.rglob("status.json"))[0].parent


def quietly(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Exit code and both outputs of a command line, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        code = main(list(arguments))
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


Try = tuple[Path, Callable[[bytes, random.Random], bytes], list[str], bool]
"""A file, what is done to it, the verb that reads it, and whether another output without a word is bad."""


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
    said = {
        "format": 1,
        "class_names": ["a", "b", "c"],
        "class_counts": [1, 2, 3],
        "task": "multiclass",
        "split": "test",
    }
    arrays["metadata"] = np.array(json.dumps(changed(said, chance)))
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


def kinds(ground: Ground) -> dict[str, Callable[[random.Random], Try]]:
    """What can be tried, by its name; each draws a file, a damage and a verb."""
    results, store, run, entry = (
        str(ground.results),
        str(ground.store),
        ground.run(),
        ground.entry(),
    )
    picture = str(ground.folder / "a.svg")
    of_results = [
        ["leaderboard", results],
        ["methods", results],
        ["reproduce", "gce", "--table", "3", "--results", results],
    ]
    of_run = [
        ["evaluate", str(run), "--calibrators", "none", "--metrics", "ece"],
        ["store", "add", str(run), "--to", str(ground.mine)],
    ]
    of_store = [
        ["leaderboard", store],
        ["store", "list", store],
        ["store", "pull", store, "--to", str(ground.mine)],
    ]
    curves = [["plot", "curves", results, "-o", picture]]

    def logits(suffix: str) -> list[list[str]]:
        test = str(ground.folder / f"test{suffix}")
        return [["evaluate", "--test", test, "--calibrators", "none", "--metrics", "ece"],
                ["calibrate", "--apply", str(ground.folder / "cal.pt"), "--input", test, "-o", str(ground.folder / "p.npz")]]  # fmt: skip

    def drawn(
        path: Path,
        damage: Callable[[bytes, random.Random], bytes],
        verbs: list[list[str]],
        told: bool,
    ) -> Callable[[random.Random], Try]:
        return lambda chance: (path, damage, chance.choice(verbs), told)

    apply = logits(".npz")[1:]
    return {
        "run: metrics.json": drawn(run / "metrics.json", damaged, of_results, True),
        "run: metrics.json, sealed anew": drawn(run / "metrics.json", _resealed, of_results, False),
        "run: environment.json": drawn(run / "environment.json", damaged, of_results, True),
        "run: status.json": drawn(run / "status.json", damaged, of_results[:1], False),
        "run: metrics.csv": drawn(run / "metrics.csv", damaged, curves, True),
        "run: test.npz": drawn(run / "predictions" / "test.npz", damaged, of_run, True),
        "run: config.yaml": drawn(run / "config.yaml", damaged, [["export", str(run)], of_run[1]], False),
        "store: status.json": drawn(entry / "status.json", damaged, of_store, False),
        "store: status.json, digest anew": drawn(entry / "status.json", _redigested, of_store, False),
        "store: test.npz": drawn(entry / "predictions" / "test.npz", damaged, of_store[2:], True),
        "store: metrics.json": drawn(entry / "metrics.json", damaged, of_store[2:], True),
        "store: labels": drawn(sorted((ground.store / "labels").iterdir())[0], damaged, of_store[2:], True),
        "store: index.parquet": drawn(ground.store / "index.parquet", damaged, of_store[1:2], False),
        "logits: .npz": drawn(ground.folder / "test.npz", damaged, logits(".npz"), True),
        "logits: .npz, metadata": drawn(ground.folder / "test.npz", _with_metadata, logits(".npz"), False),
        "logits: .npz, arrays": drawn(ground.folder / "test.npz", _with_arrays, logits(".npz"), False),
        "logits: .csv": drawn(ground.folder / "test.csv", damaged, logits(".csv"), False),
        "logits: .pt": drawn(ground.folder / "test.pt", damaged, logits(".pt"), False),
        "calibrator: cal.pt": drawn(ground.folder / "cal.pt", damaged, apply, True),
        "pickles and YAML tags": _pickles(ground),
    }  # fmt: skip


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
        content, path, verb = chance.choice([
            (bare, test, [*evaluate, str(test)]), (array.getvalue(), test, [*evaluate, str(test)]),
            (tensors.getvalue(), ground.folder / "test.pt", [*evaluate, str(ground.folder / "test.pt")]),
            (tensors.getvalue(), ground.folder / "cal.pt", ["calibrate", "--apply", str(ground.folder / "cal.pt"), "--input", str(test), "-o", str(ground.folder / "p.npz")]),
            (text, run / "config.yaml", ["export", str(run)]), (hook, run / "config.yaml", ["export", str(run)]),
            (text, run / "config.yaml", ["fit", "--config", str(run / "config.yaml")]),
            (bare, run / "metrics.json", ["leaderboard", str(ground.results)]),
        ])  # fmt: skip
        return path, lambda *_: content, verb, False

    return of_any


def attempt(
    ground: Ground, one: Try, chance: random.Random, tally: Tally, plain: dict[str, str]
) -> None:
    """Damage a file, let the verb read it, note what came of it, and put the file back."""
    path, damage, verb, told = one
    content = path.read_bytes()
    before = plain.get(" ".join(verb))
    if before is None:
        code, out, err = _quiet(ground, verb)
        assert code == 0 or verb[0] in ("export", "fit"), (verb, err)  # else nothing would be tried
        before = plain[" ".join(verb)] = out + err
    outside = set(ground.folder.iterdir()) | set((ground.folder / "inside").glob("*"))
    tally.tried += 1
    bad, said = "", ""
    after = damage(content, chance)
    path.write_bytes(after)
    try:
        with _alarm():
            code, out, err = _quiet(ground, verb)
        said = out + err
        changed_output = said != before or not said  # of pictures nothing is printed
        if told and code == 0 and path.name not in said and changed_output and after != content:
            bad = "silent"
    except Hang:
        bad = "hang"
    except Exception:
        bad, said = "traceback", traceback.format_exc()
    finally:
        path.write_bytes(content)
    if ground.mark.exists():
        ground.mark.unlink()
        bad = "executed"
    written = (set(ground.folder.iterdir()) | set((ground.folder / "inside").glob("*"))) - outside
    if {place.name for place in written} - {"inside", "mine", "p.npz", "a.svg", "model.pt2"}:
        bad = "escaped"
    if bad:
        tally.bad[bad] += 1
        tally.examples.append(f"{bad}: {path.name}, {' '.join(verb[:2])}: {said[-600:]}")


def _quiet(ground: Ground, verb: Sequence[str]) -> tuple[int, str, str]:
    shutil.rmtree(ground.mine, ignore_errors=True)
    return quietly(verb)


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def hang(*_: object) -> None:
        raise Hang

    earlier = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)


def tried(folder: Path, tries: int, seed: int = 1) -> dict[str, Tally]:
    """Try every kind so many times, servers a fifth as often. Returns the tallies by kind."""
    ground, plain = Ground.made(folder), dict[str, str]()
    (folder / "inside").mkdir()
    tallies = {}
    for name, draw in kinds(ground).items():
        tallies[name] = Tally()
        chance = random.Random(f"{name} {seed}")
        for _ in range(tries):
            attempt(ground, draw(chance), chance, tallies[name], plain)
    tallies["servers"] = servers = Tally()
    for number in range(max(1, tries // 5)):
        servers.tried += 1
        with hostile_server(random.Random(seed * 1000 + number)) as url:
            try:
                with _alarm():
                    _quiet(
                        ground, ["store", "pull", url, "--to", str(ground.mine), "--largest", "1"]
                    )
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
    options = parser.parse_args()
    os.environ.setdefault("COLUMNS", "200")
    with tempfile.TemporaryDirectory() as folder:
        found = tried(Path(folder), options.tries, options.seed)
    print(table(found))
    for tally in found.values():
        print(*tally.examples[:3], sep="\n")
