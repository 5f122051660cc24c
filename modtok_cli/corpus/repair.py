"""Repair text whose UTF-8 was read as Latin-1 or Windows-1252 ("pÃ¤ivÃ¤" for "päivä")."""

import re

# Characters that a byte from 0x80 on becomes, by Latin-1 or, where the two differ, Windows-1252.
_WINDOWS = {
    bytes([byte]).decode("cp1252"): byte
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_BYTES = {chr(byte): byte for byte in range(0x80, 0x100)} | _WINDOWS
_AFTER = "".join(char for char, byte in _BYTES.items() if byte < 0xC0)
_ANY = f"[\x80-\xff{''.join(_WINDOWS)}]"
_ENCODED = re.compile(
    f"[\xc2-\xdf][{_AFTER}]|[\xe0-\xef][{_AFTER}]{{2}}|[\xf0-\xf4][{_AFTER}]{{3}}"
)
_OTHER = re.compile(_ANY)
# Of one such sequence alone: letters with which text in Latin script becomes most of them.
_ALONE = re.compile("[\xc2-\xc5\xe2]|\xc8[\x99\x9b\u2122\u203a]")
_CUT = re.compile("\xc3(?= )")  # of "à": its second byte is a space that does not break a line
_TWICE = 3


def repair(text: str) -> str:
    """A line as it was before UTF-8 was misread, also twice; unchanged if that is not sure.

    It is changed if nearly all its characters beyond ASCII are parts of UTF-8 sequences.

    >>> [repair(line) for line in ("pÃ¤ivÃ¤Ã¤", "â€œIt’s", "«CAFÉ»")]
    ['päivää', 'â€œIt’s', '«CAFÉ»']
    """
    for _ in range(_TWICE):
        if not _ENCODED.search(text):
            break
        fixed = _once(text)
        if fixed == text:
            break
        text = fixed
    return text


def _once(line: str) -> str:
    found = _ENCODED.findall(line)
    if not found:
        return line
    others = len(_OTHER.findall(_CUT.sub("", _ENCODED.sub("", line))))
    if 2 * others >= len(found) or (len(found) == 1 and not _ALONE.match(found[0])):
        return line
    try:
        fixed = _ENCODED.sub(_decoded, line)
    except UnicodeDecodeError:
        return line
    return _CUT.sub("\xe0", fixed) if len(found) > 1 else fixed


def _decoded(match: re.Match[str]) -> str:
    return bytes(map(_BYTES.__getitem__, match[0])).decode()
