"""The caption of a figure: its words, for the page below it, as Markdown and as LaTeX."""

import dataclasses
import re

from reports.drawing import latex


@dataclasses.dataclass
class Caption:
    """title: what is shown; setting: its source and what all points share; notes: sentences; numbers: more
    of them, too long for a page; provenance: where the numbers come from"""

    name: str
    title: str
    setting: str
    notes: list
    numbers: list
    provenance: str

    def sentences(self):
        return [sentence for sentence in map(_sentence, [self.setting, *self.notes]) if sentence]

    def plain(self):
        """(title, the rest)"""
        return _sentence(self.title), " ".join(self.sentences())

    def markdown(self):
        title, rest = self.plain()
        parts = [f"**{title}** {_marked(rest)}", *(_marked(_sentence(words)) for words in self.numbers)]
        return "\n\n".join([*parts, _sentence(self.provenance)]) + "\n"

    def latex(self):
        """`\\caption` and `\\label`, to be given below `\\includegraphics` or `\\input`; the rest as comments."""
        title, rest = map(latex.escape, self.plain())
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
