"""Draws studies of feature maps: errors over the number of features, of all heads together and of one model's layers."""

import math
import re

import matplotlib.ticker

from reports.drawing import layout
from reports.drawing import plot_style
from reports.drawing.layout import letters, marker
from reports.drawing.plot_style import LIGHT_GREY, MID_GREY, Style
from reports.drawing.study_page import (
    HEIGHT, MAPS, MAP_NAMES, column, curve, fixed, log_y, new_page, plain, powers,
)  # fmt: skip


SETTINGS = [(False, False, "standard"), (False, True, "standard, RPE"), (True, False, "normalised"),
            (True, True, "normalised, RPE")]  # fmt: skip
NULL_NOTE = "No features: equal weights, with RPE exp(bias); Taylor: the features (1, x)."
# Baselines without random features: weights that ignore queries and keys, and the features (1, x).
NULLS = (("no features", Style(MID_GREY, plot_style.DOTTED, None)),
         ("Taylor", Style(MID_GREY, plot_style.DASHED, None)))  # fmt: skip
LARGEST = ("2, the largest possible", Style(LIGHT_GREY, plot_style.SOLID, None))  # error of a row of positive weights


def draw_nulls(axes, rows, rpe, value):
    """A line across for each of NULLS: the median of `value` over the rows of its baseline. What was drawn."""
    drawn = []
    for kind, (_, style) in zip(("bias" if rpe else "uniform", "taylor1"), NULLS):
        results = [row[value] for row in rows if row["map"] == kind]
        if results:
            drawn.append(_median(results))
            axes.axhline(drawn[-1], color=style.color, linestyle=style.dashes, linewidth=0.9, zorder=1.5)
    return drawn


def _map_panels(study, note, nulls, value, models=(None,), wide=False):
    """The error of each feature map over f: a panel for each setting, a row of them for each model. `nulls` are the rows of
    what needs no features, with their model if there are several, and `value` their column. `wide`: ranges that overlap, drawn
    as bars side by side."""
    table = study.table("error", "normalised", "rpe", "map", "f", "median", "low", "high")
    kinds = table.values("map")

    def rows_of(model, normalised, rpe, **wanted):
        return table.where(normalised=normalised, rpe=rpe, **wanted, **({"model": model} if model else {}))

    grid, shown = [], []
    for model in models:
        settings = [setting for setting in SETTINGS if rows_of(model, *setting[:2])]
        labels = [(MAP_NAMES[kind], MAPS[kind]) for kind in kinds] + [*NULLS, LARGEST]
        grid.append([(1, index > 0, labels if index == 0 and not grid else []) for index in range(len(settings))])
        shown += [(model, setting, index == 0) for index, setting in enumerate(settings)]
    page = new_page(study, grid, height=HEIGHT if len(grid) == 1 else 1.3,
                notes=[note, NULL_NOTE])  # fmt: skip
    values = [row[value] for row in nulls if row["map"] in ("uniform", "bias", "taylor1")]
    values += [row[name] for row in table.rows for name in ("median", "low", *(("high",) if wide else ()))]
    for axes, (model, (normalised, rpe, words), first) in zip(page.axes, shown):
        for kind in kinds:
            rows = rows_of(model, normalised, rpe, map=kind)
            ends = column(rows, "low"), column(rows, "high")
            if not wide or MAPS[kind].marker is None:
                curve(axes, column(rows, "f"), column(rows, "median"), MAPS[kind], None if wide else ends)
                continue
            shift = 1.07 ** (kinds.index(kind) - (len(kinds) - 1) / 2)
            xs = [row["f"] * shift for row in rows]
            axes.vlines(xs, *ends, color=MAPS[kind].color, linewidth=0.7)
            curve(axes, xs, column(rows, "median"), MAPS[kind])
        draw_nulls(axes, [row for row in nulls if (row["normalised"], row["rpe"]) == (normalised, rpe)
                          and row.get("model") == model], rpe, value)  # fmt: skip
        axes.axhline(2, color=LARGEST[1].color, linewidth=0.9, zorder=1)
        axes.set_xscale("log")
        powers(axes.xaxis, table.values("f"), 3)
        axes.set_xlabel("features f")
        log_y(axes, values)
        page.title(axes, f"{model}: {words}" if model and first else words)
        if first:
            axes.set_ylabel("|A − Â|₁ of a row")
    return page.finish()


# Baselines without random features, by their names in the table.
WITHOUT = {"taylor1_clipped": ("1 + q k, none negative", Style(MID_GREY, plot_style.DASHED, None)),
           "taylor1": ("1 + q k", Style(MID_GREY, plot_style.DASH_DOT, None)),
           "uniform": ("equal weights", Style(MID_GREY, plot_style.DOTTED, None)),
           "another sentence": ("another sentence", Style(MID_GREY, plot_style.LONG, None))}  # fmt: skip


def draw_embeddings(study):
    table = study.table("cosine", "model", "map", "m", "draws", "median", "low", "high")
    models, kinds = table.values("model"), [kind for kind in table.values("map") if kind in MAPS]
    random = [kind for kind in kinds if any(row["m"] > 0 for row in table.where(map=kind))]
    features = sorted({row["m"] for row in table.rows if row["m"] > 0})
    labels = [(MAP_NAMES[kind], MAPS[kind]) for kind in random] + list(WITHOUT.values())
    page = new_page(
        study, [(1, index > 0, [] if index else labels) for index in range(len(models))],
        notes=["Cosine similarity to the embedding of the unchanged model: median and middle 80 % of the sentences"
               f"{_of_draws(table)}.",
               "Every attention of every layer is replaced, nothing is retrained; grey: weights without random features, and "
               "the unchanged embedding of another sentence. Without their negative weights, TRF and 1 + q k are no products of "
               "features any more and take n² operations."],
    )  # fmt: skip
    for axes, model in zip(page.axes, models):
        for kind in random:
            rows = table.where(model=model, map=kind)
            curve(axes, column(rows, "m"), column(rows, "median"), MAPS[kind],
                  (column(rows, "low"), column(rows, "high")))  # fmt: skip
        for kind, (_, style) in WITHOUT.items():
            for row in table.where(model=model, map=kind):
                axes.axhline(row["median"], color=style.color, linestyle=style.dashes, linewidth=0.9, zorder=1.5)
        axes.set_xscale("log")
        powers(axes.xaxis, features, 3)
        axes.set_xlabel("features m")
        axes.set_ylim(-0.1, 1.02)
        fixed(axes.yaxis, [0, 0.5, 1])
        page.title(axes, model)
    page.axes[0].set_ylabel("cosine")
    return page.finish()


def _of_draws(table):
    """Says of how many draws of the random features the numbers are, for each model where they differ."""
    draws = {model: max(column(table.where(model=model), "draws")) for model in table.values("model")}
    if len(set(draws.values())) > 1:
        return " and the draws (" + ", ".join(f"{model}: {count:g}" for model, count in draws.items()) + ")"
    count = max(draws.values())
    return f" and {count:g} draws" if count > 1 else ""


def draw_feature_maps(study):
    nulls = study.table("baseline", "normalised", "rpe", "map", "median").rows
    return _map_panels(study, "Medians over the draws, with 95 % intervals.", nulls, "median")


def draw_conversion(study):
    heads = study.table("heads", "head", "model", "real")
    kind = "real" if heads.rows[0]["real"] else "made-up"
    models = {row["head"]: row["model"] for row in heads.rows}
    nulls = [{**row, "model": models.get(row["head"])}
             for row in study.table("head_baseline", "head", "normalised", "rpe", "map", "error").rows]  # fmt: skip
    return _map_panels(
        study, f"Medians over {len(heads.rows)} {kind} heads and draws; bars: the middle 80 %.", nulls, "error",
        study.table("error", "model").values("model"), wide=True,
    )  # fmt: skip


LENGTHS = (("queries", "q", plot_style.GREYS[0], -0.13), ("keys", "k", plot_style.GREYS[2], 0.13))
COLUMNS = 4  # layers side by side


def _folder(head):
    return head["head"].rpartition("/")[0] or head["head"]


def _layers(heads, model):
    """(words, heads) for each layer of a model, or for each folder where layers are not known."""
    groups = {}
    for head in heads.where(model=model):
        known = math.isfinite(head["layer"])
        groups.setdefault((head["layer"] if known else math.inf, _folder(head)), []).append(head)
    return [(f"layer {layer:g}" if math.isfinite(layer) else folder, group)
            for (layer, folder), group in sorted(groups.items(), key=lambda item: item[0])]  # fmt: skip


def _median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _over_heads(rows):
    """[(f, median over heads)] from rows of several heads."""
    by_f = {}
    for row in rows:
        by_f.setdefault(row["f"], []).append(row["median"])
    return [{"f": f, "median": _median(values)} for f, values in sorted(by_f.items())]


def draw_model(study, model, layers):
    """One model: a column for each layer; its norms, then the errors of each setting that it has."""
    errors = study.table("head_error", "head", "normalised", "rpe", "map", "f", "median")
    study.table("heads", "q_norm", "q_low", "q_high", "k_norm", "k_low", "k_high")
    nulls = []
    if "head_baseline" in study.content["tables"]:
        nulls = study.table("head_baseline", "head", "normalised", "rpe", "map", "error").rows
    kinds, names = errors.values("map"), {head["head"] for _, heads in layers for head in heads}
    every = [row for row in errors.rows if row["head"] in names]

    def rows_of(heads, normalised, rpe, kind):
        mine = {head["head"] for head in heads}
        return [row for row in every if row["head"] in mine and row["normalised"] is normalised
                and row["rpe"] is rpe and row["map"] == kind]  # fmt: skip

    settings = [setting for setting in SETTINGS if any(rows_of(heads, *setting[:2], kinds[0]) for _, heads in layers)]
    lengths = [(words, style) for words, _, style, _ in LENGTHS]
    labels = [(MAP_NAMES[kind], MAPS[kind]) for kind in kinds] + (list(NULLS) if nulls else []) + [LARGEST]
    grid = [[(1, index > 0, lengths if index == 0 else []) for index in range(len(layers))]]
    if len(layers) == 1:
        grid.append([(1, False, labels if index == 0 else []) for index in range(len(settings))])
    else:
        grid += [[(1, index > 0, labels if index + place == 0 else []) for index in range(len(layers))]
                 for place in range(len(settings))]  # fmt: skip
    page = new_page(study, grid, height=1.05 if len(grid) < 4 else 0.8, about=model, notes=[
        f"{letters(0, len(layers))} Lengths of queries and keys times the root of scale: means and the middle 80 %.",
        f"{letters(len(layers), len(layers) * len(settings))} Error of attention rows; thin lines are heads (medians over draws "
        "of Ω), thick lines their median.",
        *([NULL_NOTE] if nulls else []),
        "Standard and normalised are on separate axes."])  # fmt: skip
    top = page.axes[: len(layers)]
    highest = max(head[f"{name}_high"] for _, heads in layers for head in heads for name in "qk")
    for axes, (words, heads) in zip(top, layers):
        _draw_lengths(axes, heads, highest)
        page.title(axes, f"{words}: lengths")
    top[0].set_ylabel("√scale · length")
    values = {kind: [row["median"] for row in every if row["normalised"] is kind]
              + [row["error"] for row in nulls if row["head"] in names and row["normalised"] is kind
                 and row["map"] in ("uniform", "bias", "taylor1")] for kind in (False, True)}  # fmt: skip
    places = [(setting, layer) for setting in settings for layer in layers]
    for index, (axes, ((normalised, rpe, words), (layer, heads))) in enumerate(zip(page.axes[len(layers) :], places)):
        for kind in kinds:
            rows = rows_of(heads, normalised, rpe, kind)
            if not rows:  # a layer without a bias beside others that have one
                continue
            for head in heads:
                own = [row for row in rows if row["head"] == head["head"]]
                axes.plot(column(own, "f"), column(own, "median"), color=MAPS[kind].color, linewidth=0.45, alpha=0.6)
            curve(axes, *zip(*((row["f"], row["median"]) for row in _over_heads(rows))), MAPS[kind], linewidth=1.3)
        mine = {head["head"] for head in heads}
        draw_nulls(axes, [row for row in nulls if row["head"] in mine
                          and (row["normalised"], row["rpe"]) == (normalised, rpe)], rpe, "error")  # fmt: skip
        axes.axhline(2, color=LARGEST[1].color, linewidth=0.9, zorder=1)
        axes.set_xscale("log")
        powers(axes.xaxis, errors.values("f"), 5)
        log_y(axes, values[normalised])
        page.title(axes, f"{layer}: {words}")
        if index % len(layers) == 0:
            axes.set_ylabel("|A − Â|₁ of a row")
        if index >= len(places) - len(layers):
            axes.set_xlabel("features f")
    return page.finish()


def _draw_lengths(axes, heads, highest):
    for _, name, style, shift in LENGTHS:
        for place, head in enumerate(heads):
            x, low, high = place + shift, head[f"{name}_low"], head[f"{name}_high"]
            axes.plot([x, x], [low, high], color=style.color, linewidth=0.9)
        axes.plot([place + shift for place in range(len(heads))], column(heads, f"{name}_norm"), linestyle="none",
                  color=style.color, marker=style.marker, **marker(style))  # fmt: skip
    axes.axhline(1, color=MID_GREY, linestyle=plot_style.DOTTED, linewidth=0.9, zorder=1)
    axes.set_xlim(-0.5, len(heads) - 0.5)
    axes.set_ylim(0, highest * 1.08)
    fixed(axes.xaxis, list(range(len(heads))))
    axes.xaxis.set_major_formatter(matplotlib.ticker.FixedFormatter([f"{head['index']:g}" for head in heads]))
    axes.set_xlabel("head, as in the case folder")
    plain(axes.yaxis)


def model_parts(study):
    """(suffix, words, draw) for the figures of models: one for each, more where it has many layers; in a column one for each
    layer."""
    if "head_error" not in study.tables:
        return []
    heads = study.table("heads", "head", "model", "layer", "index")
    parts = []
    side_by_side = 1 if layout.narrow() else COLUMNS
    for model in heads.values("model"):
        layers = _layers(heads, model)
        for number, first in enumerate(range(0, len(layers), side_by_side)):
            suffix = re.sub(r"[^A-Za-z0-9.+]+", "_", model).strip("_.") or "model"
            suffix += f"-{number + 1}" if number else ""
            some = layers[first : first + side_by_side]
            parts.append((suffix, model, lambda model=model, some=some: draw_model(study, model, some)))
    return parts
