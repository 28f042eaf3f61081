"""Studies that are drawn as matrices: which keys queries see, and products before and after a shift."""

import math

import matplotlib.ticker

from reports.drawing import plot_style
from reports.drawing.plot_style import BLUE, DARK_GREY, LIGHT_GREY, LINE_HEIGHT, MID_GREY, PAGE_WIDTH, TITLE_SIZE
from reports.drawing.study_page import verdict_lines

GAP, TITLE_ROOM, UNDER = 0.16, 0.2, 0.3  # between matrices; over and under one


def _page(study, footer, columns, rows, cell, notes):
    """(figure, axes row by row) for square matrices of `cell` inches, with the study's words around them."""
    width = PAGE_WIDTH
    lines = [line for note in notes for line in plot_style.wrap(note, width - 0.06)] + verdict_lines(study, width)
    heading = plot_style.wrap(f"{study.content['purpose']} ({study.content['source']})", width - 0.06)
    foot = plot_style.wrap(footer, width - 0.06)
    top = 0.05 + LINE_HEIGHT * (1 + len(heading))
    first = top + rows * (cell[1] + TITLE_ROOM + UNDER) + 0.06
    height = first + LINE_HEIGHT * (len(lines) + len(foot)) + 0.12
    figure = plot_style.new_figure(width, height)

    def text(x, y, words, color="black", size=plot_style.TEXT_SIZE, weight="normal"):
        figure.text(
            x / width, 1 - y / height, words, color=color, fontsize=size, fontweight=weight, va="center_baseline"
        )

    text(0.03, 0.05 + LINE_HEIGHT / 2, study.heading, size=TITLE_SIZE, weight="bold")
    for start, color, words in ((0.05 + LINE_HEIGHT, DARK_GREY, heading), (first, DARK_GREY, lines),
                                (height - 0.03 - len(foot) * LINE_HEIGHT, MID_GREY, foot)):  # fmt: skip
        for index, line in enumerate(words):
            text(0.03, start + (index + 0.5) * LINE_HEIGHT, line, color)
    axes = []
    for row in range(rows):
        for column in range(columns):
            x = 0.42 + column * (cell[0] + GAP)
            y = top + row * (cell[1] + TITLE_ROOM + UNDER) + TITLE_ROOM
            axes.append(figure.add_axes((x / width, 1 - (y + cell[1]) / height, cell[0] / width, cell[1] / height)))
    return figure, axes


def _frame(axes, title, height, width, labels):
    axes.set_title(title, fontsize=plot_style.TEXT_SIZE, loc="left", color=DARK_GREY, pad=3)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)  # queries from the top, as matrices are written
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(LIGHT_GREY)
    for axis, count, label in ((axes.xaxis, width, labels[0]), (axes.yaxis, height, labels[1])):
        axis.set_major_locator(matplotlib.ticker.FixedLocator([0, count - 1] if label else []))
        axis.set_minor_locator(matplotlib.ticker.NullLocator())
        if label:
            axis.set_label_text(label, fontsize=plot_style.TEXT_SIZE)
    axes.tick_params(length=2)
    axes.xaxis.labelpad = axes.yaxis.labelpad = -5


def draw_sparse_patterns(study, footer):
    seen = study.table("seen", "pattern", "query", "key")
    pairs = study.table("pairs", "pattern", "implementation", "pairs")
    n = study.content["parameters"]["n"]
    names = seen.values("pattern")
    columns = 4
    rows = math.ceil(len(names) / columns)
    side = (PAGE_WIDTH - 0.42 - 0.08 - GAP * (columns - 1)) / columns
    figure, axes = _page(study, footer, columns, rows, (side, side),
                         [f"Filled: the query (row) sees the key (column), of {n}. "
                          "After each name: the share of all pairs that are seen."])  # fmt: skip
    for index, one in enumerate(axes):
        if index >= len(names):
            one.set_visible(False)
            continue
        name = names[index]
        for row in seen.where(pattern=name):
            one.fill_between([row["key"] - 0.45, row["key"] + 0.45], row["query"] - 0.45, row["query"] + 0.45, color=BLUE,
                             linewidth=0, zorder=2)  # fmt: skip
        share = pairs.where(pattern=name)[0]["pairs"] / n**2
        bottom = index + columns >= len(names)
        _frame(
            one,
            f"{name}: {100 * share:.0f} %",
            n,
            n,
            ("key" if bottom else "", "query" if index % columns == 0 else ""),
        )
    return figure


def draw_shifted_scores(study, footer):
    cells = study.table("cells", "matrix", "row", "column", "value")
    names = cells.values("matrix")
    parameters = study.content["parameters"]
    length, width = parameters["L"], parameters["L"] + parameters["M"]
    across = (PAGE_WIDTH - 0.42 - 0.08 - GAP) / 2
    figure, axes = _page(study, footer, 2, 1, (across, across * length / width),
                         ["Left: every query with every distance, longest first; B takes what is right of the stairs. Right: each row is "
                          "shifted left by its query's distance from the last query, and cut where the future begins. "
                          f"L = {length} queries, a memory of M = {parameters['M']}; colours from blue (negative) to red, "
                          "the same in both."])  # fmt: skip
    values = [row["value"] for row in cells.rows if row["value"] == row["value"]]
    most = max(abs(value) for value in values)
    titles = {"B~": "B̃ = q Qᵀ", "B": "B: rows of B̃ shifted left"}
    for one, name in zip(axes, names):
        image = [[math.nan] * width for _ in range(length)]
        for row in cells.where(matrix=name):
            image[row["row"]][row["column"]] = row["value"]
        one.imshow(image, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        label = "distance from M + L − 1 to 0" if name == "B~" else "key"
        _frame(one, titles.get(name, name), length, width, (label, "query" if name == names[0] else ""))
    for query in range(length):
        start = length - 1 - query
        if start:
            axes[0].plot([start - 0.5] * 2, [query - 0.5, query + 0.5], color="black", linewidth=0.9)
            axes[0].plot([start - 1.5, start - 0.5], [query + 0.5] * 2, color="black", linewidth=0.9)
    if length > 1:
        axes[0].set_xticks([0, width - 1], [str(width - 1), "0"])
    return figure


DRAWINGS = {"sparse_patterns": draw_sparse_patterns, "shifted_scores": draw_shifted_scores}
