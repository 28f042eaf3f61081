"""Draws ratios of times: a row for each implementation and size, a mark with its interval for each input."""

import matplotlib.ticker

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing.plot_style import BLACK, DARK_GREY, LIGHT_GREY, MID_GREY

NEAR = 1.05  # two times that are closer are called the same
MOST = 1.5  # intervals that reach further from the marks end in an arrow at the edge of the axes
FINE = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4)
MIDDLE = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 2, 2.5)
COARSE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 20, 50, 100)
ROW = 0.16  # inches


def says(entry):
    """Describes a ratio with its interval in words."""
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


def draw(rows, inputs, width, title, notes):
    """rows: (words, [ratio entries]), from top to bottom; inputs: names in the order of their marks; returns the layout.Page."""
    looks = dict(zip(inputs, _looks(len(inputs))))
    shown = [name for name in inputs if any(entry["input"] == name for _, entries in rows for entry in entries)]
    labels = [layout.Label(short(name), looks[name]._replace(dashes=plot_style.SOLID)) for name in shown]
    words_width = max(plot_style.text_width(words) for words, _ in rows)
    limits = _limits(rows)
    if any(_beyond(end, limits) for _, entries in rows for entry in entries for end in _ends(entry)):
        notes = [*notes, "Arrow: the interval is longer."]
    asked = plot_style.width_for(width)
    inside = words_width > 0.5 * asked  # then they are above their marks
    row = ROW * plot_style.scale() * (2 if inside else 1)
    block = layout.Block([layout.Cell(labels)], row * len(rows), titled=False, left=layout.RIGHT if inside else 0.0)
    page = layout.Page([block], title, width, notes, notes[:1])
    (axes,), (left, top, axes_width, height) = page.axes, page.places[0]
    if not inside:
        moved = words_width + 0.12 - left
        box = axes.get_position()
        share = moved / page.sheet[0]
        axes.set_position((box.x0 + share, box.y0, box.width - share, box.height))
    _draw_rows(axes, rows, inputs, looks, 0.25 if inside else 0.0)
    for index, (words, _) in enumerate(rows):
        place = top + (index + (0.28 if inside else 0.5)) * height / len(rows)
        x = left + 0.02 if inside else words_width + 0.06 - plot_style.text_width(words)
        page.text(x, place, words, DARK_GREY, layout.size_for(words, axes_width) if inside else None)
    return page.finish()


def _looks(count):
    """Colours and markers for inputs; hollow crosses would hide the interval."""
    return [plot_style.SERIES[index % len(plot_style.SERIES)] for index in range(count)]


def _limits(rows):
    """Returns the ends of the axis. An interval of few samples may be very long, so the marks say how far the axis goes."""
    entries = [entry for _, entries in rows for entry in entries]
    marks = [entry["ratio"] for entry in entries] + [1 / NEAR, NEAR]
    values = marks + [end for entry in entries for end in _ends(entry)]
    return max(min(values), min(marks) / MOST) / 1.03, min(max(values), max(marks) * MOST) * 1.03


def _ends(entry):
    return [end for end in (entry["low"], entry["high"]) if end is not None]


def _beyond(end, limits):
    return not limits[0] <= end <= limits[1]


def _draw_rows(axes, rows, inputs, looks, lower):
    low, high = _limits(rows)
    axes.axvspan(1 / NEAR, NEAR, color=LIGHT_GREY, alpha=0.35, linewidth=0)
    if lower:  # the line at 1 leaves out the words over the marks
        for index in range(len(rows)):
            axes.plot([1, 1], [index, index + 0.5], color=MID_GREY, linewidth=0.7, zorder=1)
    else:
        axes.axvline(1, color=MID_GREY, linewidth=0.7, zorder=1)
    for index, (_, entries) in enumerate(rows):
        ordered = sorted(entries, key=lambda entry: inputs.index(entry["input"]))
        for place, entry in enumerate(ordered):
            y = index + lower + (1 - lower) * ((place + 1) / (len(ordered) + 1) - 0.5)
            style = looks[entry["input"]]
            if len(_ends(entry)) == 2:
                shown = [min(max(end, low), high) for end in _ends(entry)]
                axes.plot(shown, [y, y], color=style.color, linewidth=1.1, solid_capstyle="butt")
                for end, edge, arrow in zip(_ends(entry), (low, high), "<>"):
                    if _beyond(end, (low, high)):
                        axes.plot([edge], [y], marker=arrow, color=style.color, markersize=4, clip_on=False)
            axes.plot([entry["ratio"]], [y], marker=style.marker, color=style.color, markersize=3.4,
                      markeredgecolor="white" if entry["in_turns"] else BLACK, markeredgewidth=0.3)  # fmt: skip
        if index:
            axes.axhline(index - 0.5, color="#ebebeb", linewidth=0.4, zorder=0)
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
