"""Lays out a figure: rows of panels, with a legend over each row. Everything is placed by hand from measured text.

Distances are inches from the upper left corner. Notes about a figure belong to its caption (`Page.notes`), not to the drawing. A
page consists of blocks; a block whose panels do not fit side by side is split into several rows. On a narrow page panels are
small, and such a page is never higher than HIGHEST.
"""

import dataclasses
import math
import string
import typing

import matplotlib.lines
import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY

RIGHT = 0.09  # after the last panel: half of a tick's label
INNER, SMALL_INNER = 0.16, 0.24  # between panels that share a y axis; the second where panels are small
KEY_WIDTH, KEY_GAP = 0.3, 0.06  # a piece of line in front of a label, and the gap between the two
LABEL_GAP = 0.16  # between two labels of a legend
LEAST_OWN, LEAST_SHARED = 1.12, 0.85  # the narrowest axes that are set beside others, for letters of 7 points
# Figures up to NARROW wide are for a column: they have two small panels in a row, with the label of the y axis above each panel,
# and are at most HIGHEST high.
NARROW, HIGHEST = 4.0, 4.5
LEAST_SMALL, LEAST_HEIGHT = 0.44, 0.35
SMALL_Y_AXIS = 0.52  # the numbers of a y axis alone
BELOW = 0.03  # the last row
TITLE_GAP = 0.06  # at least, between titles that begin at the edges of small panels
OVER = 0.02  # words over a panel may end this far to the right of it
LETTERS = string.ascii_lowercase
MARKER_EDGE = {"markeredgecolor": "white", "markeredgewidth": 0.3}


class Label(typing.NamedTuple):
    """An entry of a legend."""

    words: str
    style: plot_style.Style
    width: float | None = None  # of its line, where that is not the usual one


@dataclasses.dataclass
class Cell:
    """One panel: its share of the row, whether it shares the y axis of the previous panel, its lines, and the room above it.
    `words`: its title, if that may be two lines long."""

    labels: list = dataclasses.field(default_factory=list)
    share: float = 1.0
    shared: bool = False
    above: float = 0.0  # beyond the room for a title
    after: float = 0.0  # room at the right, for a colour bar
    words: str = ""


@dataclasses.dataclass
class Block:
    """Panels side by side."""

    cells: list
    height: float = 1.7
    titled: bool = True
    most: int = 9  # panels in a row
    aspect: float = 0.0  # height / width of the axes, where it matters
    left: float = 0.0  # room for the words of the y axis, where they are not numbers
    one_legend: bool = False  # the same words mean the same lines in all panels
    least: float = 0.0  # the narrowest axes, where numbers are in them; for letters of 7 points


def x_axis_room():
    return 0.36 * plot_style.scale()


def y_axis_room():
    return 0.68 * plot_style.scale()


@dataclasses.dataclass
class Place:
    """The position of a panel: its axes, and the left edge of its y axis label."""

    left: float
    top: float
    width: float
    height: float
    cell: Cell
    edge: float
    first: bool  # has a y axis of its own
    small: bool  # its title begins at the edge
    above: bool  # the words of its y axis are over it
    repeats: bool  # ... and over the panels of the row before
    lines: int  # of the title
    over: int  # lines of words over the panels of its row

    def box(self):
        return self.left, self.top, self.width, self.height


@dataclasses.dataclass
class Plan:
    """Everything on a page with its position. `y` is the lower edge."""

    y: float
    panels: list = dataclasses.field(default_factory=list)
    keys: list = dataclasses.field(default_factory=list)  # of legends: (x, y, Label)
    legends: list = dataclasses.field(default_factory=list)  # lists of Labels
    rows: list = dataclasses.field(default_factory=list)  # height of each
    legible: bool = True

    def smallest(self):
        return min(min(panel.width, panel.height) for panel in self.panels)


class Page:
    """A page of blocks from top to bottom. `axes` are all panels in that order; `notes` are sentences for the long caption,
    `brief` those for the short one, the most important first; `numbers` are sentences with all numbers.
    """

    def __init__(self, blocks, heading="", width=None, notes=(), brief=None):
        self.width = plot_style.width_for(width or plot_style.look().text)
        self.notes, self.numbers = list(notes), []
        self.brief = list(notes if brief is None else brief)
        y = 0.04
        title_size = plot_style.look().title_size
        shown = bool(heading) and not plot_style.look().bare
        headings = plot_style.wrap(heading, self.width - 0.06, title_size, "bold") if shown else []
        heading_step = 1.25 * plot_style.line_height()
        y += heading_step * len(headings)
        plan = self._plan(blocks, y)
        self.height = plan.y + BELOW
        self.panels, self.places = plan.panels, [panel.box() for panel in plan.panels]
        self.legends = plan.legends
        self.titles = {}
        self.after = {}  # texts on the lines of others: {letter of a panel: its title}
        self.figure, self.origin, self.sheet = plot_style.open_figure(self.width, self.height)
        for index, words in enumerate(headings):
            self.text(0.03, 0.04 + (index + 0.4) * heading_step, words, size=title_size, weight="bold")
        for x, key_y, label in plan.keys:
            self._draw_key(x, key_y, label)
        self.axes = [self.add_axes(*place) for place in self.places]
        for axes, panel in zip(self.axes, plan.panels):
            if panel.cell.shared and not panel.first:
                axes.tick_params(labelleft=False, left=False)

    # Planning

    def _plan(self, blocks, y):
        """Plans as many panels per row as requested, or fewer if they would be too narrow. By default, a narrow page has at least
        two per row, in the number that makes the smallest panel largest."""
        asked, most = plot_style.look().panels, max(len(block.cells) for block in blocks)
        if self.width > NARROW and not asked:
            return self._arrange(blocks, y, None)
        counts = range(asked, 0, -1) if asked else range(min(2, most), most + 1)
        legible = [plan for plan in (self._squeezed(blocks, y, count) for count in counts) if plan.legible]
        if not legible:
            return self._squeezed(blocks, y, 1)
        return legible[0] if asked else max(legible, key=Plan.smallest)

    def _squeezed(self, blocks, y, per_row):
        plan = self._arrange(blocks, y, per_row)
        over = plan.y + BELOW - HIGHEST
        if self.width > NARROW or over <= 0:
            return plan
        return self._arrange(blocks, y, per_row, max(1 - over / sum(plan.rows), LEAST_HEIGHT / min(plan.rows)))

    def _arrange(self, blocks, y, per_row, squeeze=1.0):
        """per_row: panels side by side, None: as many as fit; squeeze: share of their heights."""
        plan = Plan(y)
        lettered = sum(len(block.cells) for block in blocks) > 1
        for block in blocks:
            self._arrange_block(plan, block, per_row, squeeze, lettered)
        return plan

    def _arrange_block(self, plan, block, per_row, squeeze, lettered):
        rows = _even_rows(block.cells, min(per_row, block.most)) if per_row else self._rows(block)
        tight = len(block.cells) > 1 and (self.width <= NARROW or not all(self._fits(block, row) for row in rows))
        small = tight and not block.left
        named = small and not block.aspect  # the words of the y axis are over the panel
        one_axis = all(cell.shared for cell in block.cells[1:])
        legends = [cell.labels for cell in block.cells if cell.labels]
        whole = list(dict.fromkeys(sum(legends, []))) if block.one_legend else _common(legends)
        y = plan.y
        if whole:
            y = _plan_legend(plan, whole, 0.03, self.width - 0.06, y) + 0.03
        for number, row in enumerate(rows):
            widths = self._widths(block, row if len(row) >= len(rows[0]) else rows[0], small)[: len(row)]
            least = (block.least or LEAST_SMALL) * plot_style.scale()
            plan.legible = plan.legible and (not tight or min(widths) >= least)
            edges, lefts, x = [], [], 0.0
            for cell, width in zip(row, widths):
                edges.append(x)
                x += _before(block, cell if edges[1:] else dataclasses.replace(cell, shared=False), small)
                lefts.append(x)
                x += width + cell.after
            own = y
            if legends and not whole:
                own = max(
                    (_plan_legend(plan, cell.labels, (left + edge) / 2, width + (left - edge) / 2, y)
                     for cell, left, edge, width in zip(row, lefts, edges, widths) if cell.labels),
                    default=y,
                )  # fmt: skip
            repeats = named and one_axis and number > 0
            titles = block.titled and max(len(title_lines(cell.words, width + left - edge - TITLE_GAP if small else width))
                                          for cell, left, edge, width in zip(row, lefts, edges, widths))  # fmt: skip
            lines = max(titles + (named and not repeats), int(lettered))
            room = (_gap(small) + lines) * plot_style.line_height() if lines else 0.05
            height = squeeze * (min(block.aspect * min(widths), 6.0) if block.aspect else block.height)
            top = own + room + max(cell.above for cell in row)
            for cell, left, edge, width in zip(row, lefts, edges, widths):
                width = height / block.aspect if block.aspect and squeeze < 1 else width
                first = cell is row[0] or not cell.shared
                plan.panels.append(
                    Place(left, top, width, height, cell, edge, first, small, named, repeats, titles, lines)
                )
            plan.rows.append(height)
            y = top + height + x_axis_room()
        plan.y = y

    def _rows(self, block):
        """Returns the cells in rows. A row fits the width if the labels of its y axes are beside the panels."""
        rows = []
        for cell in block.cells:
            if rows and len(rows[-1]) < block.most and self._fits(block, [*rows[-1], cell]):
                rows[-1].append(cell)
            else:
                rows.append([cell])
        # Two rows of 2 panels look better than rows of 3 and 1.
        if len(rows) > 1 and len(rows[-1]) < len(rows[0]):
            even = _even_rows(block.cells, math.ceil(len(block.cells) / len(rows)))
            if len(even) == len(rows) and all(self._fits(block, row) for row in even):
                rows = even
        return rows

    def _spent(self, block, row, small=False):
        before = [_before(block, cell, small) for cell in [dataclasses.replace(row[0], shared=False), *row[1:]]]
        return sum(before) + sum(cell.after for cell in row) + RIGHT

    def _fits(self, block, row):
        least = [(LEAST_SHARED if cell.shared and cell is not row[0] else LEAST_OWN) for cell in row]
        return self._spent(block, row) + sum(least) * plot_style.scale() <= self.width

    def _widths(self, block, row, small):
        free, shares = self.width - self._spent(block, row, small), sum(cell.share for cell in row)
        return [free * cell.share / shares for cell in row]

    def _draw_key(self, x, y, label):
        style = label.style
        self.line([x, x + KEY_WIDTH / 2, x + KEY_WIDTH], [y] * 3, color=style.color, linestyle=style.dashes,
                  marker=style.marker, markevery=[1], **marker(style),
                  **({"linewidth": label.width} if label.width else {}))  # fmt: skip
        self.text(x + KEY_WIDTH + KEY_GAP, y, label.words, DARK_GREY)

    def title(self, axes, words, weight="normal", color=DARK_GREY):
        """Words over a panel."""
        self.titles[self.axes.index(axes)] = (words, weight, color)

    def finish(self):
        """Writes letters, titles and the words of y axes over the panels; returns the page."""
        own = ""
        for index, (axes, panel) in enumerate(zip(self.axes, self.panels)):
            own = axes.get_ylabel() or own
            if panel.first and not axes.get_ylabel() and panel.cell.shared:
                axes.set_ylabel(own)  # begins a row that goes on from the one before
            lines = []
            if index in self.titles:
                words, *looks = self.titles[index]
                room = panel.width + (panel.left - panel.edge - TITLE_GAP if panel.small else 0)
                lines = [(line, *looks) for line in (title_lines(words, room) if panel.lines > 1 else [words])]
                lines += [("", "normal", "black")] * (panel.over - len(lines))  # titles of a row begin on one line
            if panel.above:
                if axes.get_ylabel() and not panel.repeats:
                    lines = [*lines[: max(panel.over - 1, 1)], (axes.get_ylabel(), "normal", "black")]
                axes.set_ylabel("")
                _shrink(axes.xaxis.label, panel.width + INNER)
            letter = f"{letters(index)} " if len(self.axes) > 1 else ""
            lines = lines or [("", "normal", "black")]
            for place, words in enumerate(lines):
                up = (len(lines) - place + _gap(panel.small) - 0.7) * plot_style.line_height() + panel.cell.above
                self._write_over(panel, panel.top - up, letter if place == 0 else "", *words)
        return self

    def _write_over(self, panel, y, letter, words, weight, color):
        x = panel.edge + 0.03 if panel.small else panel.left
        before = plot_style.text_width(letter, weight="bold") if letter else 0.0
        first = self.text(x, y, letter.strip(), weight="bold") if letter else None
        if words:
            over = -TITLE_GAP / 2 if panel.small else OVER
            size = size_for(words, panel.left + panel.width + over - x - before, weight)
            title = self.text(x + before, y, words, color, size, weight)
            if first:
                self.after[first] = title

    # Placing things

    def fraction(self, x, y):
        return (self.origin[0] + x) / self.sheet[0], 1 - (self.origin[1] + y) / self.sheet[1]

    def add_axes(self, x, y, width, height):
        left, bottom = self.fraction(x, y + height)
        axes = self.figure.add_axes((left, bottom, width / self.sheet[0], height / self.sheet[1]))
        axes.grid(True, which="major", color="#ebebeb", linewidth=0.4)
        axes.set_axisbelow(True)
        return axes

    def text(self, x, y, text, color="black", size=None, weight="normal", **options):
        return self.figure.text(
            *self.fraction(x, y), text, color=color, fontsize=size or plot_style.look().text_size, fontweight=weight,
            va="center_baseline", **options,
        )  # fmt: skip

    def line(self, xs, ys, **options):
        fractions = [self.fraction(x, y) for x, y in zip(xs, ys)]
        self.figure.add_artist(
            matplotlib.lines.Line2D(*zip(*fractions), **{"linewidth": plot_style.look().line_width, **options})
        )

    def inches(self, axes, x, y):
        """The place of a data point on the page."""
        pixel_x, pixel_y = axes.transData.transform((x, y))
        dpi = self.figure.dpi
        return pixel_x / dpi - self.origin[0], self.sheet[1] - pixel_y / dpi - self.origin[1]


def title_lines(words, room):
    """The title of a panel in one line, with smaller letters if need be, or else in several."""
    room -= plot_style.text_width("(a) ", weight="bold")
    if plot_style.text_width(words, plot_style.SMALLEST_TEXT, "bold") <= room:
        return [words]
    return plot_style.wrap(words, room, plot_style.SMALLEST_TEXT, "bold")


def letters(first, count=1):
    """`(b)`, or `(b)–(d)`: count panels from the first, which is 0."""
    return f"({LETTERS[first]})" if count == 1 else f"({LETTERS[first]})–({LETTERS[first + count - 1]})"


def size_for(words, room, weight="normal"):
    """Points of the letters with which the words fit, not below the smallest."""
    size = plot_style.look().text_size
    while size > plot_style.SMALLEST_TEXT and plot_style.text_width(words, size, weight) > room:
        size -= 0.25
    return size


def _shrink(label, room):
    if label.get_text():
        label.set_fontsize(size_for(label.get_text(), room))


def narrow():
    """Tells whether the look requests figures of one column."""
    return plot_style.width_for(math.inf) <= NARROW


def _gap(small):
    """Room between a panel and the words over it, in lines. Over a small panel they are also over the highest number of its y axis."""
    return 0.5 if small else 0.25


def _before(block, cell, small):
    """Room at the left of a panel's axes."""
    if cell.shared:
        return SMALL_INNER if small else INNER
    return block.left or (SMALL_Y_AXIS * plot_style.scale() if small else y_axis_room())


def _even_rows(cells, most):
    per_row = math.ceil(len(cells) / math.ceil(len(cells) / most))
    return [cells[start : start + per_row] for start in range(0, len(cells), per_row)]


def marker(style):
    """Crosses have no face: their edge is their colour."""
    size = plot_style.look().marker_size
    if style.marker in ("x", "+"):
        return {"markersize": size + 0.4, "markeredgecolor": style.color, "markeredgewidth": 0.8}
    if style.hollow:
        return {"markersize": size, "markeredgecolor": style.color, "markeredgewidth": 0.7, "markerfacecolor": "white"}
    return {"markersize": size, **MARKER_EDGE}


def _plan_legend(plan, labels, x, width, y):
    """Keeps the keys of a legend, in columns where they take several lines; returns the y under it."""
    plan.legends.append(labels)
    widths = [KEY_WIDTH + KEY_GAP + plot_style.text_width(label.words) + LABEL_GAP for label in labels]
    step = plot_style.line_height()
    if sum(widths) <= width + LABEL_GAP:
        offset = x
        for label, label_width in zip(labels, widths):
            plan.keys.append((offset, y + step / 2, label))
            offset += label_width
        return y + step
    columns = next(count for count in range(len(labels), 0, -1) if count == 1 or _columns_fit(widths, count, width))
    column_widths = [max(widths[column::columns]) for column in range(columns)]
    for index, label in enumerate(labels):
        plan.keys.append((x + sum(column_widths[: index % columns]), y + (index // columns + 0.5) * step, label))
    return y + step * math.ceil(len(labels) / columns)


def _columns_fit(widths, columns, width):
    return sum(max(widths[column::columns]) for column in range(columns)) <= width + LABEL_GAP


def _common(legends):
    """Returns one legend for several panels if each of their legends is part of the longest; None otherwise."""
    if not legends:
        return []
    longest = max(legends, key=len)
    return longest if all(label in longest for labels in legends for label in labels) else []
