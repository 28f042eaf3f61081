"""Draws ratios of times: a row for each implementation and size, a mark with its interval for each input."""

import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.panels import Page
from reports.drawing.plot_style import BLACK, DARK_GREY, LIGHT_GREY, LINE_HEIGHT, MID_GREY, TITLE_SIZE

NEAR = 1.05  # two times that are closer are called the same
MOST = 1.5  # intervals that reach further from the marks are cut off
FINE = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4)
MIDDLE = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5)
COARSE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 20, 50, 100)
ROW = 0.16  # inches
KEY, RIGHT, BOTTOM = 0.2, 0.1, 0.38  # room for a mark in front of its words, and around the axes


def says(entry):
    """What a ratio with its interval says, in words."""
    low, high = entry["low"], entry["high"]
    if low is None or high is None:
        return "too few samples"
    if low > NEAR:
        return "slower"
    if high < 1 / NEAR:
        return "faster"
    if low >= 1 / NEAR and high <= NEAR:
        return "the same"
    return "undecided"


def short(name):
    """A short name of an input: a case folder by its last part."""
    return name.rstrip("/").rsplit("/", 1)[-1]


def draw(rows, inputs, width, title, heading, legend, footer):
    """rows: (words, [ratio entries]), from top to bottom; inputs: names in the order of their marks; the rest are words."""
    looks = dict(zip(inputs, _looks(len(inputs))))
    above, notes, foot = (plot_style.wrap(words, width - 0.06) if words else [] for words in (heading, legend, footer))
    keys = _key_lines(inputs, width)
    left = max(plot_style.text_width(words) for words, _ in rows) + 0.12
    top = 0.05 + LINE_HEIGHT * (1 + len(above) + len(keys)) + 0.08
    height = ROW * len(rows)
    page = Page(width, top + height + BOTTOM + LINE_HEIGHT * (len(notes) + len(foot)) + 0.14)
    page.text(0.03, 0.05 + 0.5 * LINE_HEIGHT, title, size=TITLE_SIZE, weight="bold")
    page.lines(0.03, 0.05 + 1.5 * LINE_HEIGHT, above, DARK_GREY)
    axes = page.axes(left, top, width - left - RIGHT, height)
    for line, words in enumerate(keys):
        y = 0.05 + (line + len(above) + 1.5) * LINE_HEIGHT
        for x, name in words:
            style = looks[name]
            page.line([x + 0.08], [y], color=style.color, marker=style.marker, markersize=4)
            page.text(x + KEY, y, short(name), DARK_GREY)
    page.lines(0.03, top + height + BOTTOM + 0.5 * LINE_HEIGHT + 0.05, notes, DARK_GREY)
    page.lines(0.03, page.height - (len(foot) - 0.5) * LINE_HEIGHT - 0.03, foot, MID_GREY)
    _draw_rows(axes, rows, inputs, looks)
    for index, (words, _) in enumerate(rows):
        page.text(left - 0.06 - plot_style.text_width(words), top + (index + 0.5) * ROW, words, DARK_GREY)
    return page.figure


def _looks(count):
    """Colours and markers for inputs; hollow crosses would hide the interval."""
    return [plot_style.SERIES[index % len(plot_style.SERIES)] for index in range(count)]


def _key_lines(inputs, width):
    """(x, name) pairs, as many to a line as there is room for."""
    lines, x = [[]], 0.03
    for name in inputs:
        needed = KEY + plot_style.text_width(short(name)) + 0.15
        if lines[-1] and x + needed > width:
            lines.append([])
            x = 0.03
        lines[-1].append((x, name))
        x += needed
    return lines


def _draw_rows(axes, rows, inputs, looks):
    values = [1 / NEAR, NEAR]
    axes.axvspan(1 / NEAR, NEAR, color=LIGHT_GREY, alpha=0.35, linewidth=0)
    axes.axvline(1, color=MID_GREY, linewidth=0.7, zorder=1)
    for index, (_, entries) in enumerate(rows):
        shown = sorted(entries, key=lambda entry: inputs.index(entry["input"]))
        for place, entry in enumerate(shown):
            y = index + (place + 1) / (len(shown) + 1) - 0.5
            style = looks[entry["input"]]
            ends = [end for end in (entry["low"], entry["high"]) if end is not None]
            if len(ends) == 2:
                axes.plot(ends, [y, y], color=style.color, linewidth=1.1, solid_capstyle="butt")
            axes.plot([entry["ratio"]], [y], marker=style.marker, color=style.color, markersize=3.4,
                      markeredgecolor="white" if entry["in_turns"] else BLACK, markeredgewidth=0.3)  # fmt: skip
            values += [entry["ratio"], *ends]
        if index:
            axes.axhline(index - 0.5, color="#ebebeb", linewidth=0.4, zorder=0)
    # An interval of few samples may be very long; the marks say how far the axis goes.
    marks = [entry["ratio"] for _, entries in rows for entry in entries] + [1 / NEAR, NEAR]
    low, high = max(min(values), min(marks) / MOST) / 1.03, min(max(values), max(marks) * MOST) * 1.03
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel("time with the input / time with normal numbers")
    every = FINE if high / low < 1.6 else MIDDLE if high / low < 4 else COARSE
    ticks = [tick for tick in every if low <= tick <= high]
    axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
