"""Reads recipes (format recipe/1) and finds the measurements that each of them shows.

A recipe names its settings as a sweep does; settings that a sweep does not name have their defaults (PLAIN). Any n matches,
so that a short run draws the same figures as a long one, with fewer points.
"""

import dataclasses
import functools
import pathlib

from reports.files import result_file
from reports.files.result_file import InputError

FOLDER = pathlib.Path(__file__).parent.parent / "recipes"
SCHEMA_PATH = pathlib.Path(__file__).with_name("recipe.schema.json")

# Defaults of settings that a sweep does not name; others (block, stride ...) may have any value, but only one.
PLAIN = {"scalar": "float32", "threads": 1, "input": "normal", "d": 64, "e": 64, "heads": 1, "causal": False,
         "backward": False, "normalize": False, "per_head": False, "batch": 1, "leading": "", "shared": "", "with": ""}  # fmt: skip


class Recipe:
    def __init__(self, name, content):
        self.name, self.content = name, content

    def __getitem__(self, key):
        return self.content[key]

    def get(self, key, default=None):
        return self.content.get(key, default)

    @property
    def kind(self):
        return self.content["kind"]


def load(path):
    path = pathlib.Path(path)
    content = result_file.read_format(path, "recipe/1", "a recipe")
    if "like" in content:
        content = _like_another(path, content)
    result_file.check_schema(path, content, SCHEMA_PATH)
    return Recipe(path.stem, content)


def _like_another(path, content):
    """Fills in what a recipe leaves out from the recipe that its `like` names; its `y` becomes that of every panel."""
    other = path.with_name(f"{content['like']}.json")
    try:
        base = result_file.read_format(other, "recipe/1", "a recipe")
    except InputError as error:
        raise InputError(f"{path}: like: {error}") from None
    if "like" in base:
        raise InputError(f"{path}: like: expected a recipe with sweeps of its own, found '{content['like']}'")
    merged = {**base, **content}
    if "y" in content and "panels" in base:
        merged["panels"] = [{**panel, "y": merged["y"]} for panel in base["panels"]]
    return merged


def load_all(folder=FOLDER):
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "none of this name"
        raise InputError(f"--recipes {folder}: expected a folder of recipes, found {found}")
    return [load(path) for path in sorted(folder.glob("*.json"))]


def text_of(value):
    """Returns a setting as text in one spelling: 1 for true, 64 for 64.0."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return "+".join(map(text_of, value))
    return str(value)


def axis_values(value):
    """Returns the values of an axis of a sweep as texts. The axis may be 4, [1, 2], "1,2", "256:4096:x4" or "1:9:+2"."""
    if isinstance(value, list):
        return [text for item in value for text in axis_values(item)]
    if not isinstance(value, str):
        return [text_of(value)]
    texts = []
    for part in value.split(","):
        pieces = part.split(":")
        if len(pieces) != 3 or pieces[2][:1] not in ("x", "+"):
            texts.append({"true": "1", "false": "0"}.get(part, part))
            continue
        number, last, step = int(pieces[0]), int(pieces[1]), int(pieces[2][1:])
        while number <= last:
            texts.append(str(number))
            number = number * step if pieces[2][0] == "x" else number + step
    return texts


def fits(settings, match):
    """Tells whether settings (a dict) match: each value is equal, or one of a list."""
    return all(key in settings and text_of(settings[key]) in axis_values(value) for key, value in match.items())


@dataclasses.dataclass
class Point:
    """A record with its settings by name (including n) and as a row of numbers."""

    settings: dict
    row: dict
    identity: dict
    axis: str
    source: dict
    place: str

    @functools.cached_property
    def line(self):
        return result_file.line_key(self.identity, self.settings["implementation"])


def points_of(files):
    """Returns every record of (path, content) pairs as a Point."""
    points = []
    for path, content in files:
        for index, record in enumerate(content["records"]):
            identity, axis, n = result_file.identify(record, content["environment"])
            row = result_file.make_row(record, n, content["environment"])
            image = {name: record["size"][name] for name in ("height", "width") if name in record["size"]}
            settings = {"with": "", **identity, **image, "implementation": record["implementation"], "n": n}
            points.append(Point(settings, row, identity, axis, content, f"{path}: records[{index}]"))
    return points


def platforms(points):
    """Returns the distinct (machine, backend) pairs. A figure never mixes them."""
    return list(dict.fromkeys((point.identity["machine"], point.identity["backend"]) for point in points))


def on_platform(points, platform):
    return [point for point in points if (point.identity["machine"], point.identity["backend"]) == platform]


def in_sweep(settings, sweep, free):
    wanted = {key: value for key, value in sweep.items() if key not in ("comment", "interleave", *free)}
    if not fits(settings, wanted):
        return False
    return all(
        key in sweep or key in free or key not in settings or text_of(settings[key]) == text_of(plain)
        for key, plain in PLAIN.items()
    )


def asks_for(recipe, settings, free):
    """Tells whether one of the recipe's sweeps measures these settings; `free` names axes on which any value matches."""
    return any(in_sweep(settings, sweep, free) for sweep in recipe["sweeps"])


def measured_for(recipe, points, free):
    """Returns the points that one of the recipe's sweeps measures."""
    return [point for point in points if asks_for(recipe, point.settings, free)]


def named_series(recipe):
    """Returns every series except `others`; a figure without these series is incomplete."""
    return [series for series in recipe["series"] if not series.get("others")]


def others_for(recipe, points, free):
    """Returns the points for a series `others`: one of the recipe's sweeps measures them, whatever their implementation, and
    they match no named series."""
    if named_series(recipe) == recipe["series"]:
        return []
    taken = {
        id(point)
        for point in measured_for(recipe, points, free)
        if any(_takes(series, point) for series in named_series(recipe))
    }
    asked = measured_for(recipe, points, (*free, "implementation"))
    return [point for point in asked if id(point) not in taken]


@dataclasses.dataclass
class Line:
    """One line of a figure: the points of a series, or those with one value of its `by`."""

    label: str
    series: dict
    value: object  # of the setting in `by`
    index: int  # among the values
    count: int
    points: list

    @property
    def id(self):
        return self.series.get("id", self.series["label"])


def _takes(series, point):
    left_out = series.get("except")
    return fits(point.settings, series["match"]) and not (left_out and fits(point.settings, left_out))


def lines_of(series, points, free):
    """Returns the Lines of a series from the points of its recipe. Raises InputError if a line would mix two settings."""
    chosen = [point for point in points if _takes(series, point)]
    by = series.get("by")
    values = (
        sorted({point.settings.get(by) for point in chosen}, key=lambda value: (str(type(value)), value))
        if by
        else [None]
    )
    lines = []
    for index, value in enumerate(values):
        own = [point for point in chosen if by is None or point.settings.get(by) == value]
        _check_one_thing(series, own, free)
        label = series["label"].replace("{" + str(by) + "}", text_of(value)) if by else series["label"]
        lines.append(Line(label, series, value, index, len(values), own))
    return [line for line in lines if line.points]


def _check_one_thing(series, points, free):
    ignored = {*free, "aspect", "height", "width"}
    seen, places = {}, {}
    for point in points:
        for key, value in point.settings.items():
            if key not in ignored and seen.setdefault(key, value) != value:
                raise InputError(
                    f"{point.place}: the line '{series['label']}' has results with both {key} = {seen[key]} and {key} = "
                    f"{value}; choose one of them in the recipe"
                )
        place = tuple(text_of(point.settings.get(name)) for name in free)
        if place in places:
            raise InputError(
                f"{point.place}: {point.settings['implementation']} at {point.row['case']} occurs twice in these files; "
                "draw the runs separately"
            )
        places[place] = point


def asked_values(recipe, series):
    """Returns the values of `by` that the recipe's sweeps measure, each of which is a line; none if the series has no `by`."""
    by = series.get("by")
    asking = [sweep for sweep in recipe["sweeps"] if by in sweep and _may_meet(sweep, series["match"])]
    return list(dict.fromkeys(value for sweep in asking for value in axis_values(sweep[by])))


def count_lines(recipe):
    """Returns the number of lines of a recipe if everything is measured."""
    return sum(max(1, len(asked_values(recipe, series))) for series in named_series(recipe))


def missing_lines(recipe, lines):
    """Describes the lines of the recipe for which the files have no data; empty if nothing is missing."""
    words = []
    for series in named_series(recipe):
        result = {text_of(line.value) for line in lines if line.series is series}
        values = asked_values(recipe, series)
        if values:
            words += [
                series["label"].replace("{" + series["by"] + "}", value) for value in values if value not in result
            ]
        elif not result:
            words.append(_series_words(series))
    return words


def missing_sides(recipe, lines):
    """Returns the operators without a line, for a recipe that compares (it names crossovers or a baseline)."""
    if not recipe.get("crossovers") and not any("against" in panel for panel in recipe.get("panels", [])):
        return []
    result = {_operator(line.series) for line in lines if not line.series.get("others")}
    return [fromkey for fromkey in dict.fromkeys(map(_operator, named_series(recipe))) if fromkey not in result]


def _operator(series):
    return ", ".join(axis_values(series["match"].get("operator", [])))


def _may_meet(sweep, match):
    """Tells whether some settings of a sweep may match."""
    return all(set(axis_values(sweep[key])) & set(axis_values(match[key])) for key in match if key in sweep)


def _series_words(series):
    match = series["match"]
    values = {
        key: "/".join(map(text_of, value if isinstance(value, list) else [value])) for key, value in match.items()
    }
    words = [values.pop(key) for key in ("operator", "implementation") if key in values]
    return " ".join([*words, *(f"{key} = {value}" for key, value in values.items())]) or series["label"]
