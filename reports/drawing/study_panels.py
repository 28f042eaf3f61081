"""Draws every study: one function for each, which places panels on a page (study_page.py).

Distances are inches. Lines are told apart by colour, dashes and marker together. Dotted lines are theory, from the file.
"""

import math

import matplotlib.ticker

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing import study_approximations
from reports.drawing import study_matrices
from reports.drawing.layout import letters
from reports.drawing.plot_style import BLACK, DARK_GREY, MID_GREY
from reports.drawing.study_models import draw_conversion, draw_embeddings, draw_feature_maps, model_parts
from reports.drawing.study_page import (
    MAP_NAMES, STYLES, THEORY, column, counts, curve, fixed, guide, log_y, marker, new_page, plain, powers, tens,
)  # fmt: skip


def draw_prf_variance(study):
    table = study.table("variance", "map", "spread", "m", "variance", "lemma", "variance_ratio", "judged", "low", "high",
                        "mean_ratio", "mean_low", "mean_high")  # fmt: skip
    maps, features = table.values("map"), table.values("m")
    styles = dict(zip(features, STYLES))
    labels = [(f"m = {m:g}", styles[m]) for m in features] + [("theory", THEORY)]
    page = new_page(
        study,
        [[(1, index > 0, labels if index == 0 else []) for index in range(len(maps))],
         [(1, index > 0, []) for index in range(len(maps))]],
        notes=[f"{letters(0, len(maps))} Sample variance; dotted: lemma 2, and the corresponding formulas of the other maps.",
               f"{letters(len(maps), len(maps))} Sample variance over theory, with the range that 95 % of samples have if "
               "theory holds (bars).",
               "The middle of the range lies below 1, as the estimate has a long tail.", "Every point has its own draws.",
               f"Open marks: cells whose range spans a factor of 1.5 or more; samples of that size cannot judge them, and they are "
               f"not in {letters(len(maps), len(maps))}."],
    )  # fmt: skip
    values = column(table.rows, "variance") + column(table.rows, "lemma")
    shown = [row for row in table.rows if row["judged"]]
    ratios = [row[name] for row in shown for name in ("variance_ratio", "low", "high")]
    for index, name in enumerate(maps):
        above, below = page.axes[index], page.axes[len(maps) + index]
        mine = sorted(table.where(map=name), key=lambda row: row["spread"])
        for place, m in enumerate(features):
            style = styles[m]
            rows = [row for row in mine if row["m"] == m]
            guide(above, column(rows, "spread"), column(rows, "lemma"))
            for judged, face in ((True, style.color), (False, "white")):
                some = [row for row in rows if row["judged"] is judged]
                above.plot(column(some, "spread"), column(some, "variance"), style.marker, color=style.color,
                           markerfacecolor=face, markeredgewidth=0.6, markersize=2.6)  # fmt: skip
            rows = [row for row in rows if row["judged"]]
            xs = [row["spread"] * 1.06 ** (place - (len(features) - 1) / 2) for row in rows]
            below.vlines(xs, column(rows, "low"), column(rows, "high"), color=style.color, linewidth=0.7)
            below.plot(xs, column(rows, "variance_ratio"), style.marker, color=style.color, markersize=2.6)
        spreads = column(mine, "spread")
        for axes in (above, below):
            axes.set_xscale("log")
            tens(axes.xaxis, spreads[0] / 1.3, spreads[-1] * 1.3)
        sign = "−" if name == "trf" else "+"
        below.set_xlabel(f"|x {sign} y|²")
        log_y(above, values)
        page.title(above, MAP_NAMES[name])
        below.axhline(1, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=1)
        below.set_ylim(min(ratios) - 0.02, max(ratios) + 0.02)
        plain(below.yaxis)
    page.axes[0].set_ylabel("variance / exp(x·y)²")
    page.axes[len(maps)].set_ylabel("sample variance / theory")
    return page.finish()


def draw_approximation_error(study):
    table = study.table("error", "R", "m", "mean", "low", "high", "uniform")
    known = study.table("known", "R", "m", "known_mean", "deviation")
    radii, features = table.values("R"), table.values("m")
    styles = dict(zip(radii, STYLES))
    firsts = {radius: table.where(R=radius)[0]["mean"] for radius in radii}
    cross = plot_style.Style(BLACK, "none", "x")
    labels = [(f"R = {radius:g}", styles[radius]) for radius in radii]
    root = [(m / features[0]) ** -0.5 for m in features]
    equal = plot_style.Style(BLACK, "none", "<")
    labels += [("equal weights", equal), ("independent program", cross), ("m^(−1/2)", THEORY)]
    page = new_page(study, [(1, False, labels), (1, False, [])],
                    notes=["(a) Mean over the draws and their middle 80 %; crosses: the means of an independent program; triangles at the right: "
                           "equal weights, which need no feature, in the colour of R.",
                           "(b) The error relative to that at the smallest m; dotted: m^(−1/2)."])  # fmt: skip
    left, right = page.axes
    aside = features[-1] * 2
    for radius in radii:
        rows = table.where(R=radius)
        curve(left, column(rows, "m"), column(rows, "mean"), styles[radius],
              (column(rows, "low"), column(rows, "high")))  # fmt: skip
        left.plot([aside], [rows[0]["uniform"]], "<", color=styles[radius].color, markersize=4)
        marks = known.where(R=radius)
        left.plot(column(marks, "m"), column(marks, "known_mean"), color=BLACK, linestyle="none", marker="x", zorder=5,
                  **marker(cross))  # fmt: skip
        curve(right, column(rows, "m"), [row["mean"] / firsts[radius] for row in rows], styles[radius])
    for axes in page.axes:
        axes.set_xscale("log")
        powers(axes.xaxis, features)
        axes.set_xlabel("features m")
    left.set_ylabel("|A − Â|₁")
    log_y(left, [row[name] for row in table.rows for name in ("low", "mean", "uniform")] + [2])
    page.title(left, "error of a row (at most 2)")
    guide(right, features, root)
    log_y(right, [row["mean"] / firsts[row["R"]] for row in table.rows] + root)
    right.set_ylabel("mean / mean at the smallest m")
    page.title(right, "error left with more features")
    return page.finish()


def draw_baselines(study):
    against = study.table("against", "d", "R", "m", "map", "ratio")
    baseline = study.table("baseline", "d", "R", "map", "mean")
    widths, radii, features = against.values("d"), against.values("R"), against.values("m")
    styles = dict(zip(radii, STYLES))
    labels = [(f"R = {radius:g}", styles[radius]) for radius in radii]
    labels += [("d + 1 Taylor features", plot_style.Style(BLACK, "none", "x")), ("equal weights", THEORY)]
    page = new_page(
        study, [(1, index > 0, labels if index == len(widths) - 1 else []) for index in range(len(widths))],
        notes=["Lines: m positive random features, mean error over that of equal weights.",
               "Crosses at the right: the d + 1 Taylor features (1, x) for the same R, in the same colour."],
    )  # fmt: skip
    ratios, aside = [], features[-1] * 2
    for axes, width in zip(page.axes, widths):
        for radius in radii:
            rows = against.where(d=width, R=radius, map="uniform")
            curve(axes, column(rows, "m"), column(rows, "ratio"), styles[radius])
            means = {row["map"]: row["mean"] for row in baseline.where(d=width, R=radius)}
            taylor = means["taylor1"] / means["uniform"]
            axes.plot([aside], [taylor], "x", color=styles[radius].color, markersize=4)
            ratios += [*column(rows, "ratio"), taylor]
        guide(axes, [features[0], aside], [1, 1])
        axes.set_xscale("log")
        powers(axes.xaxis, features)
        axes.set_xlabel("random features m")
        page.title(axes, f"d = {width:g}")
    for axes in page.axes:
        log_y(axes, ratios)
    page.axes[0].set_ylabel("error / error of equal weights")
    return page.finish()


def draw_spectra(study):
    table = study.table("rank", "model", "rows", "rank_90", "rank_99", "drawn_90", "drawn_99")
    models, rows = table.values("model"), table.rows[0]["rows"]
    styles = dict(zip(models, STYLES))
    eighth = plot_style.Style(DARK_GREY, plot_style.LONG, None)
    labels = [(model, plot_style.Style(styles[model].color, "none", styles[model].marker)) for model in models]
    labels += [("as drawn rows", THEORY), ("an eighth of the keys", eighth)]
    page = new_page(
        study, [(1, False, labels), (1, True, [])],
        notes=[f"One point per head, {rows:g} keys: number of singular values with (a) 90 %, (b) 99 % of the sum of all "
               "squares, against random queries and keys of the same lengths."],
    )  # fmt: skip
    ends = [1, rows]
    for axes, share in zip(page.axes, (90, 99)):
        for model in models:
            heads = table.where(model=model)
            axes.plot(column(heads, f"drawn_{share}"), column(heads, f"rank_{share}"), color=styles[model].color,
                      linestyle="none", marker=styles[model].marker, markersize=2.8)  # fmt: skip
        guide(axes, ends, ends)
        axes.axhline(rows / 8, color=eighth.color, linestyle=eighth.dashes, linewidth=0.7, zorder=1)
        axes.set_xscale("log")
        tens(axes.xaxis, *ends)
        axes.set_xlabel("count, drawn rows")
        page.title(axes, f"{share} % of the squares")
    for axes in page.axes:
        log_y(axes, ends)
    page.axes[0].set_ylabel("count, the head's own")
    return page.finish()


def draw_margins(study):
    """Lines join sizes at which every operator is measured: a minimum over fewer operators is another quantity."""
    table = study.table("margin", "operator", "n", "rule", "margin", "taken", "wrong_answers")
    rules, sizes = table.values("rule"), sorted(table.values("n"))
    counted = {n: len({row["operator"] for row in table.where(n=n)}) for n in sizes}
    most = max(counted.values())
    partial = [n for n in sizes if counted[n] < most]
    styles = dict(zip(rules, STYLES))
    labels = [
        ("this program's gates" if rule == "gates" else rule.replace("e-0", "e-"), styles[rule]) for rule in rules
    ]
    labels.append(("gates, each operator", plot_style.Style(styles["gates"].color, "none", ".")))
    gates = table.where(rule="gates")
    notes = ["(a) Error of the nearest wrong answer divided by the tolerance of the rule, for the operator where it is smallest "
             "(lines), and for every operator by the gates (dots).",
             f"(b) The share of all wrong answers that a rule accepts; of {sum(column(gates, 'wrong_answers')):g} the gates accept "
             f"{sum(column(gates, 'taken')):g}.", "Below 1 (long dashes) a wrong answer is accepted."]  # fmt: skip
    if partial:
        labels.append(("not all operators", plot_style.Style(BLACK, "none", "o", hollow=True)))
        write = plot_style.counts_format(partial)
        fewer = ", ".join(f"{counted[n]} at n = {write(n)}" for n in partial)
        notes.append(
            f"Open marks: not all {most} operators, but {fewer}, as the definitions of the others take too long there."
        )
    page = new_page(study, [(1, False, labels), (1, False, [])], notes=notes)
    left, right = page.axes
    for rule in reversed(rules):  # the gates are over lines that are at 0 as well
        smallest, share = {}, {}
        for n in sizes:
            rows = table.where(rule=rule, n=n)
            smallest[n] = min(column(rows, "margin"))
            share[n] = 100 * sum(column(rows, "taken")) / sum(column(rows, "wrong_answers"))
        for axes, values in ((left, smallest), (right, share)):
            whole = [n for n in sizes if n not in partial]
            curve(axes, whole, [values[n] for n in whole], styles[rule])
            curve(axes, partial, [values[n] for n in partial], styles[rule]._replace(dashes="none", hollow=True))
    left.plot(column(gates, "n"), column(gates, "margin"), ".", color=styles["gates"].color, markersize=2, alpha=0.6)
    left.axhline(1, color=DARK_GREY, linestyle=plot_style.LONG, linewidth=0.7, zorder=1)
    log_y(left, column(table.rows, "margin"))
    left.set_ylabel("margin in tolerances")
    right.set_ylabel("wrong answers taken, %")
    right.set_ylim(bottom=-0.03 * right.get_ylim()[1])  # lines at 0 are not on the edge
    for axes in (left, right):
        axes.set_xscale("log")
        counts(axes.xaxis, sizes)
        axes.set_xlabel("tokens or pixels n")
    return page.finish()


def draw_sample_complexity(study):
    table = study.table("smallest", "R", "n", "epsilon", "m", "low", "high", "bound", "delta")
    epsilons, sizes = table.values("epsilon"), table.values("n")
    styles = dict(zip(sizes, STYLES))
    bounds = {n: plot_style.Style(styles[n].color, dashes, None)
              for n, dashes in zip(sizes, (plot_style.DOTTED, plot_style.DASH_DOT, plot_style.DASH_DOT_DOT) * len(sizes))}  # fmt: skip
    labels = [(f"needed, n = {n:g}", styles[n]) for n in sizes]
    labels += [(f"bound, n = {n:g}", bounds[n]) for n in sizes]
    panels = [(1, index > 0, labels if index == len(epsilons) - 1 else []) for index in range(len(epsilons))]
    page = new_page(
        study,
        panels,
        notes=[
            f"d = {study.content['parameters']['d']:g}. Points: the smallest m that sufficed, with 90 % intervals; m is at least 1.",
            "Lines without marks: the bound of theorem 3, 16 n exp(4R²) / (ε²δ).",
        ],
    )
    every = [row[name] for row in table.rows for name in ("m", "bound")]
    for axes, epsilon in zip(page.axes, epsilons):
        for n in sizes:
            rows = table.where(epsilon=epsilon, n=n)
            xs = [row["R"] ** 2 for row in rows]
            curve(axes, xs, column(rows, "m"), styles[n], (column(rows, "low"), column(rows, "high")))
            axes.plot(xs, column(rows, "bound"), color=styles[n].color, linestyle=bounds[n].dashes, linewidth=0.9)
        axes.set_xlabel("R²")
        log_y(axes, every, 8)
        plain(axes.xaxis)
        page.title(axes, f"ε = {epsilon:g}, δ = {table.rows[0]['delta']:g}")
    page.axes[0].set_ylabel("features m")
    return page.finish()


FLOOR_SHOWN = 1e-10  # errors that are rounding are said in words, not drawn


def draw_rpe_rank(study):
    """The edge at n = d + 1 is a step over all digits there are: it is said in words."""
    spectrum = study.table("spectrum", "bias", "index", "value")
    kinds_table = study.table("kinds", "bias", "meaning", "rank")
    fits = study.table("fits", "bias", "d", "map_error")
    kinds = spectrum.values("bias")
    styles = dict(zip(kinds, STYLES))
    floor = 1e-17
    below = [kind for kind in kinds if all(row["map_error"] < FLOOR_SHOWN for row in fits.where(bias=kind))]
    most = max((row["map_error"] for kind in below for row in fits.where(bias=kind)), default=0.0)
    under = [f"Below the axis of (b) and not shown: {', '.join(below)} (at most {most:.1g})."] if below else []

    def above(rows, name):
        return [max(row[name], floor) for row in rows]

    labels = [(kind, styles[kind]) for kind in kinds]
    meanings = "; ".join(f"{row['bias']}: {row['meaning']}" for row in kinds_table.rows)
    page = new_page(study, [(1, False, labels), (1, False, [])], one_legend=True,
                    notes=["(a) Spectrum of each bias; (b) error of the best fitted attention.", _edge(study), *under,
                           f"Bias by offset j − i: {meanings}."])  # fmt: skip
    left, right = page.axes
    for kind in kinds:
        rows = spectrum.where(bias=kind)
        left.plot(column(rows, "index"), above(rows, "value"), color=styles[kind].color, linestyle=styles[kind].dashes)
        rows = fits.where(bias=kind)
        curve(right, column(rows, "d"), above(rows, "map_error"), styles[kind])
    left.set_xlabel("index")
    log_y(left, above(spectrum.rows, "value"), 7)
    left.set_ylabel("singular value / largest")
    page.title(left, f"spectrum, n = {len(spectrum.where(bias=kinds[0])):g}")
    right.set_xscale("log")
    powers(right.xaxis, fits.values("d"))
    right.set_xlabel("width d")
    errors = above(fits.rows, "map_error")
    seen = [error for error in errors if error > FLOOR_SHOWN]
    log_y(right, seen or errors, 7)
    right.set_ylabel("mean |A − Â|₁")
    page.title(right, "best fitted attention")
    return page.finish()


def _edge(study):
    edge = study.table("edge", "d", "n", "residual")
    parts = [[row["residual"] for row in edge.rows if (row["n"] > row["d"] + 1) is beyond] for beyond in (False, True)]
    if not all(parts):
        return "The edge at n = d + 1 is not in this file."
    widths = ", ".join(f"{d:g}" for d in edge.values("d"))
    ends = [f"{end:.1e}".replace("e-0", "e-") for end in (max(parts[0]), min(parts[1]))]
    return (f"Of a random bias the best logits leave at most {ends[0]} up to n = d + 1, and at least {ends[1]} from n = d + 2 on "
            f"(d = {widths}).")  # fmt: skip


OPERATOR_NAMES = {"toeplitz_1d": "Toeplitz", "kernelized_rpe_attention": "kernelized"}


def _leak_groups(leaks):
    """(operator, implementation, scalar, rows) of all that leak."""
    groups = {}
    for row in leaks.rows:
        if row["leak"] > 0:
            groups.setdefault((row["operator"], row["implementation"], row["scalar"]), []).append(row)
    return [(*key, rows) for key, rows in groups.items()]


def draw_precision(study):
    """All operators; in a column each has a figure of its own, the first is this."""
    return _draw_errors(study, _operators(study)[: 1 if layout.narrow() else None])


def _operators(study):
    return study.table("error", "operator").values("operator")


def _draw_errors(study, operators, about=""):
    table = study.table("error", "operator", "implementation", "class", "case", "n", "range", "relative_error")
    names = list(dict.fromkeys((row["operator"], row["implementation"]) for row in table.rows))
    largest = max(table.values("n"))
    widest = max(table.values("range"))
    styles = {name: plot_style.style_of(name[1]) for name in names}
    cases = (("random", "random bias"), ("decaying", "decaying bias"), ("dropping", "decaying, falling"))
    values = column(table.rows, "relative_error")

    def error_panels(operator):
        """Against the range at the largest n, then against n at the widest range."""
        mine = [name for name in names if name[0] == operator]
        return mine, [(name[1], styles[name]) for name in mine]

    rows_of_panels = [(operator, *error_panels(operator)) for operator in operators]
    labels = list(dict.fromkeys(label for _, _, labels in rows_of_panels for label in labels))
    page = new_page(
        study,
        [[(1, False, labels if place == 0 else []), (1, True, []), (1, True, []), (1, True, [])] for place in range(len(operators))],
        height=1.4,
        notes=["Largest error of a row over its largest element, float32.",
               f"{' '.join(map(letters, range(3, 4 * len(operators), 4)))} At range {widest:g}; all others at n = {largest:g} "
               "or the largest that runs.",
               "Range: exp(bias) goes from 1 down to exp(−range).", "Falling: values of the second half scaled down.",
               *(["auto: whichever is estimated to be faster; it does not look at the range."]
                 if any(words == "auto" for words, _ in labels) else [])],
        about=about,
    )  # fmt: skip
    for (operator, mine, _), panels in zip(
        rows_of_panels, (page.axes[4 * i : 4 * i + 4] for i in range(len(operators)))
    ):
        for axes, (case, words) in zip(panels, cases):
            for name in mine:
                rows = table.where(operator=operator, implementation=name[1], case=case)
                rows = [row for row in rows if row["n"] == max(column(rows, "n"))]
                curve(axes, column(rows, "range"), column(rows, "relative_error"), styles[name])
            axes.set_xlabel("range of the bias")
            fixed(axes.xaxis, table.values("range")[::2] if len(table.values("range")) > 4 else table.values("range"))
            page.title(axes, words)
        axes = panels[3]
        for name in mine:
            rows = table.where(operator=operator, implementation=name[1], case="dropping", range=widest)
            curve(axes, column(rows, "n"), column(rows, "relative_error"), styles[name])
        axes.set_xscale("log")
        counts(axes.xaxis, table.values("n"))
        axes.set_xlabel("tokens n")
        page.title(axes, f"falling, range {widest:g}")
        for axes in panels:
            log_y(axes, values, 8)
        panels[0].set_ylabel(f"{OPERATOR_NAMES[operator]}: error / row")
    return page.finish()


def _draw_leak(study):
    """Draws how much of the future leaks into the past of a causal product."""
    groups = _leak_groups(study.table("leak", "operator", "implementation", "class", "scalar", "future", "leak"))
    names = list(dict.fromkeys((op, scalar) for op, _, scalar, _ in groups))
    page = new_page(
        study,
        [(1, index > 0, [(name, plot_style.style_of(name)) for op, name, scalar, _ in groups if (op, scalar) == key])
         for index, key in enumerate(names)],
        about="leak", one_legend=True,
        notes=["Change of the earlier outputs of a causal product when later tokens are scaled up.",
               "Algorithms without a mark have no change."],
    )  # fmt: skip
    values = [row["leak"] for *_, rows in groups for row in rows]
    for axes, (operator, scalar) in zip(page.axes, names):
        for _, name, _, rows in (group for group in groups if (group[0], group[2]) == (operator, scalar)):
            curve(axes, column(rows, "future"), column(rows, "leak"), plot_style.style_of(name))
        axes.set_xscale("log")
        futures = [row["future"] for *_, rows in groups for row in rows if row["future"] > 0]
        tens(axes.xaxis, min(futures), max(futures), 4)
        log_y(axes, values, 7)
        axes.set_xlabel("scale of the future")
        page.title(axes, f"{OPERATOR_NAMES[operator]}, {scalar}")
    page.axes[0].set_ylabel("change of the past / past")
    return page.finish()


def _wide_against_narrow(cost):
    """Says if transforms in float64 take less time than those in float32 at the largest n at which both are measured."""
    wide, narrow = ({row["n"]: row["seconds"] for row in cost.where(implementation=name)}
                    for name in ("fft_streamed64", "fft_streamed"))  # fmt: skip
    both = wide.keys() & narrow.keys()
    n = max(both, default=0)
    if not both or wide[n] >= narrow[n]:
        return []
    return [f"At n = {n:g}, fft_streamed64 takes {wide[n] / narrow[n]:.2f} times the time of fft_streamed, although its transforms are "
            "in float64; the records do not tell the cause."]  # fmt: skip


def _draw_cost(study):
    """The time of the case with the largest error."""
    cost = study.table("cost", "implementation", "n", "seconds", "low", "high")
    names = cost.values("implementation")
    parameters = study.content["parameters"]
    notes = ["Time of the case with the largest error, with intervals of the median.",
             f"Inputs: exp(bias) falls to exp(−{max(parameters['range']):g}), and the keys of the second half are scaled by "
             f"{parameters['drop']:g}. The figure real-inputs has other inputs.", *_wide_against_narrow(cost)]  # fmt: skip
    page = new_page(study, [(1, False, [(name, plot_style.style_of(name)) for name in names])], about="cost", notes=notes,
                    width=plot_style.look().column)  # fmt: skip
    (axes,) = page.axes
    for name in names:
        rows = cost.where(implementation=name)
        curve(axes, column(rows, "n"), column(rows, "seconds"), plot_style.style_of(name),
              (column(rows, "low"), column(rows, "high")))  # fmt: skip
    seconds_by_n(axes, cost)
    page.title(axes, f"kernelized, f = e = {study.content['parameters']['cost_d']:g}, largest range")
    return page.finish()


def precision_parts(study):
    parts = [("leak", "leak", lambda: _draw_leak(study)), ("cost", "cost", lambda: _draw_cost(study))]
    for operator in _operators(study)[1:] if layout.narrow() else []:
        words = OPERATOR_NAMES[operator]
        parts.append((words, words, lambda operator=operator, words=words: _draw_errors(study, [operator], words)))
    return parts


def draw_sinusoidal(study):
    matrix = study.table("matrix", "position", "dimension", "value")
    dots = study.table("dots", "D", "offset", "dot")
    falling = study.table("falling", "D", "entries")
    widths = dots.values("D")
    styles = {width: plot_style.Style(style.color, style.dashes, None) for width, style in zip(widths, STYLES)}
    widths = widths if len(widths) < 4 else widths[::2]  # neighbours cannot be told apart
    labels = [(f"D = {width:g}", styles[width]) for width in widths]
    dimensions = matrix.values("dimension")
    chosen = [dimensions[share * len(dimensions) // 8] for share in range(4)]
    waves = [(f"column {dimension:g}", plot_style.Style(style.color, style.dashes, None))
             for dimension, style in zip(chosen, STYLES)]  # fmt: skip
    page = new_page(study, [(1, False, []), (1, False, waves), (1, False, labels), (1, False, [])], most=2,
                    notes=["(a) Dark is −1, bright is 1; (b) some of its columns; (c) products of two positions, over the largest, at offset 0.",
                           "(d) Number of offsets, from 0, over which the products decrease, for every even D."])  # fmt: skip
    left, second, middle, right = page.axes
    for (_, style), dimension in zip(waves, chosen):
        rows = matrix.where(dimension=dimension)
        second.plot(column(rows, "position"), column(rows, "value"), color=style.color, linestyle=style.dashes)
    second.set_xlabel("position")
    second.set_ylabel("value")
    page.title(second, "columns of the matrix")
    _image(left, [(row["position"], row["dimension"], row["value"]) for row in matrix.rows])
    left.set_xlabel("dimension")
    left.set_ylabel("position")
    page.title(left, f"position matrix, D = {len(matrix.values('dimension'))}")
    for width in widths:
        rows = dots.where(D=width)
        middle.plot(column(rows, "offset"), column(rows, "dot"), color=styles[width].color,
                    linestyle=styles[width].dashes, linewidth=0.9)  # fmt: skip
    middle.set_xlabel("offset")
    middle.set_ylabel("product / largest")
    middle.axvline(50, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=1)
    middle.annotate(
        "51st",
        (50, 1),
        xytext=(2, -4),
        textcoords="offset points",
        color=MID_GREY,
        fontsize=plot_style.look().text_size,
    )
    page.title(middle, "products by offset")
    right.plot(column(falling.rows, "D"), column(falling.rows, "entries"), ".", color=BLACK, markersize=1.5)
    right.axhline(51, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=1)
    right.annotate(
        "51", (0, 51), textcoords="offset points", xytext=(2, 2), color=MID_GREY, fontsize=plot_style.look().text_size
    )
    right.set_xlabel("width D")
    right.set_ylabel("number of offsets")
    right.set_ylim(0, None)
    page.title(right, "monotone part")
    return page.finish()


def _image(axes, cells):
    """cells: (row, column, value) of a whole rectangle, in colours that print well in grey."""
    rows, columns = 1 + max(cell[0] for cell in cells), 1 + max(cell[1] for cell in cells)
    values = [[0.0] * columns for _ in range(rows)]
    for row, place, value in cells:
        values[row][place] = value
    axes.grid(False)
    axes.imshow(values, cmap="cividis", aspect="auto", interpolation="nearest")
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)


METHOD_NAMES = {"none": "no positions", "fastrpb_linear": "FastRPB", "sine_spe": "sine SPE", "conv_spe": "conv SPE"}


def draw_spe_convergence(study):
    table = study.table("error", "kind", "R", "median", "low", "high")
    slopes = study.table("slope", "kind", "slope", "low", "high")
    times = study.table("time", "method", "n", "seconds", "low", "high")
    kinds, methods = table.values("kind"), times.values("method")
    styles = {kind: plot_style.style_of(f"{kind}_spe") for kind in kinds}
    xs = table.values("R")
    labels = [(f"{kind} SPE", styles[kind]) for kind in kinds]
    fitted = [(kind, slopes.where(kind=kind)) for kind in kinds]
    exponents = ", ".join(f"{kind} {entry[0]['slope']:.3f}" for kind, entry in fitted if entry).replace("-", "−")
    first = min(table.where(R=xs[0]), key=lambda row: row["median"])["median"]
    root = [0.75 * first * (x / xs[0]) ** -0.5 for x in xs]
    labels.append(("R^(−1/2)", THEORY))
    time_labels = [(METHOD_NAMES[method], plot_style.style_of(method)) for method in methods]
    parameters = study.content["parameters"]
    page = new_page(study, [(1, False, labels), (1, False, time_labels)],
                    notes=["(a) Medians over independent sets of draws, with 95 % intervals"
                           + (f"; the error falls like R to the {exponents}." if exponents else "."),
                           "(b) The fastest algorithm of each on one thread, float32, noise drawn beforehand; "
                           f"R = {parameters['time_R']}, d = e = {parameters['time_d']}."])  # fmt: skip
    axes, right = page.axes
    for kind in kinds:
        rows = table.where(kind=kind)
        curve(
            axes, column(rows, "R"), column(rows, "median"), styles[kind], (column(rows, "low"), column(rows, "high"))
        )
    guide(axes, xs, root)
    axes.set_xscale("log")
    powers(axes.xaxis, xs, 4)
    log_y(axes, column(table.rows, "median") + root)
    axes.set_xlabel("draws R")
    axes.set_ylabel("error of the scores / scores")
    page.title(axes, "error against draws")
    for method in methods:
        rows = times.where(method=method)
        curve(right, column(rows, "n"), column(rows, "seconds"), plot_style.style_of(method),
              (column(rows, "low"), column(rows, "high")))  # fmt: skip
    seconds_by_n(right, times)
    page.title(right, "linear attention with positions")
    return page.finish()


def seconds_by_n(axes, table):
    axes.set_xlabel("tokens n")
    axes.set_ylabel("time per run, 1 thread")
    shown = [row["seconds"] for row in table.rows if math.isfinite(row["seconds"])]
    if not shown:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=MID_GREY)
        return
    axes.set_xscale("log")
    counts(axes.xaxis, table.values("n"))
    log_y(axes, shown)
    axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: plot_style.format_seconds(value)))


DRAWINGS = {
    "prf_variance": draw_prf_variance,
    "approximation_error": draw_approximation_error,
    "baselines": draw_baselines,
    "embeddings": draw_embeddings,
    "spectra": draw_spectra,
    "sample_complexity": draw_sample_complexity,
    "feature_maps": draw_feature_maps,
    "conversion": draw_conversion,
    "rpe_rank": draw_rpe_rank,
    "margins": draw_margins,
    "precision": draw_precision,
    "sinusoidal": draw_sinusoidal,
    "spe_convergence": draw_spe_convergence,
    **study_approximations.DRAWINGS,
    **study_matrices.DRAWINGS,
}


# More figures of a study, beside that of its name.
PARTS = {"approximation_error": model_parts, "conversion": model_parts, "precision": precision_parts}


def draw(study):
    """The layout.Page of a study_file.StudyFile."""
    return DRAWINGS[study.name](study)


def parts(study):
    """[(suffix of the name, words, draw())] of its other figures."""
    return PARTS[study.name](study) if study.name in PARTS else []
