"""Sentence boundaries by the rules of Unicode Standard Annex #29, for text in any script.

The rules SB3 to SB998 as one regular expression over the `Sentence_Break` property of the `regex` package, with one
tailoring. UAX #29 takes every line break as the end of a paragraph, and so of a sentence; plain text documents are
mostly hard-wrapped. So here:

- a line feed or carriage return is a space (`Sp`), which ends a sentence only after a terminator;
- a blank line (LF, optional spaces and tabs, LF; either LF may be a CR LF) is a paragraph separator (`ParaSep`);
- U+0085, U+2028 and U+2029 (`Sep`) stay paragraph separators, as in the annex.

A text without line breaks has exactly the boundaries of the annex. Like the annex, no dictionary of abbreviations is
used: "Dr. Smith" has a boundary before "Smith". The characters' properties are those of the installed `regex`.
"""

import functools
import sys
from collections.abc import Iterator

import regex

from rayrag.fingerprint import fingerprint

_BLANK_LINE = r"\n[ \t]*+\r?\n"
_IGNORED = r"[\p{SB=Extend}\p{SB=Format}]*+"  # SB5: these attach to the character before them
_CLOSES = rf"(?:\p{{SB=Close}}{_IGNORED})*+"
_SPACES = rf"(?:(?!{_BLANK_LINE})[\p{{SB=Sp}}\r\n]{_IGNORED})*+"
_LETTER = r"\p{SB=OLetter}\p{SB=Upper}\p{SB=Lower}"
_TERMINATOR = r"\p{SB=STerm}\p{SB=ATerm}"

_SENTENCE_END = regex.compile(
    rf"""
    (?: \p{{SB=STerm}} {_IGNORED} {_CLOSES}
      | \p{{SB=ATerm}} {_IGNORED}
        (?! \p{{SB=Numeric}} )                                                                        # SB6: 3.14
        (?! \p{{SB=Upper}} (?<= [\p{{SB=Upper}}\p{{SB=Lower}}] {_IGNORED} \p{{SB=ATerm}} {_IGNORED} . ) )  # SB7: U.S.
        {_CLOSES}
        (?! {_SPACES} (?: [^{_LETTER}{_TERMINATOR}\p{{SB=Sep}}\n] | (?!{_BLANK_LINE})\n )*+ \p{{SB=Lower}} )  # SB8
    )
    {_SPACES}                                                                                       # SB9, SB10
    (?: \p{{SB=Sep}} | {_BLANK_LINE} | (?! [{_TERMINATOR}\p{{SB=SContinue}}] ) )                       # SB8a, SB11
  | \p{{SB=Sep}}                                                                                     # SB4
  | (?<= \n ) [ \t]*+ \r?\n                                                                          # SB4, tailored
    """,
    regex.VERBOSE | regex.VERSION1,
)


def sentence_ends(text: str) -> Iterator[int]:
    """The offsets after each sentence of `text` and the white space that follows it, ascending, found lazily.

    What remains after the last offset is the last sentence: its end is the end of the text and may be left out.
    The time is linear in the length of the text, whatever it contains.
    """
    return (match.end() for match in _SENTENCE_END.finditer(text))


@functools.cache
def properties_sha256() -> str:
    """A digest of the Sentence_Break property of every character: equal digests give equal boundaries."""
    every_character = "".join(map(chr, range(sys.maxunicode + 1)))
    classes = (
        "Extend",
        "Format",
        "Close",
        "Sp",
        "OLetter",
        "Upper",
        "Lower",
        "STerm",
        "ATerm",
        "Numeric",
        "Sep",
        "SContinue",
    )
    return fingerprint(
        [[match.span() for match in regex.finditer(rf"\p{{SB={name}}}+", every_character)] for name in classes]
    )
