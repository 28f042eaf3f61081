#!/usr/bin/env python3
"""Draws result, study and summary files: every recipe for which they contain the data, and general figures of the other results.

    python3 -m reports.figures FILE... --out DIR [--format pdf,svg,png,tex] [--only NAME,..] [--general rest|all|none]
                               [--width column|text|INCHES] [--panels N] [--bare] [--style NAME|FILE] [--caption short|long]
                               [--compare A B]

A folder stands for the .json files in it. Nothing is measured or estimated here: exponents and crossovers of recipes come from
a summary file (`subquad summarize`). Recipes are in reports/recipes/; a study without a recipe is drawn under its own name.
Exit status: 0 drawn, 2 invalid arguments or files (nothing is written then).
"""

import argparse
import difflib
import fnmatch
import pathlib
import sys

if not __package__:  # run as a file
    sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from reports import interpreter  # noqa: E402

try:
    from reports.drawing import caption as captions
    from reports.drawing import catalogue
    from reports.drawing import compare
    from reports.drawing import layout
    from reports.drawing import plot_style
    from reports.files import recipe_file
    from reports.files import result_file
    from reports.files import study_file
    from reports.files import summary_file
except ImportError as error:
    interpreter.instead(__name__, error)


def load_files(paths):
    """Returns ([(path, content)] of result files, [StudyFile], Summary)."""
    results, studies, summaries = [], [], []
    for path in _expanded(paths):
        content = result_file._parse(path)
        if isinstance(content, dict) and content.get("format") == study_file.FORMAT:
            studies.append(study_file.load(path))
        elif isinstance(content, dict) and content.get("format") == summary_file.FORMAT:
            summaries.append(summary_file.load(path))
        else:
            results.append((path, result_file.load(path)))
    return results, studies, summary_file.Summary(summaries)


def _expanded(paths):
    """Replaces folders in `paths` by their .json files."""
    expanded = []
    for path in map(pathlib.Path, paths):
        result = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not result:
            raise result_file.InputError(
                f"{path}: expected a folder with result or study files, found no .json file in it"
            )
        expanded += result
    return expanded


def choose(made, only):
    """Returns all products, or those whose name, recipe, operator or kind matches one of `only` (with wildcards * and ?)."""
    if only is None:
        return made.products
    chosen = []
    for pattern in only.split(","):
        results = [
            product for product in made.products if any(fnmatch.fnmatchcase(name, pattern) for name in _names(product))
        ]
        if not results:
            raise result_file.InputError(f"--only {pattern}: {_why_nothing(made, pattern)}")
        chosen += [product for product in results if product not in chosen]
    return chosen


def _why_nothing(made, pattern):
    for recipe, why in made.unserved:
        if fnmatch.fnmatchcase(recipe.name, pattern):
            return f"recipe {recipe.name} cannot be drawn from these files: {why}"
    names = {name for product in made.products for name in _names(product) if name}
    near = difflib.get_close_matches(pattern, sorted(names), 4, 0.5)
    recipes = sorted({product.recipe.name for product in made.products if product.recipe})
    near = near or recipes or sorted(names)[:4]
    if not near:
        return "expected a figure that these files have data for, but there is none"
    return f"expected one of the {len(made.products)} figures of these files, for example {', '.join(near)}"


def _names(product):
    return product.name, product.recipe.name if product.recipe else "", *product.kinds


def parse_formats(text):
    formats = text.split(",")
    for name in formats:
        if name not in plot_style.FORMATS:
            raise argparse.ArgumentTypeError(f"expected {', '.join(plot_style.FORMATS)}, found {name!r}")
    return formats


def parse_width(text):
    if text in ("column", "text"):
        return text
    try:
        inches = float(text)
    except ValueError:
        inches = 0.0
    if not 2 <= inches <= 20:
        raise argparse.ArgumentTypeError(f"expected column, text or 2 to 20 inches, found {text!r}")
    return inches


def parse_panels(text):
    if text not in map(str, range(1, 10)):
        raise argparse.ArgumentTypeError(f"expected 1 to 9 panels, found {text!r}")
    return int(text)


def add_look(parser):
    """Adds the options for the look of figures."""
    parser.add_argument(
        "--width",
        type=parse_width,
        help="width of every figure: column or text, as defined by the style, or a number of inches (default: the width in "
        "the recipe)",
    )
    parser.add_argument(
        "--panels",
        metavar="N",
        type=parse_panels,
        help="number of panels side by side in every figure (default: the number in the recipe; figures at most "
        f"{layout.NARROW:g} in wide have at least two, and are at most {layout.HIGHEST:g} in high)",
    )
    parser.add_argument("--bare", action="store_true", help="draw only panels and legends, without a title over them")
    parser.add_argument(
        "--style",
        default="default",
        metavar="NAME",
        help=f"style of the figures (fonts, font sizes and widths): {', '.join(plot_style.named_styles())}, or a .json file "
        "with the keys of an entry of reports/drawing/styles.json (default: %(default)s)",
    )


def look_of(options):
    try:
        return plot_style.load_look(options.style, options.width, options.bare, options.panels)
    except plot_style.StyleError as error:
        raise result_file.InputError(str(error)) from None


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="figures.py",
        description="Draws figures and tables from result files (format results/1), study files (study/1) and summary files "
        "(summary/1). It draws every recipe in reports/recipes for which the files have enough data. Results that no recipe "
        "shows are drawn in general figures: time and workspace against n, error against n, and error against time. "
        "Each figure comes with its caption (NAME.caption.md and NAME.caption.tex) and the plotted data (CSV). The format tex "
        "is pgfplots code, which reads NAME-plot.csv.",
        epilog="Exit status: 0 figures written, 2 invalid arguments or files, or nothing to draw (nothing is written then).",
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="result, study and summary files, or folders of them; a figure may combine points of several files",
    )
    parser.add_argument("--out", metavar="DIR", required=True, type=pathlib.Path, help="folder to write to")
    parser.add_argument(
        "--format",
        default="pdf,svg,png,tex",
        type=parse_formats,
        help="file formats of the figures, separated by commas (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="draw only the figures with these names, or of these recipes, operators or kinds (such as error), separated by "
        "commas; * and ? are wildcards",
    )
    parser.add_argument(
        "--general",
        choices=("rest", "all", "none"),
        help="which results to draw in general figures: rest (those that no recipe shows), all, or none (default: rest, or "
        "all with --only)",
    )
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="compare two result files or folders, of two machines or two commits, instead of drawing FILE: each figure has "
        "every line of its recipe twice, once for A and once for B",
    )
    add_look(parser)
    parser.add_argument(
        "--caption",
        choices=captions.LENGTHS,
        default="short",
        help=f"length of captions: short has at most {captions.WORDS} words; long adds crossovers, verdicts on claims, and the "
        "reasons for missing points (default: %(default)s)",
    )
    parser.add_argument(
        "--recipes",
        metavar="DIR",
        type=pathlib.Path,
        default=recipe_file.FOLDER,
        help="folder of recipes (default: reports/recipes)",
    )
    options = parser.parse_args(arguments)
    if bool(options.files) == bool(options.compare):
        parser.error("expected either FILE... or --compare A B, found " + ("both" if options.files else "neither"))
    return options


LISTED = 6  # most names in a printed line


def listed(names, separator):
    more = len(names) - LISTED
    return separator.join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def rest_words(rest):
    """Returns the line about results that no recipe shows, with the name of the first general figure that shows them."""
    named = {}
    for entry in rest:
        names = named.setdefault((entry.identity["operator"], _unusual(entry.identity)), [])
        names += [name for name in entry.implementations if name not in names]
    words = [f"{operator} {', '.join(names)}{unusual}" for (operator, unusual), names in named.items()]
    return f"drawn only in general figures, such as {rest[0].figure}: {listed(words, '; ')}"


def _unusual(identity):
    """Returns text such as ` (float64, 2 threads)`: settings that recipes exclude unless they name them."""
    words = [] if identity["backend"] == "cpu" else [identity["backend"]]
    for key, plain in recipe_file.PLAIN.items():
        text = recipe_file.text_of(identity.get(key))
        if identity.get(key) is not None and text != recipe_file.text_of(plain):
            short = {"scalar": text, "threads": f"{text} threads"}
            words.append(short.get(key, key if identity[key] is True else f"{key} = {text}"))
    return f" ({', '.join(words)})" if words else ""


def written(folder, name, files):
    """Lists all files of a product as a shell pattern: `DIR/NAME{.svg,.caption.md,-plot.csv}`."""
    ends = [file.removeprefix(name) for file in files]
    dot = "." if all(end.startswith(".") for end in ends) else ""
    return folder / f"{name}{dot}{{{','.join(end.removeprefix(dot) for end in ends)}}}"


def unserved_words(unserved):
    names = list(dict.fromkeys(recipe.name for recipe, _ in unserved))
    subject, pronoun = ("1 recipe is", "it") if len(names) == 1 else (f"{len(names)} recipes are", "them")
    return (
        f"{subject} not drawn, because these files have too little data for {pronoun} (--only NAME says what is missing): "
        f"{listed(names, ', ')}"
    )


def nothing_words(options, made):
    """Returns the error if there is nothing to draw: which recipes lack data, and what to do."""
    names = list(dict.fromkeys(recipe.name for recipe, _ in made.unserved))
    if options.compare:
        return f"nothing to draw: no recipe of curves has data in both {options.compare[0]} and {options.compare[1]}"
    others = "" if options.general != "none" else ", or leave out --general none to draw all results in general figures"
    return (
        "nothing to draw: these files have too little data for every recipe "
        f"({listed(names, ', ') or 'there are none'}); use --only RECIPE to see what it lacks{others}"
    )


def build(options):
    """Builds the catalogue for these options."""
    recipes = recipe_file.load_all(options.recipes)
    if options.compare:
        sides = compare.sides_of(*(load_files([path])[0] for path in options.compare), options.compare)
        return catalogue.Catalogue(*compare.products(sides, recipes), [])
    results, studies, summary = load_files(options.files)
    general = options.general or ("all" if options.only else "rest")
    return catalogue.build(results, studies, recipes, general, summary)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        plot_style.use_style(look_of(options))
        made = build(options)
        chosen = choose(made, options.only)
        if not chosen:
            raise result_file.InputError(nothing_words(options, made))
        drawn = [product.files(options.format, options.caption) for product in chosen]
        result_file.make_folder(options.out)
        for warning in made.warnings:
            print(f"figures.py: note: {warning}", file=sys.stderr)
        for product, files in zip(chosen, drawn):
            for name, content in files.items():
                (options.out / name).write_bytes(content)
            print(written(options.out, product.name, files))
        if made.rest and options.only is None:
            print(rest_words(made.rest))
        if made.unserved and options.only is None:
            print(unserved_words(made.unserved))
    except result_file.InputError as error:
        print(f"figures.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"figures.py: {error.filename or options.out}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
