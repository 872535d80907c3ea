"""Standard streams of a process: those that it was started without (`>&-`), and those that cannot show every letter."""

import codecs
import os
import sys
import unicodedata

_PLAIN = {
    "…": "...", "±": "+-", "≤": "<=", "≥": ">=", "→": "->", "·": ".", "•": "*", "°": "o", "†": "+", "✓": "v",
    "\N{MULTIPLICATION SIGN}": "x", "\N{MINUS SIGN}": "-",
}  # fmt: skip
_PLAIN_BY_CATEGORY = {"Pd": "-", "Zs": " ", "Pi": "'", "Pf": "'"}
_HANDLER = "calibench.plain"


def open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed.

    Python has None for such a stream, and the next file that is opened would get its descriptor, to which libraries
    write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def spell_plainly() -> None:
    """Let standard streams of another encoding than UTF-8 print what they cannot show in plain letters.

    A table of a terminal that is set to latin-1 or `LANG=C` has `-` for its lines, in place of an error.
    """
    for stream in (sys.stdout, sys.stderr):
        encoding = str(getattr(stream, "encoding", None) or "utf-8")
        if hasattr(stream, "reconfigure") and not encoding.lower().startswith(("utf", "cp65001")):
            codecs.register_error(_HANDLER, _plain_letters)
            stream.reconfigure(errors=_HANDLER)


def _plain_letters(error: UnicodeError) -> tuple[str, int]:
    """Replacement of characters that an encoding lacks: as `codecs.register_error` wants it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = (_plain_letter(letter) for letter in error.object[error.start : error.end])
    return "".join(letters), error.end


def _plain_letter(letter: str) -> str:
    name, category = unicodedata.name(letter, ""), unicodedata.category(letter)
    if name.startswith("BOX DRAWINGS"):
        return "|" if "VERTICAL" in name else "-"
    decomposed = unicodedata.normalize("NFKD", letter)
    ascii_part = "".join(part for part in decomposed if part.isascii())
    return _PLAIN.get(letter) or _PLAIN_BY_CATEGORY.get(category) or ascii_part or "?"
