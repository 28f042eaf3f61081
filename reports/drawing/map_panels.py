"""Draws maps that show over two axes which implementation is faster, with a cell for each pair of sizes and a panel for each
baseline."""

import math

import matplotlib.colors
import matplotlib.ticker

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing.panels import AXIS_LABELS
from reports.drawing.plot_style import BLACK, BLUE, MID_GREY, VERMILLION

CELL, CELL_WIDTH = 0.2, 0.24  # height of a cell and its least width, inches
MOST = 16.0  # ratios beyond are as dark as this
COLORS = matplotlib.colors.LinearSegmentedColormap.from_list("ratio", [VERMILLION, "#ffffff", BLUE])


def draw(maps, axes_names, width, title, notes):
    """maps: (baseline, {(x, y): ratio or None}); axes_names: of x and y; returns the layout.Page."""
    rows = max(len({y for _, y in cells}) for _, cells in maps)
    columns = max(len({x for x, _ in cells}) for _, cells in maps)
    block = layout.Block([layout.Cell() for _ in maps], CELL * plot_style.scale() * rows, least=CELL_WIDTH * columns)
    page = layout.Page([block], title, width, notes)
    for axes, (baseline, cells) in zip(page.axes, maps):
        axes.grid(False)
        page.title(axes, f"against {baseline}", "bold", "black")
        _draw_cells(axes, cells)
        axes.set_xlabel(AXIS_LABELS.get(axes_names[0], axes_names[0]) if axes_names[0] != "n" else "tokens n")
        axes.set_ylabel(AXIS_LABELS.get(axes_names[1], axes_names[1]))
    return page.finish()


def _draw_cells(axes, cells):
    xs, ys = sorted({x for x, _ in cells}), sorted({y for _, y in cells})
    wins, colors = {}, [[(1.0, 1.0, 1.0, 1.0)] * len(xs) for _ in ys]
    for column, x in enumerate(xs):
        for row, y in enumerate(ys):
            ratio = cells.get((x, y))
            if ratio is None:
                axes.text(column, row, "–", ha="center", va="center", color=MID_GREY)
                continue
            wins[column, row] = ratio > 1
            shade = 0.5 + 0.5 * max(-1, min(1, math.log(ratio) / math.log(MOST)))
            color = colors[row][column] = COLORS(shade)
            dark = sum(weight * part for weight, part in zip((0.3, 0.59, 0.11), color)) < 0.5
            axes.text(column, row, _ratio(ratio), ha="center", va="center", color="white" if dark else BLACK)
    axes.imshow(colors, aspect="auto", interpolation="nearest")
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
        write = plot_style.counts_format(values)
        axis.set_major_formatter(matplotlib.ticker.FixedFormatter([write(value) for value in values]))
    axes.tick_params(length=0)


def _ratio(value):
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"
