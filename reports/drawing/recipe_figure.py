"""From a recipe and measurements to panels: which lines there are, how they look, where they cross."""

import dataclasses
import math

from reports.drawing import panels
from reports.drawing import plot_style
from reports.files import recipe_file
from reports.files import result_file
from reports.drawing.quantities import QUANTITIES
from reports.files.result_file import InputError


class Unserved(Exception):
    """The files hold too little for a recipe; the text says what is missing."""


@dataclasses.dataclass
class Picture:
    """A figure ready to be drawn, with what is written beside it."""

    content: list  # (Panel, Group) pairs
    width: float
    per_row: int
    points: list  # shown
    setting: str  # what all points have in common, in words
    header: list
    rows: list  # of the CSV file
    lines: list  # fits and crossovers, for a CSV file of their own
    missing: list  # series without measurements, in words

    def draw(self, title, footer):
        return panels.draw(self.content, self.width, (title, self.setting), footer, self.per_row)


def width_of(recipe):
    return plot_style.COLUMN_WIDTH if recipe.get("width") == "column" else plot_style.PAGE_WIDTH


def curves(recipe, points):
    """The Picture of a recipe of kind curves. Raises Unserved."""
    x = recipe.get("x", "n")
    asked = recipe_file.measured_for(recipe, points, (x,))
    content, everything, missing = [], [], []
    for entry in recipe["panels"]:
        if entry["y"] not in QUANTITIES:
            raise InputError(f"recipe {recipe.name}: expected one of {', '.join(QUANTITIES)}, found {entry['y']}")
        panel = dataclasses.replace(QUANTITIES[entry["y"]], title=entry.get("title", ""))
        if panel.x == "n":
            panel = dataclasses.replace(panel, x_label=recipe.get("x_label", ""))
        if x != "n":
            panel = dataclasses.replace(panel, theory="", quantity="")
        here = [point for point in asked if recipe_file.fits(point.settings, entry.get("where", {}))]
        lines = [line for series in recipe["series"] for line in recipe_file.lines_of(series, here, (x,))]
        for line in lines:
            line.points = _own_sizes(recipe, line.points)
        missing.append(recipe_file.missing_words(recipe, recipe["series"], lines))
        group = _group(recipe, lines, x)
        content.append((panel, group))
        everything.append((entry, panel, group, lines))
    absent = [words for words in missing[0] if all(words in others for others in missing)]
    _demand(recipe, everything, absent, recipe["series"])
    if absent:
        content[0][1].remarks.append(f"Not in these files: {', '.join(dict.fromkeys(absent))}.")
    used = [point for _, _, _, lines in everything for line in lines for point in line.points]
    header, rows = _table(everything, x)
    return Picture(
        content, width_of(recipe), recipe.get("per_row", 2), used, setting(recipe, used, {x}),
        header, rows, _line_rows(everything), absent,
    )  # fmt: skip


def _demand(recipe, everything, absent, series):
    """At least half of the series must be there, and something of them must have passed."""
    passed = any(point.row["verdict"] == "passed" for _, _, _, lines in everything for line in lines for point in line.points)
    if not passed or 2 * len(absent) > len(series):
        raise Unserved("no measurements of " + ", ".join(dict.fromkeys(absent)) if absent else "no measurement passed")


def _own_sizes(recipe, points):
    """Other recipes measure the same curve at other n; those are taken only where the recipe's own are too few."""
    own = recipe_file.measured_for(recipe, points, ())
    return own if len(own) >= 3 else points


def setting(recipe, points, without):
    """The line under the title: the source of the figure, and what all of its points share."""
    words = [] if recipe["source"] == "this project" else [f"after {recipe['source']}"]
    return "; ".join([*words, common_settings(points, without)])


def sources_of(points):
    found = []
    for point in points:
        if not any(point.source is source for source in found):
            found.append(point.source)
    return found


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
    words += [f"{key} = {recipe_file.text_of(value)}" for key, value in sorted(shared.items()) if dull.get(key) != value]
    return ", ".join(words)


# A panel's data


def _group(recipe, lines, x):
    axis = lines[0].points[0].axis if lines else "n"
    if x == "n" and len({point.axis for line in lines for point in line.points}) > 1:
        axis = "n"
    group = result_file.Group({}, axis if x == "n" else x, sources=[])
    for line in lines:
        implementation = line.points[0].settings["implementation"]
        style = plot_style.style_of(line.series.get("style", implementation))
        # Implementations have looks of their own.
        shades = 1 if line.series.get("by") == "implementation" else line.count
        group.styles[line.label] = plot_style.shade(style, line.index, shades)
        for point in line.points:
            place = point.settings["n"] if x == "n" else point.settings.get(x)
            group.rows.append({**point.row, "implementation": line.label, "n": place})
        _attach_theory(group, line)
    order = {line.label: index for index, line in enumerate(lines)}
    group.rows.sort(key=lambda row: (order[row["implementation"]], row["n"]))
    group.order = list(order)
    if x == "n":
        for pair in recipe.get("crossovers", []):
            group.crossovers += _pair_crossovers(pair, lines)
    return group


def _attach_theory(group, line):
    """Complexity and fits of a line, from its own file."""
    identity = line.points[0].identity
    if any(point.source is not line.points[0].source for point in line.points):
        return
    source = line.points[0].source
    implementation = line.points[0].settings["implementation"]
    for algorithm in source["algorithms"]:
        if all(algorithm[key] == identity[key] for key in ("operator", "backend")) and algorithm["implementation"] == implementation:
            group.algorithms[line.label] = algorithm
    for fit in source["fits"]:
        if fit["implementation"] == implementation and result_file.speaks_about(fit, identity):
            group.fits.append({**fit, "implementation": line.label})


def _pair_crossovers(pair, lines):
    found = []
    for fast in (line for line in lines if line.id == pair[0]):
        for dense in (line for line in lines if line.id == pair[1]):
            for quantity in ("seconds", "workspace_bytes"):
                entry = {"fast": fast.label, "dense": dense.label, "quantity": quantity}
                found.append({**entry, **crossing(_curve(fast, quantity), _curve(dense, quantity))})
    return found


def _curve(line, quantity):
    """{n: (middle, low, high)} of the points that passed."""
    curve = {}
    for point in line.points:
        row = point.row
        if row["verdict"] == "passed" and row[quantity]:
            low, high = (row["seconds_low"], row["seconds_high"]) if quantity == "seconds" else (None, None)
            curve[point.settings["n"]] = (row[quantity], low or row[quantity], high or row[quantity])
    return curve


def crossing(fast, dense):
    """Where fast overtakes dense for good, by the rule of the program's own crossovers: the last change of sign of the
    logarithm of the ratio at the sizes in common, on a straight line between two of them; the interval is that of the
    curves' own intervals. `reason` is in the program's words."""
    sizes = sorted(set(fast) & set(dense))
    found = {"n": None, "low": None, "high": None, "value": None, "reason": "fewer than two sizes in common"}
    if len(sizes) < 2:
        return found

    def last_change(of_fast, of_dense):
        ratios = [math.log(fast[n][of_fast] / dense[n][of_dense]) for n in sizes]
        if ratios[-1] >= 0:
            return None
        for index in range(len(sizes) - 2, -1, -1):
            if ratios[index] >= 0:
                share = ratios[index] / (ratios[index] - ratios[index + 1])
                return sizes[index] * (sizes[index + 1] / sizes[index]) ** share, index, share
        return None

    middle = last_change(0, 0)
    if middle is None:
        behind = fast[sizes[-1]][0] >= dense[sizes[-1]][0]
        words = f"not better at the largest size, n = {sizes[-1]}" if behind else f"better at every size from n = {sizes[0]} on"
        return {**found, "reason": words}
    n, index, share = middle
    ends = [last_change(1, 2), last_change(2, 1)]
    low, high = (end[0] if end and end[0] != n else None for end in ends)
    left, right = fast[sizes[index]][0], fast[sizes[index + 1]][0]
    return {"n": n, "low": low, "high": high, "value": left * (right / left) ** share, "reason": "the curves cross"}


# Tables of what is plotted


def _table(everything, x):
    shown = [column for _, panel, _, _ in everything for column in panel.columns() if column != "n"]
    header = list(dict.fromkeys(["panel", "series", "operator", "implementation", x, "verdict", *shown, "reason", "case"]))
    if not any(entry.get("title") for entry, *_ in everything):
        header.remove("panel")
    rows, seen = [], set()
    for entry, _, _, lines in everything:
        for line in lines:
            for point in sorted(line.points, key=lambda point: point.settings[x]):
                cells = {**point.settings, **point.row, "panel": entry.get("title", ""), "series": line.label}
                row = tuple(_cell(column, cells.get(column)) for column in header)
                if row not in seen:
                    seen.add(row)
                    rows.append(row)
    return header, rows


def _cell(column, value):
    if value is None:
        return "" if column in ("reason",) else "nan"
    return value


LINE_HEADER = ["panel", "kind", "quantity", "implementation", "dense", "value", "low", "high", "n_min", "n_max"]


def _line_rows(everything):
    rows = []
    for entry, panel, group, _ in everything:
        entries = [{**fit, "kind": "fit", "dense": "", "value": fit["exponent"]} for fit in group.fits]
        entries += [
            {**crossover, "kind": "crossover", "implementation": crossover["fast"], "value": crossover["n"]}
            for crossover in group.crossovers
        ]
        rows += [
            ["nan" if item.get(key) is None else item[key] for key in LINE_HEADER]
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
            times = [one.row["seconds"] for one in (point, *others)]
            ratio = times[1] / times[0] if len(times) == 2 and all(times) else None
            cells[place] = ratio
            header_rows.append([baseline["label"], *place, "nan" if ratio is None else ratio])
            used += [point, *others]
        if any(ratio is not None for ratio in cells.values()):
            panels_found.append((baseline["label"], cells))
        else:
            absent.append(recipe_file._series_words(baseline))
    if not panels_found:
        raise Unserved("no measurements of " + ", ".join(absent))
    header = ["baseline", x, y, "baseline_seconds_over_seconds"]
    return panels_found, used, header, header_rows, absent
