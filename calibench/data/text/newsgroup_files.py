"""The posts of 20 Newsgroups, from folders, an archive, or the Hugging Face hub."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import torch

from calibench.data.source import DataError, sources
from calibench.data.text.corpus import Corpus, from_hub

GROUPS = (
    "alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles",
    "rec.sport.baseball", "rec.sport.hockey", "sci.crypt", "sci.electronics", "sci.med",
    "sci.space", "soc.religion.christian", "talk.politics.guns", "talk.politics.mideast",
    "talk.politics.misc", "talk.religion.misc",
)  # fmt: skip

HUB = "SetFit/20_newsgroups"

Posts = dict[PurePosixPath, bytes]


def read_by_date(root: Path) -> tuple[Corpus, Corpus]:
    """The 11,314 training and 7,532 test posts, cut by date (Rennie's version).

    From `20news-bydate-{train,test}/<group>/<number>`, below `20news-bydate` or not, or from
    `20news-bydate.tar.gz`.

    Raises:
        DataError: Neither is there, or it holds something else.
    """
    posts = _read(root, ("20news-bydate", "."), "20news-bydate-train", ("20news-bydate.tar.gz",))
    train, test = (
        {path: raw for path, raw in posts.items() if f"20news-bydate-{part}" in path.parts}
        for part in ("train", "test")
    )
    return _corpus(train, root), _corpus(test, root)


def read_raw(root: Path) -> Corpus:
    """The 19,997 posts of Lang's original collection, in order of group and file name.

    From `20_newsgroups/<group>/<number>` or `20_newsgroup/...`, or from `news20.tar.gz` or
    `20_newsgroups.tar.gz`.

    Raises:
        DataError: None is there, or it holds something else.
    """
    archives = ("news20.tar.gz", "20_newsgroups.tar.gz")
    return _corpus(_read(root, ("20_newsgroups", "20_newsgroup"), GROUPS[0], archives), root)


def read_hub() -> tuple[Corpus, Corpus]:
    """The by-date version of the hub, whose headers, footers and quotes are removed already."""
    train, test = (from_hub(HUB, part, num_classes=len(GROUPS)) for part in ("train", "test"))
    return train, test


def without_headers(post: str) -> str:
    """A post from its first empty line on, as in the public code of MMCE; all where there is none."""
    return post[max(0, post.find("\n\n")) :]


def _read(root: Path, folders: tuple[str, ...], inside: str, archives: tuple[str, ...]) -> Posts:
    for folder in folders:
        if (root / folder / inside).is_dir():
            return dict(_from_folder(root / folder, inside))
    for archive in archives:
        if (root / archive).is_file():
            return dict(_from_archive(root / archive))
    raise DataError(
        f"{root / folders[0] / inside} is missing: 20 Newsgroups is expected there, or in "
        f"{root / archives[0]}; get it from {sources()['newsgroups'].url}."
    )


def _from_folder(folder: Path, inside: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    # Beside `inside` lie the other groups, or the test posts; in a data root much else besides.
    pattern = "20news-bydate-*/*/*" if inside.startswith("20news-bydate") else "*/*"
    for path in folder.glob(pattern):
        if path.parent.name in GROUPS:
            yield PurePosixPath(path.relative_to(folder).as_posix()), path.read_bytes()


def _from_archive(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None and PurePosixPath(member.name).parent.name in GROUPS:
                    yield PurePosixPath(member.name), file.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{archive} cannot be unpacked ({error}).") from None


def _corpus(posts: Posts, root: Path) -> Corpus:
    ordered = sorted(posts, key=lambda path: path.parts[-2:])
    target = torch.tensor([GROUPS.index(path.parent.name) for path in ordered], dtype=torch.long)
    groups = len(set(target.tolist()))
    if groups < len(GROUPS):
        raise DataError(
            f"{root} has posts of {groups} of the 20 newsgroups only: unpack the archive again."
        )
    # Latin-1, as in the reference code: every byte is a character, none is lost.
    return Corpus([posts[path].decode("latin-1") for path in ordered], target)
