#!/usr/bin/env python3
"""Tests of figures for papers: pgfplots code, captions, widths, styles, and a document that includes ten figures by
\\input.

Run: python3 tests/reports/latex_test.py. Exit status 77: all other tests passed, but there is no LaTeX with pgfplots to
compile with.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from reports import figures  # noqa: E402
from reports.drawing import catalogue  # noqa: E402
from reports.drawing import latex  # noqa: E402
from reports.drawing import plot_style  # noqa: E402
from reports.files import recipe_file  # noqa: E402
from reports.files import result_file  # noqa: E402

RESULTS = result_file.default_folder()

TEN = ("nprf-fig1a", "nprf-fig1b", "nprf-lemma2", "fastrpb-fig3a", "survey-fig1-2", "fastrpb-toeplitz", "txl-shift", "survey-fig6-9",
       "survey-schemes", "crossover-linear")  # fmt: skip
DOCUMENT = """\\documentclass[twocolumn]{article}
\\usepackage{amssymb,graphicx,booktabs,pgfplots}
\\usepackage[letterpaper,margin=0.75in]{geometry}
\\pgfplotsset{compat=1.16}
\\begin{document}
%s
\\end{document}
"""


def can_compile():
    """True if pdflatex and the packages of the document are installed."""
    if not shutil.which("pdflatex") or not shutil.which("kpsewhich"):
        return False
    needed = ("pgfplots.sty", "booktabs.sty", "amssymb.sty", "geometry.sty")
    paths = subprocess.run(["kpsewhich", *needed], capture_output=True, text=True, check=False).stdout
    return len(paths.split()) == len(needed)


class FiguresTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        results, studies, summary = figures.load_files([RESULTS])
        cls.products = catalogue.build(results, studies, recipe_file.load_all(), "none", summary).products

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.addCleanup(plot_style.use_style)
        self.folder = pathlib.Path(place.name)

    def test_everything_is_ascii_that_latex_reads(self):
        plot_style.use_style()
        for product in self.products:
            for name, content in product.files(["tex"]).items():
                if name.endswith(".tex"):
                    code = "\n".join(
                        line.partition(" % ")[0] for line in content.decode().splitlines() if not line.startswith("%")
                    )
                    with self.subTest(name):
                        self.assertTrue(code.isascii(), [letter for letter in code if not letter.isascii()])
                        self.assertNotIn(latex.UNKNOWN, code)
        self.assertEqual(latex.UNKNOWN, latex.escape("\u2603"))

    def test_no_mark_is_white_on_white(self):
        """A mark that consists of strokes only has the colour of its line."""
        strokes = 0
        plot_style.use_style()
        for product in self.products:
            code = product.files(["tex"]).get(f"{product.name}.tex", b"").decode()
            for drawn in re.findall(r"mark=[+x], mark size=[\d.]+pt, mark options=\{solid, draw=(\{[^}]*\})", code):
                strokes += 1
                with self.subTest(product.name):
                    self.assertNotEqual("{rgb,255:red,255;green,255;blue,255}", drawn)
        self.assertGreater(strokes, 0)

    def test_tex_sets_the_gap_between_a_letter_and_its_title(self):
        """The fonts of documents are wider or narrower than the font that was measured."""
        lettered = 0
        for style in plot_style.named_styles():
            plot_style.use_style(plot_style.load_look(style, "column", True))
            for product in self.products:
                code = product.files(["tex"]).get(f"{product.name}.tex", b"").decode()
                nodes = re.findall(r"^\\node\[.*\] at \(([-.\d]+), ([-.\d]+)\) \{(.*)\};$", code, re.MULTILINE)
                for x, y, words in nodes:
                    if not re.match(r"\{?\\bfseries \([a-z]\)", words):
                        continue
                    lettered += "\\enspace" in words
                    near = [other for left, height, other in nodes if height == y and 0 < float(left) - float(x) < 0.3]
                    self.assertEqual([], near, f"{product.name}: {words}")
        self.assertGreater(lettered, 50)

    def test_widths_and_letters_are_those_asked_for(self):
        product = next(product for product in self.products if product.name == "nprf-fig1a")
        for style in plot_style.named_styles():
            for width in ("column", "text", 5.0):
                look = plot_style.load_look(style, width, True)
                plot_style.use_style(look)
                page = product.draw()
                inches = {"column": look.column, "text": look.text}.get(width, width)
                with self.subTest((style, width)):
                    self.assertAlmostEqual(inches, page.figure.get_size_inches()[0])
                    self.assertAlmostEqual(page.height, page.figure.get_size_inches()[1])
                    for text in page.figure.findobj(
                        lambda artist: hasattr(artist, "get_fontsize") and artist.get_text()
                    ):
                        self.assertGreaterEqual(text.get_fontsize(), plot_style.SMALLEST_TEXT, text.get_text())

    def test_no_words_leave_the_page(self):
        """Checks every figure of curves or of a study at the width of one column."""
        plot_style.use_style(plot_style.load_look(width="column"))
        for product in self.products:
            if not product.draw:
                continue
            page = product.draw()
            page.figure.canvas.draw()
            for axes in page.figure.axes:
                box = axes.get_tightbbox(page.figure.canvas.get_renderer())
                with self.subTest(product.name):
                    self.assertGreater(box.x0 / page.figure.dpi, -0.03)
                    self.assertLess(box.x1 / page.figure.dpi, page.width + 0.08)

    def test_text_stays_text(self):
        plot_style.use_style()
        product = next(product for product in self.products if product.name == "nprf-memory")
        files = product.files(["svg", "pdf"])
        self.assertIn("time per run</text>", files["nprf-memory.svg"].decode())
        self.assertNotIn(b"/Type3", files["nprf-memory.pdf"])

    def test_captions_hold_what_figures_do_not(self):
        plot_style.use_style()
        product = next(product for product in self.products if product.name == "nprf-memory")
        files = product.files(["svg"], "long")
        caption = files["nprf-memory.caption.tex"].decode()
        self.assertIn("\\label{fig:nprf-memory}", caption)
        for words in ("Less time than", "Exponents of n"):
            self.assertIn(words, caption)
            self.assertNotIn(words, files["nprf-memory.svg"].decode())
        bare = plot_style.load_look(bare=True)
        self.assertIn(product.title, files["nprf-memory.svg"].decode())
        plot_style.use_style(bare)
        self.assertNotIn(f"{product.title}</text>", product.files(["svg"])["nprf-memory.svg"].decode())

    def test_wrong_styles_are_refused(self):
        for content, words in (('{"font": 3}', "found no usable font"), ('{"colour": "red"}', "found 'colour'"),
                               ('{"text_size": 3}', "expected at least 6"), ("{", "cannot be read")):  # fmt: skip
            path = self.folder / "style.json"
            path.write_text(content)
            with self.assertRaisesRegex(plot_style.StyleError, re.escape(words)):
                plot_style.load_look(str(path))
        with self.assertRaisesRegex(plot_style.StyleError, "expected default, icml, neurips"):
            plot_style.load_look("nature")


class DocumentTest(unittest.TestCase):
    """Compiles with a real LaTeX."""

    @classmethod
    def setUpClass(cls):
        if not can_compile():
            raise unittest.SkipTest("no pdflatex with pgfplots here")
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name)
        command = [sys.executable, "-m", "reports.figures", str(RESULTS), "--out", str(cls.folder), "--format", "tex", "--bare",
                   "--width", "column", "--only", ",".join([*TEN, "fastrpb-table3"])]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def compile(self, names):
        parts = [
            f"\\begin{{figure}}[p]\\centering\\input{{{name}.tex}}\\input{{{name}.caption.tex}}\\end{{figure}}\\clearpage"
            for name in names
        ]
        parts.append("\\begin{table*}\\tiny\\setlength{\\tabcolsep}{2pt}\\input{fastrpb-table3.tex}\\end{table*}")
        (self.folder / "paper.tex").write_text(DOCUMENT % "\n".join(parts), encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False)

    def test_ten_figures_in_two_columns(self):
        result = self.compile(TEN)
        self.assertEqual(0, result.returncode, result.stdout[-2000:])
        captions = set(re.findall(r"\(\./([\w-]+)\.caption\.tex", result.stdout.replace("\n", "")))
        self.assertEqual(set(TEN), captions)
        wide = re.findall(r"Overfull \\hbox \(([0-9.]+)pt too wide\)", result.stdout)
        self.assertFalse([width for width in wide if float(width) > 12], wide)

    def test_a_missing_curve_is_noticed(self):
        data = self.folder / "nprf-fig1a-plot.csv"
        kept = data.read_text(encoding="utf-8")
        try:
            data.write_text(kept.replace("x2,", "gone,", 1), encoding="utf-8")
            self.assertNotEqual(0, self.compile(TEN[:1]).returncode)
        finally:
            data.write_text(kept, encoding="utf-8")


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    for _, reason in program.result.skipped:
        print("skipped:", reason)
    sys.exit(77 if program.result.skipped else 0)
