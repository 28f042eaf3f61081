"""Reads the words of a PDF by matplotlib as a reader sees them: a letter without a glyph in its font is MISSING.

A PDF names the letter of every code (ToUnicode), even if nothing is printed for it; CIDToGIDMap says what is printed.
"""

import re
import zlib

MISSING = "\N{REPLACEMENT CHARACTER}"
OBJECT = re.compile(rb"(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL)
PIECE = re.compile(rb"^BT$(.*?)^ET$", re.DOTALL | re.MULTILINE)
TOKEN = re.compile(rb"\((?:\\.|[^\\()])*\)|/F[0-9]+", re.DOTALL)  # strings and fonts
ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
RANGE = re.compile(rb"<([0-9a-f]+)> <([0-9a-f]+)>\s*(?:\[([^\]]*)\]|<([0-9a-f]+)>)", re.IGNORECASE)


def words(content):
    """Returns each piece of text of the PDF. Raises ValueError if there is none, which means that this reader is
    broken.
    """
    objects = {int(number): body for number, body in OBJECT.findall(content)}
    fonts = {}
    for body in objects.values():
        for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", body) if b"/FontDescriptor" not in body else []:
            fonts[name] = _Font(objects, objects[int(number)])
    pieces = []
    for body in objects.values():
        if b"stream" in body and b"/Subtype" not in body:
            pieces += _texts(_stream(body), fonts)
    if not pieces:
        raise ValueError("no text in this PDF")
    return pieces


def _stream(body):
    head, _, data = body.partition(b"stream\n")
    data = data[: data.rindex(b"endstream")]
    return zlib.decompress(data) if b"/FlateDecode" in head else data


def _linked(objects, body, key):
    return objects[int(re.search(rb"/" + key + rb" (?:\[ )?(\d+) 0 R", body)[1])]


class _Font:
    """The letters that a font prints, by code."""

    def __init__(self, objects, body):
        if b"/Type0" not in body:
            raise ValueError(f"expected fonts of type 42, found {body[:80]}")
        glyphs = _stream(_linked(objects, _linked(objects, body, b"DescendantFonts"), b"CIDToGIDMap"))
        self.letters = {}
        for first, last, listed, single in RANGE.findall(_stream(_linked(objects, body, b"ToUnicode"))):
            codes = range(int(first, 16), int(last, 16) + 1)
            targets = re.findall(rb"<([0-9a-f]+)>", listed, re.IGNORECASE) if listed else [single]
            for place, code in enumerate(codes):
                letter = int(targets[place], 16) if listed else int(single, 16) + place
                printed = any(glyphs[2 * code : 2 * code + 2])
                self.letters[code] = chr(letter) if printed else MISSING

    def read(self, string):
        data = ESCAPED.sub(lambda match: {b"n": b"\n", b"r": b"\r"}.get(match[1], match[1]), string[1:-1])
        codes = (256 * high + low for high, low in zip(data[::2], data[1::2]))
        return "".join(self.letters.get(code, MISSING) for code in codes)


def _texts(stream, fonts):
    """Yields the text between each BT and ET."""
    pieces = []
    for piece in PIECE.findall(stream):
        text, font = "", None
        for token in TOKEN.findall(piece):
            if token.startswith(b"("):
                text += font.read(token)
            elif token.startswith(b"/"):
                font = fonts[token[1:]]
        pieces.append(text)
    return pieces
