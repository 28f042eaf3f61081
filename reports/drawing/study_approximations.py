"""Draws the study of approximations: error against time, one panel for each input, a line for each method."""

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing.plot_style import BLUE, GREEN, MID_GREY, ORANGE, PURPLE, SKY, VERMILLION, Style
from reports.drawing.study_page import column, curve, log_y, new_page, tens

METHODS = {
    "random features": Style(BLUE, plot_style.SOLID, "o"),
    "random projections": Style(SKY, plot_style.DASHED, "s"),
    "means": Style(SKY, plot_style.SOLID, "h"),
    "window": Style(GREEN, plot_style.SOLID, "v"),
    "strided": Style(GREEN, plot_style.DASHED, "^"),
    "BigBird": Style(GREEN, plot_style.DASH_DOT, "P"),
    "hashes": Style(PURPLE, plot_style.DASHED, "X"),
    "centroids": Style(PURPLE, plot_style.SOLID, "d"),
    "sorted blocks": Style(ORANGE, plot_style.SOLID, "D"),
    "landmarks": Style(VERMILLION, plot_style.SOLID, "p"),
}
# Baselines by their names in the table: methods that ignore the queries or the keys, and the weights 1 + q k without the
# negative ones, whose time is not measured.
NULLS = {
    "equal weights": ("equal weights", Style(MID_GREY, plot_style.DOTTED, None)),
    "own value": ("own value", Style(MID_GREY, plot_style.LONG, None)),
    "Taylor": ("1 + q k, none negative", Style(MID_GREY, plot_style.DASHED, None)),
}
EXACT = ("time of exact attention", Style(MID_GREY, plot_style.SOLID, None))


def draw_approximations(study):
    inputs = study.table("inputs", "input", "n", "d").rows
    errors = study.table("error", "input", "method", "level", "error")
    times = study.table("time", "input", "method", "level", "speedup")
    titles = [f"{row['input']}, n = {row['n']}, d = {row['d']}" for row in inputs]
    labels = [*METHODS.items(), *NULLS.values(), EXACT]
    page = new_page(
        study, [(1, index > 0, [] if index else labels) for index in range(len(inputs))], height=2.2, one_legend=True,
        words=titles,
        notes=["Error of the output and time over that of exact tiled attention, on one thread in float32, medians over heads; "
               "lower left is better. A line is a method from coarse to fine.",
               "Grey horizontal lines: weights that ignore the queries or the keys, and 1 + q k without the negative weights, which "
               "takes n² products as exact attention does and is no approximation to be used."],
    )  # fmt: skip
    ratios = [1 / row["speedup"] for row in times.rows]
    low, high = min(ratios) / 1.3, max(ratios) * 1.3
    for axes, name, title in zip(page.axes, [row["input"] for row in inputs], titles):
        for method, style in METHODS.items():
            mine = errors.where(input=name, method=method)
            ratio = {row["level"]: 1 / row["speedup"] for row in times.where(input=name, method=method)}
            curve(axes, [ratio[row["level"]] for row in mine], column(mine, "error"), style)
        for kind, (_, style) in NULLS.items():
            for row in errors.where(input=name, method=kind):
                axes.axhline(row["error"], color=style.color, linestyle=style.dashes, linewidth=0.9, zorder=1.5)
        axes.axvline(1, color=MID_GREY, linewidth=0.9, zorder=1)
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        tens(axes.xaxis, low, high / 1.2)  # a label at the end would touch the first of the next panel
        axes.set_xlabel("time / time of exact" + ("" if layout.narrow() else " attention"))
        log_y(axes, column(errors.rows, "error"))
        page.title(axes, title)
    page.axes[0].set_ylabel("|out − exact| / |exact|")
    return page.finish()


DRAWINGS = {"approximations": draw_approximations}
