"""How every study is drawn: a function for each, which places panels on a page with title, verdicts and footer.

Distances are inches. Lines are told apart by colour, dashes and marker together; labels stand in a key under the
panels. Dashed grey lines are theory, from the file.
"""

import math

import matplotlib.lines
import matplotlib.ticker

import plot_style
from plot_style import BLACK, DARK_GREY, LIGHT_GREY, LINE_HEIGHT, MID_GREY, PAGE_WIDTH, TEXT_SIZE, TITLE_SIZE

LEFT, GAP, RIGHT = 0.55, 0.62, 0.1  # before the first panel, between panels, after the last
HEIGHT = 2.0
X_AXIS = 0.38
STYLES = tuple(
    plot_style.Style(color, dashes, marker)
    for color, dashes, marker in zip(
        (plot_style.BLUE, plot_style.VERMILLION, plot_style.GREEN, plot_style.PURPLE, plot_style.ORANGE,
         plot_style.SKY, BLACK),
        plot_style.DASHES,
        plot_style.MARKERS,
    )
)  # fmt: skip
# One map looks the same in every study.
MAPS = {"prf": STYLES[0], "orf": STYLES[2], "sphere": STYLES[3], "prf_hyperbolic": STYLES[4], "trf": STYLES[1],
        "elu1": STYLES[6]}  # fmt: skip
MAP_NAMES = {"prf": "PRF", "orf": "ORF", "sphere": "Sphere-PRF", "prf_hyperbolic": "hyperbolic PRF", "trf": "TRF",
             "elu1": "elu + 1"}  # fmt: skip


class Page:
    """Panels side by side, a key under them, then the verdicts and the footer."""

    def __init__(self, study, footer, panels, key=(), width=PAGE_WIDTH, height=HEIGHT, widths=None):
        verdicts = []
        for verdict in study.content["verdicts"]:
            verdicts += plot_style.wrap(f"{verdict['claim']}: {verdict['verdict']}. {verdict['numbers']}", width - 0.06)
        heading = plot_style.wrap(study.content["purpose"], width - 0.06)
        foot = plot_style.wrap(footer, width - 0.06)
        top = 0.05 + LINE_HEIGHT * (1 + len(heading)) + 0.26
        placed = _place_key(key, width)
        key_height = LINE_HEIGHT * 1.2 * (1 + placed[-1][1] if placed else 0)
        total = top + height + X_AXIS + key_height + LINE_HEIGHT * (len(verdicts) + len(foot)) + 0.2
        self.width, self.height = width, total
        self.figure = plot_style.new_figure(width, total)
        self.text(0.03, 0.05 + LINE_HEIGHT / 2, study.name.replace("_", " "), size=TITLE_SIZE, weight="bold")
        label = f"({study.content['source']})"
        name_width = plot_style.text_width(study.name.replace("_", " "), TITLE_SIZE, "bold")
        self.text(0.03 + name_width + 0.08, 0.05 + LINE_HEIGHT / 2, label, MID_GREY)
        for index, line in enumerate(heading):
            self.text(0.03, 0.05 + (index + 1.5) * LINE_HEIGHT, line, DARK_GREY)
        self.key_top = top + height + X_AXIS
        first = self.key_top + key_height + 0.08
        for index, line in enumerate(verdicts):
            self.text(0.03, first + (index + 0.5) * LINE_HEIGHT, line, DARK_GREY)
        for index, line in enumerate(foot):
            self.text(0.03, total - 0.03 - (len(foot) - index - 0.5) * LINE_HEIGHT, line, MID_GREY)
        shares = widths or [1] * panels
        free = width - LEFT - RIGHT - GAP * (panels - 1)
        self.panels, x = [], LEFT
        for share in shares:
            axes_width = free * share / sum(shares)
            bottom = 1 - (top + height) / total
            self.panels.append(
                self.figure.add_axes((x / width, bottom, axes_width / width, height / total))
            )
            x += axes_width + GAP
        self._draw_key(placed)

    def text(self, x, y, text, color="black", size=TEXT_SIZE, weight="normal"):
        self.figure.text(
            x / self.width, 1 - y / self.height, text, color=color, fontsize=size, fontweight=weight,
            va="center_baseline",
        )  # fmt: skip

    def _draw_key(self, placed):
        for x, row, label, (color, dashes, marker) in placed:
            y = self.key_top + (row + 0.6) * LINE_HEIGHT * 1.2
            line = matplotlib.lines.Line2D(
                [x / self.width, (x + 0.15) / self.width, (x + 0.3) / self.width],
                [1 - y / self.height] * 3, color=color, linestyle=dashes, linewidth=1.1, marker=marker,
                markevery=[1], markersize=3.6, markeredgecolor=color if marker == "x" else "white",
                markeredgewidth=0.7 if marker == "x" else 0.3,
            )  # fmt: skip
            self.figure.add_artist(line)
            self.text(x + 0.36, y, label)


def _place_key(entries, width):
    """(x, row, label, style) for each (label, style), in rows from the left. style: (color, dashes, marker or None)."""
    placed, x, row = [], LEFT, 0
    for label, style in entries:
        length = 0.36 + plot_style.text_width(label)
        if x + length > width - RIGHT and x > LEFT:
            x, row = LEFT, row + 1
        placed.append((x, row, label, style))
        x += length + 0.22
    return placed


def title(axes, text):
    axes.set_title(text, fontsize=TEXT_SIZE, loc="left", color=DARK_GREY, pad=3)


def plain(axis):
    """Ticks written as plain numbers: 4, 16, 0.1."""
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def powers(axis, values):
    """A logarithmic axis with ticks at some of the values themselves."""
    values = sorted(set(values))
    step = max(1, math.ceil(len(values) / 6))
    axis.set_major_locator(matplotlib.ticker.FixedLocator(values[::step]))
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def tens(axis, low, high, most=6):
    """A logarithmic axis with ticks at powers of ten, or at 1, 2, 5 where there are few."""
    ticks = plot_style.decimal_ticks(low, high, most)
    axis.set_major_locator(matplotlib.ticker.FixedLocator(ticks))
    short = low >= 1e-3 and high < 1e5
    axis.set_major_formatter(
        matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}" if short else plot_style.format_error(value))
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
    axes.plot(
        xs, ys, color=style[0], linestyle=style[1], marker=style[2], markeredgecolor="white", markeredgewidth=0.3,
        markersize=3.6, **options,
    )  # fmt: skip
    if band:
        axes.fill_between(xs, band[0], band[1], color=style[0], alpha=0.15, linewidth=0)


def guide(axes, xs, ys, label=None, at=-1, **place):
    axes.plot(xs, ys, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=1)
    if label:
        options = {"xytext": (0, 3), "ha": "right", "va": "bottom", **place}
        axes.annotate(label, (xs[at], ys[at]), textcoords="offset points", color=MID_GREY, fontsize=TEXT_SIZE, **options)


def column(rows, name):
    return [row[name] for row in rows]


def draw_prf_variance(study, footer):
    table = study.table("variance", "cosine", "sum_square", "m", "variance_ratio", "batch_median", "judged", "low")
    cosines = table.values("cosine")
    features = table.values("m")
    key = [(f"m = {m:g}", (STYLES[i].color, "none", STYLES[i].marker)) for i, m in enumerate(features)]
    key += [("open: too few draws to judge, median of batches", ("white", "none", None))]
    page = Page(study, footer, len(cosines), key)
    ratios = [row["batch_median"] for row in table.rows] + [row["variance_ratio"] for row in table.rows]
    for axes, cosine in zip(page.panels, cosines):
        for index, m in enumerate(features):
            rows = table.where(cosine=cosine, m=m)
            xs = [row["sum_square"] * 1.04 ** (index - 1.5) for row in rows]
            judged = [(x, row) for x, row in zip(xs, rows) if row["judged"]]
            others = [(x, row) for x, row in zip(xs, rows) if not row["judged"]]
            style = STYLES[index]
            axes.errorbar(
                [x for x, _ in judged], [row["variance_ratio"] for _, row in judged],
                yerr=[[row["variance_ratio"] - row["low"] for _, row in judged],
                      [row["high"] - row["variance_ratio"] for _, row in judged]],
                fmt=style.marker, color=style.color, markersize=3, linewidth=0.9, capsize=1.2,
            )  # fmt: skip
            axes.plot(
                [x for x, _ in others], [row["batch_median"] for _, row in others], style.marker, color="white",
                markeredgecolor=style.color, markeredgewidth=0.8, markersize=3,
            )  # fmt: skip
        axes.axhline(1, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=0)
        axes.set_xscale("log")
        xs = [value for value in table.values("sum_square")]
        tens(axes.xaxis, min(xs) / 1.2, max(xs) * 1.2)
        axes.set_xlabel("|x + y|²")
        log_y(axes, ratios, 7)
        title(axes, f"angle with cosine {cosine:g}")
    page.panels[0].set_ylabel("sample variance / lemma 2")
    return page.figure


def draw_approximation_error(study, footer):
    table = study.table("error", "R", "m", "mean", "low", "high")
    known = study.table("known", "R", "m", "known_mean", "deviation")
    radii = table.values("R")
    key = [(f"R = {radius:g}", STYLES[i]) for i, radius in enumerate(radii)]
    key += [("another program's means", (BLACK, "none", "x"))]
    page = Page(study, footer, 2, key, widths=[1.25, 1])
    left, right = page.panels
    for index, radius in enumerate(radii):
        rows = table.where(R=radius)
        curve(left, column(rows, "m"), column(rows, "mean"), STYLES[index], (column(rows, "low"), column(rows, "high")))
        marks = known.where(R=radius)
        left.plot(column(marks, "m"), column(marks, "known_mean"), "x", color=BLACK, markersize=4.5, zorder=5,
                  markeredgewidth=0.7)  # fmt: skip
        first = rows[0]["mean"]
        curve(right, column(rows, "m"), [row["mean"] / first for row in rows], STYLES[index])
    for axes in page.panels:
        axes.set_xscale("log")
        powers(axes.xaxis, table.values("m"))
        axes.set_xlabel("features m")
    left.set_ylabel("|A − Â|₁")
    left.set_ylim(0, 2.05)
    title(left, "mean, and where eight of ten draws lie")
    values = [row["mean"] / table.where(R=row["R"])[0]["mean"] for row in table.rows]
    ms = table.values("m")
    guide(right, ms, [(m / ms[0]) ** -0.5 for m in ms], "m^(−1/2)", at=len(ms) // 2, xytext=(-4, -8), va="top")
    log_y(right, values)
    right.set_ylabel("mean / mean at the smallest m")
    title(right, "what more features leave of the error")
    return page.figure


def draw_sample_complexity(study, footer):
    table = study.table("smallest", "R", "n", "epsilon", "m", "low", "high", "bound")
    epsilons = table.values("epsilon")
    sizes = table.values("n")
    key = [(f"n = {n:g}", STYLES[i]) for i, n in enumerate(sizes)]
    key += [("dotted: bound of theorem 3, 16 n exp(4R²) / (ε²δ); bands: 95 % intervals", (MID_GREY, plot_style.DOTTED, None))]
    page = Page(study, footer, len(epsilons), key)
    every = [row[name] for row in table.rows for name in ("m", "bound")]
    for axes, epsilon in zip(page.panels, epsilons):
        for index, n in enumerate(sizes):
            rows = table.where(epsilon=epsilon, n=n)
            xs = [row["R"] ** 2 for row in rows]
            curve(axes, xs, column(rows, "m"), STYLES[index], (column(rows, "low"), column(rows, "high")))
            axes.plot(xs, column(rows, "bound"), color=STYLES[index].color, linestyle=plot_style.DOTTED, linewidth=0.9)
        axes.set_xlabel("R²")
        log_y(axes, every, 8)
        plain(axes.xaxis)
        title(axes, f"ε = {epsilon:g}, δ = {table.rows[0]['delta']:g}")
    page.panels[0].set_ylabel("features m")
    return page.figure


def _map_panels(study, footer, band):
    table = study.table("error", "normalised", "rpe", "map", "f", "median", "low", "high")
    kinds = table.values("map")
    key = [(MAP_NAMES[kind], MAPS[kind]) for kind in kinds]
    key += [("2: the largest that positive weights allow", (LIGHT_GREY, plot_style.SOLID, None))]
    page = Page(study, footer, 4, key)
    values = [row["median"] for row in table.rows]
    settings = [(False, False, "standard"), (False, True, "standard, RPE"), (True, False, "normalised"),
                (True, True, "normalised, RPE")]  # fmt: skip
    for axes, (normalised, rpe, words) in zip(page.panels, settings):
        for kind in kinds:
            rows = table.where(normalised=normalised, rpe=rpe, map=kind)
            curve(axes, column(rows, "f"), column(rows, "median"), MAPS[kind],
                  (column(rows, "low"), column(rows, "high")) if band else None)  # fmt: skip
        axes.axhline(2, color=LIGHT_GREY, linewidth=0.7, zorder=0)
        axes.set_xscale("log")
        powers(axes.xaxis, table.values("f"))
        axes.set_xlabel("features f")
        log_y(axes, values)
        title(axes, words)
    page.panels[0].set_ylabel("|A − Â|₁")
    return page.figure


def draw_feature_maps(study, footer):
    return _map_panels(study, footer, True)


def draw_conversion(study, footer):
    return _map_panels(study, footer, True)


def draw_rpe_rank(study, footer):
    spectrum = study.table("spectrum", "bias", "index", "value")
    edge = study.table("edge", "d", "n", "residual")
    fits = study.table("fits", "bias", "d", "map_error")
    kinds, widths = spectrum.values("bias"), edge.values("d")
    width_styles = [STYLES[(len(kinds) + index) % len(STYLES)] for index in range(len(widths))]
    key = [(f"{kind} bias", STYLES[i]) for i, kind in enumerate(kinds)]
    key += [(f"d = {width:g}", width_styles[i]) for i, width in enumerate(widths)]
    page = Page(study, footer, 3, key)
    left, middle, right = page.panels
    floor = 1e-17
    for index, kind in enumerate(kinds):
        rows = spectrum.where(bias=kind)
        left.plot(column(rows, "index"), [max(row["value"], floor) for row in rows], color=STYLES[index].color,
                  linestyle=STYLES[index].dashes)  # fmt: skip
        rows = fits.where(bias=kind)
        curve(right, column(rows, "d"), [max(row["map_error"], floor) for row in rows], STYLES[index])
    left.set_xlabel("index")
    log_y(left, [max(row["value"], floor) for row in spectrum.rows], 7)
    left.set_ylabel("singular value / largest")
    title(left, "spectrum of the bias matrix")
    for index, width in enumerate(widths):
        rows = edge.where(d=width)
        style = width_styles[index]
        curve(middle, [row["n"] - row["d"] for row in rows], [max(row["residual"], floor) for row in rows], style)
    middle.axvline(1.5, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9)
    log_y(middle, [max(row["residual"], floor) for row in edge.rows], 7)
    middle.set_xlabel("n − d")
    middle.set_ylabel("what the best logits leave")
    title(middle, "random bias, around n = d + 1")
    right.set_xscale("log")
    powers(right.xaxis, fits.values("d"))
    right.set_xlabel("width d")
    log_y(right, [max(row["map_error"], floor) for row in fits.rows], 7)
    right.set_ylabel("mean |A − Â|₁")
    title(right, "best fitted attention map")
    return page.figure


def draw_precision(study, footer):
    table = study.table("error", "operator", "implementation", "case", "n", "range", "relative_error")
    leaks = study.table("leak", "operator", "implementation", "scalar", "future", "leak")
    operators = table.values("operator")
    columns = ["random", "decaying", "dropping"]
    largest = max(table.values("n"))
    names = list(dict.fromkeys((row["operator"], row["implementation"]) for row in table.rows))
    styles = {}
    for index, (operator, implementation) in enumerate(names):
        base = plot_style.style_of(implementation)
        light = operator != operators[0]
        styles[operator, implementation] = (
            base.color, base.dashes if not light else plot_style.DOTTED, base.marker
        )  # fmt: skip
    key = [(f"{op} {name}", styles[op, name]) for op, name in names]
    page = Page(study, footer, 4, key)
    values = [row["relative_error"] for row in table.where(n=largest)]
    for axes, case in zip(page.panels, columns):
        for name in names:
            rows = table.where(operator=name[0], implementation=name[1], case=case, n=largest)
            curve(axes, column(rows, "range"), column(rows, "relative_error"), styles[name])
        axes.set_xlabel("range of the bias")
        plain(axes.xaxis)
        log_y(axes, values, 8)
        title(axes, {"random": "random bias", "decaying": "decaying bias", "dropping": "decaying, tokens drop"}[case])
    page.panels[0].set_ylabel(f"largest error / row, float32, n = {largest:g}")
    axes = page.panels[3]
    shown = [row for row in leaks.rows if row["leak"] > 0]
    for name in names:
        for scalar in leaks.values("scalar"):
            rows = [row for row in leaks.where(operator=name[0], implementation=name[1], scalar=scalar)
                    if row["leak"] > 0]  # fmt: skip
            if rows:
                curve(axes, column(rows, "future"), column(rows, "leak"), styles[name])
                if name == next(n for n in names if "fft" in n[1]):
                    axes.annotate(scalar, (rows[0]["future"], rows[0]["leak"]), textcoords="offset points",
                                  xytext=(2, 10), fontsize=TEXT_SIZE, color=DARK_GREY)  # fmt: skip
    axes.set_xscale("log")
    tens(axes.xaxis, min(leaks.values("future")), max(leaks.values("future")), 4)
    log_y(axes, column(shown, "leak"), 8)
    axes.set_xlabel("scale of the future")
    title(axes, "causal leak (others: none)")
    return page.figure


def draw_sinusoidal(study, footer):
    matrix = study.table("matrix", "position", "dimension", "value")
    dots = study.table("dots", "D", "offset", "dot")
    falling = study.table("falling", "D", "entries")
    widths = dots.values("D")
    key = [(f"D = {width:g}", (STYLES[i].color, STYLES[i].dashes, None)) for i, width in enumerate(widths)]
    page = Page(study, footer, 3, key)
    left, middle, right = page.panels
    _image(left, [(row["position"], row["dimension"], row["value"]) for row in matrix.rows], page)
    left.set_xlabel("dimension")
    left.set_ylabel("position")
    title(left, f"position matrix, D = {len(matrix.values('dimension'))}, −1 to 1")
    for index, width in enumerate(widths):
        rows = dots.where(D=width)
        middle.plot(column(rows, "offset"), column(rows, "dot"), color=STYLES[index].color,
                    linestyle=STYLES[index].dashes)  # fmt: skip
    middle.set_xlabel("offset")
    middle.set_ylabel("dot product / that at offset 0")
    middle.axvline(50, color=LIGHT_GREY, linewidth=0.7, zorder=0)
    title(middle, "dot products")
    right.plot(column(falling.rows, "D"), column(falling.rows, "entries"), ".", color=BLACK, markersize=1.5)
    right.axhline(51, color=LIGHT_GREY, linewidth=0.7, zorder=0)
    right.annotate("51", (0, 51), textcoords="offset points", xytext=(2, 2), color=MID_GREY, fontsize=TEXT_SIZE)
    right.set_xlabel("width D")
    right.set_ylabel("offsets from 0 over which they fall")
    right.set_ylim(0, None)
    title(right, "monotone part")
    return page.figure


def _image(axes, cells, page, bar=False):
    """cells: (row, column, value) of a whole rectangle. Diverging colours around zero."""
    rows, columns = 1 + max(cell[0] for cell in cells), 1 + max(cell[1] for cell in cells)
    values = [[0.0] * columns for _ in range(rows)]
    for row, place, value in cells:
        values[row][place] = value
    most = max(abs(cell[2]) for cell in cells)
    image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
    if bar:
        box = axes.get_position()
        place = page.figure.add_axes((box.x1 + 0.04 / page.width, box.y0, 0.07 / page.width, box.height))
        page.figure.colorbar(image, cax=place).outline.set_linewidth(0.5)
        place.tick_params(labelsize=TEXT_SIZE, width=0.5, length=2)
    return image


def draw_bias_maps(study, footer):
    offsets = study.table("offsets", "offset", "weight")
    pixels = study.table("pixels", "operator", "row", "column", "weight")
    page = Page(study, footer, 3, widths=[1.25, 1, 1])
    left = page.panels[0]
    left.plot(column(offsets.rows, "offset"), column(offsets.rows, "weight"), color=plot_style.BLUE, linewidth=0.8)
    left.axhline(0, color=LIGHT_GREY, linewidth=0.7, zorder=0)
    left.set_xlabel("offset, key minus query")
    left.set_ylabel("weight")
    title(left, "toeplitz_1d")
    parameters = study.content["parameters"]
    words = {"toeplitz_2d_xy": "toeplitz_2d_xy: rows + columns", "toeplitz_2d": "toeplitz_2d: full"}
    for axes, operator in zip(page.panels[1:], pixels.values("operator")):
        rows = pixels.where(operator=operator)
        _image(axes, [(row["row"], row["column"], row["weight"]) for row in rows], page, bar=True)
        axes.plot([parameters["column"]], [parameters["row"]], "+", color=BLACK, markersize=6)
        axes.set_xlabel("column")
        axes.set_ylabel("row")
        title(axes, words.get(operator, operator))
    return page.figure


def draw_spe_convergence(study, footer):
    table = study.table("error", "kind", "R", "median", "low", "high")
    slopes = study.table("slope", "kind", "slope", "low", "high")
    kinds = table.values("kind")
    key = []
    for index, kind in enumerate(kinds):
        slope = slopes.where(kind=kind)
        words = f": slope {slope[0]['slope']:.3f} ({slope[0]['low']:.3f} to {slope[0]['high']:.3f})" if slope else ""
        key.append((kind + words, STYLES[index]))
    key.append(("R^(−1/2)", (MID_GREY, plot_style.DOTTED, None)))
    page = Page(study, footer, 1, key, width=plot_style.COLUMN_WIDTH)
    axes = page.panels[0]
    for index, kind in enumerate(kinds):
        rows = table.where(kind=kind)
        curve(axes, column(rows, "R"), column(rows, "median"), STYLES[index], (column(rows, "low"), column(rows, "high")))
    first = table.rows[0]
    xs = table.values("R")
    guide(axes, xs, [0.75 * first["median"] * (x / xs[0]) ** -0.5 for x in xs])
    axes.set_xscale("log")
    powers(axes.xaxis, xs)
    log_y(axes, column(table.rows, "median"))
    axes.set_xlabel("draws R")
    axes.set_ylabel("error of the scores / scores")
    return page.figure


DRAWINGS = {
    "prf_variance": draw_prf_variance,
    "approximation_error": draw_approximation_error,
    "sample_complexity": draw_sample_complexity,
    "feature_maps": draw_feature_maps,
    "conversion": draw_conversion,
    "rpe_rank": draw_rpe_rank,
    "precision": draw_precision,
    "sinusoidal": draw_sinusoidal,
    "bias_maps": draw_bias_maps,
    "spe_convergence": draw_spe_convergence,
}


def draw(study, footer):
    """The matplotlib figure of a study_file.StudyFile."""
    return DRAWINGS[study.name](study, footer)
