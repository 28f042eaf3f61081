"""Turns a recipe and its measurements into panels: the lines and their styles.

Exponents, crossovers and ratios come from a summary file; none are computed here.
"""

import dataclasses

from reports.drawing import bar_panels
from reports.drawing import panels
from reports.drawing import plot_style
from reports.files import recipe_file
from reports.files import result_file
from reports.files import summary_file
from reports.drawing.quantities import QUANTITIES
from reports.files.result_file import InputError


class Unserved(Exception):
    """The files have too little data for a recipe; the text says what is missing."""


class Unmeasured(Unserved):
    """The files have no data for a recipe."""


@dataclasses.dataclass
class Picture:
    """A figure ready to be drawn, with what is written beside it."""

    content: list  # (Panel, Group) pairs
    width: str  # `column` or `text`
    per_row: int
    points: list  # shown
    setting: str  # what all points have in common, in words
    header: list
    rows: list  # of the CSV file
    lines: list  # fits and crossovers, for a CSV file of their own
    missing: list  # series without measurements, in words
    ticks: list = dataclasses.field(default_factory=list)  # of the n axis, where the recipe says so
    at: int | None = None  # of bars: the n that they are drawn for
    compared: list = dataclasses.field(
        default_factory=list
    )  # (Panel, Line of its baseline, rivals()), where ratios are shown

    def draw(self, title):
        if self.at:
            return bar_panels.draw(self.content, plot_style.width_named(self.width), title, self.at)
        return panels.draw(self.content, plot_style.width_named(self.width), title, self.per_row, self.ticks)


def width_of(recipe):
    return recipe.get("width", "text")


def curves(recipe, points, summary=None):
    """The Picture of a recipe of kind curves. summary: {(title, quantity): panel} of summary_file. Raises Unserved."""
    x = recipe.get("x", "n")
    asked = recipe_file.measured_for(recipe, points, (x,))
    others = recipe_file.others_for(recipe, points, (x,))
    everything, shown, empty, compared = [], [], [], []
    for entry in recipe["panels"]:
        if entry["y"] not in QUANTITIES:
            raise InputError(f"recipe {recipe.name}: expected one of {', '.join(QUANTITIES)}, found {entry['y']}")
        panel = dataclasses.replace(
            QUANTITIES[entry["y"]], title=entry.get("title", ""), against=entry.get("against", "")
        )
        if panel.against:
            panel = dataclasses.replace(panel, label=f"{panel.label} over {panel.against}")
        if panel.x == "n":
            panel = dataclasses.replace(panel, x_label=recipe.get("x_label", ""))
        if x != "n":
            panel = dataclasses.replace(panel, theory="", quantity="")
        lines = _lines(recipe, asked, others, entry.get("where", {}), x)
        if entry.get("where") and not any(line.points for line in lines):
            empty.append(panel.title or panel.label)  # two axes with nothing between them say less than a word
            continue
        shown += lines
        if panel.y == "speedup":
            group = _speedups(recipe, panel, summary, lines)
            if not group.rows:  # without a summary there are no ratios
                continue
            baseline = next((line for line in lines if line.label == panel.against), None)
            others_of_it = rivals(baseline, lines, group.order)
            group.remarks += _faster_than_baseline(baseline, others_of_it)
            compared.append((panel, baseline, others_of_it))
            everything.append((entry, panel, group, lines))
            continue
        group = _group(lines, x)
        if x != "n" and lines and len({row["n"] for row in group.rows}) < 2:
            raise Unserved(f"they have only one value of {x}")
        _attach_summary(recipe, (summary or {}).get((panel.title, panel.quantity)), panel, group, lines)
        everything.append((entry, panel, group, lines))
    if len(empty) == len(recipe["panels"]):
        raise Unmeasured("no measurements of " + ", ".join(recipe_file.missing_lines(recipe, [])))
    _demand(recipe, everything, shown)
    measured = [item for item in everything if panels.is_measured(*item[1:3])]
    if measured and len(measured) < len(everything):
        names = [panel.label for _, panel, group, _ in everything if not panels.is_measured(panel, group)]
        measured[0][2].remarks.append(f"Not measured: {', '.join(dict.fromkeys(names))}.")
        everything = measured
    content = [(panel, group) for _, panel, group, _ in everything]
    absent = recipe_file.missing_lines(recipe, shown) + [f"{words}: every line" for words in dict.fromkeys(empty)]
    if absent:
        content[0][1].remarks.append(f"Not in these files: {', '.join(dict.fromkeys(absent))}.")
    at = bar_panels.common_size(content, recipe["at"]) if recipe.kind == "bars" else None
    if recipe.kind == "bars" and at is None:
        raise Unserved("its lines have no size in common")
    if summary is None and at is None and any(panel.quantity for panel, _ in content):
        content[0][1].remarks.append("Exponents and crossovers: run `subquad summarize` and draw again.")
    used = [point for _, _, _, lines in everything for line in lines for point in line.points]
    header, rows = _table(everything, x)
    return Picture(
        content, width_of(recipe), recipe.get("per_row", 2), used, setting(recipe, used, {x}),
        header, rows, _line_rows(everything), absent, recipe.get("ticks", []), at, compared,
    )  # fmt: skip


def _lines(recipe, asked, others, where, x):
    """The Lines of a panel, in the order of the recipe's series."""
    lines = []
    for series in recipe["series"]:
        pool = others if series.get("others") else asked
        here = [point for point in pool if recipe_file.fits(point.settings, where)]
        lines += recipe_file.lines_of(series, here, (x,))
    for line in lines:
        line.points = _own_sizes(recipe, line)
    return lines


def _demand(recipe, everything, lines):
    """Raises Unserved unless at least half of the lines have data, including one of each side of a comparison, and some of it
    passed."""
    passed = any(
        point.row["verdict"] == "passed" for _, _, _, lines in everything for line in lines for point in line.points
    )
    absent, count = recipe_file.missing_lines(recipe, lines), recipe_file.count_lines(recipe)
    sides = recipe_file.missing_sides(recipe, lines)
    kind = Unserved if any(line.series in recipe_file.named_series(recipe) for line in lines) else Unmeasured
    if absent and (not passed or 2 * len(absent) > count):
        raise kind("no measurements of " + ", ".join(absent))
    if not passed:
        raise kind("no measurement passed")
    if sides:
        raise kind(f"no measurements of {', '.join(sides)}, which it compares with others")


def _own_sizes(recipe, line):
    """Returns the points at the recipe's own sizes. Sizes of other recipes are added only if there are too few of its own."""
    own = recipe_file.measured_for(recipe, line.points, ("implementation",) if line.series.get("others") else ())
    return own if len(own) >= 3 else line.points


def setting(recipe, points, without):
    """The line under the title: the source of the figure, and what all of its points share."""
    words = [after(recipe["source"]), common_settings(points, without)]
    return "; ".join(filter(None, words))


def after(source):
    return "" if source == "this project" else f"After {source.removeprefix('this project; ')}"


def sources_of(points):
    results = []
    for point in points:
        if not any(point.source is source for source in results):
            results.append(point.source)
    return results


def common_settings(points, without):
    """`float32, 1 thread, d = 64, ...`: every setting that all points share."""
    shared = dict(points[0].settings)
    for point in points[1:]:
        for key in list(shared):
            if point.settings.get(key) != shared[key] or key not in point.settings:
                del shared[key]
    for key in ("machine", "operator", "implementation", *without):
        shared.pop(key, None)
    scalar, backend, threads = shared.pop("scalar", None), shared.pop("backend"), shared.pop("threads", None)
    words = [scalar] if scalar else []
    if backend != "cpu":
        words.append(backend)
    elif threads is not None:
        words.append("1 thread" if threads == 1 else f"{threads} threads")
    dull = {"heads": 1, "causal": False, "backward": False, "normalize": False, "per_head": False, "with": "",
            "input": "normal"}  # fmt: skip
    words += [
        f"{key} = {recipe_file.text_of(value)}" for key, value in sorted(shared.items()) if dull.get(key) != value
    ]
    return ", ".join(words)


# A panel's data


def _group(lines, x):
    axis = lines[0].points[0].axis if lines else "n"
    if x == "n" and len({point.axis for line in lines for point in line.points}) > 1:
        axis = "n"
    group = result_file.Group({}, axis if x == "n" else x, sources=[])
    for line in lines:
        implementation = line.points[0].settings["implementation"]
        style = plot_style.style_of(line.series.get("style", implementation))
        # Implementations have looks of their own.
        shades = 1 if line.series.get("by") == "implementation" else line.count
        style = plot_style.shade(style, line.index, shades)
        if line.series.get("others"):
            style = plot_style.apart(style, group.styles.values())
        group.styles[line.label] = style
        for point in line.points:
            place = point.settings["n"] if x == "n" else point.settings.get(x)
            group.rows.append({**point.row, "implementation": line.label, "n": place})
        _attach_theory(group, line)
    order = {line.label: index for index, line in enumerate(lines)}
    group.rows.sort(key=lambda row: (order[row["implementation"]], row["n"]))
    group.order = list(order)
    return group


def _speedups(recipe, panel, summary, lines):
    """Ratios of times to one baseline, as the summary has them."""
    group = _group(lines, "n")
    labels = [line.label for line in lines]
    if panel.against not in labels and not any(panel.against == outcome["label"] for outcome in recipe["series"]):
        raise InputError(f"recipe {recipe.name}: against: expected one of {', '.join(labels)}, found '{panel.against}'")
    timed = {title: shown for (title, quantity), shown in (summary or {}).items() if quantity == "seconds"}
    result = timed.get(panel.title) or next(iter(timed.values()), {"ratios": []})
    ratios = {
        (outcome["fast"], outcome["n"]): outcome for outcome in result["ratios"] if outcome["dense"] == panel.against
    }
    rows = []
    for row in group.rows:
        outcome = ratios.get((row["implementation"], row["n"]))
        if outcome and row["verdict"] == "passed":
            rows.append(
                {**row, "speedup": outcome["ratio"], "speedup_low": outcome["low"], "speedup_high": outcome["high"]}
            )
    group.rows, group.algorithms = rows, {}
    shown = {row["implementation"] for row in rows}
    group.order = [name for name in group.order if name in shown]
    return group


def rivals(baseline, lines, shown):
    """Returns the lines of the baseline's operator that are not compared with it (`shown` are the labels of those that are): each
    of them could be the baseline instead."""
    operator = baseline.points[0].identity["operator"]
    return [
        line
        for line in lines
        if line.points[0].identity["operator"] == operator and line.label not in (baseline.label, *shown)
    ]


def seconds_by_size(line):
    """Returns {n: row} of the points of a line that have a time."""
    return {point.settings["n"]: point.row for point in line.points if point.row["seconds"]}


def _faster_than_baseline(baseline, others):
    """Returns a sentence that names the rivals that are faster than the baseline, since over them the ratios would be smaller."""
    times, words = seconds_by_size(baseline), []
    for line in others:
        rows = seconds_by_size(line)
        shared = sorted(times.keys() & rows.keys())
        faster = [n for n in shared if rows[n]["seconds"] < times[n]["seconds"]]
        if faster:
            write = plot_style.counts_format(faster)
            sizes = "every size" if faster == shared else f"n = {', '.join(map(write, faster))}"
            words.append(f"{line.label} at {sizes}")
    return [f"Faster than {baseline.label}: {'; '.join(words)}."] if words else []


def _attach_theory(group, line):
    """Complexity and fits of a line, from its own file; where a recipe names the growth, that counts."""
    identity = line.points[0].identity
    if any(point.source is not line.points[0].source for point in line.points):
        return
    source = line.points[0].source
    implementation = line.points[0].settings["implementation"]
    for algorithm in source["algorithms"]:
        if (
            all(algorithm[key] == identity[key] for key in ("operator", "backend"))
            and algorithm["implementation"] == implementation
        ):
            grown = line.series.get("growth", {})
            own = {f"{kind}_class": grown[kind] for kind in grown}
            group.algorithms[line.label] = {**algorithm, **own}


def _attach_summary(recipe, panel, shown, group, lines):
    """Exponents and crossovers of a panel, from a summary that has to have the sizes that are drawn."""
    if panel is None:
        return
    for line in lines:
        sizes = {point.settings["n"] for point in line.points if point.row["verdict"] == "passed"}
        other = summary_file.sizes_disagree(panel, line.label, sizes)
        if other is not None:
            raise InputError(f"recipe {recipe.name}: {line.label} has the sizes {sorted(sizes)} in the result files and {other} in the "
                             "summary; run `subquad summarize` again")  # fmt: skip
    group.fits = [{**curve["fit"], "implementation": curve["label"], "quantity": shown.quantity}
                  for curve in panel["curves"] if curve["fit"]]  # fmt: skip
    group.crossovers = [{**cross, "quantity": shown.quantity} for cross in panel["crossovers"]]
    group.ratios = [{**ratio, "quantity": shown.quantity} for ratio in panel["ratios"]]


# Tables of what is plotted


def _table(everything, x):
    shown = [column for _, panel, _, _ in everything for column in panel.columns() if column != "n"]
    judged = any(point.row["margin"] is not None for *_, lines in everything for line in lines for point in line.points)
    shown += ["margin", "nearest"] if judged else []
    header = list(
        dict.fromkeys(["panel", "series", "operator", "implementation", x, "verdict", *shown, "reason", "case"])
    )
    if not any(entry.get("title") for entry, *_ in everything):
        header.remove("panel")
    rows, seen = [], set()
    for entry, panel, group, lines in everything:
        for line in lines:
            for point in sorted(line.points, key=lambda point: point.settings[x]):
                own = next(
                    (
                        row
                        for row in group.rows
                        if row["implementation"] == line.label and row["case"] == point.row["case"]
                    ),
                    {},
                )
                cells = {**point.settings, **point.row, **_plotted(own, panel), "panel": entry.get("title", ""),
                         "series": line.label}  # fmt: skip
                row = tuple(_cell(column, cells.get(column)) for column in header)
                if row not in seen:
                    seen.add(row)
                    rows.append(row)
    return header, rows


def _plotted(row, panel):
    """Adds the values that a panel shows in addition to the records: ratios."""
    return {
        column: row[column] for column in panel.columns() if panel.y == "speedup" and column in row and column != "n"
    }


def _cell(column, value):
    if value is None:
        return "" if column in ("reason", "nearest") else "nan"
    return value


LINE_HEADER = [
    "panel",
    "kind",
    "quantity",
    "implementation",
    "dense",
    "value",
    "low",
    "high",
    "n_min",
    "n_max",
    "reason",
]


def _line_rows(everything):
    rows = []
    for entry, panel, group, _ in everything:
        entries = [{**fit, "kind": "fit", "dense": "", "value": fit["exponent"]} for fit in group.fits]
        entries += [
            {**crossover, "kind": "crossover", "implementation": crossover["fast"], "value": crossover["n"]}
            for crossover in group.crossovers
        ]
        entries += [
            {
                **ratio,
                "kind": "ratio",
                "implementation": ratio["fast"],
                "value": ratio["ratio"],
                "n_min": ratio["n"],
                "n_max": ratio["n"],
            }
            for ratio in group.ratios
        ]
        rows += [
            [_cell(key, item.get(key)) for key in LINE_HEADER]
            for item in ({**item, "panel": entry.get("title", "")} for item in entries)
            if item["quantity"] == panel.quantity
        ]
    return rows


# Maps: who is faster over two axes


def ratio_map(recipe, points):
    """(baseline label, {(x, y): baseline's seconds / the series' seconds}, reasons) for each baseline measured."""
    x, y = recipe.get("x", "n"), recipe["y"]
    # Only its own sizes, if measured: columns of other recipes' sizes would be half empty.
    asked = recipe_file.measured_for(recipe, points, ()) or recipe_file.measured_for(recipe, points, (x,))
    series = recipe["series"][0]
    fast = [point for point in asked if recipe_file.fits(point.settings, series["match"])]
    for axis in (x, y):
        if len({point.settings[axis] for point in fast}) == 1:
            raise Unserved(f"they have only one value of {axis}")
    panels_found, used, header_rows, absent = [], [], [], []
    for baseline in recipe["baselines"]:
        slow = [point for point in asked if recipe_file.fits(point.settings, baseline["match"])]
        cells = {}
        for point in fast:
            place = (point.settings[x], point.settings[y])
            others = [
                other for other in slow
                if other.settings[x] == place[0] and other.settings.get(y, place[1]) == place[1]
            ]  # fmt: skip
            if len(others) > 1:
                raise InputError(f"{others[1].place}: recipe {recipe.name} finds two measurements of one cell")
            times = [entry.row["seconds"] for entry in (point, *others)]
            ratio = times[1] / times[0] if len(times) == 2 and all(times) else None
            cells[place] = ratio
            header_rows.append([baseline["label"], *place, "nan" if ratio is None else ratio])
            used += [point, *others]
        if any(ratio is not None for ratio in cells.values()):
            panels_found.append((baseline["label"], cells))
        else:
            absent.append(recipe_file._series_words(baseline))
    if not panels_found:
        raise (Unserved if used else Unmeasured)("no measurements of " + ", ".join(absent))
    header = ["baseline", x, y, "baseline_seconds_over_seconds"]
    return panels_found, used, header, header_rows, absent
