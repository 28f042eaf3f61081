"""Common parts of the drawings of studies: page, axes, ticks and curves. Distances are inches."""

import math

import matplotlib.ticker

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing.layout import marker
from reports.drawing.plot_style import DARK_GREY, MID_GREY

HEIGHT = 1.6
STYLES = plot_style.SERIES
MAPS = plot_style.FEATURE_MAPS
MAP_NAMES = {"prf": "PRF", "orf": "ORF", "sphere": "Sphere-PRF", "prf_hyperbolic": "hyperbolic PRF", "trf": "TRF", "trf_clipped": "TRF, none negative",
             "elu1": "elu + 1"}  # fmt: skip
THEORY = plot_style.Style(MID_GREY, plot_style.DOTTED, None)


def verdict_sentences(study, about=""):
    """The verdicts on a model, or on no model in particular."""
    return [
        pretty(f"{verdict['claim']}, {verdict['verdict']}: {verdict['numbers']}")
        for verdict in study.content["verdicts"]
        if verdict["claim"].partition("/")[2] == about
    ]


def new_page(study, panels, height=HEIGHT, notes=(), about="", width=None, most=9, aspect=0.0, after=0.0,
             one_legend=False, least=0.0, words=(), left=0.0):  # fmt: skip
    """The layout.Page of a study.

    A panel is (share of the width, shares the y axis of the one before, labels); a label is (words, style). `panels` is one
    row, or a list of rows; `notes` are sentences, the most important first; `words` are their titles, where those may take two lines;
    `left` is room for the names of rows. `about` is the model that the page is about; its verdicts are those on the model, a page about no
    model has the rest.
    """
    rows = panels if isinstance(panels[0], list) else [panels]
    blocks = [
        layout.Block(
            [layout.Cell([layout.Label(*label[:2]) for label in labels], share, shared, after=after)
             for share, shared, labels in row],
            height, True, most, aspect, one_legend=one_legend, least=least, left=left,
        )
        for row in rows
    ]  # fmt: skip
    for cell, title in zip((cell for block in blocks for cell in block.cells), words):
        cell.words = title
    heading = study.heading + (f": {about}" if about else "")
    notes = list(map(pretty, notes))
    return layout.Page(blocks, heading, width, [*notes, *verdict_sentences(study, about)], notes)


def pretty(text):
    for plain_text, pretty in (("|A - A^|_1", "|A − Â|₁"), ("|^2", "|²"), ("R^2", "R²"), ("R^(-1/2)", "R^(−1/2)")):
        text = text.replace(plain_text, pretty)
    return text


def plain(axis):
    """Ticks written as plain numbers: 4, 16, 0.1."""
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−")))
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def fixed(axis, ticks):
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    plain(axis)


def powers(axis, values, most=6):
    """A logarithmic axis with ticks at some of the values themselves, the last among them."""
    values = sorted(set(values))
    across = axis.axes.get_position().width * axis.axes.figure.get_size_inches()[0]
    if axis.axis_name == "x":
        most = max(2, min(most, int(across / (0.3 * plot_style.scale()))))
    fixed(axis, values[::-1][:: max(1, math.ceil(len(values) / most))][::-1])


def counts(axis, values):
    """A logarithmic axis with ticks at the values: 1024 is 1Ki."""
    powers(axis, values)
    write = plot_style.counts_format(axis.get_majorticklocs())
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: write(value)))


def _power_of_ten(value):
    digits = str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{digits}"


def tens(axis, low, high, most=6):
    """A logarithmic axis with ticks at powers of ten, or at 1, 2, 5 where there are few."""
    box = axis.axes.get_position().size * axis.axes.figure.get_size_inches()
    if axis.axis_name == "x":
        most = max(2, min(most, int(box[0] / (0.26 * plot_style.scale()))))
    else:
        most = plot_style.most_ticks(box[1], most)
    ticks = plot_style.decimal_ticks(low, high, most)
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    short = low >= 1e-3 and high < 1e5
    axis.set_major_formatter(
        matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}" if short else _power_of_ten(value))
    )
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def log_y(axes, values, most=6):
    values = [value for value in values if math.isfinite(value) and value > 0]
    if not values:
        return
    low, high = min(values) / 1.3, max(values) * 1.3
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    tens(axes.yaxis, low, high, most)


def curve(axes, xs, ys, style, band=None, **options):
    axes.plot(xs, ys, color=style.color, linestyle=style.dashes, marker=style.marker, **marker(style), **options)
    if band:
        axes.fill_between(xs, band[0], band[1], color=style.color, alpha=0.15, linewidth=0)


def guide(axes, xs, ys):
    axes.plot(xs, ys, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=1)


def column(rows, name):
    return [row[name] for row in rows]


def color_bar(page, axes, image, words=""):
    """A scale of the image's colours in the room at its right (`after`)."""
    left, top, width, height = page.places[page.axes.index(axes)]
    axes.apply_aspect()
    size = axes.get_position().size * page.sheet
    bar = page.add_axes(left + size[0] + 0.05, top, 0.06, size[1])
    bar.grid(False)
    page.figure.colorbar(image, cax=bar).outline.set_linewidth(0.5)
    bar.tick_params(labelsize=plot_style.look().text_size, width=0.5, length=2)
    plain(bar.yaxis)
    if words:
        bar.set_title(words, fontsize=plot_style.look().text_size, loc="left", color=DARK_GREY, pad=3)
