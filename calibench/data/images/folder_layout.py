"""Folders of images as they lie on the disk: parts, classes, and what is not used."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from calibench.data.images.image_files import SUFFIXES, count_suffixes, is_hidden, list_files
from calibench.data.layouts import (
    PART_TITLES,
    describe_parts,
    looks_like_part,
    name_few,
    parts_by_name,
)
from calibench.data.source import DataError
from calibench.files.set_names import part_of
from calibench.messages.errors import near_matches
from calibench.messages.spelling import spell_argument


@dataclass
class FolderLayout:
    """A folder of images, a folder for each class, perhaps below folders for parts.

    Attributes:
        folder: The folder.
        parts: Folder of each part; of a folder without parts it is `train`'s, of which the others are held out.
        classes: Names of the classes: the folders with images of the training part, sorted.
        files: Images of each part, class by class, with their class.
        unknown: Images, by the part and folder, of classes that the training part lacks.
        notes: Lines about folders and files that are not used.
        caveats: Lines that results repeat.
    """

    folder: Path
    parts: dict[str, Path]
    classes: list[str] = field(default_factory=list)
    files: dict[str, dict[Path, int]] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)

    @property
    def has_parts(self) -> bool:
        """Whether there are folders for parts."""
        return self.parts["train"] != self.folder

    def describe(self) -> str:
        """The parts there are with their images, in one line."""
        counts = {part: len(files) for part, files in self.files.items()}
        names = {part: path.name for part, path in self.parts.items() if self.has_parts}
        return describe_parts(counts, len(self.classes), names, unit="images")

    def refuse_unknown(self) -> None:
        """Raise a DataError for the first class that the training part lacks, if there is any."""
        for place, count in self.unknown.items():
            name = Path(place).name
            skip = spell_argument("data.skip_bad", "true", python="True")
            raise DataError(
                f"{self.folder / place} has {count} images of a class that {self.parts['train']} lacks"
                f"{near_matches(name, self.classes)} ({skip} leaves them out, and results say so)."
            )


def read_folder_layout(folder: Path) -> FolderLayout:
    """List the images of a folder by part and class.

    Parts are the folders with a name of `PART_NAMES` that hold class folders; without any, all folders with images are
    classes. Hidden folders, `__MACOSX` and empty folders are no classes.

    Raises:
        DataError: There is no such folder, it has fewer than two classes, or its folders can be read in two ways.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is missing: a folder of images per class is expected there.")
    subfolders = _subfolders(folder)
    named = parts_by_name(path for path in subfolders if _subfolders(path))
    if named and "train" not in named:
        _refuse_without_train(folder, named)
    if not named:
        _refuse_other_parts(folder, subfolders)
    layout = FolderLayout(folder, named or {"train": folder})
    _find_classes(layout)
    for part, path in layout.parts.items():
        _list_part(layout, part, path)
    _note_unused(layout, [path for path in subfolders if named and path not in named.values()])
    return layout


def _subfolders(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not is_hidden(path, folder)
    )


def _refuse_without_train(folder: Path, named: dict[str, Path]) -> None:
    names = name_few(path.name for path in named.values())
    raise DataError(
        f"{folder / 'train'} is missing: {names} of {folder} hold class folders, and so a folder `train` is expected "
        "beside."
    )


def _refuse_other_parts(folder: Path, subfolders: Sequence[Path]) -> None:
    """Refuse folders that look like parts, but are none by their names or hold images without class folders."""
    holding = [path for path in subfolders if list_files(path)[0]]
    if holding and all(part_of(path.name) for path in holding):
        raise DataError(
            f"{holding[0]} holds images and no class folders: a folder for each class is expected in it."
        )
    for path in holding:
        inner = [below for below in _subfolders(path) if list_files(below)[0]]
        if looks_like_part(path.name) and len(inner) > 1:
            raise DataError(
                f"{path} holds folders of images ({name_few(below.name for below in inner)}) and looks like a part: "
                "name it train, val or test if it is one."
            )


def _find_classes(layout: FolderLayout) -> None:
    train = layout.parts["train"]
    empty, content = list[str](), dict[str, str]()
    for path in _subfolders(train):
        images, others = list_files(path)
        if images:
            layout.classes.append(path.name)
        elif others:
            content[path.name] = count_suffixes(others)
        else:
            empty.append(path.name)
    for name, suffixes in content.items():
        endings = ", ".join(sorted(SUFFIXES))
        raise DataError(f"{train / name} holds no images but {suffixes} (images end in {endings}).")
    if len(layout.classes) < 2:
        inner = (
            [path.name for path in _subfolders(train / layout.classes[0])] if layout.classes else []
        )
        hint = f"; `{layout.classes[0]}` holds {name_few(inner)}: is it the one?" if inner else ""
        lacking = f"; empty: {name_few(empty)}" if empty else ""
        raise DataError(
            f"{train} holds {len(layout.classes)} class folders; at least 2 are expected{hint}{lacking}."
        )
    if empty:
        layout.notes.append(f"not used: empty folders {name_few(empty)} of {train.name}")


def _list_part(layout: FolderLayout, part: str, folder: Path) -> None:
    """List the images of a part, and note what is not used of it."""
    files, unread = dict[Path, int](), list[Path]()
    labels = {name: label for label, name in enumerate(layout.classes)}
    listed = {path.name: list_files(path) for path in _subfolders(folder)}
    for name in [*layout.classes, *sorted(listed.keys() - labels.keys())]:
        images, others = listed.get(name, ([], []))
        unread += others
        if name in labels:
            files |= dict.fromkeys(images, labels[name])
        elif images:
            layout.unknown[str((folder / name).relative_to(layout.folder))] = len(images)
    layout.files[part] = files
    if not files and not layout.unknown:
        raise DataError(f"{folder} holds no images of the classes.")
    title = PART_TITLES[part]
    if unread:
        layout.caveats.append(
            f"{title}: not read, no images by their endings: {count_suffixes(unread)}"
        )
    loose = [path for path in folder.iterdir() if path.is_file() and not is_hidden(path, folder)]
    if loose:
        names = name_few(sorted(path.name for path in loose))
        layout.notes.append(f"not used: {names} of {folder.name}, outside of the class folders")


def _describe_inner_folders(layout: FolderLayout) -> list[str]:
    """A line on classes that hold folders of images and no image beside these: the folders may be the classes."""
    folders = {name: _subfolders(layout.folder / name) for name in layout.classes}
    plain = {
        path.parent.name for path in layout.files["train"] if path.parent.parent == layout.folder
    }
    inner = {name: paths for name, paths in folders.items() if paths and name not in plain}
    names = [{path.name for path in paths} for paths in inner.values()]
    if not inner or any(first & second for first, second in combinations(names, 2)):
        return []  # folders of one name in several classes have a line of their own
    listed = "; ".join(
        f"{name}: {name_few(sorted(path.name for path in paths))}" for name, paths in inner.items()
    )
    return [f"folders in classes count as these ({listed}): move them up if they are the classes"]


def _note_unused(layout: FolderLayout, folders: Sequence[Path]) -> None:
    for path in folders:
        count = len(list_files(path)[0])
        without = ", without class folders" if part_of(path.name) else ""
        layout.notes.append(f"not used: {path.name}, a folder with {count} images{without}")
    if layout.has_parts:
        loose = [path for path in layout.folder.iterdir() if path.is_file()]
        names = sorted(path.name for path in loose if not is_hidden(path, layout.folder))
        if names:
            layout.notes.append(f"not used: {name_few(names)}")
        return
    layout.notes += _describe_inner_folders(layout)
    inner = [
        frozenset(path.name for path in _subfolders(layout.folder / name))
        for name in layout.classes
    ]
    if len(set(inner)) == 1 and len(inner[0]) > 1:
        layout.notes.append(
            f"the classes {name_few(layout.classes)} all hold the folders {name_few(sorted(inner[0]))}; if these are "
            "the classes, name the upper folders train, val and test"
        )
