"""The page that a study is drawn on: panels with their labels, title, verdicts and footer; and what all drawings share.

Distances are inches.
"""

import math

import matplotlib.lines
import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY, LINE_HEIGHT, MID_GREY, PAGE_WIDTH, TEXT_SIZE, TITLE_SIZE

LEFT, RIGHT = 0.58, 0.06  # room for a panel's own y axis; after the last panel
INNER = 0.14  # between panels that share a y axis
KEY_GAP, KEY_WIDTH = 0.06, 0.28  # before a label, and the piece of line in front of its words
HEIGHT = 2.0
X_AXIS, TITLE_ROOM = 0.38, 0.24  # under and above a panel
STYLES = plot_style.SERIES
MAPS = plot_style.FEATURE_MAPS
MAP_NAMES = {"prf": "PRF", "orf": "ORF", "sphere": "Sphere-PRF", "prf_hyperbolic": "hyperbolic PRF", "trf": "TRF",
             "elu1": "elu + 1"}  # fmt: skip
MARKER = {"markersize": 3.6, "markeredgecolor": "white", "markeredgewidth": 0.3}
THEORY = plot_style.Style(MID_GREY, plot_style.DOTTED, None)


def verdict_lines(study, width, about=""):
    """The verdicts on a model, or on no model in particular, as lines of that width."""
    lines = []
    for verdict in study.content["verdicts"]:
        if verdict["claim"].partition("/")[2] == about:
            words = f"{verdict['claim']}, {verdict['verdict']}: {verdict['numbers']}"
            lines += plot_style.wrap(pretty(words), width - 0.06)
    return lines


class Page:
    """Rows of panels, labels at their right, then the verdicts and the footer.

    A panel is (share of the width, shares the y axis of the one before, labels). A label is (words, style, wanted place
    in data coordinates or None for a place under the others), at the panel's right. `panels` is one row, or a
    list of rows, with the room `under` each for its x axis. `about` is the model that the page is about; its verdicts are
    those on the model, a page about no model has the rest.
    """

    def __init__(self, study, footer, panels, width=PAGE_WIDTH, height=HEIGHT, notes=(), about=None, under=None):
        rows = panels if isinstance(panels[0], list) else [panels]
        lines = [line for note in notes for line in plot_style.wrap(note, width - 0.06)]
        lines += verdict_lines(study, width, about or "")
        heading = plot_style.wrap(f"{study.content['purpose']} ({study.content['source']})", width - 0.06)
        foot = plot_style.wrap(footer, width - 0.06)
        top = 0.05 + LINE_HEIGHT * (1 + len(heading))
        under = under or [X_AXIS] * len(rows)
        tops = [top + sum(under[:index]) + (TITLE_ROOM + height) * index for index in range(len(rows) + 1)]
        first = tops[-1] + 0.08
        self.width, self.axes_height = width, height
        self.height = first + LINE_HEIGHT * (len(lines) + len(foot)) + 0.12
        self.figure = plot_style.new_figure(width, self.height)
        self.text(0.03, 0.05 + LINE_HEIGHT / 2, study.heading + (f": {about}" if about else ""),
                  size=TITLE_SIZE, weight="bold")  # fmt: skip
        for index, line in enumerate(heading):
            self.text(0.03, 0.05 + (index + 1.5) * LINE_HEIGHT, line, DARK_GREY)
        for index, line in enumerate(lines):
            self.text(0.03, first + (index + 0.5) * LINE_HEIGHT, line, DARK_GREY)
        for index, line in enumerate(foot):
            self.text(0.03, self.height - 0.03 - (len(foot) - index - 0.5) * LINE_HEIGHT, line, MID_GREY)
        self.panels, self.labels = [], []
        rooms = [[_label_width(labels) for _, _, labels in row] for row in rows]
        if len({len(row) for row in rows}) == 1:  # columns are aligned
            rooms = [[max(column) for column in zip(*rooms)]] * len(rows)
        for index, row in enumerate(rows):
            self._place(row, tops[index] + TITLE_ROOM, rooms[index])

    def _place(self, panels, top, after):
        before = [INNER if shared else LEFT for _, shared, _ in panels]
        free = self.width - sum(before) - sum(after) - RIGHT
        shares = sum(share for share, _, _ in panels)
        x = 0
        for (share, shared, labels), left, label in zip(panels, before, after):
            axes_width = free * share / shares
            x += left
            axes = self.figure.add_axes(
                (x / self.width, 1 - (top + self.axes_height) / self.height, axes_width / self.width,
                 self.axes_height / self.height)
            )  # fmt: skip
            axes.grid(True, which="major", color="#ebebeb", linewidth=0.4)
            axes.set_axisbelow(True)
            if shared:
                axes.tick_params(labelleft=False, left=False)
            self.panels.append(axes)
            self.labels.append((labels, top))
            x += axes_width + label

    def text(self, x, y, text, color="black", size=TEXT_SIZE, weight="normal"):
        self.figure.text(
            x / self.width, 1 - y / self.height, text, color=color, fontsize=size, fontweight=weight,
            va="center_baseline",
        )  # fmt: skip

    def line(self, xs, ys, **options):
        self.figure.add_artist(
            matplotlib.lines.Line2D(
                [x / self.width for x in xs], [1 - y / self.height for y in ys], **{"linewidth": 1.1, **options}
            )
        )

    def inches(self, axes, x, y):
        box = axes.get_position()
        across, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
        up = min(max(up, 0), 1)
        return (box.x0 + across * box.width) * self.width, (1 - box.y0 - up * box.height) * self.height

    def finish(self):
        """Draws the labels, once limits and scales are final."""
        for axes, (labels, top) in zip(self.panels, self.labels):
            bottom = top + self.axes_height
            ends = [self.inches(axes, *place) if place else None for _, _, place in labels]
            low = bottom - LINE_HEIGHT * ends.count(None)
            wanted = []
            for end in ends:
                wanted.append(end[1] if end else low + LINE_HEIGHT / 2)
                low += 0 if end else LINE_HEIGHT
            centres = plot_style.spread(wanted, [LINE_HEIGHT] * len(labels), top, bottom)
            start = axes.get_position().x1 * self.width + KEY_GAP
            for (words, style, _), end, centre in zip(labels, ends, centres):
                middle = start + (KEY_WIDTH - 0.05) / 2
                if end:
                    self.line([end[0] + 0.03, start - 0.02], [end[1], centre], color=style.color, linewidth=0.4,
                              linestyle=(0, (1, 2)), zorder=0.5)  # fmt: skip
                self.line([start, middle, start + KEY_WIDTH - 0.05], [centre] * 3, color=style.color,
                          linestyle=style.dashes, marker=style.marker, markevery=[1], **marker(style))  # fmt: skip
                self.text(start + KEY_WIDTH, centre, words, DARK_GREY)
        return self.figure


def marker(style):
    """Crosses have no face: their edge is their colour."""
    if style.marker in ("x", "+"):
        return {"markersize": 4, "markeredgecolor": style.color, "markeredgewidth": 0.8}
    return MARKER


def _label_width(labels):
    widths = [plot_style.text_width(words) for words, _, _ in labels]
    return KEY_GAP + KEY_WIDTH + max(widths) + 0.04 if widths else 0


def pretty(text):
    for plain_text, pretty in (("|A - A^|_1", "|A − Â|₁"), ("|^2", "|²"), ("R^2", "R²"), ("R^(-1/2)", "R^(−1/2)")):
        text = text.replace(plain_text, pretty)
    return text


def title(axes, text):
    axes.set_title(text, fontsize=TEXT_SIZE, loc="left", color=DARK_GREY, pad=3)


def plain(axis):
    """Ticks written as plain numbers: 4, 16, 0.1."""
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−")))
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def fixed(axis, ticks):
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    plain(axis)


def powers(axis, values, most=6):
    """A logarithmic axis with ticks at some of the values themselves."""
    values = sorted(set(values))
    fixed(axis, values[:: max(1, math.ceil(len(values) / most))])


def counts(axis, values):
    """A logarithmic axis with ticks at the values: 1024 is 1Ki."""
    powers(axis, values)
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: plot_style.format_count(value)))


def _power_of_ten(value):
    digits = str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{digits}"


def tens(axis, low, high, most=6):
    """A logarithmic axis with ticks at powers of ten, or at 1, 2, 5 where there are few."""
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


def end_of(rows, x, y):
    """Where the label of a line belongs: its last finite point."""
    there = [row for row in rows if math.isfinite(row[y])]
    return (there[-1][x], there[-1][y]) if there else None
