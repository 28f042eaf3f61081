#!/usr/bin/env python3
"""Draws result files: time, workspace and error against n, and error against time, one set for every operator.

    python3 reports/figures.py FILE... --out DIR [--format pdf,svg,png] [--only NAME]

Study files among the FILEs are drawn by studies.py. Everything drawn stands in the files; fits and crossovers too. A figure is a Recipe, a list of Panels, and a panel says
which columns of the table (result_file.Group.rows) it shows: add one to RECIPES and it is drawn for every operator.
Exit status: 0 drawn, 2 a file or the request is not valid (nothing is written then).
"""

import argparse
import csv
import dataclasses
import fnmatch
import hashlib
import io
import pathlib
import sys
import typing

try:
    import panels
    import plot_style
    import result_file
    import study_file
except ImportError as error:
    print(
        f"figures.py: {error}; on Debian and Ubuntu: apt install python3-numpy python3-matplotlib python3-jsonschema, "
        "then run it with /usr/bin/python3",
        file=sys.stderr,
    )
    sys.exit(2)


class Recipe(typing.NamedTuple):
    name: str
    width: float
    panels: tuple


TIME = panels.Panel(
    y="seconds",
    label="seconds per run",
    low="seconds_low",
    high="seconds_high",
    tick_format=plot_style.format_seconds,
    quantity="seconds",
    theory="time",
)
MEMORY = panels.Panel(
    y="workspace_bytes",
    label="bytes beyond inputs and output",
    thin="workspace_formula_bytes",
    thin_meaning="thin line: the implementation's own formula",
    tick_format=plot_style.format_bytes,
    ticks=plot_style.binary_ticks,
    quantity="workspace_bytes",
    theory="memory",
)
ERROR = panels.Panel(
    y="max_error",
    label="largest absolute error",
    thin="bound",
    thin_meaning="thin line: bound from theory",
    thin_in_limits=True,
    tick_format=plot_style.format_error,
)
ERROR_AGAINST_TIME = panels.Panel(
    x="seconds",
    x_label="seconds per run",
    x_format=plot_style.format_seconds,
    y="max_error",
    label="largest absolute error",
    tick_format=plot_style.format_error,
    frontier=True,
)

RECIPES = (
    Recipe("time-memory", plot_style.PAGE_WIDTH, (TIME, MEMORY)),
    Recipe("error", plot_style.COLUMN_WIDTH, (ERROR,)),
    Recipe("error-time", plot_style.COLUMN_WIDTH, (ERROR_AGAINST_TIME,)),
)


@dataclasses.dataclass
class Drawing:
    """A figure still to be drawn: a recipe for a group, under its file name."""

    name: str
    recipe: Recipe
    group: result_file.Group

    def columns(self):
        shown = [column for panel in self.recipe.panels for column in panel.columns()]
        return list(dict.fromkeys(["implementation", "n", "verdict", *shown, "reason"]))

    def points_csv(self):
        """What is plotted, a row for each point; a missing number is nan, as pgfplots wants it."""
        numbers = set(self.columns()) - {"implementation", "verdict", "reason"}
        empty = {column: "nan" if column in numbers else "" for column in self.columns()}
        return _csv(
            self.columns(),
            [[empty[column] if row[column] is None else row[column] for column in empty] for row in self.group.rows],
        )

    def lines_csv(self):
        """Fits and crossovers of the quantities shown, or None if there are none."""
        header = ["kind", "quantity", "implementation", "dense", "value", "low", "high", "n_min", "n_max"]
        entries = [{**fit, "kind": "fit", "dense": "", "value": fit["exponent"]} for fit in self.group.fits]
        entries += [
            {**crossover, "kind": "crossover", "implementation": crossover["fast"], "value": crossover["n"]}
            for crossover in self.group.crossovers
        ]
        quantities = {panel.quantity for panel in self.recipe.panels}
        shown = [entry for entry in entries if entry["quantity"] in quantities]
        if not shown:
            return None
        return _csv(header, [["nan" if entry.get(key) is None else entry[key] for key in header] for entry in shown])


def _csv(header, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def title(group):
    """What every point of the figure has in common, as (words in bold, the rest)."""
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


def footer(group, data):
    """Where the points come from: machine, commit, compiler, date, and a fingerprint of the data plotted."""
    environments = [source["environment"] for source in group.sources]
    threads = group.identity["threads"]
    parts = [group.identity["machine"]]
    if group.identity["backend"] == "cpu" and threads is not None:
        parts.append("1 thread" if threads == 1 else f"{threads} threads")
    parts += [
        _all("commit", [_commit(environment) for environment in environments]),
        _all("", [environment["compiler"] for environment in environments]),
        _all("", [source["created"][:10] for source in group.sources]),
        "data " + hashlib.sha256(data.encode()).hexdigest()[:12],
    ]
    return ", ".join(parts)


def _all(word, values):
    return f"{word} {' and '.join(dict.fromkeys(values))}".strip()


def _commit(environment):
    return (environment["commit"] or "unknown")[:10] + ("+changes" if environment["dirty"] else "")


def plan(groups, only):
    """All drawings, or those whose file name, operator or recipe is `only` (which may hold * and ?)."""
    drawings = [
        Drawing(f"{name}-{recipe.name}", recipe, group)
        for name, group in zip(result_file.figure_names(groups), groups)
        for recipe in RECIPES
    ]
    if only is None:
        return drawings
    chosen = [
        drawing
        for drawing in drawings
        if any(
            fnmatch.fnmatchcase(candidate, only)
            for candidate in (drawing.name, drawing.group.identity["operator"], drawing.recipe.name)
        )
    ]
    if not chosen:
        names = ", ".join(drawing.name for drawing in drawings)
        raise result_file.InputError(f"--only {only}: no figure of that name; there are {names}")
    return chosen


def write(drawing, formats, directory):
    """Writes one figure in every format, and its data beside it."""
    points, lines = drawing.points_csv(), drawing.lines_csv()
    figure = panels.draw(
        drawing.recipe.panels,
        drawing.recipe.width,
        drawing.group,
        title(drawing.group),
        footer(drawing.group, points + (lines or "")),
    )
    for file_format in formats:
        (directory / f"{drawing.name}.{file_format}").write_bytes(plot_style.render(figure, file_format))
    (directory / f"{drawing.name}.csv").write_text(points, encoding="utf-8")
    if lines is not None:
        (directory / f"{drawing.name}-lines.csv").write_text(lines, encoding="utf-8")


def parse_formats(text):
    formats = text.split(",")
    for name in formats:
        if name not in plot_style.FORMATS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(plot_style.FORMATS)}")
    return formats


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="figures.py",
        description="Draws result files (format results/1): for every operator time and workspace against n, error "
        "against n, and error against time, with the data plotted as CSV beside each figure.",
        epilog="Exit status: 0 drawn, 2 a file or the request is not valid (nothing is written then).",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="result files, whose points are drawn together, and study files")
    parser.add_argument("--out", metavar="DIR", required=True, type=pathlib.Path, help="folder to write to")
    parser.add_argument(
        "--format",
        default="pdf,svg,png",
        type=parse_formats,
        help="formats, separated by commas (default: %(default)s)",
    )
    parser.add_argument("--only", metavar="NAME", help="only this figure, operator or kind; may hold * and ?")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        studies = [pathlib.Path(path) for path in options.files if study_file.is_study(path)]
        if studies and options.only is None:
            import studies as study_drawing

            study_drawing.draw(studies, options.out, options.format)
        files = [(path, result_file.load(path)) for path in options.files if pathlib.Path(path) not in studies]
        if studies and not files:
            return 0
        groups, warnings = result_file.group_records(files)
        drawings = plan(groups, options.only)
        options.out.mkdir(parents=True, exist_ok=True)
        for warning in warnings:
            print(f"figures.py: note: {warning}", file=sys.stderr)
        plot_style.use_style()
        for drawing in drawings:
            write(drawing, options.format, options.out)
            print(options.out / f"{drawing.name}.{{{','.join([*options.format, 'csv'])}}}")
    except result_file.InputError as error:
        print(f"figures.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"figures.py: {error.filename or options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
