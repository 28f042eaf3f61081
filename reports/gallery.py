#!/usr/bin/env python3
"""Rewrites the gallery of the README from committed results: figures, what they show, whether they agree.

    python3 -m reports.gallery DIR [--claims FILE] [--readme README.md] [--check]

DIR holds result and study files of one machine (reports/results/MACHINE); the figures go to DIR/figures as SVG. What stands
between <!-- gallery --> and <!-- /gallery --> is replaced; every word of it is a recipe's or follows from a file of claims or
of a study. --check writes nothing and fails when something would change.
Exit status: 0 done, 1 --check found a difference, 2 a file or the request is not valid.
"""

import argparse
import os
import pathlib
import re
import sys

try:
    from reports.drawing import catalogue
    from reports import figures
    from reports import page
    from reports.drawing import plot_style
    from reports.files import recipe_file
    from reports.files.result_file import InputError
except ImportError as error:
    print(f"gallery.py: {error}; on Debian and Ubuntu: apt install python3-numpy python3-matplotlib python3-jsonschema",
          file=sys.stderr)  # fmt: skip
    sys.exit(2)

BEGIN, END = "<!-- gallery -->", "<!-- /gallery -->"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def first_sentence(text):
    """Up to the first full stop that ends a sentence; a colon does not."""
    return re.split(r"(?<=[.]) (?=[A-Z])", text, maxsplit=1)[0]


def agreement(product, claims, studies):
    """(verdict, numbers) pairs: of the recipe's claims, or else of its study; nothing is made up here."""
    recipe = product.recipe
    known = {claim["id"]: claim for claim in claims or []}
    found = [known[name] for name in recipe.get("claims", []) if name in known and not product.about]
    if not found and recipe.kind == "study":
        found = [verdict for study in studies if study.name == recipe["study"] for verdict in study.content["verdicts"]
                 if verdict["claim"].partition("/")[2] == product.about]  # fmt: skip
    return [(claim.get("id", claim.get("claim")), claim["verdict"], claim["numbers"]) for claim in found]


def entry(product, link, claims, studies):
    """One line that unfolds to the figure."""
    recipe = product.recipe
    answers = agreement(product, claims, studies)
    verdicts = ", ".join(dict.fromkeys(verdict for _, verdict, _ in answers))
    if not answers and recipe["source"] != "this project":
        verdicts = "not judged"
    head = f"{product.title} ({recipe['source']})" + (f": <b>{verdicts}</b>" if verdicts else "")
    lines = ["<details>", f"<summary>{head}</summary>", "", first_sentence(recipe["shows"]), ""]
    lines += [f"- `{name}`: **{verdict}**. {' '.join(numbers.split())}" for name, verdict, numbers in answers]
    if product.missing:
        lines.append(f"- Not in these results: {', '.join(product.missing)}.")
    if lines[-1]:
        lines.append("")
    return [*lines, f"![{product.title}]({link})", "", "</details>", ""]


def build(made, claims, studies, folder, readme):
    """(text of the gallery, {path: bytes} of its figures)"""
    written, lines = {}, []
    for product in made.products:
        if product.recipe is None or not product.draw:
            continue
        path = folder / "figures" / f"{product.name}.svg"
        written[path] = product.files(["svg"])[f"{product.name}.svg"]
        link = os.path.relpath(path, readme.parent).replace(os.sep, "/")
        lines += entry(product, link, claims, studies)
    for product in made.products:
        if product.recipe is not None and product.table:
            path = folder / "figures" / f"{product.name}.md"
            written[path] = product.files([])[f"{product.name}.md"]
            link = os.path.relpath(path, readme.parent).replace(os.sep, "/")
            lines += [f"Table: [{product.title}]({link}) ({product.recipe['source']}).", ""]
    if made.unserved:
        words = ", ".join(f"`{recipe.name}`" for recipe, _ in made.unserved)
        lines += [f"Not drawn from these results: {words}.", ""]
    return "\n".join(lines).rstrip() + "\n", written


def replaced(text, gallery, readme):
    if text.count(BEGIN) != 1 or text.count(END) > 1:
        raise InputError(f"{readme}: must hold {BEGIN} once and {END} at most once")
    before, after = text.split(BEGIN)
    if END in after:
        after = after.split(END)[1]
    return f"{before}{BEGIN}\n{gallery}{END}{after}"


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="gallery.py",
        description="Rewrites the gallery between <!-- gallery --> and <!-- /gallery --> of the README from the result "
        "and study files in DIR, and the figures in DIR/figures.",
        epilog="Exit status: 0 done, 1 --check found a difference, 2 a file or the request is not valid.",
    )
    parser.add_argument("folder", metavar="DIR", type=pathlib.Path, help="folder of one machine's result and study files")
    parser.add_argument("--claims", metavar="FILE", help="what `subquad claims` wrote (default: DIR/claims/claims.json if there)")
    parser.add_argument("--readme", metavar="FILE", type=pathlib.Path, default=ROOT / "README.md", help="text to rewrite")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something would change")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        claims_path = options.claims or options.folder / "claims" / "claims.json"
        claims = page.load_claims(claims_path) if options.claims or pathlib.Path(claims_path).exists() else None
        paths = sorted(options.folder.glob("*.json"))
        if not paths:
            raise InputError(f"{options.folder}: holds no result files")
        results, studies = figures.load_files(paths)
        made = catalogue.build(results, studies, recipe_file.load_all(), "none")
        plot_style.use_style()
        gallery, written = build(made, claims, studies, options.folder, options.readme)
        text = options.readme.read_text(encoding="utf-8")
        written[options.readme] = replaced(text, gallery, options.readme).encode()
        changed = [path for path, content in written.items() if not path.exists() or path.read_bytes() != content]
        for path in changed:
            if options.check:
                print(f"would change: {path}")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written[path])
        print(f"{len(written) - 1} figures and tables, {len(changed)} files {'differ' if options.check else 'written'}")
        return 1 if options.check and changed else 0
    except InputError as error:
        print(f"gallery.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gallery.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
