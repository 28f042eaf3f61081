"""Lays out a figure: rows of panels, with a legend over each row. Everything is placed by hand from measured text.

Distances are inches from the upper left corner. Words about a figure are no part of it: `Page.notes` holds them, for its
caption. What goes on a page is told as blocks; a block whose panels do not fit side by side takes several rows.
"""

import dataclasses
import math
import typing

import matplotlib.lines
import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY

RIGHT = 0.09  # after the last panel: half of a tick's label
INNER = 0.16  # between panels that share a y axis
KEY_WIDTH, KEY_GAP = 0.3, 0.06  # a piece of line in front of a label, and the gap between the two
LABEL_GAP = 0.16  # between two labels of a legend
LEAST_OWN, LEAST_SHARED = 1.12, 0.85  # the narrowest axes that are set beside others
MARKER_EDGE = {"markeredgecolor": "white", "markeredgewidth": 0.3}


class Label(typing.NamedTuple):
    """An entry of a legend."""

    words: str
    style: plot_style.Style


@dataclasses.dataclass
class Cell:
    """One panel: its share of the row, whether it has the y axis of the one before, its lines, and room over it."""

    labels: list = dataclasses.field(default_factory=list)
    share: float = 1.0
    shared: bool = False
    above: float = 0.0  # beyond the room for a title
    after: float = 0.0  # room at the right, for a colour bar


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


def x_axis_room():
    return 0.36 * plot_style.scale()


def y_axis_room():
    return 0.68 * plot_style.scale()


class Page:
    """blocks: what is drawn, from top to bottom. `axes` are all panels in that order; `notes` are sentences for the caption,
    `numbers` more of them, for whoever wants every number."""

    def __init__(self, blocks, heading="", width=None, notes=()):
        self.width = plot_style.width_for(width or plot_style.look().text)
        self.notes, self.numbers = list(notes), []
        self.axes, self.keys, self.places, self.broken = [], [], [], []
        plan, y = [], 0.04
        title_size = plot_style.look().title_size
        shown = bool(heading) and not plot_style.look().bare
        headings = plot_style.wrap(heading, self.width - 0.06, title_size, "bold") if shown else []
        heading_step = 1.25 * plot_style.line_height()
        y += heading_step * len(headings)
        for block in blocks:
            y = self._plan(block, plan, y)
        self.height = y + 0.03
        self.figure, self.origin, self.sheet = plot_style.open_figure(self.width, self.height)
        for index, words in enumerate(headings):
            self.text(0.03, 0.04 + (index + 0.4) * heading_step, words, size=title_size, weight="bold")
        for x, key_y, label in self.keys:
            self._draw_key(x, key_y, label)
        for place, cell in plan:
            self.axes.append(self.add_axes(*place))
            if cell.shared:
                self.axes[-1].tick_params(labelleft=False, left=False)

    def _plan(self, block, plan, y):
        """Appends (place, cell) for each panel of the block; returns where the next block begins."""
        rows = self._rows(block)
        legends = [cell.labels for cell in block.cells if cell.labels]
        whole = list(dict.fromkeys(sum(legends, []))) if block.one_legend else _common(legends)
        if whole:
            y = self._plan_legend(whole, 0.03, self.width - 0.06, y) + 0.03
        room = 1.25 * plot_style.line_height() if block.titled else 0.05
        for row in rows:
            widths = self._widths(block, row) if len(row) >= len(rows[0]) else self._widths(block, rows[0])[: len(row)]
            lefts, x = [], 0.0
            for cell, width in zip(row, widths):
                x += INNER if cell.shared else block.left or y_axis_room()
                lefts.append(x)
                x += width + cell.after
            own = y
            if legends and not whole:
                own = max(
                    (self._plan_legend(cell.labels, left - y_axis_room() * 0.5, width + y_axis_room() * 0.5, y)
                     for cell, left, width in zip(row, lefts, widths) if cell.labels),
                    default=y,
                )  # fmt: skip
            height = min(block.aspect * min(widths), 6.0) if block.aspect else block.height
            top = own + room + max(cell.above for cell in row)
            for cell, left, width in zip(row, lefts, widths):
                plan.append(((left, top, width, height), cell))
                self.broken.append(not cell.shared)
                self.places.append((left, top, width, height))
            y = top + height + x_axis_room()
        return y

    def _rows(self, block):
        """The cells in rows that fit the width; the first of a row has a y axis of its own."""
        rows = []
        for cell in block.cells:
            if rows and len(rows[-1]) < block.most and self._fits(block, [*rows[-1], cell]):
                rows[-1].append(cell)
            else:
                rows.append([dataclasses.replace(cell, shared=False)])
        # Rows of 3 and 1 look worse than two of 2.
        count, per_row = len(block.cells), math.ceil(len(block.cells) / len(rows))
        if len(rows) > 1 and len(rows[-1]) < len(rows[0]) and len(rows) == math.ceil(count / per_row):
            even = [block.cells[start : start + per_row] for start in range(0, count, per_row)]
            even = [[dataclasses.replace(row[0], shared=False), *row[1:]] for row in even]
            if all(self._fits(block, row) for row in even):
                rows = even
        return rows

    def _spent(self, block, row):
        return sum(cell.after + (INNER if cell.shared else block.left or y_axis_room()) for cell in row) + RIGHT

    def _fits(self, block, row):
        least = [(LEAST_SHARED if cell.shared else LEAST_OWN) * plot_style.scale() for cell in row]
        return self._spent(block, row) + sum(least) <= self.width

    def _widths(self, block, row):
        free, shares = self.width - self._spent(block, row), sum(cell.share for cell in row)
        return [free * cell.share / shares for cell in row]

    def _plan_legend(self, labels, x, width, y):
        """Keeps the keys of a legend, in columns where they take several lines; returns the y under it."""
        widths = [KEY_WIDTH + KEY_GAP + plot_style.text_width(label.words) + LABEL_GAP for label in labels]
        step = plot_style.line_height()
        if sum(widths) <= width + LABEL_GAP:
            offset = x
            for label, one in zip(labels, widths):
                self.keys.append((offset, y + step / 2, label))
                offset += one
            return y + step
        columns = next(count for count in range(len(labels), 0, -1) if count == 1 or _columns_fit(widths, count, width))
        column_widths = [max(widths[column::columns]) for column in range(columns)]
        for index, label in enumerate(labels):
            self.keys.append((x + sum(column_widths[: index % columns]), y + (index // columns + 0.5) * step, label))
        return y + step * math.ceil(len(labels) / columns)

    def _draw_key(self, x, y, label):
        style = label.style
        self.line([x, x + KEY_WIDTH / 2, x + KEY_WIDTH], [y] * 3, color=style.color, linestyle=style.dashes,
                  marker=style.marker, markevery=[1], **marker(style))  # fmt: skip
        self.text(x + KEY_WIDTH + KEY_GAP, y, label.words, DARK_GREY)

    def finish(self):
        """Gives the y axis of its neighbour to a panel that shared it and begins a row; returns the page."""
        own = None
        for axes, broken in zip(self.axes, self.broken):
            if broken and own is not None and not axes.get_ylabel():
                axes.set_ylabel(own.get_ylabel())
            own = axes if axes.get_ylabel() else own
        return self

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
        self.figure.text(
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


def marker(style):
    """Crosses have no face: their edge is their colour."""
    size = plot_style.look().marker_size
    if style.marker in ("x", "+"):
        return {"markersize": size + 0.4, "markeredgecolor": style.color, "markeredgewidth": 0.8}
    if style.hollow:
        return {"markersize": size, "markeredgecolor": style.color, "markeredgewidth": 0.7, "markerfacecolor": "white"}
    return {"markersize": size, **MARKER_EDGE}


def _columns_fit(widths, columns, width):
    return sum(max(widths[column::columns]) for column in range(columns)) <= width + LABEL_GAP


def _common(legends):
    """One legend for several panels, where each of theirs is part of the longest; None where they differ."""
    if not legends:
        return []
    longest = max(legends, key=len)
    return longest if all(label in longest for labels in legends for label in labels) else []
