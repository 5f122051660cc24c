"""Which files of a directory are read: published data sets have splits and rejected text too."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.base.remote import is_remote
from modtok_cli.text.file_labels import bare, label_of_path, split_name
from modtok_cli.text.streams import SUFFIXES
from modtok_cli.text.text_format import text_formats

TRAIN = "train"
_NAMES = {
    TRAIN: "training clean",
    "validation": "valid val dev",
    "test": "testing eval evaluation devtest",
    "noisy": "",
}
_SPLITS = {word: split for split, words in _NAMES.items() for word in (split, *words.split())}
"""Names of files and directories that `datasets` knows, and MADLAD-400's."""
_SPLIT = re.compile(rf"((?i:{'|'.join(_SPLITS)}))([_-]?[0-9]+)?([_-]of[_-][0-9]+)?")
"""Such a name, maybe with the number of a shard."""
_AFTER_LABEL = re.compile(rf"(?:.*[_-])?{_SPLIT.pattern}")
_OF_PARTS = {*_SPLITS, "part", "shard", "chunk", "of", "text", "data", "docs", "sentences",
             "counts", "json", "tfrecord"}  # fmt: skip
"""Words of names that tell parts of a text apart, and its formats."""
_WORD = re.compile(r"[^\W\d]{2,}")
_REMOVED = re.compile(r"[^.]*_removed(\..*)?")
"""As fin_Latn_removed of FineWeb-2: what a filter took out of fin_Latn."""
_SAVED = "dataset_dict.json"
"""`save_to_disk` of `datasets` writes it beside the directories of splits."""
_DESCRIBING = (_SAVED, "dataset_info.json", "state.json", "corpus.json")
"""Files in which programs describe the text beside them."""
_ABOUT = re.compile(r"(readme|licen[cs]e|changelog|contributing|notice)\b.*", re.IGNORECASE)
"""Files in which people do."""
_MOST_NAMES = 3


class Directory:
    """Files of text below `root`, and what is left out of them, which `tell` says.

    `is_text` tells by a name whether a file is read, `formats` names those files. Hidden files
    are left out silently.

    Raises:
        UsageError: `root` is the root of the file system, which holds more than text.
    """

    def __init__(self, root: Path, is_text: Callable[[Path], bool], formats: str = "") -> None:
        if not is_remote(root) and root.resolve() == root.resolve().parent:
            what = "is the root of the file system"
            raise UsageError(what, where=root, remedy="name the directory of the text")
        self.root = root
        self._is_text = is_text
        self._formats = formats or names_of_text()
        self._splits: dict[Path, str | None] = {}  # of files that are left out
        self._has_train = False
        self._others: set[str | None] = set()  # splits that are read of languages without train
        self._removed: set[str] = set()
        self._unread: set[Path] = set()
        self._about: set[str] = set()

    def reads(self, file: Path) -> bool:
        """Return whether a file is text, and not the description of others."""
        return self._is_text(file) and (file == self.root or not _ABOUT.fullmatch(file.name))

    def entries(self, directory: Path) -> list[Path]:
        """Return the entries of a directory, ascending, without hidden or removed ones."""
        return [each for each in sorted(directory.iterdir()) if self._keeps(each)]

    def below(self, entry: Path) -> list[Path]:
        """Return the files to read of an entry, itself or those below it, also behind links."""
        files = []
        for file in self._files(entry):
            if self.reads(file) and file.is_file():
                files.append(file)
            elif _ABOUT.fullmatch(file.name):
                self._about.add(file.name)
            elif file.name not in _DESCRIBING:
                self._unread.add(file)
        return sorted(files)

    def chosen(self) -> list[Path]:
        """Return the files to read of all languages: `below` the root, and of each `of_train`."""
        of: dict[str | None, list[Path]] = {}
        for file in self.below(self.root):
            of.setdefault(label_of_path(file), []).append(file)
        return sorted(file for files in of.values() for file in self.of_train(files))

    def of_train(self, files: Iterable[Path]) -> list[Path]:
        """Return the files of one language without other splits, if there is a split `train`."""
        splits = {file: self._split(file) for file in files}
        found = set(splits.values())
        if TRAIN not in found:
            self._others |= found - {None} if len(found) == 1 else found
            return list(splits)
        self._has_train = True
        self._splits |= {
            file: split for file, split in splits.items() if split not in (TRAIN, None)
        }
        return [file for file in splits if file not in self._splits]

    def look_for_train(self, entries: Iterable[Path]) -> None:
        """Look for a split `train` of languages that are not read, if another split is."""
        if self._others and not self._has_train:
            files = (file for entry in entries for file in self._files(entry))
            self._has_train = any(self._split(file) == TRAIN for file in files)

    def tell(self, progress: Progress) -> None:
        """Warn of what is left out or mixed."""
        if self._splits:
            names = ", ".join(sorted(set(map(str, self._splits.values()))))
            progress.warn(
                f"{self.root}: the split {TRAIN} is read; left out: {names} "
                f"({_shown(self._splits, self.root)})"
            )
        if len(self._others) > 1 or (self._others and self._has_train):
            names = ", ".join(sorted(name or "others" for name in self._others))
            progress.warn(
                f"{self.root}: of languages without a split {TRAIN}, all text is read: {names}"
            )
        if self._removed:
            progress.warn(
                f"{self.root}: left out, since a filter removed this text: "
                + _listed(sorted(self._removed))
            )
        if self._about:
            names = ", ".join(sorted(self._about))
            progress.note(f"{self.root}: left out, since it describes the text: {names}")
        if self._unread:
            progress.warn(
                f"{self.root}: left out, since these names are not those of text: "
                f"{_shown(self._unread, self.root)}; expected {self._formats}"
            )

    def _keeps(self, path: Path) -> bool:
        if _REMOVED.fullmatch(path.name):
            self._removed.add(path.name)
            return False
        return not path.name.startswith(".")

    def _files(self, entry: Path, above: Sequence[Path] = ()) -> Iterator[Path]:
        if is_remote(entry) and entry.is_dir():  # one request for all
            for file in entry.rglob("*"):
                parts = file.relative_to(entry).parents
                if all(self._keeps(entry / part) for part in (*list(parts)[:-1], file)):
                    yield file
        elif not entry.is_dir():
            yield entry
        elif (place := entry.resolve()) not in above:  # a link may lead back
            for each in self.entries(entry):
                yield from self._files(each, (*above, place))

    def _split(self, file: Path) -> str | None:
        """Return the split that a file or a directory between it and the root is named after."""
        for path in (file, *file.parents):
            if path == self.root:
                break
            if path != file and (path.parent / _SAVED).exists():
                return _SPLITS.get(path.name, path.name)
            for part in bare(path.name).split("."):
                found = split_name(part)
                match = _AFTER_LABEL.fullmatch(found[1]) if found else _SPLIT.fullmatch(part)
                if match:
                    return _SPLITS[match[1].lower()]
        return None


def variety_of_name(name: str) -> str:
    """Return words that follow the label of a name and are no numbers, splits, parts or suffixes.

    >>> [variety_of_name(name) for name in ("zh.classical.txt", "hi_rom.txt.xz", "fr_train-0.gz")]
    ['classical', 'rom', '']
    """
    usual = _OF_PARTS | {suffix[1:] for suffix in (*text_formats(), *SUFFIXES)}
    _, rest = split_name(name) or ("", "")
    words = re.split(r"[._-]", rest.lower())
    return "-".join(each for each in words if each not in usual and _WORD.fullmatch(each))


def names_of_text() -> str:
    """Return suffixes of files with text, for errors."""
    return f"{', '.join(text_formats())} (text also {', '.join(SUFFIXES)})"


def _shown(files: Iterable[Path], root: Path) -> str:
    return _listed([str(file.relative_to(root)) for file in sorted(files)])


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
