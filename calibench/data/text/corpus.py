"""Labelled texts in memory: from tables, the Hugging Face hub, and the official files of AG News and 20 Newsgroups."""

import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from calibench.data import users_table
from calibench.data.source import DataError, load_hub_dataset, official_sources


class Corpus(NamedTuple):
    """Texts (N of them) and their class indices (N,) int64, in the order of their files."""

    texts: list[str]
    target: Tensor

    def take(self, index: Tensor) -> Self:
        """The texts at the given positions."""
        return type(self)([self.texts[i] for i in index.tolist()], self.target[index])

    def __add__(self, other: Self) -> Self:  # type: ignore[override]
        """Both corpora, one after the other."""
        return type(self)(self.texts + other.texts, torch.cat([self.target, other.target]))


class CorpusSplits(NamedTuple):
    """The three splits of a corpus."""

    train: Corpus
    val: Corpus
    test: Corpus


def split_corpus(corpus: Corpus, *, test_size: int, val_size: int, seed: int) -> tuple[Corpus, ...]:
    """Split a corpus into (train, val, test): the end of a seeded shuffle tests, the texts before it validate.

    Each part is in the corpus' order; not stratified. The rule of the public code of MMCE and MbLS,
    whose shuffle is `np.random.seed(seed); np.random.shuffle`.
    """
    n = len(corpus.texts)
    train_size = n - test_size - val_size
    if not (val_size > 0 and test_size >= 0 and train_size > 0):
        raise ValueError(f"`val_size` must leave some of {n} texts to train on, got {val_size}.")
    order = torch.from_numpy(np.random.RandomState(seed).permutation(n))
    parts = (
        order[:train_size],
        order[train_size : train_size + val_size],
        order[train_size + val_size :],
    )
    return tuple(corpus.take(part.sort().values) for part in parts)


def read_hub_corpus(name: str, split: str, *, num_classes: int) -> Corpus:
    """A corpus of the Hugging Face hub with columns `text` and `label`; null is an empty text. Raises a DataError."""
    rows = load_hub_dataset(name, split=split)
    labels = list(rows["label"])
    for row, label in enumerate(labels, start=1):
        if label not in range(num_classes):
            raise DataError(
                f"`{name}`, {split} row {row}: the label is {label}, "
                f"0 to {num_classes - 1} were expected."
            )
    return Corpus([text or "" for text in rows["text"]], torch.tensor(labels))


class TextTable(NamedTuple):
    """The texts of a table (N), their labels as written (N,), none of a table without, and lines for results."""

    texts: list[str]
    labels: np.ndarray
    caveats: list[str]


def read_text_table(
    path: Path,
    text: Sequence[str],
    label: str | None,
    *,
    classes: Sequence[str] | None = None,
    skip: bool = False,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
    separator: str | None = None,
    quotes: bool | None = None,
    has_all_parts: bool = False,
) -> TextTable:
    """Read a table of texts by `open_table`: the columns `text` of a row, joined by blanks where they are not empty.

    Without `label` there are no labels; `classes` are those that there may be, and `columns` name the columns of a file
    without a header. A missing column, or a row that cannot be used and may not be skipped, is a DataError; so is a
    column that names the parts of a file that `has_all_parts`.
    """
    description = "a table of texts and labels"
    table = users_table.open_users_table(
        path, description, separator=separator, encoding=encoding, names=columns, quotes=quotes
    )
    names = [*text, *([] if label is None else [label])]
    users_table.require_columns(path, table.names, names)
    if has_all_parts:
        users_table.refuse_column_of_parts(path, table, names)
    frame, problems = table.frame(list(dict.fromkeys(names)), names), dict(table.problems)
    labels = np.empty(0, object)
    if label is not None:
        labels = frame[label].to_numpy(object)
        problems |= users_table.find_empty_cells(table.rows, labels, "the label")
        problems |= users_table.find_missing_labels(table.rows, labels, "the label")
    if classes is not None:
        problems = users_table.find_unknown_labels(table.rows, labels, classes) | problems
    good, caveats = users_table.select_usable_rows(path, table.rows, problems, skip=skip)
    cells = zip(*(frame[name][good].tolist() for name in text), strict=True)
    texts = [" ".join(filter(None, row)) for row in cells]
    return TextTable(texts, labels if label is None else labels[good], table.caveats + caveats)


AG_NEWS_TOPICS = ("World", "Sports", "Business", "Sci/Tech")
NEWSGROUPS = (
    "alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles",
    "rec.sport.baseball", "rec.sport.hockey", "sci.crypt", "sci.electronics", "sci.med",
    "sci.space", "soc.religion.christian", "talk.politics.guns", "talk.politics.mideast",
    "talk.politics.misc", "talk.religion.misc",
)  # fmt: skip
_ARTICLES = {"train": 120_000, "test": 7_600}  # of AG News

Posts = dict[PurePosixPath, bytes]


def read_ag_news(
    root: Path, part: str, corpus: Literal["csv", "parquet", "hub"] = "csv"
) -> tuple[Corpus, list[str]]:
    """The part `train` or `test` of AG News, title and description in one text, and caveats.

    The corpus "csv" is `ag_news_csv/<part>.csv` with class 1 to 4, title and description, without a header; "parquet"
    is `ag_news/<part>.parquet` with `text` and `label` (0 to 3); "hub" is `fancyzhx/ag_news`. Raises a DataError.
    """
    caveats: list[str] = []
    if corpus == "hub":
        articles = read_hub_corpus("fancyzhx/ag_news", part, num_classes=len(AG_NEWS_TOPICS))
    else:
        official = corpus == "csv"
        path = root / ("ag_news_csv" if official else "ag_news") / f"{part}.{corpus}"
        if not path.is_file():
            url = official_sources()["ag_news"].url
            raise DataError(f"{path} is missing: AG News is expected there; get it from {url}.")
        text = ("title", "description") if official else ("text",)
        columns = ("label", *text) if official else None
        classes = [str(k + official) for k in range(len(AG_NEWS_TOPICS))]
        table = read_text_table(
            path, text, "label", classes=classes, columns=columns, encoding="utf-8"
        )
        articles = Corpus(table.texts, users_table.class_numbers(table.labels, classes))
        caveats = table.caveats
    if (n := len(articles.texts)) != _ARTICLES[part]:
        caveats.append(f"ag_news: {n} {part} texts, the official set has {_ARTICLES[part]}")
    return articles, caveats


def read_newsgroups(
    root: Path, corpus: Literal["bydate", "raw", "hub"] = "bydate"
) -> tuple[Corpus, Corpus]:
    """The training and test posts of 20 Newsgroups, in order of group and file name.

    The corpus "bydate" has the 11,314 and 7,532 posts cut by date (Rennie's version), from
    `20news-bydate-{train,test}/<group>/<number>`, below `20news-bydate` or not, or from `20news-bydate.tar.gz`; "raw"
    the 19,997 posts of Lang's original collection, none of them for testing, from `20_newsgroups/<group>/<number>` or
    `20_newsgroup/...`, `news20.tar.gz` or `20_newsgroups.tar.gz`; "hub" is the version by date of the hub, whose
    headers, footers and quotes are removed already. Raises a DataError.
    """
    if corpus == "hub":
        part_of = partial(read_hub_corpus, "SetFit/20_newsgroups", num_classes=len(NEWSGROUPS))
        return part_of("train"), part_of("test")
    if corpus == "raw":
        archives = ("news20.tar.gz", "20_newsgroups.tar.gz")
        posts = _read_posts(root, ("20_newsgroups", "20_newsgroup"), NEWSGROUPS[0], archives)
        return _make_corpus(posts, root), Corpus([], torch.empty(0).long())
    posts = _read_posts(
        root, ("20news-bydate", "."), "20news-bydate-train", ("20news-bydate.tar.gz",)
    )
    return _make_corpus(posts, root, "20news-bydate-train"), _make_corpus(
        posts, root, "20news-bydate-test"
    )


def remove_headers(post: str) -> str:
    """A post from its first empty line on, as in the public code of MMCE; all where there is none."""
    return post[max(0, post.find("\n\n")) :]


def _read_posts(
    root: Path, folders: tuple[str, ...], inside: str, archives: tuple[str, ...]
) -> Posts:
    for folder in folders:
        if (root / folder / inside).is_dir():
            # Beside `inside` lie the other groups, or the test posts; in a data root much else besides.
            pattern = "20news-bydate-*/*/*" if inside.startswith("20news-bydate") else "*/*"
            return {
                PurePosixPath(path.relative_to(root / folder).as_posix()): path.read_bytes()
                for path in (root / folder).glob(pattern)
                if path.parent.name in NEWSGROUPS
            }
    for archive in archives:
        if (root / archive).is_file():
            return dict(_read_archive(root / archive))
    raise DataError(
        f"{root / folders[0] / inside} is missing: 20 Newsgroups is expected there, or in "
        f"{root / archives[0]}; get it from {official_sources()['newsgroups'].url}."
    )


def _read_archive(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isfile() else None
                if file is not None and PurePosixPath(member.name).parent.name in NEWSGROUPS:
                    yield PurePosixPath(member.name), file.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{archive} cannot be unpacked ({error}).") from None


def _make_corpus(posts: Posts, root: Path, folder: str | None = None) -> Corpus:
    """The posts in a folder, or all of them."""
    paths = [path for path in posts if folder is None or folder in path.parts]
    ordered = sorted(paths, key=lambda path: path.parts[-2:])
    target = torch.tensor(
        [NEWSGROUPS.index(path.parent.name) for path in ordered], dtype=torch.long
    )
    groups = len(set(target.tolist()))
    if groups < len(NEWSGROUPS):
        raise DataError(
            f"{root} has posts of {groups} of the 20 newsgroups only: unpack the archive again."
        )
    # Latin-1, as in the reference code: every byte is a character, none is lost.
    return Corpus([posts[path].decode("latin-1") for path in ordered], target)


TEST_TEXTS: dict[str, Callable[[Path], list[str]]] = {
    "newsgroups": lambda root: [*map(remove_headers, read_newsgroups(root)[1].texts)],
    "ag_news": lambda root: read_ag_news(root, "test")[0].texts,
}
"""From the data root to the texts of a set that any text data module can be evaluated on."""
