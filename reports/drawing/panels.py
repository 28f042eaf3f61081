"""Draws panels of curves: measurements against n or another axis, with their intervals, growth by theory and crossings."""

import dataclasses
import math
import typing

import matplotlib.ticker

from reports.drawing import label_room
from reports.drawing import layout
from reports.drawing import panel_notes
from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY, LIGHT_GREY, MID_GREY, POINT

MARK_ROW = 9 * POINT
HEIGHT = 1.75
MOST_NUMBERED = 2  # crossings in one panel that have their n beside them; more are rings alone
CROSSING = plot_style.Style(DARK_GREY, "none", "o", hollow=True)
GUIDE = plot_style.Style(LIGHT_GREY, plot_style.SOLID, None)
THIN = plot_style.Style(MID_GREY, plot_style.SOLID, None)
THIN_WIDTH = 0.5

AXIS_LABELS = {"tokens": "tokens n", "pixels": "pixels n", "keys": "keys n_k", "n": "tokens or pixels n", "f": "features m",
               "r": "clipping distance k", "heads": "heads", "threads": "threads"}  # fmt: skip


def guide_of(order):
    """The function of n that a complexity class stands for: 1, n, n log n or n^P."""
    if order == "n log n":
        return lambda n: n * math.log(n)
    power = {"1": 0.0, "n": 1.0}.get(order) if "^" not in order else float(order.split("^")[1])
    return lambda n: n**power


@dataclasses.dataclass(frozen=True)
class Panel:
    """The contents of one pair of axes. x, y, low, high and thin are columns of result_file.Group.rows.

    quantity: that of the fits and crossovers that belong here; theory: `time` or `memory` of the algorithms' entries
    thin_in_limits: the axes make room for the thin line, which is cut off otherwise
    frontier: at a few n, joins the implementations that no other beats in both x and y
    title: words over the axes
    against: label of the baseline, where ratios of a summary are shown
    level: a value of y that deserves a grey line
    least_factor: the ends of the y axis are at least this far apart
    shared: all panels of this quantity have the same y axis
    """

    y: str
    label: str
    tick_format: typing.Callable
    ticks: typing.Callable = plot_style.decimal_ticks
    x: str = "n"
    x_label: str = ""
    x_format: typing.Callable | None = None  # None: counts
    low: str = ""
    high: str = ""
    thin: str = ""
    thin_name: str = ""
    thin_meaning: str = ""
    thin_in_limits: bool = False
    quantity: str = ""
    theory: str = ""
    frontier: bool = False
    title: str = ""
    against: str = ""
    level: float = 0.0
    least_factor: float = 20
    shared: bool = False

    def columns(self):
        return [column for column in (self.x, self.y, self.low, self.high, self.thin) if column]


@dataclasses.dataclass
class Series:
    """One implementation in one panel: its drawable points, and the rows that have none."""

    name: str
    style: plot_style.Style
    points: list
    marks: list


def draw(content, width, title, per_row=2, ticks=()):
    """Returns the layout.Page.

    content: (Panel, result_file.Group) pairs, drawn in rows of up to `per_row`
    ticks: places of the ticks of an n axis; those at sizes that were measured are drawn, if the largest size is among them
    """
    drawn = [(panel, group, _series(panel, group)) for panel, group in content]
    cells = [
        layout.Cell(_labels(panel, group, series), above=MARK_ROW * len(_edge_rows(panel, series)), words=panel.title)
        for panel, group, series in drawn
    ]
    block = layout.Block(_keys_last(cells), HEIGHT, any(panel.title for panel, _, _ in drawn), per_row, one_legend=True)
    page = layout.Page([block], title, width, panel_notes.sentences(content), panel_notes.brief(content))
    page.numbers = panel_notes.exponents(content)
    for axes, place, (panel, group, series) in zip(page.axes, page.places, drawn):
        beside = [values for other, group, series in drawn if panel.shared and other.y == panel.y
                  for values in _heights(other, group, series)]  # fmt: skip
        _draw_panel(axes, panel, series, group, place[2:], ticks, beside)
        if panel.title:
            page.title(axes, panel.title, "bold", "black")
        _draw_marks(page, axes, panel, series, place[1])
    return page.finish()


def _labels(panel, group, series):
    labels = [
        layout.Label(series_entry.name, series_entry.style)
        for series_entry in series
        if series_entry.points or series_entry.marks
    ]
    if _crossings(panel, group):
        labels.append(layout.Label("crossing", CROSSING))
    if _guided(panel, group, series):
        labels.append(layout.Label("growth by theory", GUIDE))
    if panel.frontier:
        labels.append(layout.Label("no other beats both", GUIDE))
    if panel.thin_name and any(row[panel.thin] for row in group.rows):
        labels.append(layout.Label(panel.thin_name, THIN, THIN_WIDTH))
    return labels


def _keys_last(cells):
    """Moves marks other than lines to the end of the legend: the last cell repeats them."""
    last = (CROSSING, GUIDE, THIN)
    marks = [label for cell in cells for label in cell.labels if label.style in last]
    for cell in cells:
        cell.labels = [label for label in cell.labels if label.style not in last]
    if cells:
        cells[-1].labels += dict.fromkeys(marks)
    return cells


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
            series.append(Series(name, style_in(group, name), points, marks))
    return series


def is_measured(panel, group):
    """Tells whether a panel would show a measured point; lines from theory or formulas do not count."""
    return any(
        _drawable(row, panel)
        or panel.x == "n" and (panel_notes.mark_kind(row, panel) == "zero" or row["verdict"] == "failed" and row[panel.y])
        for row in group.rows
    )  # fmt: skip


def style_in(group, name):
    """The look of an implementation, or of whatever else a group calls by that name."""
    return group.styles.get(name) or plot_style.style_of(name)


def _crossings(panel, group):
    return [cross for cross in group.crossovers if cross["quantity"] == panel.quantity and cross["n"]]


# Axes


def _draw_panel(axes, panel, series, group, inches, ticks, beside=()):
    axes.set_xscale("log")
    axes.set_yscale("log")
    _set_limits(axes, panel, series, group, beside)
    _set_ticks(axes, panel, group, inches, ticks)
    axes.set_xlabel(panel.x_label or _n_label(group.axis))
    axes.set_ylabel(panel.label)
    _draw_guides(axes, panel, series, group)
    if panel.level:
        axes.axhline(panel.level, color=LIGHT_GREY, linewidth=0.6, zorder=1.5)
    stairs = _draw_frontiers(axes, panel, group) if panel.frontier else []
    for series_entry in series:
        _draw_series(axes, panel, series_entry, group)
    crossings = _draw_crossovers(axes, panel, group)
    room = label_room.Room(axes)
    _write_frontiers(panel, group, room, stairs)
    _number_crossovers(room, crossings)
    if not any(series_entry.points for series_entry in series):
        axes.text(0.5, 0.92, "no point to draw", transform=axes.transAxes, ha="center", color=MID_GREY)
        if not axes.lines:
            axes.set_yticks([])


def _n_label(axis):
    return AXIS_LABELS.get(axis, axis)


def _heights(panel, group, series):
    """Values of y that the axes have room for."""
    points = [row for series_entry in series for row in series_entry.points]
    ys = [row[column] for row in points for column in (panel.y, panel.low, panel.high) if column and row[column]]
    if panel.thin and (panel.thin_in_limits or not ys):
        ys += [row[panel.thin] for row in group.rows if row[panel.thin]]
    return ys + [panel.level] if panel.level else ys


def _set_limits(axes, panel, series, group, beside):
    points = [row for series_entry in series for row in series_entry.points]
    ys = _heights(panel, group, series) + list(beside)
    xs = [row[panel.x] for row in (group.rows if panel.x == "n" else points) if row[panel.x]]
    x_low, x_high = _padded(xs, least_factor=4, padding=0.04)
    y_low, y_high = _padded(ys, least_factor=panel.least_factor, padding=0.06)
    axes.set_xlim(x_low, x_high)
    axes.set_ylim(y_low, y_high)


def _set_ticks(axes, panel, group, inches, chosen):
    width, height = inches
    x_limits, y_limits = axes.get_xlim(), axes.get_ylim()
    if panel.x == "n":
        room = 0.36 * plot_style.scale()
        sizes = {row["n"] for row in group.rows}
        x_ticks = size_ticks(wanted_sizes(sizes, chosen), x_limits, width, room)
    else:
        x_ticks = plot_style.decimal_ticks(*x_limits, most=int(width / (0.48 * plot_style.scale())))
        x_ticks = _inside(x_ticks, x_limits, width, panel.x_format) if panel.x_format else x_ticks
        x_ticks = _apart(x_ticks, x_limits, width, panel.x_format or plot_style.counts_format(x_ticks))
    y_ticks = panel.ticks(*y_limits, most=plot_style.most_ticks(height, 7))
    x_format = panel.x_format or plot_style.counts_format(x_ticks)
    for axis, ticks, tick_format in ((axes.xaxis, x_ticks, x_format), (axes.yaxis, y_ticks, panel.tick_format)):
        axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
        axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _, write=tick_format: write(value)))


RIGHT_ROOM = 0.1  # inches


def _apart(ticks, limits, width, tick_format):
    """Leaves out ticks, from left to right, whose labels would end less than two spaces after the one before."""
    inches = width / math.log(limits[1] / limits[0])
    kept, end = [], -math.inf
    for tick in ticks:
        place, half = math.log(tick / limits[0]) * inches, plot_style.text_width(tick_format(tick)) / 2
        if place - half >= end + plot_style.text_width("  "):
            kept.append(tick)
            end = place + half
    return kept


def _inside(ticks, limits, width, tick_format):
    """Returns the ticks whose labels end within the figure, which has RIGHT_ROOM at the right of the axes."""
    inches = width / math.log(limits[1] / limits[0])
    return [
        tick
        for tick in ticks
        if math.log(limits[1] / tick) * inches + RIGHT_ROOM >= plot_style.text_width(tick_format(tick)) / 2
    ]


def wanted_sizes(sizes, chosen):
    """Returns the sizes that are chosen, or all sizes if the largest is not among them."""
    wanted = sizes & set(chosen)
    return wanted if sizes and max(sizes) in wanted else sizes


def size_ticks(sizes, limits, width, room):
    """Sizes that were measured: the last, and as many of those before it as are `room` inches apart, in even steps if possible."""
    ordered = sorted(sizes)
    span = math.log(limits[1] / limits[0])

    def apart(ticks):
        return all(math.log(b / a) / span * width >= room for a, b in zip(ticks, ticks[1:]))

    for step in range(1, len(ordered)):
        ticks = ordered[::-1][::step][::-1]
        if apart(ticks) and len(ticks) > 1:
            return ticks
    return ordered[-1:]


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
        thin = {"color": style.color, "linestyle": style.dashes, "linewidth": THIN_WIDTH}
        axes.plot([row[panel.x] for row in rows], [row[panel.thin] for row in rows], **thin)
    width = plot_style.look().line_width * (0.6 if panel.frontier else 1)
    for points in _unbroken(series, group):
        xs = [row[panel.x] for row in points]
        ys = [row[panel.y] for row in points]
        if panel.low and panel.high:
            lows = [row[panel.low] or row[panel.y] for row in points]
            highs = [row[panel.high] or row[panel.y] for row in points]
            axes.fill_between(xs, lows, highs, color=style.color, alpha=0.25, linewidth=0)
        axes.plot(xs, ys, color=style.color, linestyle=style.dashes, linewidth=width, marker=style.marker,
                  **layout.marker(style))  # fmt: skip
        few = [row for row in points if panel_notes.few_samples(row, panel)]
        if few and style.marker not in ("x", "+"):
            open_marks = {**layout.marker(style), "markerfacecolor": "white", "markeredgecolor": style.color}
            axes.plot([row[panel.x] for row in few], [row[panel.y] for row in few], color=style.color, linestyle="none",
                      marker=style.marker, **open_marks)  # fmt: skip
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
                    **layout.marker(style),
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


def theory_of(panel, group, name):
    """The class by theory of a line, or None."""
    algorithm = group.algorithms.get(name)
    return algorithm[f"{panel.theory}_class"] if panel.theory and algorithm else None


def _guided(panel, group, series):
    """(series, class) of those whose growth theory names, and that were measured at two sizes."""
    results = []
    for series_entry in series:
        complexity = theory_of(panel, group, series_entry.name)
        if complexity and series_entry.points and series_entry.points[-1]["n"] >= 2:
            results.append((series_entry, complexity))
    return results


def _draw_guides(axes, panel, series, group):
    """The class that theory names, through the largest measured point of each implementation."""
    low, high = axes.get_xlim()
    if high <= 2:
        return
    for line, complexity in _guided(panel, group, series):
        anchor = line.points[-1]
        guide = guide_of(complexity)
        start = max(low, 2)
        xs = [start * (high / start) ** (step / 60) for step in range(61)]
        ys = [anchor[panel.y] * guide(x) / guide(anchor["n"]) for x in xs]
        axes.plot(xs, ys, color=LIGHT_GREY, linewidth=0.6, zorder=1.5)


def _draw_crossovers(axes, panel, group):
    """A ring where a fast algorithm overtakes a dense one; returns [(n, height)]."""
    heights = [
        (cross["n"], cross.get("value") or _height_at(panel, group, cross)) for cross in _crossings(panel, group)
    ]
    first = min((row[panel.x] for row in group.rows if _drawable(row, panel)), default=0)  # no line goes further
    drawn = [(n, height) for n, height in heights if height and n >= first]
    for n, height in drawn:
        axes.plot(n, height, marker="o", markersize=6, markerfacecolor="none", markeredgewidth=0.8, color=DARK_GREY,
                  linestyle="none", zorder=5)  # fmt: skip
    return drawn


def _number_crossovers(room, crossings):
    """The n of each ring, where there are few. The largest has its place first: under curves that rise there is room at the lower
    right of the last ring alone."""
    if len(crossings) > MOST_NUMBERED:
        return
    places = [room.place(*crossing) for crossing in crossings]
    labels = {}
    for index in sorted(range(len(crossings)), key=lambda index: -crossings[index][0]):
        others = places[:index] + places[index + 1 :]
        labels[index] = room.find(plot_style.three_digits(crossings[index][0]), [places[index]], others)
    for _, label in sorted(labels.items()):
        if label:
            room.write(label)


def _height_at(panel, group, cross):
    """Returns the height at which the drawn line of the faster implementation passes the crossover."""
    points = [row for row in group.rows if row["implementation"] == cross["fast"] and _drawable(row, panel)]
    for before, after in zip(points, points[1:]):
        if before[panel.x] <= cross["n"] <= after[panel.x]:
            share = math.log(cross["n"] / before[panel.x]) / math.log(after[panel.x] / before[panel.x])
            return before[panel.y] * (after[panel.y] / before[panel.y]) ** share
    return None


def _draw_frontiers(axes, panel, group):
    """Draws at up to four n a staircase through the implementations that no other beats in both time and error; returns [(n, their rows)]."""
    drawable = [row for row in group.rows if _drawable(row, panel)]
    shared = sorted({row["n"] for row in drawable if sum(other["n"] == row["n"] for other in drawable) >= 2})
    chosen = {shared[round(step * (len(shared) - 1) / 3)] for step in range(4)} if shared else set()
    stairs = []
    for n in sorted(chosen):
        best = []
        for row in sorted((row for row in drawable if row["n"] == n), key=lambda row: (row[panel.x], row[panel.y])):
            if not best or row[panel.y] < best[-1][panel.y]:
                best.append(row)
        xs, ys = [row[panel.x] for row in best], [row[panel.y] for row in best]
        axes.plot(xs, ys, drawstyle="steps-post", linewidth=1.0, color=LIGHT_GREY, zorder=1.5)
        stairs.append((n, best))
    return stairs


def _write_frontiers(panel, group, room, stairs):
    """The n of each staircase, beside a point of that n: one of the staircase, or else another; none where all have one n."""
    if len({row["n"] for row in group.rows}) == 1:
        return
    write = plot_style.counts_format([n for n, _ in stairs])
    places = [(row["n"], room.place(row[panel.x], row[panel.y])) for row in group.rows if _drawable(row, panel)]
    for n, best in stairs:
        own = [room.place(row[panel.x], row[panel.y]) for row in best]
        own += [place for size, place in places if size == n and place not in own]
        label = room.find(f"n = {write(n)}", own, [place for size, place in places if size != n])
        if label:
            room.write(label)


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
    return [series_entry for series_entry in series if any(row["verdict"] != "passed" for row in series_entry.marks)]


def _draw_marks(page, axes, panel, series, top):
    rows = _edge_rows(panel, series)
    for index, edge_row in enumerate(rows):
        y = top - MARK_ROW * (len(rows) - index - 0.5)
        for row in edge_row.marks:
            if row["verdict"] != "passed":
                place, _ = page.inches(axes, row["n"], axes.get_ylim()[0])
                page.line([place], [y], **_mark(row["verdict"], edge_row.style))
