"""The language of a file whose name does not tell it: py3langid on its first documents."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

from modtok_cli.base.extras import is_installed
from modtok_cli.base.progress import Progress
from modtok_cli.text.languages import Label
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import SUFFIXES, is_pipe

PACKAGE = "py3langid"
_DOCUMENTS, _CHARACTERS = 200, 1000
_LEAST = 20  # characters of a document that tells a language
_SHARE = 0.9
_FIRST = 8  # labels of a text
_UNKNOWN = ("und", "zxx")  # no language


@cache
def identifier() -> tuple[set[str], Callable[[str], list[tuple[str, float]]]]:
    """Languages that py3langid knows, and a function: a text's best ones by score."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return (
        {Label.of(each).short for each in model.labels} - {*_UNKNOWN},
        lambda text: [(Label.of(name).short, score) for name, score in model.rank(text)[:_FIRST]],
    )


def identified(path: Path | str, reading: Reading, progress: Progress) -> str | None:
    """The language of nine tenths of the characters of a file's first documents; says it.

    None if there is no such language, no py3langid, too little text, or a pipe.
    """
    if not is_installed(PACKAGE) or is_pipe(path):
        return None
    _, rank = identifier()
    sizes: Counter[str] = Counter()
    for document in islice(read_documents(path, reading, may_be_empty=True), _DOCUMENTS):
        text = document.text.decode(errors="replace")[:_CHARACTERS]
        if len(text) >= _LEAST and (ranked := rank(text.replace("\n", " "))):
            sizes[ranked[0][0]] += len(text)
    for language, size in sizes.most_common(1):
        if language not in _UNKNOWN and size >= _SHARE * sizes.total():
            name = _named(language, path)
            progress.note(f"{path}: identified as {language} (name it {name} to set it)")
            return language
    return None


def _named(language: str, path: Path | str) -> str:
    """A name like that of a file, with a language: `fi.jsonl.zst`."""
    packed = Path(path).suffix in SUFFIXES
    return "".join((language, *Path(path).suffixes[-1 - packed :]))
