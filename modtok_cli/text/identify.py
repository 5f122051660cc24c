"""The language of a file whose name does not tell it: py3langid on its first documents."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

from modtok_cli.base.extras import is_installed
from modtok_cli.text.languages import Label
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading

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


def identified(path: Path, reading: Reading) -> str | None:
    """The language of nine tenths of the characters of a file's first documents.

    None if there is no such language, no py3langid, or too little text.
    """
    if not is_installed(PACKAGE):
        return None
    _, rank = identifier()
    sizes: Counter[str] = Counter()
    for document in islice(read_documents(path, reading, may_be_empty=True), _DOCUMENTS):
        text = document.text.decode(errors="replace")[:_CHARACTERS]
        if len(text) >= _LEAST and (ranked := rank(text.replace("\n", " "))):
            sizes[ranked[0][0]] += len(text)
    for language, size in sizes.most_common(1):
        if language not in _UNKNOWN and size >= _SHARE * sizes.total():
            return language
    return None
