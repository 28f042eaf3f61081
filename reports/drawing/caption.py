"""Captions of figures: for the page below the figure, as Markdown and as LaTeX."""

import dataclasses
import re

from reports.drawing import latex

LENGTHS = ("short", "long")
WORDS = 60  # of a short caption, at most


@dataclasses.dataclass
class Caption:
    """A caption. title: the subject; setting: the source and the settings that all points share; notes: sentences; numbers: more
    sentences, too long for a page; provenance: the origin of the numbers; brief, source: notes and setting of the short caption.
    """

    name: str
    title: str
    setting: str
    notes: list
    numbers: list
    provenance: str
    brief: list  # the most important first
    source: str

    def sentences(self):
        return [sentence for sentence in map(_sentence, [self.setting, *self.notes]) if sentence]

    def plain(self):
        """Returns (title, the rest) of the long caption."""
        return _sentence(self.title), " ".join(self.sentences())

    def short(self):
        """Returns (title, the rest) of the short caption: as many brief sentences as WORDS allows, and the source."""
        title, source, kept = _sentence(self.title), _sentence(self.source), []
        for sentence in map(_sentence, self.brief):
            if len(" ".join([title, *kept, sentence, source]).split()) <= WORDS:
                kept.append(sentence)
        return title, " ".join([*kept, source]).strip()

    def _parts(self, length):
        return self.short() if length == "short" else self.plain()

    def markdown(self, length):
        """length: `short` (exponents and origin as a comment) or `long`"""
        title, rest = self._parts(length)
        parts = [f"**{title}** {_marked(rest)}".rstrip()]
        more = [*(_marked(_sentence(words)) for words in self.numbers), _sentence(self.provenance)]
        parts += more if length == "long" else ["<!--", *more, "-->"]
        return "\n\n".join(parts) + "\n"

    def latex(self, length):
        """`\\caption` and `\\label`, to be given below `\\includegraphics` or `\\input`; exponents and origin as comments."""
        title, rest = map(latex.escape, self._parts(length))
        short = latex.escape(self.title)
        comments = [f"% {' '.join(words.split())}" for words in [*self.numbers, self.provenance]]
        return "\n".join(
            [f"\\caption[{{{short}}}]{{\\textbf{{{title}}} {rest}}}", f"\\label{{fig:{self.name}}}", *comments, ""]
        )


def _marked(text):
    return re.sub(r"([*_`])", r"\\\1", text)


def _sentence(text):
    text = " ".join(text.split())
    if not text:
        return ""
    return text if text[-1] in ".!?…" else text + "."
