"""Draws two machines or two commits in one figure: every line of a recipe twice, with filled marks for the first and hollow, paler
marks for the second."""

import dataclasses
import pathlib

from reports.drawing import catalogue
from reports.drawing import panels
from reports.drawing import plot_style
from reports.drawing import recipe_figure
from reports.files import recipe_file
from reports.files import result_file
from reports.files.result_file import InputError


@dataclasses.dataclass
class Side:
    """The results of one machine or commit; `name` distinguishes it from the other."""

    name: str
    results: list
    points: list
    platforms: list


def sides_of(first, second, paths):
    """Returns two Sides from lists of (path, content) pairs. Raises InputError if one has no results or several machines."""
    made = []
    for results, path in zip((first, second), paths):
        if not results:
            raise InputError(f"{path}: expected result files (format results/1) to compare, found none")
        points = recipe_file.points_of(results)
        machines = {point.identity["machine"] for point in points}
        if len(machines) > 1:
            raise InputError(
                f"{path}: expected results of one machine to compare, found {len(machines)}: {', '.join(sorted(machines))}"
            )
        made.append((results, points, sorted(machines)[0]))
    for words in (
        [machine for _, _, machine in made],
        [
            ", ".join(dict.fromkeys(catalogue.commit(content["environment"]) for _, content in results))
            for results, _, _ in made
        ],
        [pathlib.Path(path).stem for path in paths],
    ):
        if words[0] != words[1]:
            break
    else:
        words = ["first", "second"]
    return [
        Side(name, results, points, recipe_file.platforms(points)) for name, (results, points, _) in zip(words, made)
    ]


def products(sides, recipes):
    """Returns (Products, [(recipe, why it cannot be drawn)]) of all recipes of curves for which both sides have data."""
    made, unserved = [], []
    for recipe in recipes:
        if recipe.kind != "curves":
            continue
        backends = [{backend for _, backend in side.platforms} for side in sides]
        for backend in sorted(backends[0] & backends[1]):
            try:
                made.append(_product(recipe, sides, backend))
            except recipe_figure.Unserved as reason:
                unserved.append((recipe, str(reason)))
    return made, unserved


def _picture(recipe, side, backend):
    own = [point for point in side.points if point.identity["backend"] == backend]
    try:
        return recipe_figure.curves(recipe, own, {})
    except recipe_figure.Unserved as reason:
        raise recipe_figure.Unserved(f"{side.name}: {reason}") from None


def _product(recipe, sides, backend):
    pictures = [_picture(recipe, side, backend) for side in sides]
    sides_words = f"A (filled): {sides[0].name}; B (hollow): {sides[1].name}."
    content = []
    for panel, first in pictures[0].content:
        second = next((group for other, group in pictures[1].content if other == panel), None)
        if second is None:
            continue
        group = result_file.Group({}, first.axis, sources=[])
        for letter, side, hollow in zip("AB", (first, second), (False, True)):
            names = {name: f"{name} ({letter})" for name in side.implementations()}
            group.order += names.values()
            for name, long_name in names.items():
                style = side.styles[name]
                group.styles[long_name] = _paler(style) if hollow else style
            group.rows += [{**row, "implementation": names[row["implementation"]]} for row in side.rows]
        group.remarks = [sides_words]
        content.append((dataclasses.replace(panel, theory="", quantity=""), group))
    if not content:
        raise recipe_figure.Unserved("there is no panel for which both A and B have points")
    points = [point for picture in pictures for point in picture.points]
    name = f"{recipe.name}-compare" + ("" if backend == "cpu" else f"-{backend}")
    header = ["side", *pictures[0].header]
    rows = [[side.name, *row] for side, picture in zip(sides, pictures) for row in picture.rows]
    text = catalogue.csv_text(header, rows)
    footers = [catalogue.footer(recipe_figure.sources_of(picture.points), (side.name, backend), None, text)
               for side, picture in zip(sides, pictures)]  # fmt: skip
    missing = [f"{side.name}: {words}" for side, picture in zip(sides, pictures) for words in picture.missing]
    width, per_row = pictures[0].width, pictures[0].per_row

    def draw():
        page = panels.draw(content, plot_style.width_named(width), recipe["title"], per_row, pictures[0].ticks)
        page.brief.insert(0, sides_words)
        return page

    return catalogue.Product(
        name, recipe["title"], recipe, "; ".join(footers), draw=draw, setting=recipe_figure.setting(recipe, points, {"n"}),
        data={f"{name}.csv": text}, missing=missing,
    )  # fmt: skip


def _paler(style):
    channels = [int(style.color[place : place + 2], 16) for place in (1, 3, 5)]
    mixed = [round(channel + (255 - channel) * 0.35) for channel in channels]
    return style._replace(color="#" + "".join(f"{channel:02x}" for channel in mixed), hollow=True)
