"""Lays out a report: text, tables and figures below each other on A4 pages. Distances are inches."""

import matplotlib.lines

from reports.drawing import plot_style
from reports.drawing.plot_style import BLACK, DARK_GREY, LIGHT_GREY, MID_GREY

SHEET = (8.27, 11.69)
LEFT, TOP, BOTTOM = 0.635, 0.7, 0.75
WIDTH = SHEET[0] - 2 * LEFT
BODY, SMALL = 8.5, 7.0  # points
STEP = 1.4 * plot_style.POINT  # of a line, for each point of its letters
CELL_GAP = 0.1
VERDICT_COLORS = {"reproduced": "#00674b", "not reproduced": "#a83c00"}


class Document:
    def __init__(self, words):
        self.words, self.sheets, self.y = words, [], SHEET[1]

    @property
    def number(self):
        """Returns the number of the current page."""
        return len(self.sheets)

    def _room(self, height):
        if self.y + height > SHEET[1] - BOTTOM:
            self.sheets.append(plot_style.new_figure(*SHEET))
            self.y = TOP

    def _write(self, x, y, text, size=BODY, color=BLACK, weight="normal", **options):
        self.sheets[-1].text(x / SHEET[0], 1 - y / SHEET[1], text, fontsize=size, color=color, fontweight=weight, va="baseline",
                             **options)  # fmt: skip

    def _lines(self, text, size=BODY, color=BLACK, weight="normal", x=LEFT, width=None):
        for line in plot_style.wrap(" ".join(text.split()), width or WIDTH - (x - LEFT), size, weight):
            self._room(size * STEP)
            self.y += size * STEP
            self._write(x, self.y, line, size, color, weight)

    def title(self, text):
        self._room(1)
        self._lines(text, 16, weight="bold")
        self.y += 0.12

    def heading(self, text):
        self._room(1.2)  # no heading stands alone at the foot of a page
        self.y += 0.2
        self._lines(text, 11, weight="bold")
        self.sheets[-1].add_artist(_rule(self.sheets[-1], self.y + 0.06))
        self.y += 0.1

    def keep_together(self, product):
        """Begins a new page if a heading, a few lines and the figure would not fit on this one."""
        self._room(min(product.draw().height + 1.9, SHEET[1] - TOP - BOTTOM))

    def paragraph(self, text):
        self._lines(text)
        self.y += 0.06

    def entry(self, text, number):
        """A line of the contents."""
        self._room(BODY * STEP)
        self.y += BODY * STEP
        self._write(LEFT, self.y, text)
        self._write(LEFT + WIDTH, self.y, str(number), ha="right")

    def claim(self, claim):
        self._room(0.5)
        color = next((color for word, color in VERDICT_COLORS.items() if claim["verdict"].startswith(word)), "#7a5a00")
        self.y += BODY * STEP
        self._write(LEFT, self.y, claim["id"], weight="bold")
        after = LEFT + plot_style.text_width(claim["id"], BODY, "bold") + 0.1
        self._write(after, self.y, claim["verdict"], color=color, weight="bold")
        self._lines(f"{claim['says']} ({claim['source']}).")
        self._lines(claim["numbers"], SMALL, DARK_GREY)
        self.y += 0.1

    def figure(self, product):
        """Adds a drawing and its caption, on the next page if it does not fit on this one."""
        page = product.draw()
        caption = product.caption(page)
        title, rest = caption.plain()
        needed = page.height + BODY * STEP * 3
        self._room(min(needed, SHEET[1] - TOP - BOTTOM))
        self.y += 0.08
        with plot_style.on_sheet(self.sheets[-1], LEFT + (WIDTH - page.width) / 2, self.y):
            product.draw()
        self.y += page.height + 0.02
        self._lines(title, SMALL, weight="bold")
        self._lines(" ".join([rest, *caption.numbers]), SMALL, DARK_GREY)
        self._lines(caption.provenance, SMALL, MID_GREY)
        self.y += 0.14

    def product_table(self, product):
        table = product.table
        self._room(0.6)
        self._lines(product.title, BODY, weight="bold")
        for start, columns in _slices(table):
            rows = []
            for label, block in table.blocks:
                rows += [[label]] if label else []
                rows += [[row[0], *row[start : start + len(columns)]] for row in block]
            if start > 1 or len(columns) < len(table.columns) - 1:
                head = next(words for place, words in _heads(table) if place == start)
                self._lines(head, SMALL, weight="bold")
            self.table([table.columns[0], *columns], rows)
        self._lines(f"{table.note} {product.footer}", SMALL, MID_GREY)
        self.y += 0.14

    def table(self, columns, rows):
        """Adds a table. Columns are as wide as their text; the widest gets the remaining width and breaks its lines."""
        size = SMALL
        whole = [row for row in rows if len(row) == len(columns)]
        widths = [max(plot_style.text_width(str(cell), size) for cell in cells) + CELL_GAP
                  for cells in zip(columns, *whole)]  # fmt: skip
        over = sum(widths) - WIDTH
        while over > 0:
            widest = widths.index(max(widths))
            second = max([width for index, width in enumerate(widths) if index != widest], default=0)
            cut = min(over, max(widths[widest] - second, 0.05))
            widths[widest] -= cut
            over -= cut
        self._row(columns, widths, size, "bold")
        for row in rows:
            if len(row) == 1 < len(columns):
                self._room(2 * size * STEP)
                self._lines(row[0], size, DARK_GREY, "bold")
            else:
                self._row(row, widths, size)
        self.y += 0.1

    def _row(self, cells, widths, size, weight="normal"):
        wrapped = [
            plot_style.wrap(str(cell), max(width - CELL_GAP, 0.3), size, weight) for cell, width in zip(cells, widths)
        ]
        height = max(map(len, wrapped)) * size * STEP
        self._room(height + 0.03)
        for index, lines in enumerate(wrapped):
            for place, line in enumerate(lines):
                self._write(LEFT + sum(widths[:index]), self.y + (place + 1) * size * STEP, line, size, weight=weight)
        self.y += height + 0.03
        self.sheets[-1].add_artist(_rule(self.sheets[-1], self.y))

    def finish(self):
        """The sheets, with their numbers."""
        for number, sheet in enumerate(self.sheets, 1):
            sheet.text(0.5, 0.4 / SHEET[1], f"{self.words}, page {number} of {len(self.sheets)}", fontsize=SMALL, ha="center",
                       color=MID_GREY)  # fmt: skip
        return self.sheets


def _rule(figure, y):
    return matplotlib.lines.Line2D(
        [LEFT / SHEET[0], 1 - LEFT / SHEET[0]], [1 - y / SHEET[1]] * 2, color=LIGHT_GREY, linewidth=0.5,
        transform=figure.transFigure,
    )  # fmt: skip


def _heads(table):
    """[(first column, words)] of the upper line of heads, or the whole table as one."""
    place, found = 0, []
    for words, span in table.heads or [("", 1), ("", len(table.columns) - 1)]:
        if place:
            found.append((place, words))
        place += span
    return found


def _slices(table):
    """(first column, columns) of a table in parts that fit side by side on a page: one for each upper head where it is wide."""
    if len(table.columns) <= 7:
        return [(1, table.columns[1:])]
    starts = [place for place, _ in _heads(table)]
    return [(start, table.columns[start:end]) for start, end in zip(starts, [*starts[1:], len(table.columns)])]
