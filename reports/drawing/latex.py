"""Text for LaTeX: every character that figures and captions use, as pdflatex takes it."""

import unicodedata

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "$": r"\$",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", "–": "--", "—": "---",
    "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "−": r"$-$", "≤": r"$\le$", "≥": r"$\ge$", "≈": r"$\approx$",
    "√": r"$\surd$", "°": r"$^\circ$", "…": r"\dots{}", "’": "'", "‘": "`", "“": "``", "”": "''", "µ": r"$\mu$",
    "μ": r"$\mu$", "∞": r"$\infty$", "→": r"$\to$", "∙": r"$\cdot$", "▽": r"$\triangledown$", "◇": r"$\diamond$",
    "○": r"$\circ$", "ᵀ": r"$^{\mathsf T}$", "\u00a0": "~", "∼": r"$\sim$", "\"": "''", "▲": r"$\blacktriangle$",
}  # fmt: skip
UP, DOWN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n"), str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
GREEK = {letter: name for letter, name in zip(
    "αβγδεζηθικλνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda nu xi pi rho sigma tau upsilon varphi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega".split(),
)}  # fmt: skip
ACCENTS = {"\u0302": r"\^", "\u0303": r"\~", "\u0301": r"\'", "\u0300": r"\`", "\u0308": r"\"", "\u030c": r"\v"}


UNKNOWN = "{?}"  # a character that has no entry here


def escape(text):
    """The text in ASCII that LaTeX prints as it is."""
    return "".join(map(_one, text))


def _one(character):
    if character in SPECIAL:
        return SPECIAL[character]
    if character.isascii():
        return character
    if character in GREEK:
        return rf"$\{GREEK[character]}$"
    for table, sign in ((UP, "^"), (DOWN, "_")):
        if ord(character) in table:
            return f"${sign}{{{character.translate(table)}}}$"
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        return f"{ACCENTS[parts[1]]}{{{parts[0]}}}"
    return UNKNOWN
