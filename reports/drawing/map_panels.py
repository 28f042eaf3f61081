"""Draws maps: who is faster over two axes, a cell for each pair of sizes, a panel for each baseline."""

import math

import matplotlib.colors
import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.panels import AXIS_LABELS, Page
from reports.drawing.plot_style import BLACK, BLUE, DARK_GREY, LINE_HEIGHT, MID_GREY, TITLE_SIZE, VERMILLION

LEFT, GAP, BOTTOM = 0.5, 0.5, 0.36
CELL = 0.26  # height of a cell, inches
MOST = 16.0  # ratios beyond are as dark as this
COLORS = matplotlib.colors.LinearSegmentedColormap.from_list("ratio", [VERMILLION, "#ffffff", BLUE])


def draw(maps, axes_names, width, title, setting, legend, footer):
    """maps: (baseline, {(x, y): ratio or None}); axes_names: of x and y; the rest are words."""
    heading = plot_style.wrap(setting, width - 0.05)
    notes = plot_style.wrap(legend, width - 0.05)
    footing = plot_style.wrap(footer, width - 0.05)
    rows = max(len({y for _, y in cells}) for _, cells in maps)
    top = 0.05 + LINE_HEIGHT * (2.2 + len(heading)) + 0.06
    height = CELL * rows
    page = Page(width, top + height + BOTTOM + LINE_HEIGHT * (len(notes) + len(footing)) + 0.14)
    page.text(0.03, 0.05 + 0.5 * LINE_HEIGHT, title, size=TITLE_SIZE, weight="bold")
    page.lines(0.03, 0.05 + 1.5 * LINE_HEIGHT, heading, DARK_GREY)
    page.lines(0.03, top + height + BOTTOM + 0.5 * LINE_HEIGHT + 0.05, notes, DARK_GREY)
    page.lines(0.03, page.height - (len(footing) - 0.5) * LINE_HEIGHT - 0.03, footing, MID_GREY)
    axes_width = (width - LEFT - 0.08 - GAP * (len(maps) - 1)) / len(maps)
    for index, (baseline, cells) in enumerate(maps):
        left = LEFT + index * (axes_width + GAP)
        axes = page.axes(left, top, axes_width, height)
        page.text(left, top - 0.6 * LINE_HEIGHT, f"against {baseline}", weight="bold")
        _draw_cells(axes, cells)
        axes.set_xlabel(AXIS_LABELS.get(axes_names[0], axes_names[0]) if axes_names[0] != "n" else "tokens n")
        if index == 0:
            axes.set_ylabel(AXIS_LABELS.get(axes_names[1], axes_names[1]))
    return page.figure


def _draw_cells(axes, cells):
    xs, ys = sorted({x for x, _ in cells}), sorted({y for _, y in cells})
    wins = {}
    for column, x in enumerate(xs):
        for row, y in enumerate(ys):
            ratio = cells.get((x, y))
            if ratio is None:
                axes.text(column, row, "–", ha="center", va="center", color=MID_GREY)
                continue
            wins[column, row] = ratio > 1
            shade = 0.5 + 0.5 * max(-1, min(1, math.log(ratio) / math.log(MOST)))
            color = COLORS(shade)
            axes.fill_between([column - 0.5, column + 0.5], row - 0.5, row + 0.5, color=color, linewidth=0)
            dark = sum(weight * part for weight, part in zip((0.3, 0.59, 0.11), color)) < 0.5
            axes.text(column, row, _ratio(ratio), ha="center", va="center", color="white" if dark else BLACK)
    # The border between winning and losing, cell by cell, so that it shows in print too.
    for (column, row), win in wins.items():
        if wins.get((column + 1, row), win) != win:
            axes.plot(
                [column + 0.5] * 2, [row - 0.5, row + 0.5], color=BLACK, linewidth=1.6, solid_capstyle="projecting"
            )
        if wins.get((column, row + 1), win) != win:
            axes.plot(
                [column - 0.5, column + 0.5], [row + 0.5] * 2, color=BLACK, linewidth=1.6, solid_capstyle="projecting"
            )
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(-0.5, len(ys) - 0.5)
    for axis, values in ((axes.xaxis, xs), (axes.yaxis, ys)):
        axis.set_major_locator(matplotlib.ticker.FixedLocator(range(len(values))))
        axis.set_major_formatter(matplotlib.ticker.FixedFormatter([plot_style.format_count(value) for value in values]))
    axes.tick_params(length=0)


def _ratio(value):
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"
