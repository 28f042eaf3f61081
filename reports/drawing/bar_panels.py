"""Draws bars (one quantity of several implementations at one size, with intervals) and rows of ratios with intervals."""

import math

import matplotlib.ticker

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing.plot_style import DARK_GREY, MID_GREY

ROW = 0.17  # inches


def nearest(sizes, wanted):
    """Returns the measured size that is nearest to the wanted one, on a logarithmic scale."""
    return min(sorted(sizes), key=lambda n: abs(math.log(n / wanted)))


def common_size(content, wanted):
    """Returns the n at which all lines of (Panel, Group) pairs are compared."""
    shared = None
    for panel, group in content:
        for name in group.implementations():
            sizes = {row["n"] for row in group.rows if row["implementation"] == name and row[panel.y]}
            shared = sizes if shared is None else shared & sizes
    return nearest(shared, wanted) if shared else None


def draw(content, width, title, at):
    """content: (Panel, Group) pairs; bars at n = `at`, from the smallest of the first panel to the largest."""
    panel, group = content[0]
    values = {row["implementation"]: row[panel.y] for row in group.rows if row["n"] == at and row[panel.y]}
    names = sorted(values, key=values.get)
    room = max(plot_style.text_width(name) for name in names) + 0.1
    block = layout.Block(
        [layout.Cell(shared=index > 0) for index in range(len(content))], ROW * plot_style.scale() * len(names) + 0.1,
        titled=False, left=room, least=0.5,
    )  # fmt: skip
    panels = "; ".join(f"{layout.letters(index)} {panel.label}" for index, (panel, _) in enumerate(content))
    page = layout.Page([block], title, width, [f"At n = {plot_style.format_count(at)}: {panels}."])
    for axes, place, (panel, group) in zip(page.axes, page.panels, content):
        rows = {row["implementation"]: row for row in group.rows if row["n"] == at}
        for bar, name in enumerate(names):
            row = rows.get(name)
            if not row or not row[panel.y]:
                continue
            color = plot_style.shade(group.styles[name], 0, 1).color
            axes.barh(bar, row[panel.y], height=0.62, color=color, linewidth=0)
            if panel.low and row[panel.low] and row[panel.high]:
                axes.plot([row[panel.low], row[panel.high]], [bar, bar], color=DARK_GREY, linewidth=0.9)
        # The axis includes the intervals: one that is cut off would look precise.
        largest = max(
            row[column] for row in rows.values() for column in (panel.y, panel.high) if column and row[column]
        )
        axes.set_xlim(0, largest * 1.06)
        axes.grid(False, axis="y")
        if panel.ticks is plot_style.binary_ticks:
            step = 2.0 ** math.ceil(math.log2(largest / 4))
            axes.xaxis.set_major_locator(matplotlib.ticker.MultipleLocator(step))
        else:
            most = min(4, max(1, int(place.width / (0.45 * plot_style.scale()))))
            axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(most))
        axes.xaxis.set_major_formatter(
            matplotlib.ticker.FuncFormatter(lambda x, _, write=panel.tick_format: write(x) if x else "0")
        )
        words = f"{panel.label}, n = {plot_style.format_count(at)}"
        axes.set_xlabel(words if plot_style.text_width(words) < place.width else panel.label)
        _name_rows(axes, names)
    return page.finish()


def _name_rows(axes, names):
    axes.yaxis.set_major_locator(matplotlib.ticker.FixedLocator(range(len(names))))
    axes.yaxis.set_major_formatter(matplotlib.ticker.FixedFormatter(names))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _look(index):
    """Filled marks first, then hollow ones."""
    style = plot_style.SERIES[index % len(plot_style.SERIES)]
    return style._replace(hollow=index >= len(plot_style.SERIES))


def draw_ratios(rows, width, title, label, notes, even=False):
    """rows: (words, [(legend words, ratio, low, high, name of the baseline)]), the names at the right; a line at 1; `even`: not on a
    logarithmic axis. Returns the layout.Page."""
    names = list(dict.fromkeys(name for _, marks in rows for name, *_ in marks))
    looks = {name: _look(index) for index, name in enumerate(names)}
    labels = [layout.Label(name, looks[name]._replace(dashes="none")) for name in names] if len(names) > 1 else []
    room = max(plot_style.text_width(words) for words, _ in rows) + 0.1
    baselines = ["; ".join(filter(None, dict.fromkeys(name for *_, name in marks))) for _, marks in rows]
    after = max(map(plot_style.text_width, baselines))
    block = layout.Block(
        [layout.Cell(labels, after=after)], ROW * plot_style.scale() * len(rows) + 0.1, titled=False, left=room
    )
    page = layout.Page([block], title, width, notes)
    (axes,), ((left, top, across, height),) = page.axes, page.places
    for place, name in enumerate(baselines):
        page.text(left + across + 0.06, top + (place + 0.5) * height / len(rows), name, DARK_GREY)
    axes.axvline(1, color=MID_GREY, linewidth=0.8, zorder=1)
    values = [1.0]
    for place, (_, marks) in enumerate(rows):
        for name, ratio, low, high, _ in marks:
            style = looks[name]
            if low and high:
                axes.plot([low, high], [place, place], color=style.color, linewidth=0.9)
            axes.plot(
                [ratio], [place], linestyle="none", color=style.color, marker=style.marker, **layout.marker(style)
            )
            values += [value for value in (ratio, low, high) if value]
    low, high = min(values) / 1.15, max(values) * 1.15
    if even:
        low, high = min(values) - 0.1, max(values) + 0.1
    else:
        axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = (
        [step / 4 for step in range(math.ceil(4 * low), int(4 * high) + 1)]
        if even
        else plot_style.small_ticks(low, high, 8)
    )
    axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    axes.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda x, _: plot_style.format_times(x)))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_xlabel(label)
    _name_rows(axes, [words for words, _ in rows])
    return page.finish()
