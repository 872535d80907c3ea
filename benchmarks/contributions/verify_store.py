"""Verify what a pull request adds to benchmarks/store, and print its rows.

    cd PROPOSED && python -I TRUSTED/benchmarks/contributions/verify_store.py BASE
    python benchmarks/contributions/verify_store.py --index

BASE is the commit that the pull request starts from; the script and the installed calibench are those of BASE, never of
the pull request. Git's objects are read, not the working tree, so that no link, filter or attribute decides what is
verified. Every changed path that is, or that some file system takes for, one of the store is a file of a new entry, or
labels that a new entry names, or the index alone; anything else is refused in one line, and so is a pull request that
changes nothing there. A new entry must be where its configuration says, whole, no copy of another one, and all of its
numbers must follow from its logits. The index is left to this project: where it is changed alone, every entry is
verified and the index must come out the same, byte for byte. `--index` makes it: it verifies every entry of the
current folder's store and writes which did.
"""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

STORE = "benchmarks/store"
INDEX = "index.parquet"
WORD = r"[A-Za-z0-9_](?:[A-Za-z0-9_.=@+-]*[A-Za-z0-9_])?"
ENTRY = rf"{WORD}(?:/{WORD}){{3}}/seed=[0-9]{{1,9}}"
STATUS = "status.json"
FILE = rf"(?:config\.yaml|(?:metrics|environment|status)\.json|predictions/{WORD}\.npz)"
REGULAR = "100644"
LARGEST = 20_000_000  # bytes of a file
MOST = 100_000_000  # bytes of all that is added


class Refused(Exception):
    """Why a pull request is refused, in one line."""


@dataclass(frozen=True)
class Change:
    """A path that a pull request changes, with git's letter for how, its mode and its object."""

    path: str
    status: str
    mode: str
    blob: str


def git(*words: str) -> bytes:
    """The output of git in the current folder; raises Refused with its message."""
    command = ["git", "-c", "core.fsmonitor=false", *words]
    ended = subprocess.run(command, capture_output=True, check=False)
    if ended.returncode:
        raise Refused(f"git {words[0]}: {' '.join(ended.stderr.decode(errors='replace').split())}")
    return ended.stdout


def read_changes(base: str) -> list[Change]:
    """The paths that differ between the commit that a branch started from and HEAD, NUL-separated, none renamed."""
    words = [
        "--raw",
        "-z",
        "--no-renames",
        "--no-abbrev",
        "--no-ext-diff",
        "--ignore-submodules=none",
    ]
    fields = git("diff", *words, f"{base}...HEAD", "--").split(b"\0")
    changes = []
    for meta, path in zip(fields[0::2], fields[1::2], strict=False):
        _, mode, _, blob, status = meta.decode("ascii").split()
        changes.append(
            Change(path.decode("utf-8", errors="surrogateescape"), status[0], mode, blob)
        )
    return changes


def read_tree(commit: str) -> dict[str, str]:
    """The objects of a commit's files below the store, by path within it."""
    lines = git("ls-tree", "-r", "-z", commit, "--", STORE).split(b"\0")
    pairs = (line.split(b"\t", 1) for line in lines if line)
    return {
        path.decode("utf-8", errors="surrogateescape").removeprefix(f"{STORE}/"): meta.split()[
            2
        ].decode()
        for meta, path in pairs
    }


def spell_plainly(path: str) -> str:
    """A path as the file systems read it that know no case, fold Unicode or drop final dots and spaces."""
    folded = unicodedata.normalize("NFKC", path).casefold()
    kept = "".join(sign for sign in folded if unicodedata.category(sign) not in ("Cf", "Cc"))
    return "/".join(part.strip(" .") for part in re.split(r"[/\\]", kept))


def is_of_store(path: str) -> bool:
    """Whether a path is the store, below it or above it, or some file system takes it for such a one."""
    plain = spell_plainly(path)
    return plain in ("benchmarks", STORE) or plain.startswith(f"{STORE}/")


def check_change(change: Change) -> str:
    """The path within the store of an added file; raises Refused for any other change."""
    shown = ascii(change.path)[1:-1]
    path = change.path.removeprefix(f"{STORE}/")
    if path == change.path:
        raise Refused(f"{shown}: no file may be, or be taken for, the store or a folder of it")
    if change.status != "A" and path != INDEX:
        raise Refused(f"{shown}: entries are added, never changed or removed")
    if change.mode != REGULAR:
        raise Refused(f"{shown}: only plain files are added, no links, programs or submodules")
    if path != INDEX and not re.fullmatch(rf"{ENTRY}/{FILE}|labels/[0-9a-f]{{20}}\.npz", path):
        raise Refused(f"{shown}: no file of an entry <benchmark>/<backbone>/<loss>/<key>/seed=<k>")
    if (size := int(git("cat-file", "-s", change.blob))) > LARGEST:
        raise Refused(f"{shown}: {size / 1e6:.0f} MB; a file has at most {LARGEST / 1e6:.0f} MB")
    return path


def check_spelling(paths: Iterable[str]) -> None:
    """Raise Refused if two files or folders of the store are one where case does not count."""
    spellings: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            prefix = "/".join(parts[:end])
            if spellings.setdefault(spell_plainly(prefix), prefix) != prefix:
                other = spellings[spell_plainly(prefix)]
                raise Refused(f"{prefix}: there is {other}, which differs in its case alone")


def group_entries(paths: Iterable[str]) -> dict[str, set[str]]:
    """The added files of each new entry, by its name."""
    entries: dict[str, set[str]] = {}
    for path in paths:
        if found := re.fullmatch(rf"({ENTRY})/({FILE})", path):
            entries.setdefault(found[1], set()).add(found[2])
    return entries


def check_pull_request(base: str) -> tuple[dict[str, set[str]], dict[str, str]]:
    """The files of each entry that a pull request adds, none where it changes the index alone; objects by path.

    Raises:
        Refused: For anything else, in one line.
    """
    changes = [change for change in read_changes(base) if is_of_store(change.path)]
    if not changes:
        raise Refused(f"nothing below {STORE} is changed: there is nothing to verify")
    added = {check_change(change): change.blob for change in changes}
    before, after = read_tree(git("merge-base", base, "HEAD").decode().strip()), read_tree("HEAD")
    check_spelling(after)
    if INDEX in added:
        if len(added) > 1:
            raise Refused(f"{STORE}/{INDEX} is derived from the entries: leave it out")
        return {}, after
    if sum(int(git("cat-file", "-s", blob)) for blob in added.values()) > MOST:
        raise Refused(f"more than {MOST / 1e6:.0f} MB are added")
    entries = group_entries(added)
    if not entries:
        raise Refused("labels are added without an entry that has them")
    copies = {blob: path for path, blob in before.items() if path.endswith("predictions/test.npz")}
    for name, files in entries.items():
        if STATUS not in files:
            raise Refused(
                f"{name}: files are added to an entry that is there, or it has no {STATUS}"
            )
        if original := copies.get(added.get(f"{name}/predictions/test.npz", "")):
            raise Refused(f"{name}: its predictions are a copy of {original}")
    return entries, after


def write_files(paths: Iterable[str], blobs: Mapping[str, str], folder: Path) -> None:
    """Write objects of git as plain files below a folder."""
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(git("cat-file", "blob", blobs[path]))


def verify_entry_files(name: str, files: set[str], folder: Path) -> set[str]:
    """Verify one entry of a folder that is a store, and print its line. Returns the labels that it names.

    Raises:
        Refused: If it is damaged, not whole, elsewhere than its configuration says, or a number does not follow.
    """
    from calibench.configuration.files import read_yaml
    from calibench.evaluation.verify import verify_entry
    from calibench.runs import RunId
    from calibench.store import Entry

    try:
        entry = Entry.read(folder / name)
        if not entry.digest:
            raise Refused(
                f"{name}: {STATUS} is not that of an entry: `calibench store add` makes one"
            )
        recorded = {*entry.status["files"], STATUS}
        if recorded != files:
            raise Refused(
                f"{name}: its files are not those that {STATUS} names: {sorted(recorded ^ files)}"
            )
        run_id = RunId.from_config(read_yaml((folder / name / "config.yaml").read_text("utf-8")))
        if run_id.folder(Path()).as_posix() != name:
            raise Refused(f"{name}: by its config.yaml it is {run_id.folder(Path()).as_posix()}")
        result = verify_entry(entry)
    except Refused:
        raise
    except Exception as error:  # whatever a stranger's file leads to is a refusal
        reason = " ".join(str(error).replace(f"{folder}/", "").split())[:300]
        raise Refused(f"{name}: {reason or type(error).__name__}") from error
    if result.wrong:
        raise Refused(f"{name}: {result.wrong[0]}")
    if not result.checked:
        raise Refused(f"{name}: it has no number that follows from its logits")
    print(f"{name}: {result.checked} numbers follow, {result.claimed} are claimed")
    return {f"labels/{digest}.npz" for digest in entry.status["labels"]}


def verify_pull_request(base: str) -> None:
    """Check and verify a pull request in the current folder; raises Refused."""
    entries, blobs = check_pull_request(base)
    everything = not entries
    entries = entries or group_entries(blobs)
    with TemporaryDirectory() as name:
        folder = Path(name).resolve() / "store"
        labels = {path for path in blobs if path.startswith("labels/")}
        paths = {f"{entry}/{file}" for entry, files in entries.items() for file in files}
        write_files(labels | paths | ({INDEX} if everything else set()), blobs, folder)
        used = set().union(*(verify_entry_files(*item, folder) for item in sorted(entries.items())))
        added = {change.path.removeprefix(f"{STORE}/") for change in read_changes(base)}
        if unused := sorted((added & labels) - used):
            raise Refused(f"{STORE}/{unused[0]}: no new entry has these labels")
        if everything:
            check_index(folder)


def check_index(folder: Path) -> None:
    """Raise Refused unless the index is what follows from the entries, each of them verified by this version."""
    proposed = (folder / INDEX).read_bytes()
    write_index(folder)
    if proposed != (folder / INDEX).read_bytes():
        raise Refused(f"{STORE}/{INDEX} is not what follows from its entries")


def write_index(folder: Path) -> None:
    """Write the index of a store whose entries were all verified by this version."""
    from calibench.messages.version import __version__
    from calibench.store import Folder
    from calibench.store.index import list_rows, mark_verified

    (folder / INDEX).unlink(missing_ok=True)
    rows = list_rows(Folder(folder))
    mark_verified(Folder(folder), {row.digest: __version__ for row in rows})


def verify_current_store() -> None:
    """Verify every entry of the current folder's store, and write its index; raises Refused."""
    folder = Path(STORE).resolve()
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    for name, files in sorted(group_entries(paths).items()):
        verify_entry_files(name, files, folder)
    write_index(folder)


def main(arguments: Sequence[str]) -> int:
    """Verify and print; the exit status is 1 where the pull request is refused."""
    if len(arguments) != 1:
        print("usage: verify_store.py BASE, or --index", file=sys.stderr)
        return 2
    try:
        if arguments[0] == "--index":
            verify_current_store()
        else:
            verify_pull_request(arguments[0])
    except Refused as refused:
        print(f"refused: {refused}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
