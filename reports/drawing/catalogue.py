"""Lists the figures of a set of files: every recipe for which they have the data, and three general figures for each group with
other results."""

import copy
import csv
import dataclasses
import hashlib
import io
import re
import typing

from reports.drawing import caption as captions
from reports.drawing import map_panels
from reports.drawing import panels
from reports.drawing import pgfplots
from reports.drawing import plot_style
from reports.drawing import quantities
from reports.drawing import ratio_panels
from reports.drawing import recipe_figure
from reports.drawing import study_panels
from reports.files import recipe_file
from reports.files import result_file
from reports.files import summary_file
from reports.drawing import tables

FEWEST_RATIOS = 5  # that are drawn


@dataclasses.dataclass
class Product:
    """One figure or table, with a way to get its bytes."""

    name: str  # of its files
    title: str
    recipe: recipe_file.Recipe | None  # None: a general figure
    footer: str  # where the numbers come from
    draw: typing.Callable | None = None  # -> layout.Page
    setting: str = ""  # what all points share
    table: tables.Table | None = None
    data: dict = dataclasses.field(default_factory=dict)  # file name -> CSV text
    kinds: tuple = ()  # other words that choose it
    missing: list = dataclasses.field(default_factory=list)  # what the recipe shows and the files do not hold
    about: str = ""  # the one model of a study that a figure is about
    source: str = ""  # stands for the setting in a short caption
    finding: str = ""  # of a table: what it comes to, where that is a sentence

    def caption(self, page):
        missing = [f"Lines that are not in these files: {len(self.missing)}"] if self.missing else []
        brief = [*page.brief[:1], *missing, *page.brief[1:]]
        return captions.Caption(self.name, self.title, self.setting, page.notes, page.numbers, self.footer, brief,
                                self.source or self.setting)  # fmt: skip

    def files(self, formats, caption="short"):
        """Returns {file name: bytes}; caption: the length of the caption."""
        made = {}
        if self.draw:
            page = self.draw()
            made = {
                f"{self.name}.{entry}": plot_style.render(page.figure, entry) for entry in formats if entry != "tex"
            }
            if "tex" in formats:
                made.update(pgfplots.files(self.name, page))
            words = self.caption(page)
            made[f"{self.name}.caption.md"] = words.markdown(caption).encode()
            made[f"{self.name}.caption.tex"] = words.latex(caption).encode()
        if self.table:
            made[f"{self.name}.md"] = f"**{self.title}**\n\n{self.table.markdown()}\n{self.footer}\n".encode()
            made[self.table_file()] = self.table.latex(self.title, self.footer).encode()
        return {**made, **{name: text.encode() for name, text in self.data.items()}}

    def table_file(self):
        """Returns the name of the LaTeX file of its table; NAME.tex is the figure if there is one."""
        return f"{self.name}-table.tex" if self.draw else f"{self.name}.tex"


@dataclasses.dataclass
class Rest:
    """Lines of one group that no recipe shows."""

    identity: dict  # of the group
    implementations: list
    figure: str  # the first of the general figures that show them


@dataclasses.dataclass
class Catalogue:
    products: list
    unserved: list  # (recipe, why)
    warnings: list
    rest: list = dataclasses.field(default_factory=list)
    unmeasured: list = dataclasses.field(default_factory=list)  # those of `unserved` of which the files hold nothing


def build(results, studies, recipes, general="rest", summary=None):
    """Builds the catalogue. results: (path, content) pairs; studies: StudyFiles; general: the groups that get general figures,
    `rest` (those with a line that no recipe shows), `all` or `none`; summary: a Summary."""
    summary = summary or summary_file.Summary()
    summary.check(results)
    names = [study.name for study in studies]
    for name in names:
        if names.count(name) > 1:
            raise result_file.InputError(
                f"study {name} is in two of these files, whose figures would have the same name; draw them separately"
            )
    points = recipe_file.points_of(results)
    platforms = recipe_file.platforms(points)
    products, unserved, unmeasured, taken = [], [], [], set()
    for recipe in sorted(recipes, key=_by_source):
        made, why, measured = [], [], False
        for platform in [None] if recipe.kind == "study" else platforms:
            try:
                product, used = _make(recipe, platform, results, points, studies, summary, recipes)
            except recipe_figure.Unserved as reason:
                why.append(str(reason))
                measured |= not isinstance(reason, recipe_figure.Unmeasured)
                continue
            if len(platforms) > 1 and platform:
                product = _renamed(product, f"{product.name}-{_slug(platform[0])}", f"{product.title} ({platform[0]})")
            made.append(product)
            taken |= _taken(recipe, used, points)
        products += made
        if made and recipe.kind == "study":
            products += _parts(made[0], next(study for study in studies if study.name == recipe["study"]))
        if not made:
            unserved.append((recipe, "; ".join(dict.fromkeys(why)) or "no result file was given"))
            if not measured:
                unmeasured.append(recipe)
    named = {recipe.get("study") for recipe in recipes}
    for study in studies:
        if study.name not in named and study.name in study_panels.DRAWINGS:
            products.append(_study_product(study.name, study.name.replace("_", " "), None, study))
            products += _parts(products[-1], study)
    if not results or general == "none":
        return Catalogue(products, unserved, [], unmeasured=unmeasured)
    figures, warnings, rest = _general(results, taken, general == "all")
    return Catalogue(products + figures, unserved, warnings, rest, unmeasured)


PAPERS = ("NPRF", "FastRPB", "LRPE", "Transformer-XL", "Transformers II", "this project")


def _by_source(recipe):
    """Orders recipes by paper, ours last."""
    ranks = [rank for rank, paper in enumerate(PAPERS) if recipe["source"].startswith(paper)]
    return (ranks or [len(PAPERS)])[0], recipe.name


def _renamed(product, name, title):
    data = {name + file_name[len(product.name) :]: text for file_name, text in product.data.items()}
    return dataclasses.replace(product, name=name, title=title, data=data)


def _slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _make(recipe, platform, results, points, studies, summary, recipes):
    """Returns (Product, the points that it shows)."""
    title = recipe["title"]
    if recipe.kind == "study":
        return _study(recipe, studies), []
    own = recipe_file.on_platform(points, platform)
    if recipe.kind in ("fits", "crossovers"):
        contents = [content for _, content in results if any(point.source is content for point in own)]
        fits = recipe.kind == "fits"
        table = tables.exponents(summary, contents, platform, recipes) if fits else tables.crossovers(summary, platform)
        words = footer(contents, platform, None, table.csv())
        finding = tables.workspace_finding(contents, platform) if fits else ""
        data = {f"{recipe.name}.csv": table.csv()}
        return Product(recipe.name, title, recipe, words, table=table, data=data, finding=finding), []
    if recipe.kind == "table":
        table = tables.picked(recipe, own)
        words = _footer_of(table.points, platform, table.csv())
        return (
            Product(recipe.name, title, recipe, words, table=table, data={f"{recipe.name}.csv": table.csv()}),
            table.points,
        )
    if recipe.kind == "map":
        return _map(recipe, platform, own)
    if recipe.kind == "ratios":
        return _ratios(recipe, platform, results, own)
    picture = recipe_figure.curves(recipe, own, summary.panels(recipe.name, platform))
    data = {f"{recipe.name}.csv": csv_text(picture.header, picture.rows)}
    if picture.lines:
        data[f"{recipe.name}-lines.csv"] = csv_text(recipe_figure.LINE_HEADER, picture.lines)
    words = _footer_of(picture.points, platform, "".join(data.values()))
    return Product(
        recipe.name, title, recipe, words, draw=lambda: picture.draw(title), setting=picture.setting, data=data,
        missing=picture.missing,
    ), picture.points  # fmt: skip


def _map(recipe, platform, own):
    maps, used, header, rows, absent = recipe_figure.ratio_map(recipe, own)
    data = {f"{recipe.name}.csv": csv_text(header, rows)}
    words = _footer_of(used, platform, data[f"{recipe.name}.csv"])
    fast = recipe["series"][0]["label"]
    notes = [
        f"Number: time of the baseline / time of {fast}. Blue, above 1: {fast} is faster; the black line is the border."
    ]
    if any(ratio is None for _, cells in maps for ratio in cells.values()):
        notes.append("–: not measured, or not passed.")
    if absent:
        notes.append(f"Not in these files: {', '.join(absent)}.")
    setting = recipe_figure.setting(recipe, used, {recipe.get("x", "n"), recipe["y"]})
    names = (recipe.get("x", "n"), recipe["y"])
    draw = lambda: map_panels.draw(  # noqa: E731
        maps, names, plot_style.width_named(recipe_figure.width_of(recipe)), recipe["title"], notes
    )
    return Product(
        recipe.name, recipe["title"], recipe, words, draw=draw, setting=setting, data=data, missing=absent
    ), used  # fmt: skip


def _ratios(recipe, platform, results, own):
    contents = [content for _, content in results if any(point.source is content for point in own)]
    machine, backend = platform
    contents = [content for content in contents if result_file.machine_name(backend, content["environment"]) == machine]
    asked = lambda settings: settings["backend"] == backend and recipe_file.asks_for(
        recipe, settings, ("n",)
    )  # noqa: E731
    table, rows, inputs = tables.input_ratios(contents, asked)
    used = recipe_file.measured_for(recipe, own, ("n",))
    words = footer(contents, platform, _threads(used), table.csv())
    differing = [row for row in rows if any(ratio_panels.says(entry) != "the same" for entry in row[1])]
    near = f"{len(rows) - len(differing)} of {len(rows)} rows are within {round(100 * (ratio_panels.NEAR - 1))} %"
    product = Product(
        recipe.name, recipe["title"], recipe, words, table=table, data={f"{recipe.name}.csv": table.csv()}
    )
    if len(differing) < FEWEST_RATIOS:  # a sentence says as much
        product.finding = "; all but ".join([near, *filter(None, [", ".join(words for words, _ in differing)])])
        return product, used
    notes = [f"{near} (the grey band) and left out; the table has all.", table.note]
    product.draw = lambda: ratio_panels.draw(
        differing, inputs, plot_style.width_named(recipe_figure.width_of(recipe)), recipe["title"], notes
    )
    return product, used


def _study(recipe, studies):
    results = [study for study in studies if study.name == recipe["study"]]
    if not results:
        raise recipe_figure.Unmeasured(f"the study {recipe['study']} is not in these files")
    study = results[0]
    if study.name not in study_panels.DRAWINGS:
        raise recipe_figure.Unserved(f"there is no drawing for the study {recipe['study']}")
    return _study_product(recipe.name, recipe["title"], recipe, study)


def _study_product(name, heading, recipe, study):
    environment = study.content["environment"]
    data = {f"{name}-{entry}.csv": csv_text(table.columns, _plain_rows(table)) for entry, table in study.tables.items()}
    digest = hashlib.sha256("".join(data.values()).encode()).hexdigest()[:12]
    words = ", ".join([result_file.machine_name("cpu", environment), f"commit {commit(environment)}", compiler(environment),
                       study.content["created"][:10], f"seed {study.content['seed']}", f"data {digest}"])  # fmt: skip
    named = copy.copy(study)
    named.heading = heading
    make_table = tables.OF_STUDIES.get(study.name)
    return Product(
        name,
        heading,
        recipe,
        words,
        draw=lambda: study_panels.draw(named),
        table=make_table(study) if make_table else None,
        setting=f"{study.content['purpose'].rstrip('.')} ({study.content['source']})",
        source=recipe_figure.after(study.content["source"]),
        data=data,
    )


def _parts(product, study):
    """Returns the study's other figures, one for each model."""
    return [
        dataclasses.replace(
            product, name=f"{product.name}-{suffix}", title=f"{product.title}: {words}", data={}, kinds=(study.name,), about=words,
            draw=draw_part,
        )
        for suffix, words, draw_part in study_panels.parts(study)
    ]  # fmt: skip


def _plain_rows(table):
    return [["nan" if cell != cell else cell for cell in row.values()] for row in table.rows]


# The general figures


@dataclasses.dataclass
class General:
    """One of the general figures for one group of records."""

    name: str
    kind: str
    width: str
    panels: tuple
    group: result_file.Group

    def columns(self):
        shown = [column for panel in self.panels for column in panel.columns()]
        return list(dict.fromkeys(["implementation", "n", "verdict", *shown, "reason"]))

    def points_csv(self):
        """Returns the plotted data, one row per point; a missing value is nan, as pgfplots expects."""
        numbers = set(self.columns()) - {"implementation", "verdict", "reason"}
        empty = {column: "nan" if column in numbers else "" for column in self.columns()}
        return csv_text(
            self.columns(),
            [[empty[column] if row[column] is None else row[column] for column in empty] for row in self.group.rows],
        )

    def lines_csv(self):
        """Returns the fits and crossovers of the plotted quantities, or None if there are none."""
        header = ["kind", "quantity", "implementation", "dense", "value", "low", "high", "n_min", "n_max"]
        entries = [{**fit, "kind": "fit", "dense": "", "value": fit["exponent"]} for fit in self.group.fits]
        entries += [
            {**crossover, "kind": "crossover", "implementation": crossover["fast"], "value": crossover["n"]}
            for crossover in self.group.crossovers
        ]
        wanted = {panel.quantity for panel in self.panels}
        shown = [entry for entry in entries if entry["quantity"] in wanted]
        if not shown:
            return None
        return csv_text(
            header, [["nan" if entry.get(key) is None else entry[key] for key in header] for entry in shown]
        )

    def product(self):
        data = {f"{self.name}.csv": self.points_csv()}
        lines = self.lines_csv()
        if lines is not None:
            data[f"{self.name}-lines.csv"] = lines
        identity = self.group.identity
        platform = (identity["machine"], identity["backend"])
        words = footer(self.group.sources, platform, identity["threads"], "".join(data.values()))
        heading, shared = title(self.group)
        content = [(panel, self.group) for panel in self.panels]
        content = [entry for entry in content if panels.is_measured(*entry)] or content
        return Product(
            self.name, ", ".join(part for part in (heading, shared) if part), None, words,
            draw=lambda: panels.draw(content, plot_style.width_named(self.width), heading), data=data,
            kinds=(identity["operator"], self.kind),
        )  # fmt: skip


def _taken(recipe, used, points):
    """Returns the lines (result_file.line_key) of which a recipe shows a point. A table counts only for lines that are complete in
    its cells, since a few numbers are not a curve."""
    lines = {point.line for point in used}
    if recipe.kind != "table":
        return lines
    cells = {id(point) for point in used}
    return lines - {point.line for point in points if id(point) not in cells}


def _general(results, taken, everything):
    """Returns (Products, warnings, [Rest]); everything: include groups all of whose lines are in recipes."""
    groups, warnings = result_file.group_records(results)
    made, rest = [], []
    for name, group in zip(result_file.figure_names(groups), groups):
        left = [
            implementation
            for implementation in group.implementations()
            if result_file.line_key(group.identity, implementation) not in taken
        ]
        if not left and not everything:
            continue
        figures = [
            General(f"{name}-{kind}", kind, width, shapes, group).product()
            for kind, (width, shapes) in quantities.GENERAL.items()
        ]
        made += figures
        if left:
            rest.append(Rest(group.identity, left, figures[0].name))
    return made, warnings, rest


def title(group):
    """Returns the settings that all points of the figure share, as (words in bold, the rest)."""
    identity = dict(group.identity)
    identity.pop("machine")
    heading = identity.pop("operator")
    scalar, backend, threads = (identity.pop(key) for key in ("scalar", "backend", "threads"))
    words = [scalar]
    if backend != "cpu":
        words.append(backend)
    if threads is not None and backend == "cpu":
        words.append("1 thread" if threads == 1 else f"{threads} threads")
    words += [f"{key} = {_value(value)}" for key, value in sorted(identity.items())]
    return heading, ", ".join(words)


def _value(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:3])
        return f"[{shown}]" if len(value) <= 3 else f"[{shown}, … {len(value)} in all]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Footers: where points come from


def _footer_of(points, platform, data):
    sources = recipe_figure.sources_of(points)
    return footer(sources, platform, _threads(points), data)


def _threads(points):
    counts = {point.settings.get("threads") for point in points}
    return counts.pop() if len(counts) == 1 else None


def footer(sources, platform, threads, data):
    """Returns machine, commit, compiler, date and a digest of the plotted data."""
    environments = [source["environment"] for source in sources]
    machine, backend = platform
    parts = [machine]
    if backend == "cpu" and threads is not None:
        parts.append("1 thread" if threads == 1 else f"{threads} threads")
    parts += [
        _all("commit", [commit(environment) for environment in environments]),
        _all("", [compiler(environment) for environment in environments]),
        _all("", [source["created"][:10] for source in sources]),
        "data " + hashlib.sha256(data.encode()).hexdigest()[:12],
    ]
    return ", ".join(parts)


def _all(word, values):
    return f"{word} {' and '.join(dict.fromkeys(values))}".strip()


def commit(environment):
    return (environment["commit"] or "unknown")[:10] + ("+changes" if environment["dirty"] else "")


def compiler(environment):
    """CMake's names of compilers, as their users know them."""
    return re.sub(r"^GNU\b", "GCC", environment["compiler"])


def csv_text(header, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
