"""Draws one figure: panels side by side, a label for each line at its right, notes and a footer underneath.

All distances are inches, placed by hand from measured text, so that nothing overlaps or is cut off however many
implementations, notes or skipped points there are.
"""

import dataclasses
import math
import typing

import matplotlib.lines
import matplotlib.patheffects
import matplotlib.ticker

from reports.drawing import panel_notes
from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY, LIGHT_GREY, LINE_HEIGHT, MID_GREY, POINT, TEXT_SIZE, TITLE_SIZE

LEFT = 0.64  # room for the y axis' labels
RIGHT = 0.06
KEY_WIDTH = 0.28  # the piece of line in front of a label
KEY_GAP = 0.07  # between the axes and that piece
MARK_ROW = 9 * POINT
X_AXIS = 0.36  # room for the x axis' labels
HEIGHT = 2.25
MOST_CROSSING_LINES = 2  # in one panel; more are rings on the curves, and words beside their labels

MARKER = {"markeredgecolor": "white", "markeredgewidth": 0.3, "markersize": 3.8}
HALO = [matplotlib.patheffects.withStroke(linewidth=1.6, foreground="white")]
AXIS_LABELS = {"tokens": "tokens n", "pixels": "pixels n", "keys": "keys n_k", "n": "tokens or pixels n", "f": "features f",
               "r": "clipping distance r", "heads": "heads", "threads": "threads"}  # fmt: skip


def guide_of(order):
    """The function of n that a complexity class stands for: 1, n, n log n or n^P."""
    if order == "n log n":
        return lambda n: n * math.log(n)
    power = {"1": 0.0, "n": 1.0}.get(order) if "^" not in order else float(order.split("^")[1])
    return lambda n: n**power


@dataclasses.dataclass(frozen=True)
class Panel:
    """What one pair of axes shows. x, y, low, high and thin are columns of result_file.Group.rows.

    quantity: that of the fits and crossovers that belong here; theory: `time` or `memory` of the algorithms' entries
    thin_in_limits: the axes make room for the thin line, which is cut off otherwise
    frontier: at a few n, joins the implementations that no other beats in both x and y
    title: words over the axes
    level: a value of y that deserves a grey line
    least_factor: the ends of the y axis are at least this far apart
    """

    y: str
    label: str
    tick_format: typing.Callable
    ticks: typing.Callable = plot_style.decimal_ticks
    x: str = "n"
    x_label: str = ""
    x_format: typing.Callable = plot_style.format_count
    low: str = ""
    high: str = ""
    thin: str = ""
    thin_meaning: str = ""
    thin_in_limits: bool = False
    quantity: str = ""
    theory: str = ""
    frontier: bool = False
    title: str = ""
    level: float = 0.0
    least_factor: float = 20

    def columns(self):
        return [column for column in (self.x, self.y, self.low, self.high, self.thin) if column]


@dataclasses.dataclass
class Series:
    """One implementation in one panel: its drawable points, and the rows that have none."""

    name: str
    style: plot_style.Style
    points: list
    marks: list
    label: list  # lines of the label at the right: [[(text, colour), ...], ...]


def draw(content, width, title, footer, per_row=2):
    """Returns the matplotlib figure.

    content: (Panel, result_file.Group) pairs, drawn in rows of up to `per_row`
    title: (bold part, the rest)
    """
    drawn = [(panel, group, _series(panel, group)) for panel, group in content]
    rows = [drawn[start : start + per_row] for start in range(0, len(drawn), per_row)]
    notes = panel_notes.lines(content, width)
    heading = plot_style.wrap(title[1], width - 0.05)
    footing = plot_style.wrap(footer, width - 0.05)
    head = 0.05 + LINE_HEIGHT * (1 + len(heading)) + 0.06
    tops, heights, y = [], [], head
    for row in rows:
        titled = LINE_HEIGHT * 1.1 if any(panel.title for panel, _, _ in row) else 0
        tops.append(y + titled + MARK_ROW * max(_mark_rows(panel, series) for panel, _, series in row))
        heights.append(max(HEIGHT, max(_label_height(series) for _, _, series in row) + 0.1))
        y = tops[-1] + heights[-1] + X_AXIS
    page = Page(width, y + LINE_HEIGHT * (len(notes) + len(footing)) + 0.14)

    page.text(0.03, 0.05 + 0.5 * LINE_HEIGHT, title[0], size=TITLE_SIZE, weight="bold")
    page.lines(0.03, 0.05 + 1.5 * LINE_HEIGHT, heading, DARK_GREY)
    page.lines(0.03, y + 0.5 * LINE_HEIGHT + 0.05, notes, DARK_GREY)
    page.lines(0.03, page.height - (len(footing) - 0.5) * LINE_HEIGHT - 0.03, footing, MID_GREY)

    for row, top, height in zip(rows, tops, heights):
        label_widths = [_label_width(series) for _, _, series in row]
        spent = sum(LEFT + RIGHT + label_width for label_width in label_widths)
        axes_width = (width - spent) / len(row)
        x = 0.0
        for (panel, group, series), label_width in zip(row, label_widths):
            axes = page.axes(x + LEFT, top, axes_width, height)
            _draw_panel(axes, panel, series, group, axes_width)
            if panel.title:
                above = MARK_ROW * _mark_rows(panel, series)
                page.text(x + LEFT, top - above - 0.5 * LINE_HEIGHT, panel.title, weight="bold")
            _draw_marks(page, axes, panel, series, x + LEFT, top, axes_width)
            _draw_labels(page, axes, panel, series, x + LEFT + axes_width, top, height)
            x += LEFT + axes_width + label_width + RIGHT
    return page.figure


class Page:
    """Places things on a figure in inches from its upper left corner."""

    def __init__(self, width, height):
        self.figure, self.width, self.height = plot_style.new_figure(width, height), width, height

    def fraction(self, x, y):
        return x / self.width, 1 - y / self.height

    def axes(self, x, y, width, height):
        left, bottom = self.fraction(x, y + height)
        return self.figure.add_axes((left, bottom, width / self.width, height / self.height))

    def text(self, x, y, text, color="black", size=TEXT_SIZE, weight="normal"):
        self.figure.text(
            *self.fraction(x, y), text, color=color, fontsize=size, fontweight=weight, va="center_baseline"
        )

    def lines(self, x, y, texts, color):
        for index, text in enumerate(texts):
            self.text(x, y + index * LINE_HEIGHT, text, color)

    def line(self, xs, ys, **options):
        fractions = [self.fraction(x, y) for x, y in zip(xs, ys)]
        self.figure.add_artist(matplotlib.lines.Line2D(*zip(*fractions), **options))

    def inches(self, axes, x, y):
        """The place of a data point on the page."""
        pixel_x, pixel_y = axes.transData.transform((x, y))
        return pixel_x / self.figure.dpi, self.height - pixel_y / self.figure.dpi


# Data of a panel


def _drawable(row, panel):
    return row["verdict"] == "passed" and (row[panel.x] or 0) > 0 and (row[panel.y] or 0) > 0


def _series(panel, group):
    series = []
    for name in group.implementations():
        rows = [row for row in group.rows if row["implementation"] == name]
        points = [row for row in rows if _drawable(row, panel)]
        marks = [row for row in rows if not _drawable(row, panel) and panel_notes.mark_kind(row, panel)]
        if points or marks or (panel.thin and any(row[panel.thin] for row in rows)):
            label = _label(panel, group, name) if points else []
            series.append(Series(name, style_in(group, name), points, marks, label))
    return series


def style_in(group, name):
    """The look of an implementation, or of whatever else a group calls by that name."""
    return group.styles.get(name) or plot_style.style_of(name)


def _label(panel, group, name):
    first = [(name, style_in(group, name).color)]
    algorithm = group.algorithms.get(name)
    if panel.theory and algorithm and algorithm[f"{panel.theory}_class"]:
        first.append(("  " + algorithm[f"{panel.theory}_class"].replace("^2", "²"), MID_GREY))
    lines = [first]
    fit = group.fit(name, panel.quantity)
    if fit and fit["exponent"] is not None:
        exponent = plot_style.with_interval(fit["exponent"], fit["low"], fit["high"])
        lines.append([(f"n^{exponent}", DARK_GREY)])
    crossings = _crossings(panel, group)
    if len(crossings) > MOST_CROSSING_LINES:
        for cross in crossings:
            if cross["fast"] == name:
                n = plot_style.three_digits(cross["n"])
                lines.append([(f"{n}: beats {cross['dense']}", DARK_GREY)])
    return lines


def _crossings(panel, group):
    return [cross for cross in group.crossovers if cross["quantity"] == panel.quantity and cross["n"]]


# Axes


def _draw_panel(axes, panel, series, group, width):
    axes.set_xscale("log")
    axes.set_yscale("log")
    _set_limits(axes, panel, series, group)
    _set_ticks(axes, panel, group, width)
    axes.set_xlabel(panel.x_label or _n_label(group.axis))
    axes.set_ylabel(panel.label)
    axes.grid(True, which="major", color="#ebebeb", linewidth=0.4)
    axes.set_axisbelow(True)
    _draw_guides(axes, panel, series, group)
    if panel.level:
        axes.axhline(panel.level, color=LIGHT_GREY, linewidth=0.6, zorder=1.5)
    room = _Room(axes, panel, series)
    if panel.frontier:
        _draw_frontiers(axes, panel, group, room)
    for one in series:
        _draw_series(axes, panel, one, group)
    _draw_crossovers(axes, panel, group, room)
    if not any(one.points for one in series):
        axes.text(0.5, 0.92, "no point to draw", transform=axes.transAxes, ha="center", color=MID_GREY)
        if not axes.lines:
            axes.set_yticks([])


def _n_label(axis):
    return AXIS_LABELS.get(axis, axis)


def _set_limits(axes, panel, series, group):
    points = [row for one in series for row in one.points]
    ys = [row[column] for row in points for column in (panel.y, panel.low, panel.high) if column and row[column]]
    if panel.thin and (panel.thin_in_limits or not ys):
        ys += [row[panel.thin] for row in group.rows if row[panel.thin]]
    if panel.level:
        ys.append(panel.level)
    xs = [row[panel.x] for row in (group.rows if panel.x == "n" else points) if row[panel.x]]
    x_low, x_high = _padded(xs, least_factor=4, padding=0.04)
    y_low, y_high = _padded(ys, least_factor=panel.least_factor, padding=0.06)
    axes.set_xlim(x_low, x_high)
    axes.set_ylim(y_low, y_high)


def _set_ticks(axes, panel, group, width):
    x_limits, y_limits = axes.get_xlim(), axes.get_ylim()
    if panel.x == "n":
        sizes = {row["n"] for row in group.rows}
        binary = 2 * sum(math.log2(n).is_integer() for n in sizes) >= len(sizes)
        x_ticks = (plot_style.binary_ticks if binary else plot_style.decimal_ticks)(*x_limits, most=int(width / 0.3))
    else:
        x_ticks = plot_style.decimal_ticks(*x_limits, most=int(width / 0.48))
    y_ticks = panel.ticks(*y_limits, most=8)
    for axis, ticks, tick_format in ((axes.xaxis, x_ticks, panel.x_format), (axes.yaxis, y_ticks, panel.tick_format)):
        axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
        axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _, write=tick_format: write(value)))


def _padded(values, least_factor, padding):
    """Limits around the values, at least `least_factor` apart, with a margin that is a share of the axis."""
    low, high = (min(values), max(values)) if values else (1.0, 1.0)
    middle = math.sqrt(low) * math.sqrt(high)
    low, high = min(low, middle / math.sqrt(least_factor)), max(high, middle * math.sqrt(least_factor))
    margin = (high / low) ** padding
    return low / margin, high * margin


def _draw_series(axes, panel, series, group):
    style = series.style
    if panel.thin:
        rows = [row for row in group.rows if row["implementation"] == series.name and row[panel.thin]]
        thin = {"color": style.color, "linestyle": style.dashes, "linewidth": 0.5}
        axes.plot([row[panel.x] for row in rows], [row[panel.thin] for row in rows], **thin)
    width = 0.6 if panel.frontier else 1.0
    for points in _unbroken(series, group):
        xs = [row[panel.x] for row in points]
        ys = [row[panel.y] for row in points]
        if panel.low and panel.high:
            lows = [row[panel.low] or row[panel.y] for row in points]
            highs = [row[panel.high] or row[panel.y] for row in points]
            axes.fill_between(xs, lows, highs, color=style.color, alpha=0.25, linewidth=0)
        axes.plot(xs, ys, color=style.color, linestyle=style.dashes, linewidth=width, marker=style.marker, **MARKER)
    if panel.x == "n":
        for row in series.marks:
            if row["verdict"] == "failed" and row[panel.y]:
                axes.plot(row[panel.x], row[panel.y], **_mark("failed", style))
            elif panel_notes.mark_kind(row, panel) == "zero":
                axes.plot(
                    row[panel.x],
                    0.0,
                    transform=axes.get_xaxis_transform(),
                    clip_on=False,
                    linestyle="none",
                    color=style.color,
                    marker=style.marker,
                    **MARKER,
                )


def _unbroken(series, group):
    """The points in runs of neighbouring n: a line must not bridge a size that failed or has no value."""
    runs = [[]]
    for row in group.rows:
        if row["implementation"] == series.name:
            if any(row is point for point in series.points):
                runs[-1].append(row)
            else:
                runs.append([])
    return [run for run in runs if run]


def _draw_guides(axes, panel, series, group):
    """The class that theory names, through the largest measured point of each implementation."""
    low, high = axes.get_xlim()
    if high <= 2:
        return
    for one in series:
        algorithm = group.algorithms.get(one.name)
        complexity = algorithm[f"{panel.theory}_class"] if panel.theory and algorithm else None
        if not complexity or not one.points or one.points[-1]["n"] < 2:
            continue
        anchor = one.points[-1]
        guide = guide_of(complexity)
        start = max(low, 2)
        xs = [start * (high / start) ** (step / 60) for step in range(61)]
        ys = [anchor[panel.y] * guide(x) / guide(anchor["n"]) for x in xs]
        axes.plot(xs, ys, color=LIGHT_GREY, linewidth=0.6, zorder=1.5)


class _Room:
    """Finds places for small texts inside the axes, away from the lines and from each other."""

    def __init__(self, axes, panel, series):
        self.axes = axes
        self.points_per_pixel = 72 / axes.figure.dpi
        corners = axes.transAxes.transform([(0, 0), (1, 1)]) * self.points_per_pixel
        (self.left, self.bottom), (self.right, self.top) = corners
        self.taken = []
        for one in series:
            places = [self.place(row[panel.x], row[panel.y]) for row in one.points]
            self.taken += places
            for (x1, y1), (x2, y2) in zip(places, places[1:]):
                self.taken += [(x1 + (x2 - x1) * step / 8, y1 + (y2 - y1) * step / 8) for step in range(1, 8)]

    def place(self, x, y):
        """Where a point of the data is, in points."""
        return tuple(self.axes.transData.transform((x, y)) * self.points_per_pixel)

    def write(self, text, candidates, color, vertical=False):
        """Writes text centred on the candidate (x, y in points) where it covers least; the first ones are preferred."""
        width, height = plot_style.text_width(text) * 72, TEXT_SIZE * 1.1
        if vertical:
            width, height = height, width

        def cost(numbered):
            rank, (x, y) = numbered
            beyond = max(self.left - x, x - self.right) + width / 2, max(self.bottom - y, y - self.top) + height / 2
            outside = max(beyond) > 0
            covered = sum(
                abs(x - other_x) < width / 2 + 1 and abs(y - other_y) < height / 2 + 1
                for other_x, other_y in self.taken
            )
            return 1000 * outside + covered + 0.15 * rank

        _, (x, y) = min(enumerate(candidates(width, height)), key=cost)
        self.axes.annotate(
            text,
            (x, y),
            xycoords="figure points",
            color=color,
            rotation=90 if vertical else 0,
            ha="center",
            va="center",
            path_effects=HALO,
            zorder=4,
        )
        columns, rows = max(2, round(width / 3)), max(2, round(height / 3))
        self.taken += [
            (x + width * (column / columns - 0.5), y + height * (row / rows - 0.5))
            for column in range(columns + 1)
            for row in range(rows + 1)
        ]


def _draw_crossovers(axes, panel, group, room):
    """A line at each n where a fast algorithm overtakes a dense one, with the number along it."""
    crossings = _crossings(panel, group)
    if len(crossings) > MOST_CROSSING_LINES:
        for cross in crossings:
            color = style_in(group, cross["fast"]).color
            axes.plot(
                cross["n"], cross["value"], marker="o", markersize=6, markerfacecolor="none", color=color, zorder=5
            )
        return
    for cross in crossings:
        color = style_in(group, cross["fast"]).color
        axes.axvline(cross["n"], color=color, linewidth=0.6, zorder=1.8)
        x, _ = room.place(cross["n"], axes.get_ylim()[0])
        room.taken += [(x, room.bottom + (room.top - room.bottom) * step / 40) for step in range(41)]
        if cross["low"] and cross["high"]:
            axes.axvspan(cross["low"], cross["high"], color=color, alpha=0.12, linewidth=0, zorder=1.2)
    for cross in crossings:
        x, _ = room.place(cross["n"], axes.get_ylim()[0])
        room.write(
            panel_notes.crossing_text(cross),
            lambda width, height, x=x: [
                (x + side * (width / 2 + 2), y)
                for y in (room.bottom + height / 2 + 3, room.top - height / 2 - 3, (room.bottom + room.top) / 2)
                for side in (1, -1)
            ],
            style_in(group, cross["fast"]).color,
            vertical=True,
        )


def _draw_frontiers(axes, panel, group, room):
    """At up to four n, a staircase through the implementations that no other beats in both time and error."""
    drawable = [row for row in group.rows if _drawable(row, panel)]
    shared = sorted({row["n"] for row in drawable if sum(other["n"] == row["n"] for other in drawable) >= 2})
    chosen = {shared[round(step * (len(shared) - 1) / 3)] for step in range(4)} if shared else set()
    grey = {"color": "#d4d4d4", "zorder": 1.5}
    for n in sorted(chosen):
        best = []
        for row in sorted((row for row in drawable if row["n"] == n), key=lambda row: (row[panel.x], row[panel.y])):
            if not best or row[panel.y] < best[-1][panel.y]:
                best.append(row)
        xs, ys = [row[panel.x] for row in best], [row[panel.y] for row in best]
        axes.plot(xs, ys, drawstyle="steps-post", linewidth=2.5, solid_capstyle="round", **grey)
        axes.plot(xs, ys, linestyle="none", marker="o", markersize=6.5, markeredgewidth=0, **grey)
        anchors = [room.place(x, y) for x, y in zip(xs, ys)]
        room.write(
            f"n = {plot_style.format_count(n)}",
            lambda width, height, anchors=anchors: [
                (x + across * (width / 2 + 4), y + up * (height / 2 + 4 + far))
                for far in (0, 7, 14)
                for x, y in anchors
                for across, up in ((0, 1), (0, -1), (-1, 0), (1, 0), (-1, 1), (1, 1), (-1, -1), (1, -1))
            ],
            DARK_GREY,
        )


# Points that have no time: rows of marks above the axes


MARKS = {
    "skipped": {"marker": "v", "markerfacecolor": "white", "markeredgewidth": 0.8, "markersize": 4.2},
    "mistrusted": {"marker": "D", "markerfacecolor": "white", "markeredgewidth": 0.9, "markersize": 3.6},
    "failed": {"marker": "x", "markeredgewidth": 1.6, "markersize": 5.0},
}


def _mark(verdict, style):
    return {"color": style.color, "markeredgecolor": style.color, "linestyle": "none", **MARKS[verdict]}


def _edge_rows(panel, series):
    """Series with marks above the axes; a panel without an n axis has no place for them, only notes."""
    if panel.x != "n":
        return []
    return [one for one in series if any(row["verdict"] != "passed" for row in one.marks)]


def _mark_rows(panel, series):
    return len(_edge_rows(panel, series))


def _draw_marks(page, axes, panel, series, x, top, width):
    rows = _edge_rows(panel, series)
    for index, one in enumerate(rows):
        y = top - MARK_ROW * (len(rows) - index - 0.5)
        for row in one.marks:
            if row["verdict"] != "passed":
                place, _ = page.inches(axes, row["n"], axes.get_ylim()[0])
                page.line([place], [y], **_mark(row["verdict"], one.style))
        page.text(x + width + KEY_GAP + KEY_WIDTH, y, one.name, one.style.color)


# Labels at the right of the axes


def _label_width(series):
    widths = [sum(plot_style.text_width(text) for text, _ in line) for one in series for line in one.label]
    widths += [plot_style.text_width(one.name) for one in series]
    return KEY_GAP + KEY_WIDTH + max(widths, default=0)


def _label_height(series):
    return sum(_height_of(one) for one in series)


def _height_of(series):
    return LINE_HEIGHT * len(series.label) + (0.03 if series.label else 0)


def _draw_labels(page, axes, panel, series, x, top, height):
    labelled = [one for one in series if one.label]
    ends = [page.inches(axes, one.points[-1][panel.x], one.points[-1][panel.y]) for one in labelled]
    heights = [_height_of(one) for one in labelled]
    centres = plot_style.spread([y for _, y in ends], heights, top, top + height)
    for one, end, centre in zip(labelled, ends, centres):
        style = one.style
        start = x + KEY_GAP
        page.line(
            [end[0], start - 0.02],
            [end[1], centre],
            color=style.color,
            linewidth=0.4,
            linestyle=(0, (1, 2)),
            zorder=0.5,
        )
        page.line([start, start + KEY_WIDTH - 0.05], [centre, centre], color=style.color, linestyle=style.dashes)
        page.line(
            [start + (KEY_WIDTH - 0.05) / 2],
            [centre],
            color=style.color,
            marker=style.marker,
            linestyle="none",
            **MARKER,
        )
        for index, line in enumerate(one.label):
            text_x = start + KEY_WIDTH
            for text, color in line:
                y = centre + (index - (len(one.label) - 1) / 2) * LINE_HEIGHT
                page.text(text_x, y, text, color)
                text_x += plot_style.text_width(text)
